"""The Spark jobs that write."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkFiles, TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.connectors.kafka.sink.acknowledgements import Acknowledged
from penstock.connectors.kafka.sink.task_runs import find_repeated_runs, not_known
from penstock.connectors.kafka.sink.writer import (
    PUBLISHING_ORDER,
    WRITTEN,
    Instructions,
    OpenTransaction,
    WriteSpec,
    publish,
)
from penstock.connectors.kafka.stopping import until_stopped
from penstock.spi import SparkTasks, Task, WriteTasks, instructed, mapped, on_one_machine, pickled

#: The most bytes of encoded rows that the driver publishes by itself: starting tasks, and sending the rows to them on a
#: cluster, takes longer.
_MOST_BYTES_OF_DRIVER = 64 << 20


class SparkWriteJobs:
    """Runs writing tasks on Spark. ``stopping`` tells whether the job is to end."""

    def __init__(self, spark: SparkSession, stopping: Callable[[], bool]):
        self._spark = spark
        self._stopping = stopping

    def write(self, tasks: WriteTasks, *, transaction: OpenTransaction | None) -> Acknowledged:
        """Run tasks that publish the rows which they have encoded."""
        at_once = Instructions(at_once=True, transaction=transaction)
        if isinstance(tasks, SparkTasks):
            return self._collect(tasks.frame, at_once, once=transaction is not None)
        return Acknowledged.from_task_reports(tasks.collect(pickled(at_once)), "")

    def write_by_owners(
        self, tasks: WriteTasks, spec: WriteSpec, owners: int, *, transaction: OpenTransaction | None
    ) -> Acknowledged:
        """Run tasks that encode rows, and then tasks of the owners of partitions, which publish them."""
        if not isinstance(tasks, SparkTasks):  # one task has no other beside it
            return self.write(tasks, transaction=transaction)
        with self._folder() as folder:
            owned = tasks.frame.repartitionById(owners, F.col("owner") % owners)
            job = self._publishing(owned.sortWithinPartitions(*PUBLISHING_ORDER), spec, owners, transaction)
            return self._collect(job, Instructions(folder=folder), once=transaction is not None)

    def publish(
        self, encoded: pa.Table | None, spec: WriteSpec, owners: int, *, transaction: OpenTransaction | None
    ) -> Acknowledged:
        """Publish encoded rows: on the driver if they are few, else in ``owners`` tasks."""
        if encoded is None:
            return Acknowledged()
        counts = encoded.filter(pc.equal(encoded.column("topic"), ""))
        if sum(counts.column("bytes").to_pylist()) <= _MOST_BYTES_OF_DRIVER:
            ordered = encoded.sort_by([(name, "ascending") for name in PUBLISHING_ORDER]).to_batches()
            acknowledged = until_stopped(
                lambda left: list(publish(spec, transaction, Task(0, 1, abandoned=left), ordered)), self._stopping
            )
            return Acknowledged.from_task_reports(pa.Table.from_batches(acknowledged, WRITTEN).to_pylist(), "")

        owned = self._spark.createDataFrame(encoded).repartitionById(owners, F.col("owner") % owners)
        job = self._publishing(owned.sortWithinPartitions(*PUBLISHING_ORDER), spec, owners, transaction)
        return self._collect(job, Instructions(), once=transaction is not None)

    @staticmethod
    def _publishing(encoded: DataFrame, spec: WriteSpec, owners: int, transaction: OpenTransaction | None) -> DataFrame:
        """The acknowledgements of tasks that publish the ``encoded`` rows of their partitions."""

        def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from publish(spec, transaction, _task(owners), rows)

        return mapped(encoded, run, from_arrow_schema(WRITTEN))

    @contextmanager
    def _folder(self) -> Iterator[str]:
        """The folder in which encoded batches wait for their owners when all tasks run on this machine: copied once
        instead of a dozen times through Spark. Empty on a cluster, where Spark shuffles them."""
        context = self._spark.sparkContext
        if not on_one_machine(context.master):
            yield ""
            return
        with tempfile.TemporaryDirectory(
            prefix="penstock-", dir=SparkFiles.getRootDirectory(), ignore_cleanup_errors=True
        ) as folder:
            yield folder

    def _collect(self, job: DataFrame, instructions: Instructions, *, once: bool) -> Acknowledged:
        """Run ``job`` and sum up its answers. With ``once`` check that each task ran once."""

        tag = f"penstock-{uuid.uuid4().hex}"
        context = self._spark.sparkContext
        context.addJobTag(tag)
        try:
            with instructed(context, pickled(instructions)):
                rows = job.collect()
        finally:
            context.removeJobTag(tag)
        return Acknowledged.from_task_reports(rows, self._repeated(tag, rows) if once else "")

    def _repeated(self, tag: str, rows: Sequence[Row]) -> str:
        """Why the job of ``rows`` may not be committed; empty when each of its tasks ran exactly once."""
        gateway: Any = self._spark.sparkContext
        try:
            return find_repeated_runs(gateway._jsc.sc(), tag, (row.attempt for row in rows))
        except Py4JJavaError as error:
            return not_known(str(error.java_exception.getClass().getSimpleName()))
        except Py4JError as error:
            return not_known(type(error).__name__)


def _task(of: int) -> Task:
    """The running task, one of ``of``."""
    context = TaskContext.get()
    return Task(0, of) if context is None else Task(context.partitionId(), of, attempt=context.attemptNumber())
