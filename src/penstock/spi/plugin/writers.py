"""What a connector's runtime implements to write the rows of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.spi.plugin.tasks import Task


class Writer(Protocol):
    """Writes the rows of one task. What it yields goes to the driver, or to owners of partitions."""

    def write(self, rows: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Take rows, in batches as :func:`penstock.spi.rows_by_output` takes them."""

    def finish(self) -> Iterable[pa.RecordBatch]:
        """Write what is left, durably. Called once, after the last rows."""
        return ()

    def close(self) -> None:
        """Release what is held. Called last, after an error too."""
        return


@dataclass(frozen=True)
class WriterFactory:
    """Makes the writers of a committer, in tasks. ``open`` takes the task, and is picklable; the ``instructions`` of
    the task are those of :meth:`penstock.spi.Committer.instructions`, or the committer's own. ``schema`` is that of the
    batches which writers yield. ``calls``: they call user-defined functions, which run in Spark's Python processes
    only."""

    open: Callable[[Task], Writer]
    schema: pa.Schema
    calls: bool = False

    def run(self, task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write all rows of a task."""
        writer = self.open(task)
        try:
            for batch in batches:
                yield from writer.write(batch)
            yield from writer.finish()
        finally:
            writer.close()


class WriteTasks(Protocol):
    """The tasks of one batch, which hand their rows to a committer's writers."""

    def collect(self, instructions: str = "") -> list[dict[str, Any]]:
        """What the writers yield, with these instructions. Runs the tasks, unless they have run for the state of the
        batch already. Raises the error of a task, and BatchError when a worker or an executor was lost."""
