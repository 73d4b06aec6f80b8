"""What users' functions return, checked against the types that they declare, and converted where PyFlink converts."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import cache
from itertools import chain, islice
from typing import Any

import numpy as np

from penstock.types import ArrayType, DataType, DecimalType, Field, MapType, RowType
from penstock.types.logical import root

NOT_NULL_HINT = "return a value, or declare the type without NOT NULL"

_INTEGERS = (int, np.integer)
_NUMBERS = (float, Decimal, np.floating, *_INTEGERS)
_TIMES = (datetime.datetime, np.datetime64)
#: By type root, the classes of values, and the subclasses of these that are not values. Other types take any value.
_CLASSES: Mapping[str, tuple[tuple[type, ...], tuple[type, ...]]] = {
    "BOOLEAN": ((bool, np.bool_), ()),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), (_INTEGERS, (bool,))),
    **dict.fromkeys(("FLOAT", "DOUBLE"), (_NUMBERS, (bool,))),
    "DECIMAL": ((Decimal, *_INTEGERS), (bool,)),
    "STRING": ((str,), ()),
    "BYTES": ((bytes, bytearray), ()),
    "DATE": ((datetime.date, np.datetime64), ()),
    "TIME": ((datetime.time,), ()),
    "TIMESTAMP": (_TIMES, ()),
    "TIMESTAMP_LTZ": (_TIMES, ()),
    "ARRAY": ((Collection,), (str, bytes, bytearray, dict)),
}


@dataclass
class UnfitError(Exception):
    """``value``, the value ``row`` of a column or a part of it, is not a value of its type. ``hint`` says what to do,
    where that is known."""

    row: int
    value: Any
    type: DataType
    hint: str = ""


def fit(values: Sequence[Any], logical: DataType) -> Sequence[Any]:
    """The values as Arrow takes them for a column of a type: decimals are rounded to its digits, and numbers become
    floating ones, as in PyFlink. Raises UnfitError for the first value of another type, and for None if the type is NOT
    NULL."""
    kinds = set(map(type, values))
    nulls = type(None) in kinds
    kinds.discard(type(None))
    if nulls and not logical.nullable:
        row = next(number for number, each in enumerate(values) if each is None)
        raise UnfitError(row, None, logical, NOT_NULL_HINT)
    wrong = {each for each in kinds if not _takes(root(logical), each)}
    if wrong:
        row = next(number for number, each in enumerate(values) if type(each) in wrong)
        raise UnfitError(row, values[row], logical)
    match logical:
        case DecimalType():
            return _round_decimals(values, logical)
        case ArrayType(element=element):
            return _fit_parts(values, element)
        case MapType(key=key, value=item):  # a list of pairs
            return _fit_parts(values, RowType((Field("key", key), Field("value", item)), nullable=False))
        case RowType(fields=fields):
            return _fit_fields(values, [each.type for each in fields])
    if root(logical) in ("FLOAT", "DOUBLE") and not kinds <= {float}:
        return [None if each is None else float(each) for each in values]
    return values


@cache
def _takes(kind: str, given: type) -> bool:
    """Whether objects of a class may be values of a type with this root."""
    classes, others = _CLASSES.get(kind, ((object,), ()))
    return issubclass(given, classes) and not issubclass(given, others)


def _round_decimals(values: Sequence[Any], logical: DecimalType) -> Sequence[Any]:
    """Decimals rounded to the scale of their type. Raises UnfitError for one with too many digits before the point."""
    unit = Decimal(1).scaleb(-logical.scale)
    context = Context(prec=logical.precision, rounding=ROUND_HALF_EVEN)
    made: list[Any] = []
    for row, value in enumerate(values):
        try:
            made.append(None if value is None else Decimal(int(value) if isinstance(value, np.integer) else value))
            if value is not None:
                made[row] = made[row].quantize(unit, context=context)
        except InvalidOperation:
            raise UnfitError(
                row,
                value,
                logical,
                f"it has at most {logical.precision - logical.scale} digits before "
                "the point: declare more, or return less",
            ) from None
    return made


def _fit_parts(values: Sequence[Any], element: DataType) -> Sequence[Any]:
    """Lists whose elements fit. Raises UnfitError for an element that does not."""
    rows = [row for row, each in enumerate(values) if each is not None]
    flat = list(chain.from_iterable(values[row] for row in rows))
    try:
        made = fit(flat, element)
    except UnfitError as error:
        ends = np.cumsum([len(values[row]) for row in rows])
        error.row = rows[int(np.searchsorted(ends, error.row, "right"))]
        raise
    if made is flat:
        return values
    parts = iter(made)
    return [None if each is None else list(islice(parts, len(each))) for each in values]


def _fit_fields(values: Sequence[Any], types: Sequence[DataType]) -> Sequence[Any]:
    """Tuples whose fields fit. Raises UnfitError for a field that does not."""
    rows = [row for row, each in enumerate(values) if each is not None]
    columns = list(zip(*(values[row] for row in rows), strict=True)) if rows else []
    try:
        made = [fit(column, type_) for column, type_ in zip(columns, types, strict=False)]
    except UnfitError as error:
        error.row = rows[error.row]
        raise
    if all(one is other for one, other in zip(made, columns, strict=True)):
        return values
    fields = zip(*made, strict=True)
    return [None if each is None else next(fields) for each in values]
