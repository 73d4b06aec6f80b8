"""A run of functions of the user's, called one after the other on batches of rows."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.common import TypeInformation
from penstock.common.arrow_functions import ArrowFunction
from penstock.datastream.functions import (
    CoProcessFunction,
    Function,
    ProcessFunction,
    RuntimeContext,
    Surroundings,
)
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.timerservice import TimerService
from penstock.datastream.values import as_seen, numbered, read, write
from penstock.errors import FunctionError, RecordError
from penstock.spi import Task
from penstock.types import INT, Field, RowType, TimestampType, arrow_type

#: The column of a stream's timestamps, and its type.
TIMESTAMP = "__timestamp"
TIMESTAMP_TYPE = TimestampType(3, True)
#: The column with the number of a row's output where a function has side outputs: 0 is the main one.
OUTPUT = "__output"

_KINDS = ("map", "flat_map", "filter", "process", "present", "timestamps", "repeat", "check")


@dataclass(frozen=True)
class Step:
    """A function of the user's. ``kind`` says what its results are:

    ``map`` one value, ``flat_map`` any number, ``filter`` whether the value stays, ``process`` any number, with values
    of the side outputs ``tags`` among them, ``present`` one value, or None for none, ``timestamps`` the value's
    timestamp, ``check`` nothing. With ``repeat`` the function is the number of times that each value comes.

    ``method`` is that of function objects; ``made`` the type of the results.
    """

    kind: str
    function: Any
    made: TypeInformation
    method: str = ""
    name: str = ""
    tags: tuple[OutputTag, ...] = ()

    def __post_init__(self) -> None:
        assert self.kind in _KINDS, self.kind  # noqa: S101


@dataclass(frozen=True)
class FunctionChain:
    """Calls ``steps`` on the rows of a stream of the type ``given``; ``timed`` streams have timestamps, too. Pickled
    with the functions."""

    steps: tuple[Step, ...]
    given: TypeInformation
    timed: bool = False
    surroundings: Surroundings = field(default_factory=Surroundings, compare=False)

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
        return RowType(fields, nullable=False)

    def then(self, step: Step) -> FunctionChain:
        """The chain with another step at its end."""
        return replace(self, steps=(*self.steps, step))

    def opened(self, task: Task) -> OpenChain:
        """The chain for ``task``. Raises FunctionError when a function cannot be opened."""
        return OpenChain(self, task)

    def __call__(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Tuples of the given columns to tuples of the results'."""
        types = [arrow_type(each.type) for each in self.given.row.fields]
        if self.timed:
            types.append(arrow_type(TIMESTAMP_TYPE))
        given = list(rows)
        columns = list(zip(*given, strict=True)) if given else [()] * len(types)
        chain = self.opened(Task(0, 1))
        try:
            made, _ = chain([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)])
        finally:
            chain.close()
        yield from zip(*(each.to_pylist() for each in made), strict=True)


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
        except Exception:
            self.close()
            raise
        last = chain.steps[-1]
        #: What the value of a function's result is to the next function.
        self._seen = [as_seen(step.made) if step is not last else None for step in chain.steps]
        self._needs_times = chain.gives_timestamps and any(
            step.kind in ("process", "timestamps") for step in chain.steps
        )

    def _work(self, step: Step, task: Task) -> Callable[[_Rows, Step], None]:
        function = step.function
        if isinstance(function, ArrowFunction):
            return _Arrow(function.function)
        call = function if not hasattr(function, step.method) else getattr(function, step.method)
        if isinstance(function, Function) and all(function is not each for _, each in self._open):
            context = RuntimeContext(step.name or step.kind, task, self._chain.surroundings)
            try:
                function.open(context)
            except Exception as error:
                raise _failed(step, error, -1) from error
            self._open.append((step, function))
        match step.kind:
            case "map":
                return _Map(call)
            case "flat_map":
                return _FlatMap(call)
            case "filter":
                return _Filter(call)
            case "process":
                return _Process(call)
            case "present":
                return _Present(call)
            case "timestamps":
                return _Timestamps(call)
            case "repeat":
                return _Repeat(function)
        return _Check(call)

    def __call__(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The results for the rows of ``columns``, and the number of the row that each came from. Raises FunctionError
        and RecordError with the number of the row in place of the offset."""
        chain = self._chain
        given = columns[:-1] if chain.timed else columns
        rows = _Rows(chain.given, list(given), len(columns[0]))
        if self._needs_times:
            rows.times = _millis(columns[-1]) if chain.timed else [None] * rows.count
        for step, work, seen in zip(chain.steps, self._works, self._seen, strict=True):
            work(rows, step)
            if seen is not None:
                rows.convert(seen)
        origin = rows.numbers()
        try:
            made = rows.columns() if not chain.tags else self._outputs(rows)
        except RecordError as error:
            raise _of_row(error, origin) from error
        if chain.gives_timestamps:
            made.append(_timestamps(rows.times) if rows.times is not None else columns[-1].take(pa.array(origin)))
        return made, origin

    def _outputs(self, rows: _Rows) -> list[pa.Array]:
        """The number of each row's output, and the columns of all outputs, null in the rows of others."""
        outputs = np.array(rows.outputs or [], np.int32)
        arrays: list[pa.Array] = [pa.array(outputs, pa.int32())]
        values = rows.values()
        for number, info in enumerate([self._chain.made, *(tag.type_info for tag in self._chain.tags)]):
            of = np.flatnonzero(outputs == number)
            try:
                columns = write(info, [values[each] for each in of])
            except RecordError as error:
                raise _of_row(error, of) from error
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
            except Exception as error:  # noqa: BLE001 - the others are closed all the same
                failure = failure or _failed(step, error, -1)
        if failure is not None:
            raise failure


class _Rows:
    """Rows on their way through a chain: as columns or as values, whichever was needed last."""

    def __init__(self, info: TypeInformation, columns: list[pa.Array], count: int):
        self.info = info
        self.count = count
        self.times: list[int | None] | None = None
        self.outputs: list[int] | None = None
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
            raise numbered(error, self.number(len(out))) from error
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
    """A function of the user's, called on each value."""

    function: Callable[..., Any]

    def each(self, rows: _Rows, step: Step, out: list[Any]) -> None:
        """Add the results to ``out``. Raises FunctionError with the number of the row."""
        try:
            out.extend(map(self.function, rows.values()))
        except RecordError as error:
            raise numbered(error, rows.number(len(out))) from error
        except Exception as error:
            raise _failed(step, error, rows.number(len(out))) from error


class _Map(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.put(step.made, out)


class _Present(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.put(step.made, out)
        rows.keep([each is not None for each in out])


class _Filter(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        out: list[Any] = []
        self.each(rows, step, out)
        rows.keep(list(map(bool, out)))


class _Check(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        self.each(rows, step, [])


class _Timestamps(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        times = rows.times or [None] * rows.count
        out: list[int | None] = []
        try:
            out.extend(
                int(self.function(value, _NO_TIMESTAMP if at is None else at))
                for value, at in zip(rows.values(), times, strict=True)
            )
        except Exception as error:
            raise _failed(step, error, rows.number(len(out))) from error
        rows.times = out


class _FlatMap(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        out: list[Any] = []
        counts: list[int] = []
        try:
            for value in rows.values():
                before = len(out)
                out.extend(self.function(value) or ())
                counts.append(len(out) - before)
        except RecordError as error:
            raise numbered(error, rows.number(len(counts))) from error
        except Exception as error:
            raise _failed(step, error, rows.number(len(counts))) from error
        rows.spread(step.made, out, counts)


class _Process(_Call):
    def __call__(self, rows: _Rows, step: Step) -> None:
        numbers = {tag.tag_id: number for number, tag in enumerate(step.tags, start=1)}
        context = _Context()
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
            raise numbered(error, rows.number(len(counts))) from error
        except Exception as error:
            raise _failed(step, error, rows.number(len(counts))) from error
        rows.spread(step.made, out, counts)
        rows.outputs = outputs


@dataclass(frozen=True)
class _Repeat:
    """Every value ``times`` times."""

    times: int

    def __call__(self, rows: _Rows, step: Step) -> None:
        values = [value for value in rows.values() for _ in range(self.times)]
        rows.spread(step.made, values, [self.times] * rows.count)


@dataclass(frozen=True)
class _Arrow:
    """A function of arrays."""

    function: Callable[[Any], Any]

    def __call__(self, rows: _Rows, step: Step) -> None:
        columns = rows.columns()
        given = columns[0] if rows.info.single else pa.RecordBatch.from_arrays(columns, names=list(rows.info.row.names))
        try:
            found = self.function(given)
            if step.kind == "filter":
                self._keep(rows, found)
            else:
                rows.put_columns(step.made, self._cast(found, step.made, rows.count))
        except RecordError as error:
            raise _of_row(error, rows.numbers()) from error
        except Exception as error:
            raise _failed(step, error, rows.number(0) if rows.count else -1) from error

    def _keep(self, rows: _Rows, found: Any) -> None:
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
    """What a process function finds out about a value."""

    def __init__(self) -> None:
        self.at: int | None = None
        self._timers = TimerService()

    def timestamp(self) -> int | None:
        return self.at

    def timer_service(self) -> TimerService:
        return self._timers


def _failed(step: Step, error: Exception, row: int) -> FunctionError:
    """The error of a step whose function raised ``error``."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not Path(each.filename).is_relative_to(_PACKAGE)
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = str(error)
    reason = f"the function raised {type(error).__name__}{place}" + (f": {text}" if text else "")
    return FunctionError(reason, "", -1, row, "", "", f"in step '{step.name or step.kind}'")


def _of_row(error: RecordError, origin: NDArray[np.int64]) -> RecordError:
    """``error`` of a row of a result, with the number of the row that it came from."""
    if error.topic or error.offset < 0:
        return error
    row = int(origin[error.offset])
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def _described(found: Any) -> str:
    if isinstance(found, pa.Array | pa.ChunkedArray):
        return f"an array of {len(found)} values of {found.type}"
    if isinstance(found, pa.RecordBatch | pa.Table):
        return f"{found.num_columns} columns of {found.num_rows} values"
    return f"a {type(found).__name__}"


def _millis(column: pa.Array) -> list[int | None]:
    micros = column.cast(pa.int64()).to_pylist()
    return [None if each is None else each // 1000 for each in micros]


def _timestamps(times: Sequence[int | None]) -> pa.Array:
    micros = pa.array([None if each is None else each * 1000 for each in times], pa.int64())
    return micros.cast(arrow_type(TIMESTAMP_TYPE))


#: Flink's timestamp of a value that has none.
_NO_TIMESTAMP = -(2**63)
_PACKAGE = Path(__file__).parents[1]
