"""User-defined functions on Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import RecordError
from penstock.plan.functions import BatchFunction, OpenFunction
from penstock.plan.nodes import MapRows
from penstock.spi import HIDDEN, Task, locate_error
from penstock.types import arrow_schema
from penstock.types.arrow import python_values

_RowFunction = Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]
#: The columns that a function has made, and the number of the row that each row came from, in ascending order.
FunctionRows: TypeAlias = tuple[Sequence[pa.Array], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class FunctionStage:
    """Calls a function on the columns ``given`` of batches. Other columns, such as :data:`penstock.spi.HIDDEN`, follow
    those that it makes, with the values of the row that each row came from. Picklable with the function."""

    function: BatchFunction | _RowFunction
    given: tuple[str, ...]
    #: Of the columns that the function makes.
    schema: pa.Schema

    @property
    def calls(self) -> bool:
        """Whether it calls functions of the user: always."""
        return True

    @classmethod
    def from_node(cls, node: MapRows) -> FunctionStage:
        """The call of a node."""
        return cls(node.rows, node.input.schema.names, arrow_schema(node.schema))

    @property
    def by_partition(self) -> bool:
        """Whether each partition of the source has a function of its own in a task."""
        return getattr(self.function, "by_partition", False)

    def open(self, task: Task) -> OpenFunction:
        """The function for ``task``."""
        if isinstance(self.function, BatchFunction):
            return self.function.open(task)
        return RowByRow(self.function, self.schema)

    def call(self, function: OpenFunction, batch: pa.RecordBatch) -> FunctionRows:
        """What the function makes of a batch. Raises RecordError for a row that cannot be computed, with the number of
        its partition and its offset if the batch has them, and without a topic."""
        try:
            return function([batch.column(name) for name in self.given])
        except RecordError as error:
            if error.topic or error.offset < 0:
                raise
            raise locate_error(error, batch, error.offset) from error

    def append_others(self, batch: pa.RecordBatch, found: FunctionRows) -> pa.RecordBatch:
        """What the function has made of a batch, with the other columns of that."""
        arrays, origin = found
        carried = [name for name in batch.schema.names if name not in self.given]
        every = len(origin) == batch.num_rows and bool((origin == np.arange(batch.num_rows)).all())
        taken = [batch.column(name) if every else batch.column(name).take(pa.array(origin)) for name in carried]
        return pa.RecordBatch.from_arrays([*arrays, *taken], names=[*self.schema.names, *carried])

    def batch(self, function: OpenFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The result for one batch. Raises as :meth:`call`."""
        return self.append_others(batch, self.call(function, batch))


class BatchTransform(Protocol):
    """Work on rows that needs no state."""

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that it makes of a batch."""
        ...


@dataclass(frozen=True, eq=False)
class FunctionCall:
    """A call of a function among the works on the rows of a path. Paths to several sinks share the calls of one
    ``number``."""

    number: int
    stage: FunctionStage


class TaskFunctions:
    """The functions that one task calls: each is opened when it has rows, and closed with the task."""

    def __init__(self, task: Task):
        self._task = task
        #: By the number of the call and, where each partition has its own function, that of the partition.
        self._opened: dict[tuple[int, int], OpenFunction] = {}
        self._results: dict[int, FunctionRows] = {}

    def __enter__(self) -> TaskFunctions:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as closing:  # the others are closed where one raises
            for each in self._opened.values():
                closing.callback(each.close)

    def begin(self) -> None:
        """Other rows come: what was made of the last ones is not shared any more."""
        self._results.clear()

    def batch(self, call: FunctionCall, given: pa.RecordBatch) -> pa.RecordBatch:
        """The result of a call, which is made once for the paths that share it. Raises as
        :meth:`FunctionStage.batch`."""
        if call.number not in self._results:
            self._results[call.number] = self._call(call, given)
        return call.stage.append_others(given, self._results[call.number])

    def _call(self, call: FunctionCall, given: pa.RecordBatch) -> FunctionRows:
        """What a function makes of rows; those of each partition by themselves, where each has its own function."""
        if not call.stage.by_partition or not given.num_rows:
            return call.stage.call(self._open(call, 0), given)
        partitions = given.column(HIDDEN.names[0]).to_numpy()
        order = np.argsort(partitions, kind="stable")
        bounds = [*np.flatnonzero(np.diff(partitions[order], prepend=-1)), len(order)]
        if len(bounds) == 2:
            return call.stage.call(self._open(call, int(partitions[0])), given)
        columns, origins = [], []
        for first, end in pairwise(bounds):
            rows = order[first:end]
            arrays, origin = call.stage.call(self._open(call, int(partitions[rows[0]])), given.take(pa.array(rows)))
            columns.append(arrays)
            origins.append(rows[origin])
        origin = np.concatenate(origins)
        again = np.argsort(origin, kind="stable")
        return [pa.concat_arrays(each).take(pa.array(again)) for each in zip(*columns, strict=True)], origin[again]

    def _open(self, call: FunctionCall, partition: int) -> OpenFunction:
        key = call.number, partition
        if key not in self._opened:
            self._opened[key] = call.stage.open(self._task)
        return self._opened[key]


@dataclass(frozen=True)
class RowByRow:
    """A plain function of tuples, called once for each row."""

    rows: _RowFunction
    schema: pa.Schema

    def __call__(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The rows made, and the number of the row that each came from. Raises RecordError as the function does."""
        out: list[tuple[Any, ...]] = []
        origin: list[int] = []
        for number, row in enumerate(zip(*map(python_values, columns), strict=True)):
            made = list(self.rows(iter((row,))))
            out.extend(made)
            origin.extend([number] * len(made))
        made_columns = list(zip(*out, strict=True)) if out else [()] * len(self.schema)
        arrays = [pa.array(column, each) for column, each in zip(made_columns, self.schema.types, strict=True)]
        return arrays, np.array(origin, np.int64)

    def close(self) -> None:
        """Nothing to do."""
