"""The committer of PostgreSQL sinks that are at-least-once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from penstock.connectors.postgres.database import CommitOutcomeError, Database
from penstock.connectors.postgres.found_tables import FoundTables
from penstock.connectors.postgres.staging import (
    PostgresOutput,
    Staged,
    StageSpec,
    build_copying_instructions,
    build_staging_name,
    build_writer_factory,
    list_staging_columns,
)
from penstock.connectors.postgres.staging_tables import StagingTables, open_transaction
from penstock.connectors.postgres.tables import Table, find_current_schema, find_tables
from penstock.errors import DatabaseError, DatabaseUnavailableError, FencedError
from penstock.schemas import SchemaChange
from penstock.spi import Batch, Committer, FoundOutputs, JobContext, Output, Published, WriterFactory, WriteTasks


class AtLeastOnceCommitter(Committer):
    """Writes without progress: a batch that is retried is written again.

    Without keys, the tasks that compute the rows insert them, and rows may repeat. The changes of a key have an order,
    among tasks too: with a table that has a key the driver writes the batch, in one transaction. Written again, it
    leaves the same rows there.
    """

    def __init__(self, outputs: Sequence[Output], context: JobContext, database: Database):
        self._outputs = outputs
        self._context = context
        self._database = database
        self._tables: Mapping[int, Table] = {}
        self._found = FoundTables(context)
        self._branches: tuple[PostgresOutput, ...] = ()
        self._staging: StagingTables | None = None

    def check(self) -> None:
        """Check the tables. Raises SchemaError with everything that is missing or does not fit."""
        with self._database.transaction() as transaction:
            self._tables = find_tables(transaction, self._outputs)
            if any(output.spec.upsert_keys or output.spec.tables for output in self._outputs):
                namespace = find_current_schema(transaction)
                tables = sorted(output.table for output in self._outputs)  # a job may have several such committers
                owner = f"{self._context.query_id} {tables}"
                self._staging = StagingTables(self._database, namespace, owner, self._context.run_id)
        self._database.close()
        if self._staging is not None:
            return
        branches = []
        for number, output in enumerate(self._outputs):
            # One job after another uses a worker's connection, so the name depends on the columns.
            staging = build_staging_name(f"{number} {list_staging_columns(output)}")
            insert = self._tables[number].insert_from(staging)
            branches.append(PostgresOutput(**vars(output), staging=staging, insert=insert))
        self._branches = tuple(branches)

    def open(self) -> None:
        """Make staging tables where the driver writes."""
        if self._staging is not None:
            self._staging.create(self._outputs)

    def use_tables(self, tables: FoundOutputs) -> None:
        """Take the tables that the job finds."""
        self._found.outputs = tables

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Have a table of the database follow its schema. Raises SchemaError where it cannot, and DatabaseError."""
        with open_transaction(self._database, self._context) as transaction:
            self._found.follow(transaction, changes, output)

    def writers(self) -> WriterFactory:
        """Copy rows into staging tables, from which tasks insert them if no table has a key."""
        return build_writer_factory(self._outputs, self._context.parallelism)

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Write the batch. Raises FencedError when another run has dropped the staging tables, as each does when it
        starts."""
        if not batch.tasks:
            return Published()
        if self._staging is None:
            staged = self._copy(tasks, StageSpec(self._database.address, "", self._branches))
            return Published(staged.count_written(self._outputs))
        try:
            return self._move_rows(tasks, self._staging)
        except DatabaseError as error:
            gone = False
            with suppress(DatabaseError):
                gone = self._staging.any_missing()
            if not gone:
                raise
            raise FencedError(
                f"job '{self._context.job}', {self._database.address}: the staging tables of this run are gone. "
                "Another run of the job may have taken over; stop one of the two"
            ) from error

    def _move_rows(self, tasks: WriteTasks, staging: StagingTables) -> Published:
        """Have tasks copy the rows into staging tables, and bring them from there into the tables."""
        staged = self._copy(tasks, staging.spec)
        if staged.records:
            try:
                with open_transaction(self._database, self._context) as transaction:
                    found = self._found.find(transaction, staged, len(self._outputs))
                    staging.move(transaction, staged, self._tables, found)
            except CommitOutcomeError as error:
                raise DatabaseUnavailableError(str(error)) from error  # the batch is written again
            staging.clear(staged)
        return Published(staged.count_written(self._outputs))

    def _copy(self, tasks: WriteTasks, spec: StageSpec) -> Staged:
        return Staged.from_task_reports(tasks.collect(build_copying_instructions(spec)).rows)

    def close(self) -> None:
        """Drop the staging tables, and close the connections."""
        if self._staging is not None:
            self._staging.drop()
        self._database.close()
