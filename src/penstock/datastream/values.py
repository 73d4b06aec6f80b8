"""Values as user-defined functions see them, and as columns.

Rows become :class:`penstock.common.Row`, maps dictionaries, arrays lists. Functions may return rows as rows, tuples,
lists or dictionaries.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from penstock.common import Row, TypeInformation
from penstock.common.typeinfo import PickledBytesTypeInfo
from penstock.errors import RecordError
from penstock.types import ArrayType, DataType, MapType, RowType, arrow_type
from penstock.types.arrow import python_values

_Convert = Callable[[Any], Any]


class OwnReading(ABC):
    """A type whose values are not rows although it has several columns."""

    @abstractmethod
    def read_columns(self, columns: Sequence[pa.Array]) -> list[Any]:
        """The values of the columns."""


def read(info: TypeInformation, columns: Sequence[pa.Array]) -> list[Any]:
    """The values of a stream of this type from its columns."""
    if isinstance(info, OwnReading):
        return info.read_columns(columns)
    if isinstance(info, PickledBytesTypeInfo):
        return [None if each is None else pickle.loads(each) for each in listed(columns[0])]  # noqa: S301 - our own
    if info.single:
        convert = to_user(info.logical)
        found = listed(columns[0])
        return found if convert is None else [None if each is None else convert(each) for each in found]
    names = info.row.names
    converts = [to_user(field.type) for field in info.row.fields]
    lists = [
        found if convert is None else [None if each is None else convert(each) for each in found]
        for found, convert in zip(map(listed, columns), converts, strict=True)
    ]
    return [Row.named(names, values) for values in zip(*lists, strict=True)]


def write(info: TypeInformation, values: Sequence[Any]) -> list[pa.Array]:
    """The columns of a stream of this type from its values. Raises RecordError for a value that does not fit, with the
    number of its row in place of its offset."""
    if isinstance(info, PickledBytesTypeInfo):
        return [pa.array(_each(values, pickle.dumps), pa.binary())]
    if info.single:
        convert = from_user(info.logical)
        found = values if convert is None else _each(values, _or_none(convert))
        return [_array(found, info.logical, "")]
    rows = _each(values, _row_of(info))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(info.row.fields)
    return [_array(column, field.type, field.name) for column, field in zip(columns, info.row.fields, strict=True)]


def as_seen(info: TypeInformation) -> _Convert | None:
    """The conversion of a function's result to the value that the next function gets, where a column would change it: a
    tuple becomes a Row. None if there is none."""
    if isinstance(info, PickledBytesTypeInfo):
        return None
    forth, back = from_user(info.logical), to_user(info.logical)
    if forth is None or back is None:
        return None
    plain = not info.single and all(from_user(field.type) is None for field in info.row.fields)
    names = info.row.names

    def convert(value: Any) -> Any:
        if value is None or (plain and type(value) is Row and value._fields == names):
            return value
        return back(forth(value))

    return convert


def listed(column: pa.Array) -> list[Any]:
    """The values of a column, quickly."""
    kind = column.type
    if not column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return python_values(column)


@cache
def to_user(logical: DataType) -> _Convert | None:
    """From a value of a column, which is not None, to that of a function; None if they are the same."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [_through(to_user(field.type)) for field in fields]

            def row(value: Any) -> Row:
                values = [value[name] for name in names] if isinstance(value, dict) else value
                return Row.named(names, [convert(each) for convert, each in zip(converts, values, strict=True)])

            return row
        case ArrayType(element=element):
            of = to_user(element)
            return None if of is None else lambda value: [None if each is None else of(each) for each in value]
        case MapType(key=key, value=item):
            key_of, value_of = _through(to_user(key)), _through(to_user(item))
            return lambda value: {
                key_of(k): value_of(v) for k, v in (value.items() if isinstance(value, dict) else value)
            }
    return None


@cache
def from_user(logical: DataType) -> _Convert | None:
    """From a function's result, which is not None, to the value of a column; None if they are the same. Raises
    RecordError for a row that does not fit."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [_through(from_user(field.type)) for field in fields]
            plain = all(from_user(field.type) is None for field in fields)

            def row(value: Any) -> tuple[Any, ...]:
                if isinstance(value, dict):
                    value = [value.get(name) for name in names]
                elif not isinstance(value, Row | tuple | list):
                    reason = f"expected a row of {len(fields)} columns, but the function returned {_kind(value)}"
                    raise RecordError(reason, hint="return a Row or a tuple, or give another output_type")
                if len(value) != len(fields):
                    reason = f"the function returned {len(value)} values for {len(fields)} columns"
                    raise RecordError(reason, hint=f"the output type is {logical}")
                if plain:
                    return tuple(value)
                return tuple(convert(each) for convert, each in zip(converts, value, strict=True))

            return row
        case ArrayType(element=element):
            of = from_user(element)
            return None if of is None else lambda value: [None if each is None else of(each) for each in value]
        case MapType(key=key, value=item):
            key_of, value_of = _through(from_user(key)), _through(from_user(item))
            return lambda value: [(key_of(k), value_of(v)) for k, v in dict(value).items()]
    return None


def _row_of(info: TypeInformation) -> _Convert:
    convert = from_user(info.logical)
    assert convert is not None  # noqa: S101 - rows are converted

    def row(value: Any) -> Any:
        if value is None:
            raise RecordError("the function returned None for a row", hint="return a Row, or use flat_map to drop it")
        return convert(value)

    return row


def _through(convert: _Convert | None) -> _Convert:
    return (lambda value: value) if convert is None else _or_none(convert)


def _or_none(convert: _Convert) -> _Convert:
    return lambda value: None if value is None else convert(value)


def _each(values: Sequence[Any], convert: _Convert) -> list[Any]:
    """The values, converted. A RecordError without a place gets the number of its row."""
    out: list[Any] = []
    try:
        out.extend(map(convert, values))
    except RecordError as error:
        raise numbered(error, len(out)) from error
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
        raise RecordError(f"the function returned a value that cannot be written: {error}", "", -1, len(out)) from error
    return out


def numbered(error: RecordError, row: int) -> RecordError:
    """``error`` with the number of its row, unless it has a place already."""
    if error.topic or error.offset >= 0:
        return error
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def _array(values: Sequence[Any], logical: DataType, field: str) -> pa.Array:
    kind = arrow_type(logical)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        cause: Exception = error
    for row, value in enumerate(values):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            reason = f"the function returned {_shown(value)}, which is not a value of {logical}: {error}"
            hint = "give another output_type, or convert the value"
            raise RecordError(reason, "", -1, row, "", field, hint) from error
    raise RecordError(f"the function's results are not values of {logical}: {cause}", "", -1, 0, "", field) from cause


def _kind(value: Any) -> str:
    return type(value).__name__


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def rows_of(info: TypeInformation, values: Iterable[Any]) -> list[Any]:
    """Values of a stream as the rows of its table. Raises RecordError for one that does not fit."""
    if isinstance(info, PickledBytesTypeInfo):
        return [(pickle.dumps(each),) for each in values]
    if info.single:
        convert = _through(from_user(info.logical))
        return [(convert(each),) for each in values]
    convert = _row_of(info)
    return [each if isinstance(each, Row) else convert(each) for each in values]


def read_rows(info: TypeInformation, rows: Iterable[Row]) -> list[Any]:
    """The values of a stream from the rows of its table."""
    if isinstance(info, PickledBytesTypeInfo):
        return [None if row[0] is None else pickle.loads(row[0]) for row in rows]  # noqa: S301 - our own
    if info.single:
        convert = _through(to_user(info.logical))
        return [convert(row[0]) for row in rows]
    converts = [_through(to_user(field.type)) for field in info.row.fields]
    names = info.row.names
    return [
        Row.named(names, [convert(each) for convert, each in zip(converts, row, strict=True)], row.get_row_kind())
        for row in rows
    ]
