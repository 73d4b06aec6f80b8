"""Values between columns and user-defined functions: rows are :class:`penstock.common.Row`, maps dictionaries, arrays
lists. Functions may return rows as rows, tuples, lists or dictionaries."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.common.types import Row
from penstock.errors import RecordError
from penstock.types import ArrayType, DataType, MapType, RowType, arrow_type
from penstock.types.arrow import python_values

Convert: TypeAlias = Callable[[Any], Any]
_PACKAGE = Path(__file__).parents[1]


def listed(column: pa.Array) -> list[Any]:
    """The values of a column, quickly."""
    kind = column.type
    if not column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return python_values(column)


@cache
def to_user(logical: DataType) -> Convert | None:
    """From a value of a column, which is not None, to that of a function; None if they are the same."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [through(to_user(field.type)) for field in fields]

            def row(value: Any) -> Row:
                values = [value[name] for name in names] if isinstance(value, dict) else value
                return Row.named(names, [convert(each) for convert, each in zip(converts, values, strict=True)])

            return row
        case ArrayType(element=element):
            of = to_user(element)
            return None if of is None else lambda value: [None if each is None else of(each) for each in value]
        case MapType(key=key, value=item):
            key_of, value_of = through(to_user(key)), through(to_user(item))
            return lambda value: {
                key_of(k): value_of(v) for k, v in (value.items() if isinstance(value, dict) else value)
            }
    return None


@cache
def from_user(logical: DataType) -> Convert | None:
    """From a function's result, which is not None, to the value of a column; None if they are the same. Raises
    RecordError for a row that does not fit."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [through(from_user(field.type)) for field in fields]
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
            key_of, value_of = through(from_user(key)), through(from_user(item))
            return lambda value: [(key_of(k), value_of(v)) for k, v in dict(value).items()]
    return None


def numbered(error: RecordError, row: int) -> RecordError:
    """``error`` with the number of its row, unless it has a place already."""
    if error.topic or error.offset >= 0:
        return error
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def to_column(values: Sequence[Any], logical: DataType, field: str) -> pa.Array:
    """A column of a function's results, each of them None or a value as :func:`from_user` makes it. Raises RecordError
    for one that does not fit, with the number of its row in place of its offset."""
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


def through(convert: Convert | None) -> Convert:
    """A conversion that leaves None; without one, values stay."""
    return (lambda value: value) if convert is None else or_none(convert)


def or_none(convert: Convert) -> Convert:
    """A conversion that leaves None."""
    return lambda value: None if value is None else convert(value)


def describe_raised(error: Exception) -> str:
    """What a user's function raised, and where in the user's code."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not Path(each.filename).is_relative_to(_PACKAGE)
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = str(error)
    return f"the function raised {type(error).__name__}{place}" + (f": {text}" if text else "")
