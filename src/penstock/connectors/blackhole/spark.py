"""The blackhole connector on Spark."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from penstock.connectors.blackhole.factory import BlackholeSinkSpec
from penstock.schemas import SchemaChange
from penstock.spi import (
    Batch,
    Committer,
    JobContext,
    Output,
    Published,
    Task,
    Writer,
    WriterFactory,
    WriteTasks,
    Written,
)

#: The records of each output, from one task.
_COUNTED = pa.schema([pa.field("records", pa.list_(pa.int64()))])


class BlackholeRuntime:
    """Builds the committer of a job's blackholes."""

    def commit_group(self, spec: BlackholeSinkSpec) -> Hashable:
        """All tables share a committer."""
        return None

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that drops the rows of ``outputs``."""
        return BlackholeCommitter(outputs)


class BlackholeCommitter(Committer):
    """Computes every row, counts it and keeps none."""

    def __init__(self, outputs: Sequence[Output]):
        self._outputs = tuple(outputs)

    def writers(self) -> WriterFactory:
        """Drop rows in the tasks that compute them."""
        return WriterFactory(partial(_Counter, self._outputs), _COUNTED)

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Compute the batch."""
        counts = [row["records"] for row in tasks.collect().rows]
        return Published(tuple(Written(sum(each)) for each in zip(*counts, strict=True)))

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Nothing: no table is kept."""


class _Counter(Writer):
    """Counts the rows of a task."""

    def __init__(self, outputs: Sequence[Output], _: Task):
        self._counts = [0] * len(outputs)
        # A job has one sink of tables that are found while it runs, and then no other blackhole.
        self._found: set[int] = set()

    def add_output(self, number: int, output: Output) -> None:
        self._found.add(number)

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        self._counts[0 if output in self._found else output] += rows.num_rows
        return ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        counts = pa.array([self._counts], _COUNTED.field("records").type)
        yield pa.RecordBatch.from_arrays([counts], schema=_COUNTED)
