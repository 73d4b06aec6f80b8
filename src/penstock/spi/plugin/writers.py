"""What a connector's runtime implements to write the rows of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from penstock.errors import PluginError
from penstock.spi.plugin.outputs import Output
from penstock.spi.plugin.tasks import Task

#: The number of an output, its rows and their hidden columns, as :meth:`Writer.write` takes them.
OutputRows: TypeAlias = tuple[int, pa.RecordBatch, pa.RecordBatch]
#: Gives the bytes of a buffer, to be changed.
WritableBytes: TypeAlias = Callable[[pa.Buffer], memoryview]


class Writer(Protocol):
    """Writes the rows of one task. What it yields are results, which go to the driver, or what the owners of partitions
    publish (:attr:`WriterFactory.publish`)."""

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Take rows of an output, by its number among the committer's outputs: their columns, under the names of its
        schema, and their columns :data:`penstock.spi.HIDDEN` and, if they are not all insertions,
        :data:`penstock.spi.KIND`."""

    def write_outputs(self, parts: Sequence[OutputRows]) -> Iterable[pa.RecordBatch]:
        """Take rows of several outputs, by default one after the other. A writer may be able to do less work for all of
        them together than for each one separately."""
        for each in parts:
            yield from self.write(*each)

    def add_output(self, number: int, output: Output) -> None:
        """Take rows of a further output from now on: of a table that was found while the job runs. ``number`` is beyond
        those of the committer's outputs. For sinks of many tables (:class:`penstock.spi.WritesTables`)."""
        raise PluginError(f"{type(self).__name__} cannot write tables that are found while a job runs")

    def finish(self) -> Iterable[pa.RecordBatch]:
        """Write what is left, durably. Called once, after the last rows."""
        return ()

    def close(self) -> None:
        """Release what is held. Called last, after an error too."""
        return


@dataclass(frozen=True)
class WriterFactory:
    """Makes the writers of a committer, in tasks. ``open`` takes the task, and is picklable; the ``instructions`` of
    the task are those of :meth:`penstock.spi.Committer.instructions`, or those of :meth:`WriteTasks.collect`.
    ``schema`` is that of the batches which writers yield. ``calls``: they call user-defined functions, which run in
    Spark's Python processes only.

    With ``publish``, writers that get no instructions pass rows on to ``owners``, at most as many tasks as that: in a
    job with state, whose rows are computed before a target may have any, and where several tasks may not write to one
    place. Each owner calls ``publish`` with its task, with the batches that it owns, in their order, and with a
    function that gives the bytes of a buffer of these batches, to be changed. It yields results of the same schema.
    The column ``owner`` has the number of the owner of each row of a batch, modulo their count. Without such a column
    all rows of a task have one owner, and owners have the order of the tasks.
    """

    open: Callable[[Task], Writer]
    schema: pa.Schema
    calls: bool = False
    publish: Callable[[Task, Iterable[pa.RecordBatch], WritableBytes], Iterator[pa.RecordBatch]] | None = None
    owners: int = 1
    owner: str = ""

    def run(self, task: Task, rows: Iterable[OutputRows]) -> Iterator[pa.RecordBatch]:
        """Write all rows of a task, given as :meth:`Writer.write` takes them."""
        writer = self.open(task)
        try:
            for each in rows:
                yield from writer.write(*each)
            yield from writer.finish()
        finally:
            writer.close()


@dataclass(frozen=True)
class TaskResults:
    """The results of the tasks of one Spark job. ``doubt`` says why it is not certain that each task ran once; it is
    empty when it is certain, and when nobody asked."""

    rows: Sequence[Mapping[str, Any]] = ()
    doubt: str = ""


class WriteTasks(Protocol):
    """The tasks of one batch, which hand their rows to a committer's writers."""

    @property
    def state(self) -> str:
        """The reference to the state after the batch, which is committed with its output; empty without one."""

    @property
    def computed(self) -> bool:
        """Whether the rows are computed: writers had the instructions of :meth:`penstock.spi.Committer.instructions`,
        or have passed them on."""

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """What writers yield with these instructions. ``by_owners``, and where rows were passed on already, what owners
        yield when they publish them. Existing results are not computed again. ``once`` asks whether each
        task ran once.

        Raises the error of a task, and BatchError when a worker or an executor was lost."""
