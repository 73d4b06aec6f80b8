"""The tasks of a batch that hand rows to the writers of a committer, and those of owners that publish what writers pass
on: on Spark, or on the driver, where the batch is small."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.runs.task_runs import collect_rows
from penstock.errors import BatchError, PenstockError
from penstock.flow.graph.dataflow import BatchInstructions
from penstock.flow.graph.exchange import EXCHANGE, ORDER, Origin, Receiver, Sender
from penstock.flow.graph.outlets import send_written
from penstock.flow.state.storage import Storage
from penstock.spi import (
    Task,
    TaskResults,
    WriterFactory,
    map_batches,
    on_one_machine,
    pickle_text,
    run_until_stopped,
)

#: The most bytes that the driver publishes by itself: starting tasks takes longer.
_MOST_BYTES_OF_DRIVER = 64 << 20


@dataclass(frozen=True, eq=False)
class ReadingTasks:
    """Tasks that compute the rows of a ``frame`` where they are read, and write them
    (:class:`penstock.spi.WriteTasks`)."""

    frame: DataFrame
    #: The number of the tasks.
    tasks: int
    writers: WriterFactory
    state = ""
    computed = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """Run the tasks, and with ``by_owners`` those of the owners, in one job of Spark."""
        spark = self.frame.sparkSession
        if not by_owners:
            given = build_instructions(self.tasks, instructions)
            return read_results(self.writers, *collect_rows(self.frame, given, once=once))
        with scratch_folder(spark) as folder:
            job = _publish_by_owners(self.frame, self.writers, instructions, None)
            given = build_instructions(self.tasks, folder=folder)
            return read_results(self.writers, *collect_rows(job, given, once=once))


@dataclass(frozen=True, eq=False)
class ComputedTasks:
    """The tasks of a batch that is computed (:class:`penstock.spi.WriteTasks`): ``results`` are those of writers that
    have written the rows, ``passed`` are rows of :data:`EXCHANGE` that writers have passed on, whose files without a
    path are in the ``storage``."""

    spark: SparkSession
    writers: WriterFactory
    stopping: Callable[[], bool]
    storage: Storage
    state: str
    results: pa.Table
    passed: pa.Table
    computed = True

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """The results, or those of the owners, which publish the rows that were passed on."""
        if not self.passed.num_rows:
            return read_results(self.writers, self.results)
        if pc.sum(self.passed.column("bytes")).as_py() <= _MOST_BYTES_OF_DRIVER:
            return publish_on_driver(self.writers, instructions, self.passed, self.storage, self.stopping)
        passed = self.spark.createDataFrame(fit_owners(self.passed, self.writers.owners))
        job = _publish_by_owners(passed, self.writers, instructions, self.storage)
        return read_results(self.writers, *collect_rows(job, once=once))


def build_instructions(tasks: int, writer: str | None = None, folder: str = "") -> str:
    """The instructions of reading tasks whose writers have those of ``writer``; None: they pass rows on."""
    return pickle_text(BatchInstructions("", tasks, 1, False, folder, writers=(writer,)))


@dataclass(frozen=True)
class NoTasks:
    """Those of a target without rows (:class:`penstock.spi.WriteTasks`)."""

    state: str
    computed = True

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """No results."""
        return TaskResults()


@contextmanager
def scratch_folder(spark: SparkSession) -> Iterator[str]:
    """A folder for what tasks pass on, where all of them run on this machine: copied once instead of a dozen times
    through Spark. Empty on a cluster."""
    if not on_one_machine(spark.sparkContext.master):
        yield ""
        return
    with tempfile.TemporaryDirectory(
        prefix="penstock-", dir=SparkFiles.getRootDirectory(), ignore_cleanup_errors=True
    ) as folder:
        yield folder


def fit_owners(passed: pa.Table, owners: int) -> pa.Table:
    """The same rows for that many owners. There were more of them in a former run, perhaps, which has kept the rows:
    then neighbours become one, because owners have the order of the tasks whose rows they own."""
    owner = passed.column("owner")
    before = pc.max(owner).as_py() + 1
    if before <= owners:
        return passed
    fitted = pc.divide(pc.multiply(owner.cast(pa.int64()), owners), before).cast(pa.int32())
    return passed.set_column(passed.schema.get_field_index("owner"), EXCHANGE.field("owner"), fitted)


def _publish_by_owners(
    passed: DataFrame, writers: WriterFactory, instructions: str, storage: Storage | None
) -> DataFrame:
    """The results of tasks that publish the rows which they own."""
    owners = writers.owners

    def run(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context: Any = TaskContext.get()
        task = Task(context.partitionId(), owners, instructions, context.attemptNumber())
        yield _publish(writers, task, rows, storage)

    owned = passed.repartitionById(owners, F.col("owner") % owners).sortWithinPartitions(*ORDER)
    return map_batches(owned, run, from_arrow_schema(EXCHANGE))


def publish_on_driver(
    writers: WriterFactory, instructions: str, passed: pa.Table, storage: Storage | None, stopping: Callable[[], bool]
) -> TaskResults:
    """The results of the driver, which publishes the rows as one task. Raises AbortableError when the job is to end
    meanwhile."""
    ordered = passed.sort_by([(name, "ascending") for name in ORDER]).to_batches()

    def run(abandoned: Callable[[], bool]) -> pa.RecordBatch:
        return _publish(writers, Task(0, 1, instructions, abandoned=abandoned), ordered, storage)

    try:
        results = run_until_stopped(run, stopping)
    except PenstockError:
        raise
    except Exception as error:
        raise BatchError(f"{type(error).__name__}: {error}") from error
    return read_results(writers, pa.Table.from_batches([results]))


def _publish(
    writers: WriterFactory, task: Task, rows: Iterable[pa.RecordBatch], storage: Storage | None
) -> pa.RecordBatch:
    """Publish the rows of the exchange, which are sorted by :data:`ORDER`, as one owner. The results, in rows of the
    exchange."""
    assert writers.publish is not None, "these writers pass nothing on"  # noqa: S101
    receiver = Receiver(storage, writable=True)
    with Sender(Origin(0, task.number)) as sender:
        batches = (batch for sent in rows for batch in receiver.batches(sent))
        for each in writers.publish(task, batches, receiver.writable):
            send_written(sender, writers, each, task, passes=False)
        return sender.take_rows()


def read_results(writers: WriterFactory, rows: pa.Table, doubt: str = "") -> TaskResults:
    """The results of tasks, from the rows that they sent."""
    receiver = Receiver()
    batches = [batch for sent in rows.to_batches() for batch in receiver.batches(sent)]
    return TaskResults(pa.Table.from_batches(batches, writers.schema).to_pylist(), doubt)
