"""A chain of user-defined functions, called one after the other on batches of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.common import TypeInformation
from penstock.common.arrow_functions import ArrowFunction
from penstock.common.conversions import CAUGHT
from penstock.common.watermark_strategy import WatermarkGenerator
from penstock.datastream.function_calls import (
    ArrowCall,
    CheckCall,
    FilterCall,
    FlatMapCall,
    MapCall,
    PresentCall,
    ProcessCall,
    Repeat,
    ValueBatch,
    failed,
    later,
    of_row,
)
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import Function, RuntimeContext, Surroundings
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.values import as_seen, write
from penstock.datastream.watermark_calls import TimestampsCall, WatermarksCall
from penstock.errors import FunctionError, RecordError
from penstock.spi import Task
from penstock.types import INT, Field, RowType, TimestampType, arrow_type
from penstock.types.arrow import python_values

#: The column of a stream's timestamps, and its type.
TIMESTAMP = "__timestamp"
TIMESTAMP_TYPE = TimestampType(3, True)
#: The column with the number of a row's output where a function has side outputs: 0 is the main one.
OUTPUT = "__output"
#: The column of a stream's watermarks: the present one, or the one after each value.
WATERMARK = "__watermark"

#: The rows that functions of values are called on at a time: as many as the processor's caches hold.
AT_A_TIME = 4096


@dataclass(frozen=True)
class FunctionChain:
    """Calls ``steps`` on the rows of a stream of the type ``given``; ``timed`` streams have timestamps, too, and
    ``watermarked`` ones the present watermark in the last column. Pickled with the functions."""

    steps: tuple[Step, ...]
    given: TypeInformation
    timed: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings, compare=False)
    watermarked: bool = False

    @property
    def by_partition(self) -> bool:
        """Whether the rows of each partition of the source are a stream of their own: for generators of watermarks."""
        return any(step.kind == "watermarks" for step in self.steps)

    @property
    def made(self) -> TypeInformation:
        """The type of the results."""
        return self.steps[-1].made

    @property
    def tags(self) -> tuple[OutputTag, ...]:
        """The side outputs."""
        return self.steps[-1].tags

    @property
    def gives_timestamps(self) -> bool:
        """Whether the results have timestamps."""
        return self.timed or any(step.kind == "timestamps" for step in self.steps)

    @property
    def schema(self) -> RowType:
        """The columns of the results: those of the type, with side outputs those of each output; and the timestamp."""
        fields = self.made.row.fields
        if self.tags:
            infos = [self.made, *(tag.type_info for tag in self.tags)]
            fields = (
                Field(OUTPUT, INT),
                *(
                    Field(output_column(number, each.name), each.type.with_nullability(True))
                    for number, info in enumerate(infos)
                    for each in info.row.fields
                ),
            )
        if self.gives_timestamps:
            fields = (*fields, Field(TIMESTAMP, TIMESTAMP_TYPE))
        if self.by_partition:
            fields = (*fields, Field(WATERMARK, TIMESTAMP_TYPE))
        return RowType(fields, nullable=False)

    def then(self, step: Step) -> FunctionChain:
        """The chain with another step at its end."""
        return replace(self, steps=(*self.steps, step))

    def open(self, task: Task) -> OpenChain:
        """The chain for ``task``. Raises FunctionError when a function cannot be opened."""
        return OpenChain(self, task)

    def __call__(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Tuples of the given columns to tuples of the results'."""
        types = [arrow_type(each.type) for each in self.given.row.fields]
        types += [arrow_type(TIMESTAMP_TYPE)] * (self.timed + self.watermarked)
        given = list(rows)
        columns = list(zip(*given, strict=True)) if given else [()] * len(types)
        chain = self.open(Task(0, 1))
        try:
            made, _ = chain([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)])
        finally:
            chain.close()
        yield from zip(*map(python_values, made), strict=True)


def output_column(number: int, name: str) -> str:
    """The column ``name`` of an output, where a function has side outputs."""
    return f"__{number}_{name}"


class OpenChain:
    """The functions of a chain, opened for a task."""

    def __init__(self, chain: FunctionChain, task: Task):
        self._chain = chain
        self._open: list[tuple[Step, Function]] = []
        try:
            self._works = [self._work(step, task) for step in chain.steps]
        except BaseException:
            self.close()
            raise
        last = chain.steps[-1]
        #: A function's result as the value that the next function gets.
        self._seen = [as_seen(step.made) if step is not last else None for step in chain.steps]
        self._needs_times = chain.gives_timestamps and any(
            step.kind in ("process", "timestamps", "watermarks") for step in chain.steps
        )

    def _work(self, step: Step, task: Task) -> Callable[[ValueBatch, Step], None]:
        function = step.function
        if isinstance(function, ArrowFunction):
            return ArrowCall(function.function)
        call = function if not hasattr(function, step.method) else getattr(function, step.method)
        if isinstance(function, Function) and all(function is not each for _, each in self._open):
            context = RuntimeContext(step.name or step.kind, task, self._chain.surroundings)
            try:
                function.open(context)
            except CAUGHT as error:
                raise failed(step, error, -1) from error
            self._open.append((step, function))
        match step.kind:
            case "map":
                return MapCall(call)
            case "flat_map":
                return FlatMapCall(call)
            case "filter":
                return FilterCall(call)
            case "process":
                return ProcessCall(call)
            case "present":
                return PresentCall(call)
            case "timestamps":
                return TimestampsCall(call)
            case "watermarks":
                return WatermarksCall(self._make(step, call))
            case "repeat":
                return Repeat(function)
        return CheckCall(call)

    def _make(self, step: Step, call: Callable[[], Any]) -> WatermarkGenerator:
        """The generator that a strategy makes."""
        try:
            found = call()
            if not hasattr(found, "on_event"):
                raise TypeError(f"expected a WatermarkGenerator, not {type(found).__name__}")
        except CAUGHT as error:
            raise failed(step, error, -1) from error
        return found  # type: ignore[no-any-return]

    def __call__(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The results for the rows of ``columns``, and the number of the row that each came from. Raises FunctionError
        and RecordError with the number of the row in place of the offset."""
        count = len(columns[0])
        if count <= AT_A_TIME or all(isinstance(each, ArrowCall) for each in self._works):
            return self._made(columns)
        parts, origins = [], []
        for first in range(0, count, AT_A_TIME):
            try:
                made, origin = self._made([column.slice(first, AT_A_TIME) for column in columns])
            except RecordError as error:
                raise later(error, first) from error
            parts.append(made)
            origins.append(origin + first)
        return [pa.concat_arrays(arrays) for arrays in zip(*parts, strict=True)], np.concatenate(origins)

    def _made(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        chain = self._chain
        columns, present = (columns[:-1], columns[-1]) if chain.watermarked else (columns, None)
        given = columns[:-1] if chain.timed else columns
        rows = ValueBatch(chain.given, list(given), len(columns[0]))
        if present is not None and rows.count:
            (rows.watermark,) = _millis(present.slice(0, 1))
        if self._needs_times:
            rows.times = _millis(columns[-1]) if chain.timed else [None] * rows.count
        for step, work, seen in zip(chain.steps, self._works, self._seen, strict=True):
            work(rows, step)
            if seen is not None:
                rows.convert(seen)
        origin = rows.numbers()
        try:
            made = rows.columns() if not chain.tags else self._outputs(rows)
            if rows.times is not None:
                made.append(_timestamps(rows.times))
            if rows.watermarks is not None:
                made.append(_timestamps(rows.watermarks))
        except RecordError as error:
            raise of_row(error, origin) from error
        if rows.times is None and chain.timed:
            made.append(columns[-1] if rows.one_to_one else columns[-1].take(pa.array(origin)))
        return made, origin

    def _outputs(self, rows: ValueBatch) -> list[pa.Array]:
        """The number of each row's output, and the columns of all outputs, null in the rows of others."""
        outputs = np.array(rows.outputs or [], np.int32)
        arrays: list[pa.Array] = [pa.array(outputs, pa.int32())]
        values = rows.values()
        for number, info in enumerate([self._chain.made, *(tag.type_info for tag in self._chain.tags)]):
            of = np.flatnonzero(outputs == number)
            try:
                columns = write(info, [values[each] for each in of])
            except RecordError as error:
                raise of_row(error, of) from error
            index = np.zeros(len(outputs), np.int64)
            index[of] = np.arange(len(of))
            places = pa.array(index, mask=outputs != number)
            arrays += [column.take(places) for column in columns]
        return arrays

    def close(self) -> None:
        """Close the functions. The last to be opened is the first. Raises FunctionError with the first failure."""
        failure: FunctionError | None = None
        while self._open:
            step, function = self._open.pop()
            try:
                function.close()
            except CAUGHT as error:
                failure = failure or failed(step, error, -1)
        if failure is not None:
            raise failure


#: Later and earlier timestamps, in ms, are beyond 64 bits of microseconds.
_MOST_MILLIS = (2**63 - 1) // 1000


def _millis(column: pa.Array) -> list[int | None]:
    micros = column.cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1000 for each in micros]


def _timestamps(times: Sequence[int | None]) -> pa.Array:
    for row, each in enumerate(times):
        if each is not None and abs(each) > _MOST_MILLIS:
            raise RecordError(f"the timestamp {each} ms is beyond the range of {TIMESTAMP_TYPE}", offset=row)
    micros = pa.array([None if each is None else each * 1000 for each in times], pa.int64())
    return micros.cast(arrow_type(TIMESTAMP_TYPE))
