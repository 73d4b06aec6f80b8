"""Values between columns and user-defined functions: rows are :class:`penstock.common.Row`, maps dictionaries, arrays
lists. Functions may return rows as rows, tuples, lists or dictionaries."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.common.results import NOT_NULL_HINT, UnfitError, fit
from penstock.common.types import Row
from penstock.errors import RecordError
from penstock.types import ArrayType, DataType, MapType, RowType, arrow_type
from penstock.types.arrow import python_values

Convert: TypeAlias = Callable[[Any], Any]
_PACKAGE = Path(__file__).parents[1]
#: The exceptions that count as errors of users' functions, including SystemExit, which would end the process.
CAUGHT = (Exception, SystemExit)
#: Means that the whole value is wrong.
_WHOLE = object()


def list_values(column: pa.Array) -> list[Any]:
    """The values of a column, quickly."""
    kind = column.type
    if not column.null_count and (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]
    return python_values(column)


@cache
def to_user(logical: DataType) -> Convert | None:
    """Converts a value of a column, which is not None, to the value that a function gets; None if they are the same."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [convert_or_keep(to_user(field.type)) for field in fields]

            def row(value: Any) -> Row:
                values = [value[name] for name in names] if isinstance(value, dict) else value
                return Row.named(names, [convert(each) for convert, each in zip(converts, values, strict=True)])

            return row
        case ArrayType(element=element):
            of = to_user(element)
            return None if of is None else lambda value: [None if each is None else of(each) for each in value]
        case MapType(key=key, value=item):
            key_of, value_of = convert_or_keep(to_user(key)), convert_or_keep(to_user(item))
            return lambda value: {
                key_of(k): value_of(v) for k, v in (value.items() if isinstance(value, dict) else value)
            }
    return None


@cache
def from_user(logical: DataType) -> Convert | None:
    """Converts a function's result, which is not None, to the value of a column; None if they are the same. Raises
    RecordError for a row that does not fit."""
    match logical:
        case RowType(fields=fields):
            names, converts = logical.names, [convert_or_keep(from_user(field.type)) for field in fields]
            plain = all(from_user(field.type) is None for field in fields)

            def row(value: Any) -> tuple[Any, ...]:
                if isinstance(value, dict):
                    value = [value.get(name) for name in names]
                elif not isinstance(value, Row | tuple | list):
                    reason = f"expected a row of {len(fields)} columns, but the function returned {_name_kind(value)}"
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
            if of is None:
                return None

            def array(value: Any) -> list[Any]:
                if isinstance(value, str | bytes | Mapping) or not isinstance(value, Collection):
                    raise _make_unfit_error(value, logical)
                return [None if each is None else of(each) for each in value]

            return array
        case MapType(key=key, value=item):
            key_of, value_of = convert_or_keep(from_user(key)), convert_or_keep(from_user(item))

            def pairs(value: Any) -> list[tuple[Any, Any]]:
                try:
                    return [(key_of(k), value_of(v)) for k, v in dict(value).items()]
                except (TypeError, ValueError):
                    raise _make_unfit_error(value, logical) from None

            return pairs
    return None


def add_row_number(error: RecordError, row: int) -> RecordError:
    """``error`` with the number of its row, unless it has a place already."""
    if error.topic or error.offset >= 0:
        return error
    return type(error)(error.reason, "", -1, row, error.format, error.field, error.hint)


def to_column(values: Sequence[Any], logical: DataType, field: str) -> pa.Array:
    """A column of a function's results, each of them None or a value as :func:`from_user` makes it. Raises RecordError
    for one that does not fit, with the number of its row in place of its offset."""
    kind = arrow_type(logical)
    try:
        found = fit(values, logical)
        return pa.array(found, kind)
    except UnfitError as error:
        whole = values[error.row]
        raise _make_unfit_error(whole, error.type, error.row, field, error.hint, part=error.value) from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        cause: Exception = error
    for row, value in enumerate(found):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise _make_unfit_error(value, logical, row, field, cause=f": {error}") from error
    raise RecordError(f"the function's results are not values of {logical}: {cause}", "", -1, 0, "", field) from cause


def missing_value_error(logical: DataType) -> RecordError:
    """The error for a function that returns None although its type is NOT NULL."""
    return _make_unfit_error(None, logical, hint=NOT_NULL_HINT)


def _make_unfit_error(
    value: Any,
    logical: DataType,
    row: int = -1,
    field: str = "",
    hint: str = "",
    *,
    part: Any = _WHOLE,
    cause: str = "",
) -> RecordError:
    """The error for a result that is not a value of its type, or has a ``part`` that is not."""
    shown = f"the function returned {_show_value(value)}"
    if part is not _WHOLE and part is not value:
        shown += f", with {_show_value(part)} in it"
    reason = f"{shown}, which is not a value of {logical}{cause}"
    return RecordError(reason, "", -1, row, "", field, hint or "convert the value, or declare another type")


def _name_kind(value: Any) -> str:
    return type(value).__name__


def _show_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def convert_or_keep(convert: Convert | None) -> Convert:
    """A conversion that leaves None as it is; without ``convert``, all values."""
    return (lambda value: value) if convert is None else skip_none(convert)


def skip_none(convert: Convert) -> Convert:
    """A conversion that leaves None as it is."""
    return lambda value: None if value is None else convert(value)


def describe_raised(error: BaseException) -> str:
    """What a user's function raised, and where in the user's code."""
    frames = [
        each for each in traceback.extract_tb(error.__traceback__) if not Path(each.filename).is_relative_to(_PACKAGE)
    ]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = str(error)
    return f"the function raised {type(error).__name__}{place}" + (f": {text}" if text else "")
