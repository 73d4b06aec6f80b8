"""The committer of PostgreSQL sinks that are exactly-once: one transaction with the job's progress."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.connectors.postgres.database import CommitOutcomeError, Database, Transaction
from penstock.connectors.postgres.found_tables import FoundTables
from penstock.connectors.postgres.progress import TABLE, ProgressRow, ProgressTable, list_progress_schemas
from penstock.connectors.postgres.staging import Staged, build_copying_instructions, build_writer_factory, shorten_name
from penstock.connectors.postgres.staging_tables import StagingTables, open_transaction
from penstock.connectors.postgres.tables import Table, find_current_schema, find_tables
from penstock.delivery import (
    FINISH_BATCH,
    Claim,
    Progress,
    Skip,
    TakeOver,
    check_ahead,
    check_stateless,
    decide,
    run_with_retries,
)
from penstock.errors import (
    CheckpointError,
    DatabaseError,
    DatabaseUnavailableError,
    ExecutionError,
    FencedError,
    OptionsError,
    PossibleDataLossError,
    Problem,
)
from penstock.schemas import SchemaChange
from penstock.spi import (
    Batch,
    CommitStatus,
    Committer,
    FoundOutputs,
    JobContext,
    Output,
    Published,
    WriterFactory,
    WriteTasks,
)

#: What the progress row names for all tables that a job finds while it runs.
FOUND = "*"


class PostgresCommitter(Committer):
    """One transaction per batch inserts the rows of all tables of a database and records the job's progress.

    Each task copies rows into staging tables, in its own transaction, and the driver's transaction brings them from
    there into the tables: all rows, or the last change of each key. The protocol and its rules are described in
    docs/decisions/0015-postgresql.md.
    """

    keeps_state = True

    def __init__(self, outputs: Sequence[Output], context: JobContext, database: Database):
        self._outputs = outputs
        self._context = context
        self._database = database
        self._rows = ProgressTable("")
        self._key = ""
        self._tables: Mapping[int, Table] = {}
        self._found = FoundTables(context)
        self._names: tuple[str, ...] = ()
        self._document = ""
        self._covering: Progress | None = None  # of the last batch, if the rows together cover all tables
        self._states: dict[int, str] = {}  # the references to the state in all rows of the query, by batch
        self._published = False
        self._staging: StagingTables | None = None
        self._progress: Progress | None = None
        self._unanswered: Staged | None = None  # what a COMMIT without an answer may have written

    # --- ownership -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the tables, find the job's row of the progress table, and raise errors that must stop a start before
        the row is owned.

        Raises SchemaError with everything that is missing or does not fit, DatabaseError when a right is missing, and
        CheckpointError when the query has committed more than the checkpoint knows.
        """
        with self._database.transaction() as transaction:
            self._tables = find_tables(transaction, self._outputs)
            names = {table.name for table in self._tables.values()}
            # Tables that the job finds come and go, and have their progress in one row.
            names |= {FOUND for output in self._outputs if output.spec.tables}
            self._names = tuple(sorted(names))
            present = find_current_schema(transaction)
        self._rows = ProgressTable(self._choose_namespace(present))
        self._key = self._choose_key()
        self._check_rows()

    def open(self) -> None:
        """Claim the job's progress row, read it, and make staging tables for this run.

        Raises OptionsError when another group of the job's sinks writes the same tables.
        """
        if not self._names:
            self.check()
        # Another group of the job's sinks may have been opened since, and own the row.
        self._key = self._choose_key()
        self._claim_row()
        self._check_rows()  # now with the last commit of a former owner
        self._inherit()
        self._keep()
        self._staging = StagingTables(self._database, self._rows.namespace, self._key, self._context.run_id)
        self._staging.create(self._outputs)

    def _choose_namespace(self, present: str) -> str:
        """The schema of the progress table of these tables, which is created if it is missing: the one with the rows of
        this query, else the one that the checkpoint knows, if it is among those that have such a table, else the
        ``present`` one. So a batch is found, and a former run fenced, even when the search path names another schema
        first.

        Raises CheckpointError when tables have their progress in different schemas.
        """
        checkpoint, identity = self._context.checkpoint, self._identity()
        of_rows = self._find_namespaces()
        # Former versions kept it in the name of the document of a schema only.
        former: dict[str, str] = {}
        for namespace in sorted(self._list_schemas(), key=lambda each: each == present):
            known = checkpoint.revise(_document_name(identity, namespace), lambda now: now)
            former.update({name: namespace for names in known.values() for name in names})

        def change(now: dict[str, Any]) -> dict[str, Any]:
            made = self._list_schemas()  # another copy may have made one
            known = {name: namespace for name, namespace in {**former, **now}.items() if namespace in made}
            known |= {name: namespace for name, namespace in of_rows.items() if name in self._names}
            kept = {name: known[name] for name in self._names if name in known}
            if len(set(kept.values())) > 1:
                places = ", ".join(f"'{name}' in schema '{kept[name]}'" for name in kept)
                raise CheckpointError(
                    f"job '{self._context.job}', {self._database.address}: its tables have their progress in different "
                    f"tables {TABLE}: {places}. Write each of them as the same user as before"
                )
            return {**now, **dict.fromkeys(self._names, next(iter(kept.values()), present))}

        document = f"postgres-{shorten_name(identity)}"
        # The table comes before the document: of two copies that start at once, the later one finds the other's.
        wanted: str = change(checkpoint.revise(document, lambda now: now))[self._names[0]]
        with self._database.transaction() as transaction:
            ProgressTable(wanted).create(transaction)
        chosen: str = checkpoint.revise(document, change)[self._names[0]]
        if chosen != present:
            self._context.warn(
                f"job '{self._context.job}', {self._database.address}: its progress stays in schema '{chosen}', "
                f"although the user's search path now leads to '{present}'"
            )
        self._document = _document_name(identity, chosen)
        return chosen

    def _list_schemas(self) -> list[str]:
        """The schemas that have a progress table."""
        with self._database.transaction() as transaction:
            return list_progress_schemas(transaction)

    def _find_namespaces(self) -> dict[str, str]:
        """The schemas with progress of this query, by the tables that it was written to. They are found even if the
        database's identity has changed, as after pg_upgrade. Unreadable ones are left out."""
        found: dict[str, str] = {}
        for namespace in self._list_schemas():
            try:
                with self._database.transaction() as transaction:
                    rows = ProgressTable(namespace).rows_of_query(transaction, self._context.query_id)
            except DatabaseUnavailableError:
                raise
            except DatabaseError:  # no right, or a table of another version
                continue
            found |= {name: namespace for row in rows if row.progress for name in row.tables}
        return found

    def _choose_key(self) -> str:
        """The key of the row for these tables: one that the query has written, else one that the checkpoint knows, else
        the job's name and the tables. So a committed batch is found when tables are added or removed, or written as
        another user."""
        context, mine = self._context, set(self._names)
        with self._database.transaction() as transaction:
            rows = self._rows.rows_of_query(transaction, context.query_id)
        of_rows = {row.key: row.tables for row in rows if row.owner.run_id != context.run_id}
        new = f"{context.identity}: {', '.join(self._names)}"

        def find(tables: Mapping[str, Sequence[str]]) -> str | None:
            shared = {key: len(mine & set(names)) for key, names in sorted(tables.items())}
            found = max(shared, key=lambda key: shared[key], default=None)
            return found if found is not None and shared[found] else None

        def change(now: dict[str, Any]) -> dict[str, Any]:
            if find(of_rows) or find(now):
                return now
            key, used = new, {*now, *(row.key for row in rows)}
            while key in used:  # by other tables
                key += "'"
            return {**now, key: self._names}

        known = context.checkpoint.revise(self._document, change)
        return find(of_rows) or find(known) or new

    def _identity(self) -> str:
        """The identity of the database, whatever the name of its host; its address where the server does not tell.
        Raises DatabaseUnavailableError."""
        sql = (
            "SELECT (SELECT system_identifier FROM pg_control_system())::text, oid::text FROM pg_database "
            "WHERE datname = current_database()"
        )
        try:
            with self._database.transaction() as transaction:
                ((system, database),) = transaction.rows(sql)
                return f"{system}/{database}"
        except DatabaseUnavailableError:
            raise  # under its address, the checkpoint's document of the database would not be found
        except DatabaseError:
            return str(self._database.address)

    def _keep(self) -> None:
        """Write to the checkpoint which row belongs to which tables."""

        def change(now: dict[str, Any]) -> dict[str, Any]:
            left = {other: [name for name in names if name not in self._names] for other, names in now.items()}
            return {**{other: names for other, names in left.items() if names}, self._key: self._names}

        self._context.checkpoint.revise(self._document, change)

    def _check_rows(self) -> None:
        """Raises CheckpointError when this query has committed more than the checkpoint knows, or has committed a
        batch, which Spark has not logged as done, into only some of the tables: others would miss it, or get it
        twice."""
        context = self._context
        with self._database.transaction() as transaction:
            rows = self._rows.rows_of_query(transaction, context.query_id)
        upcoming = context.next_batch()  # after the rows, since a healthy run still writes the checkpoint
        batch = Progress.from_positions(context.query_id, upcoming.id, upcoming.start, None)
        self._states = {row.progress.batch_id: row.progress.state for row in rows if row.progress}
        names, here = set(self._names), dict[int, set[str]]()
        for row in rows:
            if row.progress and row.progress.batch_id >= upcoming.id and names & set(row.tables):
                check_ahead(row.progress, batch, self._describe_row(row.key))
                here.setdefault(row.progress.batch_id, set()).update(row.tables)
        done = here.get(upcoming.id, set())
        last = [
            row
            for row in rows
            if row.progress and row.progress.batch_id == upcoming.id - 1 and row.progress.end == batch.start
        ]
        covered = {name for row in last for name in row.tables}
        self._covering = last[0].progress if last and names <= covered else None
        own = next((row for row in rows if row.key == self._key), None)
        whole = own and own.progress and own.progress.batch_id == upcoming.id and names <= set(own.tables)
        if done and not whole:
            missing = ", ".join(repr(name) for name in self._names if name not in done)
            raise CheckpointError(
                f"{batch} was committed into {', '.join(map(repr, sorted(done)))}, "
                + (f"but not into {missing}: " if missing else "not in one transaction: ")
                + f"the job's definition has changed since. {FINISH_BATCH}"
            )

    def _inherit(self) -> None:
        """Copy to the row what other rows record of its tables. These rows continue with the next batch, which may be
        the last one before a restart."""
        known, covering = self._progress, self._covering
        if covering is None or (
            known is not None and (known.query_id != covering.query_id or known.batch_id >= covering.batch_id)
        ):
            return
        with self._database.transaction() as transaction:
            self._lock_row(transaction)
            self._rows.record(transaction, self._key, replace(covering, tables=self._names))
        self._progress = covering

    def _claim_row(self) -> None:
        context = self._context
        with self._database.transaction() as transaction:
            known = self._rows.lock(transaction, self._key)  # waits for a former owner that is about to commit
            if known is not None and known.owner.run_id == context.run_id:
                reason = "sinks of one job write to the same tables with different addresses or users"
                hint = "give them the same, so that they share one transaction"
                where = f"job '{context.job}', {self._database.address}"
                raise OptionsError((Problem(reason, where=where, hint=hint),))
            mine = Claim.from_this_process(context.run_id)
            self._rows.claim(transaction, self._key, mine, context.query_id, self._names)
            # A former run may write these tables under other rows: fence it there too.
            for row in self._rows.rows_of_query(transaction, context.query_id):
                if row.owner.run_id != context.run_id and set(row.tables) & set(self._names):
                    self._rows.claim(transaction, row.key, mine, context.query_id, row.tables)
            self._progress = self._lock_row(transaction).progress

    # --- tables that are found while the job runs ------------------------------------------------------------

    def use_tables(self, tables: FoundOutputs) -> None:
        """Take the tables that the job finds."""
        self._found.outputs = tables

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Have a table of the database follow its schema, in a transaction of its own. Raises SchemaError where it
        cannot, DatabaseError, and FencedError when another run owns the job."""
        with self._open_transaction() as transaction:
            self._lock_row(transaction)
            self._found.follow(transaction, changes, output)

    # --- batches ---------------------------------------------------------------------------------------------

    def writers(self) -> WriterFactory:
        """Copy rows into the staging tables."""
        return build_writer_factory(self._outputs, self._context.parallelism)

    @property
    def _stages(self) -> StagingTables:
        assert self._staging is not None, "it is open"  # noqa: S101
        return self._staging

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Insert and commit the batch, unless progress shows that it was committed before.

        Retries a few times after transient errors. Raises FencedError when another run took over, and
        PossibleDataLossError or CheckpointError when checkpoint and progress cannot be reconciled.
        """
        progress = Progress.from_batch(self._context.query_id, batch, self._names, tasks.state)
        if self._is_done(progress):
            return Published(skipped=True)
        if not tasks.computed:
            check_stateless(self._context, self._progress)
        published = run_with_retries(lambda: self._attempt_as_owner(batch, tasks, progress), batch.id, self._context)
        self._progress, self._published = progress, True
        return published

    def commit_status(self, batch: Batch) -> CommitStatus:
        """Whether its row has the batch, and the state that it refers to."""
        progress = Progress.from_batch(self._context.query_id, batch, self._names)
        if self._is_done(progress, warns=False):
            return CommitStatus(True, self._progress.state if self._progress else "")
        if batch.id == 0:
            return CommitStatus(False, "")
        known = self._progress
        if known is not None and (known.query_id, known.batch_id) == (progress.query_id, batch.id - 1):
            return CommitStatus(False, known.state)
        return CommitStatus(False, self._states.get(batch.id - 1))

    def state(self, upcoming: int) -> str:
        """The reference in the row of this query, or in a row of other tables if this one has none or is behind."""
        known = self._progress
        if known is not None and known.query_id == self._context.query_id and known.batch_id >= upcoming - 1:
            return known.state
        return self._states.get(upcoming - 1, "")

    def _attempt_as_owner(self, batch: Batch, tasks: WriteTasks, progress: Progress) -> Published:
        try:
            return self._attempt(batch, tasks, progress)
        except ExecutionError:
            self.check_owner()  # another run that took over explains the error better
            raise

    def _is_done(self, progress: Progress, *, warns: bool = True) -> bool:
        """Whether the batch was committed before. Warns of progress that is taken over."""
        adopt = self._context.settings.adopt_progress and not self._published
        decision = decide(self._progress, progress, place=self._row_place, adopt=adopt)
        if isinstance(decision, TakeOver) and warns:
            self._context.warn(decision.warning)
        return isinstance(decision, Skip)

    def _attempt(self, batch: Batch, tasks: WriteTasks, progress: Progress) -> Published:
        """Copy the rows and commit them. May be called again after a retriable error: before it copies them again, it
        finds out how a COMMIT without an answer ended."""
        staged = self._unanswered
        if staged is None or not self._was_committed(progress):
            copied = tasks.collect(build_copying_instructions(self._stages.spec)).rows if batch.tasks else ()
            staged = Staged.from_task_reports(copied)
            try:
                with self._open_transaction() as transaction:
                    self._commit(transaction, self._stages, staged, progress)
            except CommitOutcomeError as error:
                self._unanswered = staged
                if not self._was_committed(progress):
                    raise error.__cause__ or error from None
        if staged.records:
            self._stages.clear(staged)
        return Published(staged.count_written(self._outputs))

    def _was_committed(self, progress: Progress) -> bool:
        """Whether a COMMIT without an answer has committed the batch. While its transaction is open it locks the row: a
        transaction that gets the lock sees how it ended."""
        with self._open_transaction() as transaction:
            found = self._lock_row(transaction).progress
        self._unanswered = None
        return _is_same(found, progress)

    def _commit(self, transaction: Transaction, staging: StagingTables, staged: Staged, progress: Progress) -> None:
        """Write the staged rows and record the progress."""
        recorded = self._lock_row(transaction).progress
        if not _is_same(recorded, self._progress):
            raise PossibleDataLossError(
                f"{self._row_place} holds {recorded}, but the last commit was {self._progress}: something else changed "
                "the row. Find out what writes to this table"
            )
        found = self._found.find(transaction, staged, len(self._outputs))
        staging.move(transaction, staged, self._tables, found)
        self._rows.record(transaction, self._key, progress)

    # --- fencing ---------------------------------------------------------------------------------------------

    def _lock_row(self, transaction: Transaction) -> ProgressRow:
        """The job's row, locked. Raises FencedError when another run owns it."""
        row = self._rows.lock(transaction, self._key)
        if row is None:
            raise CheckpointError(
                f"{self._row_place} was deleted while the job ran. Restore it, or start the job again with "
                "--adopt-progress, if you are sure that its checkpoint is right"
            )
        if row.owner.run_id != self._context.run_id:
            reason = f"{self._row_place} was taken over by {row.owner}, which continues the job; this copy ends"
            raise FencedError(reason, row.owner.process)
        return row

    def check_owner(self) -> None:
        """Raise FencedError when another run owns the job: it drops our staging tables, which causes errors here."""
        with contextlib.suppress(DatabaseError), self._open_transaction() as transaction:
            self._lock_row(transaction)

    def _open_transaction(self) -> contextlib.AbstractContextManager[Transaction]:
        return open_transaction(self._database, self._context)

    def _describe_row(self, key: str) -> str:
        return f"the row '{key}' of table {TABLE} in {self._database.address}"

    @property
    def _row_place(self) -> str:
        return self._describe_row(self._key)

    def close(self) -> None:
        """Drop this run's staging tables, and close the connections."""
        if self._staging is not None:
            self._staging.drop()
        self._database.close()


def _document_name(identity: str, namespace: str) -> str:
    """The checkpoint's document of the rows in a progress table, by the identity of its database and its schema."""
    return f"postgres-{shorten_name(f'{identity}/{namespace}')}"


def _is_same(one: Progress | None, other: Progress | None) -> bool:
    """Whether two records are of the same batch, and of one attempt at it where the job has state."""
    if one is None or other is None:
        return one is other
    return (one.query_id, one.batch_id, one.state) == (other.query_id, other.batch_id, other.state)
