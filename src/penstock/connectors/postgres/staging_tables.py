"""The staging tables of a run, from which the driver brings rows into the tables of a job."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from penstock.connectors.postgres.columns import quote_identifier
from penstock.connectors.postgres.database import Database, Transaction
from penstock.connectors.postgres.found_tables import FoundTable
from penstock.connectors.postgres.staging import (
    PATIENCE_SECONDS,
    PostgresOutput,
    Staged,
    StageSpec,
    build_staging_name,
    list_staging_columns,
    place_found,
)
from penstock.connectors.postgres.tables import Table
from penstock.errors import BatchError, DatabaseError
from penstock.spi import JobContext, Output

#: The time-out of clearing, which can be done later.
_HOUSEKEEPING_MS = 1000


def open_transaction(database: Database, context: JobContext) -> contextlib.AbstractContextManager[Transaction]:
    """A transaction of the driver of a running job, which waits for a database that cannot be reached."""
    return database.transaction(patience=PATIENCE_SECONDS, giving_up=context.stopping)


class StagingTables:
    """Unlogged tables in the schema ``namespace``, one for each output. Their names begin with the ``owner``'s, which
    other runs of the job share, and a part for this run, so that the tasks and transactions of a former run cannot
    interfere. For tables that the job finds while it runs there are more of them, which tasks make."""

    def __init__(self, database: Database, namespace: str, owner: str, run_id: str):
        self._database = database
        self._namespace = namespace
        self._prefix = f"{build_staging_name(owner)}_"
        self._own = self._prefix + run_id.replace("-", "")[:12]
        self._dropped = False
        self.branches: tuple[PostgresOutput, ...] = ()
        #: Those of found tables that rows were copied into, by their numbers.
        self._found: dict[int, PostgresOutput] = {}

    def create(self, outputs: Sequence[Output]) -> None:
        """Make the tables, and drop those of former runs of the job that were killed."""
        for name in self._list(
            self._prefix
        ):  # one by one: a table that a task of a former run still writes to stays until the next start
            self._tidy(f"DROP TABLE IF EXISTS {self._quote_table(name)}")
        with self._database.transaction() as transaction:
            for number, output in enumerate(outputs):
                branch = PostgresOutput(**vars(output), staging=f"{self._own}_{number}")
                transaction.run(
                    f"CREATE UNLOGGED TABLE {self._quote_table(branch.staging)} ({list_staging_columns(output)})"
                )
                self.branches += (branch,)

    def _list(self, beginning: str) -> list[str]:
        """The names of the tables that begin so, in their order."""
        sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1 AND starts_with(tablename::text, $2)"
        with self._database.transaction() as transaction:
            return sorted(name for (name,) in transaction.rows(sql, (self._namespace, beginning)))

    @property
    def spec(self) -> StageSpec:
        """The parameters of tasks that copy rows into the tables."""
        return StageSpec(self._database.address, self._namespace, self.branches, self._own)

    def move(
        self,
        transaction: Transaction,
        staged: Staged,
        tables: Mapping[int, Table],
        found: Mapping[int, FoundTable],
    ) -> None:
        """Bring the rows that were copied into the ``tables`` of the outputs, and into those that were ``found`` while
        the job runs, by their numbers.

        Raises BatchError if some of them are not there any more.
        """
        for number, each in found.items():
            self._found[number] = place_found(self._beside, self._own, number, each.output)
        for number, writers in staged.records.items():
            if number in found:
                table, branch = found[number].table, self._found[number]
            else:
                table, branch = tables[number], self.branches[number]
            which = f"writer IN ({', '.join(map(str, writers))})"
            staging, where = self._quote_table(branch.staging), f"table '{branch.table}'"
            self._check(transaction, staging, which, writers, where)
            if branch.keys:
                statements = table.merge_from(staging, which, deletes=staged.deletions[number] > 0)
            else:
                statements = (f"{table.insert_from(staging)} WHERE {which}",)
            for statement in statements:
                transaction.run(statement, where=where)

    def _check(
        self, transaction: Transaction, staging: str, which: str, writers: Mapping[int, int], where: str
    ) -> None:
        # This locks the staging table: nothing can empty it until the commit.
        sql = f"SELECT writer, count(*) FROM {staging} WHERE {which} GROUP BY writer"  # noqa: S608 - quoted names
        counted = dict(transaction.rows(sql))
        if counted != writers:
            raise BatchError(
                f"tasks have copied {sum(writers.values())} rows for {where}, but its staging table has "
                f"{sum(counted.values())}; did the database restart?"
            )

    def any_missing(self) -> bool:
        """Whether some of the tables are not there any more. Raises DatabaseError."""
        with self._database.transaction() as transaction:
            found = (
                transaction.rows("SELECT to_regclass($1) IS NULL", (self._quote_table(each.staging),))
                for each in self.branches
            )
            return any(gone for ((gone,),) in found)

    def clear(self, staged: Staged) -> None:
        """Empty the tables after a batch. Rows that stay because of a lock are harmless: no later batch reads their
        writers. Tables of former versions of a found table are dropped."""
        used = {number: branch for number, branch in self._found.items() if number in staged.records}
        self._tidy(f"TRUNCATE {self._join([*self.branches, *used.values()])}")
        newer = {branch.table: number for number, branch in sorted(used.items())}
        for number, branch in list(self._found.items()):
            if newer.get(branch.table, number) != number:
                self._tidy(f"DROP TABLE IF EXISTS {self._quote_table(branch.staging)}")
                del self._found[number]

    def drop(self) -> None:
        """Drop the tables, once."""
        if self.branches and not self._dropped:
            self._tidy(f"DROP TABLE IF EXISTS {self._join(self.branches)}")
            if self._beside:  # without it, no task makes another one
                with contextlib.suppress(DatabaseError):
                    for name in self._list(f"{self._own}_"):
                        self._tidy(f"DROP TABLE IF EXISTS {self._quote_table(name)}")
        self._dropped = True

    @property
    def _beside(self) -> str:
        """The table of the output that stands for found tables; empty in a job that finds none."""
        return next((branch.staging for branch in self.branches if branch.spec.tables), "")

    def _join(self, branches: Sequence[PostgresOutput]) -> str:
        return ", ".join(self._quote_table(branch.staging) for branch in branches)

    def _quote_table(self, table: str) -> str:
        return f"{quote_identifier(self._namespace)}.{quote_identifier(table)}"

    def _tidy(self, sql: str) -> None:
        """Run a statement whose failure is harmless."""
        with contextlib.suppress(DatabaseError), self._database.transaction(lock_ms=_HOUSEKEEPING_MS) as transaction:
            transaction.run(sql)
