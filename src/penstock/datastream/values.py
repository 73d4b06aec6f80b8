"""Values as user-defined functions see them, and as columns.

Rows become :class:`penstock.common.Row`, maps dictionaries, arrays lists. Functions may return rows as rows, tuples,
lists or dictionaries.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.common import Row, TypeInformation
from penstock.common.conversions import (
    Convert,
    add_row_number,
    convert_or_keep,
    from_user,
    list_values,
    skip_none,
    to_column,
    to_user,
)
from penstock.common.typeinfo import PickledBytesTypeInfo
from penstock.errors import RecordError


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
        return [None if each is None else pickle.loads(each) for each in list_values(columns[0])]  # noqa: S301 - our own
    if info.single:
        convert = to_user(info.logical)
        found = list_values(columns[0])
        return found if convert is None else [None if each is None else convert(each) for each in found]
    names = info.row.names
    converts = [to_user(field.type) for field in info.row.fields]
    lists = [
        found if convert is None else [None if each is None else convert(each) for each in found]
        for found, convert in zip(map(list_values, columns), converts, strict=True)
    ]
    return [Row.named(names, values) for values in zip(*lists, strict=True)]


def write(info: TypeInformation, values: Sequence[Any]) -> list[pa.Array]:
    """The columns of a stream of this type from its values. Raises RecordError for a value that does not fit, with the
    number of its row in place of its offset."""
    if isinstance(info, PickledBytesTypeInfo):
        return [pa.array(_each(values, pickle.dumps), pa.binary())]
    if info.single:
        convert = from_user(info.logical)
        found = values if convert is None else _each(values, skip_none(convert))
        return [to_column(found, info.logical, "")]
    rows = _each(values, _row_of(info))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(info.row.fields)
    return [to_column(column, field.type, field.name) for column, field in zip(columns, info.row.fields, strict=True)]


def as_seen(info: TypeInformation) -> Convert | None:
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


def _row_of(info: TypeInformation) -> Convert:
    convert = from_user(info.logical)
    assert convert is not None  # noqa: S101 - rows are converted

    def row(value: Any) -> Any:
        if value is None:
            raise RecordError("the function returned None for a row", hint="return a Row, or use flat_map to drop it")
        return convert(value)

    return row


def _each(values: Sequence[Any], convert: Convert) -> list[Any]:
    """The values, converted. A RecordError without a place gets the number of its row."""
    out: list[Any] = []
    try:
        out.extend(map(convert, values))
    except RecordError as error:
        raise add_row_number(error, len(out)) from error
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
        raise RecordError(f"the function returned a value that cannot be written: {error}", "", -1, len(out)) from error
    return out


def rows_of(info: TypeInformation, values: Iterable[Any]) -> list[Any]:
    """Values of a stream as the rows of its table. Raises RecordError for one that does not fit."""
    if isinstance(info, PickledBytesTypeInfo):
        return [(pickle.dumps(each),) for each in values]
    if info.single:
        convert = convert_or_keep(from_user(info.logical))
        return [(convert(each),) for each in values]
    convert = _row_of(info)
    return [each if isinstance(each, Row) else convert(each) for each in values]


def read_rows(info: TypeInformation, rows: Iterable[Row]) -> list[Any]:
    """The values of a stream from the rows of its table."""
    if isinstance(info, PickledBytesTypeInfo):
        return [None if row[0] is None else pickle.loads(row[0]) for row in rows]  # noqa: S301 - our own
    if info.single:
        convert = convert_or_keep(to_user(info.logical))
        return [convert(row[0]) for row in rows]
    converts = [convert_or_keep(to_user(field.type)) for field in info.row.fields]
    names = info.row.names
    return [
        Row.named(names, [convert(each) for convert, each in zip(converts, row, strict=True)], row.get_row_kind())
        for row in rows
    ]
