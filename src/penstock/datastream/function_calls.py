"""What each kind of step does to a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.common import TypeInformation
from penstock.common.conversions import CAUGHT, add_row_number, describe_raised
from penstock.datastream.function_steps import Step
from penstock.datastream.functions import CoProcessFunction, ProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.timerservice import TimerService
from penstock.datastream.values import read, write
from penstock.errors import FunctionError, RecordError
from penstock.types import arrow_type

#: Flink's timestamp of a value that has none.
NO_TIMESTAMP = -(2**63)


class ValueBatch:
    """Rows on their way through a chain: as columns or as values, whichever was needed last."""

    def __init__(self, info: TypeInformation, columns: list[pa.Array], count: int):
        self.info = info
        self.count = count
        self.times: list[int | None] | None = None
        self.outputs: list[int] | None = None
        #: The present watermark, and with a generator the one after each row.
        self.watermark: int | None = None
        self.watermarks: list[int | None] | None = None
        self._columns: list[pa.Array] | None = columns
        self._values: list[Any] | None = None
        #: The number of the row that each came from; None while they are the same.
        self._origin: list[int] | None = None

    def values(self) -> list[Any]:
        """The values."""
        if self._values is None:
            assert self._columns is not None  # noqa: S101
            self._values = read(self.info, self._columns)
        return self._values

    def columns(self) -> list[pa.Array]:
        """The columns. Raises RecordError for a value that does not fit."""
        if self._columns is None:
            self._columns = write(self.info, self.values())
        return self._columns

    @property
    def one_to_one(self) -> bool:
        """Whether each row came from the row with its own number."""
        return self._origin is None

    def numbers(self) -> NDArray[np.int64]:
        """The number of the row that each came from."""
        if self._origin is None:
            return np.arange(self.count, dtype=np.int64)
        return np.array(self._origin, np.int64)

    def number(self, row: int) -> int:
        """The number of the row that row number ``row`` came from."""
        return row if self._origin is None else self._origin[row]

    def put(self, info: TypeInformation, values: list[Any]) -> None:
        """Replace each value."""
        self.info, self._values, self._columns = info, values, None

    def put_columns(self, info: TypeInformation, columns: list[pa.Array]) -> None:
        """Replace each value."""
        self.info, self._values, self._columns = info, None, columns

    def convert(self, seen: Callable[[Any], Any]) -> None:
        """Replace each value by what the next function sees."""
        if self._values is None:
            return
        out: list[Any] = []
        try:
            out.extend(map(seen, self._values))
        except RecordError as error:
            raise add_row_number(error, self.number(len(out))) from error
        self.put(self.info, out)

    def keep(self, kept: list[bool]) -> None:
        """Leave rows out."""
        if all(kept):
            return
        self._origin = list(compress(range(self.count) if self._origin is None else self._origin, kept))
        if self.times is not None:
            self.times = list(compress(self.times, kept))
        if self._values is not None:
            self._values, self._columns = list(compress(self._values, kept)), None
        elif self._columns is not None:
            mask = pa.array(kept)
            self._columns = [column.filter(mask) for column in self._columns]
        self.count = len(self._origin)

    def spread(self, info: TypeInformation, values: list[Any], counts: list[int]) -> None:
        """Replace each row by as many as ``counts`` says."""
        origin = range(self.count) if self._origin is None else self._origin
        self._origin = [number for number, count in zip(origin, counts, strict=True) for _ in range(count)]
        if self.times is not None:
            self.times = [at for at, count in zip(self.times, counts, strict=True) for _ in range(count)]
        self.count = len(values)
        self.put(info, values)


@dataclass(frozen=True)
class _Call:
    """A user-defined function, called on each value."""

    function: Callable[..., Any]

    def each(self, rows: ValueBatch, step: Step, out: list[Any]) -> None:
        """Add the results to ``out``. Raises FunctionError with the number of the row."""
        try:
            out.extend(map(self.function, rows.values()))
        except RecordError as error:
            raise add_row_number(error, rows.number(len(out))) from error
        except CAUGHT as error:
            raise failed(step, error, rows.number(len(out))) from error


class MapCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.put(step.made, out)


class PresentCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.put(step.made, out)
        rows.keep([each is not None for each in out])


class FilterCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.keep(list(map(bool, out)))


class CheckCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        self.each(rows, step, [])


class FlatMapCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        out: list[Any] = []
        counts: list[int] = []
        try:
            for value in rows.values():
                before = len(out)
                out.extend(self.function(value) or ())
                counts.append(len(out) - before)
        except RecordError as error:
            raise add_row_number(error, rows.number(len(counts))) from error
        except CAUGHT as error:
            raise failed(step, error, rows.number(len(counts))) from error
        rows.spread(step.made, out, counts)


class ProcessCall(_Call):
    def __call__(self, rows: ValueBatch, step: Step) -> None:
        numbers = {tag.tag_id: number for number, tag in enumerate(step.tags, start=1)}
        context = _Context(rows.watermark)
        times = rows.times or [None] * rows.count
        out: list[Any] = []
        outputs: list[int] = []
        counts: list[int] = []
        try:
            for value, at in zip(rows.values(), times, strict=True):
                before = len(out)
                context.at = at
                for each in self.function(value, context) or ():
                    if isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], OutputTag):
                        number = numbers.get(each[0].tag_id)
                        if number is not None:
                            out.append(each[1])
                            outputs.append(number)
                    else:
                        out.append(each)
                        outputs.append(0)
                counts.append(len(out) - before)
        except RecordError as error:
            raise add_row_number(error, rows.number(len(counts))) from error
        except CAUGHT as error:
            raise failed(step, error, rows.number(len(counts))) from error
        rows.spread(step.made, out, counts)
        rows.outputs = outputs


@dataclass(frozen=True)
class Repeat:
    """Every value ``times`` times."""

    times: int

    def __call__(self, rows: ValueBatch, step: Step) -> None:
        values = [value for value in rows.values() for _ in range(self.times)]
        rows.spread(step.made, values, [self.times] * rows.count)


@dataclass(frozen=True)
class ArrowCall:
    """A function of arrays."""

    function: Callable[[Any], Any]

    def __call__(self, rows: ValueBatch, step: Step) -> None:
        columns = rows.columns()
        given = columns[0] if rows.info.single else pa.RecordBatch.from_arrays(columns, names=list(rows.info.row.names))
        try:
            found = self.function(given)
            if step.kind == "filter":
                self._keep(rows, found)
            else:
                rows.put_columns(step.made, self._cast(found, step.made, rows.count))
        except RecordError as error:
            raise of_row(error, rows.numbers()) from error
        except CAUGHT as error:
            raise failed(step, error, rows.number(0) if rows.count else -1) from error

    def _keep(self, rows: ValueBatch, found: Any) -> None:
        mask = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(mask, pa.BooleanArray) or len(mask) != rows.count:
            raise TypeError(f"expected a boolean array of {rows.count} values, not {_described(found)}")
        rows.keep(pc.fill_null(mask, False).to_numpy(zero_copy_only=False).tolist())

    def _cast(self, found: Any, made: TypeInformation, count: int) -> list[pa.Array]:
        if isinstance(found, pa.RecordBatch | pa.Table):
            arrays = list(found.columns)
        elif isinstance(found, pa.StructArray) and not made.single:
            arrays = found.flatten()
        else:
            arrays = [found]
        fields = made.row.fields
        if len(arrays) != len(fields) or any(len(each) != count for each in arrays):
            raise TypeError(f"expected {len(fields)} columns of {count} values, not {_described(found)}")
        made_arrays = [each.combine_chunks() if isinstance(each, pa.ChunkedArray) else each for each in arrays]
        return [each.cast(arrow_type(to.type)) for each, to in zip(made_arrays, fields, strict=True)]


class _Context(ProcessFunction.Context, CoProcessFunction.Context):
    """A process function's view of a value."""

    def __init__(self, watermark: int | None) -> None:
        self.at: int | None = None
        self._timers = TimerService(watermark)

    def timestamp(self) -> int | None:
        return self.at

    def timer_service(self) -> TimerService:
        return self._timers


def failed(step: Step, error: BaseException, row: int) -> FunctionError:
    """The error of a step whose function raised ``error``."""
    return FunctionError(describe_raised(error), "", -1, row, "", "", f"in step '{step.name or step.kind}'")


def of_row(error: RecordError, origin: NDArray[np.int64]) -> RecordError:
    """``error`` of a row of a result, with the number of the row that it came from."""
    if error.topic or error.offset < 0:
        return error
    return _at(error, int(origin[error.offset]))


def later(error: RecordError, first: int) -> RecordError:
    """``error`` of a row that is counted from row number ``first`` on, with its number among all rows."""
    return error if error.topic or error.offset < 0 else _at(error, first + error.offset)


def _at(error: RecordError, row: int) -> RecordError:
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def _described(found: Any) -> str:
    if isinstance(found, pa.Array | pa.ChunkedArray):
        return f"an array of {len(found)} values of {found.type}"
    if isinstance(found, pa.RecordBatch | pa.Table):
        return f"{found.num_columns} columns of {found.num_rows} values"
    return f"a {type(found).__name__}"
