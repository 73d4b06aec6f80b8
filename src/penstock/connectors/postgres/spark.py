"""The postgres connector on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.connectors.postgres.spec import PostgresSinkSpec
from penstock.spi import (
    Committer,
    Guarantee,
    JobContext,
    Output,
    Results,
    SparkTasks,
    StartContext,
    WriteTasks,
    mapped,
)

if TYPE_CHECKING:
    from penstock.connectors.postgres.address import Address
    from penstock.connectors.postgres.staging import Staged, StageSpec


class PostgresRuntime:
    """Builds the committers of a job's postgres tables."""

    def check_sinks(self, outputs: Sequence[Output], context: StartContext) -> None:
        """Check the tables. Raises SchemaError with everything that is missing or does not fit, and DatabaseError."""
        from penstock.connectors.postgres.database import Database
        from penstock.connectors.postgres.tables import find_tables

        by_address: dict[Address, list[Output]] = {}
        for output in outputs:
            by_address.setdefault(output.spec.address, []).append(output)
        for address, tables in by_address.items():
            database = Database(address)
            try:
                with database.transaction() as transaction:
                    find_tables(transaction, tables)
            finally:
                database.close()

    def commit_group(self, spec: PostgresSinkSpec) -> Hashable:
        """Tables of a database that are written as one user and with one guarantee share a committer."""
        return spec.address, spec.guarantee

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer for ``outputs``, which share a database and a guarantee."""
        from penstock.connectors.postgres.at_least_once import AtLeastOnceCommitter
        from penstock.connectors.postgres.committer import PostgresCommitter
        from penstock.connectors.postgres.database import Database

        exactly_once = outputs[0].spec.guarantee is Guarantee.EXACTLY_ONCE
        committer = PostgresCommitter if exactly_once else AtLeastOnceCommitter
        return committer(outputs, context, SparkCopyTasks(context.spark), Database(outputs[0].spec.address))


class SparkCopyTasks:
    """Copies rows in tasks on Spark."""

    def __init__(self, spark: SparkSession):
        self._spark = spark

    def copy(self, tasks: WriteTasks, spec: StageSpec) -> Staged:
        """Copy the rows of ``tasks``, or those that they have passed on before. Raises the error of a task, and
        BatchError when a worker or an executor was lost."""
        from penstock.connectors.postgres.staging import STAGED, Staged, copy_passed_rows, copying_instructions

        def copy(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from copy_passed_rows(spec, 0, rows)

        if isinstance(tasks, Results):
            if tasks.rows is None:
                return Staged.from_task_reports(len(spec.branches), ())
            # In one task, which keeps the order of the changes of a row.
            sent = self._spark.createDataFrame(tasks.rows).coalesce(1)
            copied = SparkTasks(mapped(sent, copy, from_arrow_schema(STAGED))).collect()
        else:
            copied = tasks.collect(copying_instructions(spec))
        return Staged.from_task_reports(len(spec.branches), copied)
