"""User-defined functions on Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import RecordError
from penstock.plan.functions import BatchFunction, OpenFunction
from penstock.plan.nodes import MapRows, Node
from penstock.spi import DEAD_LETTER, Task, located
from penstock.types import arrow_schema
from penstock.types.arrow import python_values

_RowFunction = Callable[[Iterator[tuple[Any, ...]]], Iterator[tuple[Any, ...]]]


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

    def batches(self, task: Task, given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The results for the batches, dead letters among them. Raises RecordError for a row that cannot be computed,
        with the number of its partition and its offset if the batch has them, and without a topic."""
        function = self.opened(task)
        try:
            for batch in given:
                yield self.batch(function, batch)
        finally:
            function.close()

    def opened(self, task: Task) -> OpenFunction:
        """The function for ``task``."""
        if isinstance(self.function, BatchFunction):
            return self.function.opened(task)
        return RowByRow(self.function, self.schema)

    def rows(
        self, function: OpenFunction, batch: pa.RecordBatch, chosen: NDArray[np.int64] | None
    ) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """What ``function`` makes of the ``chosen`` rows of a batch, None for all, and the number of the row that each
        came from. Raises as :meth:`batches`."""
        columns = [batch.column(name) for name in self.given]
        if chosen is not None:
            columns = [column.take(pa.array(chosen)) for column in columns]
        try:
            arrays, origin = function(columns)
        except RecordError as error:
            if error.topic or error.offset < 0:
                raise
            row = error.offset if chosen is None else int(chosen[error.offset])
            raise located(error, batch, row) from error
        return arrays, origin if chosen is None else chosen[origin]

    def batch(self, function: OpenFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The result for one batch, dead letters in it. Raises as :meth:`batches`."""
        carried = [name for name in batch.schema.names if name not in self.given]
        dead = _dead(batch)
        alive = np.setdiff1d(np.arange(batch.num_rows), dead) if len(dead) else None
        arrays, origin = self.rows(function, batch, alive)
        if len(dead):  # they pass without a row
            arrays, origin, _ = beside(dead, arrays, origin)
        every = len(origin) == batch.num_rows and bool((origin == np.arange(batch.num_rows)).all())
        taken = [batch.column(name) if every else batch.column(name).take(pa.array(origin)) for name in carried]
        return pa.RecordBatch.from_arrays([*arrays, *taken], names=[*self.schema.names, *carried])


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
        self._opened: dict[int, OpenFunction] = {}
        self._results: dict[int, pa.RecordBatch] = {}

    def __enter__(self) -> TaskFunctions:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._opened.values():
            each.close()

    def begin(self) -> None:
        """Other rows come: what was made of the last ones is not shared any more."""
        self._results.clear()

    def batch(self, call: FunctionCall, given: pa.RecordBatch) -> pa.RecordBatch:
        """The result of a call, which is made once for the paths that share it. Raises as
        :meth:`FunctionStage.batches`."""
        if call.number not in self._results:
            if call.number not in self._opened:
                self._opened[call.number] = call.stage.opened(self._task)
            self._results[call.number] = call.stage.batch(self._opened[call.number], given)
        return self._results[call.number]


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


def beside(
    staying: NDArray[np.int64], arrays: Sequence[pa.Array], origin: NDArray[np.int64]
) -> tuple[list[pa.Array], NDArray[np.int64], NDArray[np.bool_]]:
    """``arrays``, made of the rows ``origin``, with nulls for the rows ``staying``, each before those that were made of
    it. Then the number of the row that each came from, and whether it was made."""
    rows = np.concatenate([staying, origin])
    order = np.argsort(rows, kind="stable")
    made = order >= len(staying)
    index = pa.array(order - len(staying), pa.int64(), mask=~made)
    return [each.take(index) for each in arrays], rows[order], made


def _dead(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """The numbers of the rows that are dead letters."""
    if DEAD_LETTER not in batch.schema.names:
        return np.array([], np.int64)
    return np.flatnonzero(batch.column(DEAD_LETTER).is_valid()).astype(np.int64)


def function_stage(node: Node) -> FunctionStage | None:
    """The call of a node that is a function in Python; None for any other."""
    return FunctionStage.from_node(node) if isinstance(node, MapRows) else None
