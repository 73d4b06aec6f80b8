"""Which values fit a column, so that its type does not have to change. The compiled loop of surveys must agree.

A value fits if the column holds it without loss, and the format reads it without a conversion: the text "12" does not
fit an INT. Numbers fit a DOUBLE up to 64 bits, because BIGINT is widened to DOUBLE. Fractions fit a FLOAT in its range,
whatever digits they have, and whole numbers up to 2 to the power of 24.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.exact.numbers import INTEGER_RANGES, parse_decimal
from penstock.formats.json import survey_kernel as kernel
from penstock.formats.json.parser import Document, Number, Object
from penstock.loops import type_roots
from penstock.loops.type_roots import describe_root, nested_root, time_digits
from penstock.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    MapType,
    NullType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)
from penstock.types.logical import MAX_LENGTH


def describe_limits(fields: Sequence[Field]) -> npt.NDArray[np.int64]:
    """The types of fields, as :func:`penstock.formats.json.survey_kernel.survey_objects` takes them."""
    return np.array([_describe(each.type) for each in fields], np.int64).reshape(len(fields), 3)


def _describe(data_type: DataType) -> tuple[int, int, int]:
    match data_type:
        case NullType():
            return kernel.UNTYPED, 0, 0
        case StringType(length=length):
            return type_roots.STRING, length, 0
        case TimestampType(precision=precision):
            return describe_root(data_type)[0], precision, 0
        case RowType() | ArrayType() | MapType():
            return nested_root(data_type), 0, 0
    return describe_root(data_type)


def fits(value: Document, kind: int, fraction: int, data_type: DataType) -> bool:
    """Whether a value of a ``kind`` (:mod:`penstock.formats.json.survey_kernel`), with so many digits of the
    ``fraction`` of a second, fits a column."""
    if isinstance(data_type, NullType):
        return False
    if kind == kernel.NULL:
        return True
    match data_type:
        case StringType(length=length):
            return length == MAX_LENGTH or _count_characters(value) <= length
        case BinaryType():
            return isinstance(value, str)
        case DecimalType(precision=precision, scale=scale):
            if not isinstance(value, Number):
                return False
            before, behind = split_decimal(value)
            return before <= precision - scale and behind <= scale
        case TimeType():
            return kind == kernel.TIME and fraction <= time_digits(data_type)
        case TimestampType(precision=precision, local_zone=local):
            forms = (kernel.TIMESTAMP, kernel.TIMESTAMP_LTZ) if local else (kernel.TIMESTAMP,)
            return kind == kernel.DATE or (kind in forms and fraction <= precision)
        case ArrayType():
            return isinstance(value, list)
        case RowType() | MapType():
            return isinstance(value, Object)
        case PrimitiveType(name="BOOLEAN"):
            return kind == kernel.BOOLEAN
        case PrimitiveType(name="DATE"):
            return kind == kernel.DATE
        case PrimitiveType(name="FLOAT"):
            return isinstance(value, Number) and _fits_float(float(value.text), kind)
        case PrimitiveType(name="DOUBLE"):
            return kind in (kernel.INTEGER, kernel.FRACTION)
        case PrimitiveType(name=name):
            least, most = INTEGER_RANGES[name]
            return kind == kernel.INTEGER and isinstance(value, Number) and least <= int(value.text) <= most
    return False


def _fits_float(value: float, kind: int) -> bool:
    if kind == kernel.INTEGER:
        return abs(value) <= kernel.FLOAT_WHOLE
    return kind == kernel.FRACTION and (not value or kernel.FLOAT_LEAST <= abs(value) <= kernel.FLOAT_MOST)


def split_decimal(number: Number) -> tuple[int, int]:
    """The digits of a number before and behind its point, without zeros at both ends."""
    found = parse_decimal(number.text)
    digits, exponent = found.as_tuple().digits, int(found.as_tuple().exponent)
    while exponent < 0 and digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if not any(digits):
        return 0, 0
    return max(0, len(digits) + exponent), max(0, -exponent)


def _count_characters(value: Document) -> int:
    """The number of characters of a value as a text; that of an object or array is not known."""
    match value:
        case bool():
            return len("true" if value else "false")
        case Number():
            return len(value.text)
        case str():
            return len(value)
    return MAX_LENGTH
