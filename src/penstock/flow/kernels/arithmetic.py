"""Arithmetic: as in Spark's ANSI mode, a result that its type cannot hold is an error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Values, Vector, numbers, valid_rows
from penstock.plan.expressions import Call
from penstock.plan.flink_sql import flink_sql
from penstock.types import DecimalType, arrow_type
from penstock.types.casts import is_integer
from penstock.types.logical import root

#: The digits to which Spark rounds the opposite of a decimal.
_DIGITS = 34

_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def arithmetic(call: Call, zone: str) -> Kernel | None:
    """``+ - *`` of numbers."""
    left, right = (each.type for each in call.args)
    arrow = arrow_type(call.type)
    if root(call.type) in ("FLOAT", "DOUBLE"):
        return Strict(arrow, _PLAIN[call.function]) if left == right or root(left) == root(right) else None
    if is_integer(call.type):
        return Strict(arrow, partial(_whole, call, arrow))
    if isinstance(left, DecimalType) and isinstance(right, DecimalType) and isinstance(call.type, DecimalType):
        return Strict(arrow, _PLAIN[call.function]) if _exact(call.function, left, right) == call.type else None
    return None


def _exact(sign: str, a: DecimalType, b: DecimalType) -> DecimalType | None:
    """The type that holds all results, if there is one."""
    if sign == "*":
        precision, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    nullable = a.nullable or b.nullable
    return DecimalType(precision, scale, nullable=nullable) if precision <= 38 else None


def _whole(call: Call, arrow: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    try:
        return _CHECKED[call.function](left, right)
    except pa.ArrowInvalid:
        pass
    x, y = numbers(left), numbers(right)
    failed = _overflows(call.function, x, y, arrow.bit_width)
    return Vector(_PLAIN[call.function](left, right), (Failure(failed, overflow(call)),))


def overflow(call: Call) -> Callable[[int], str]:
    """The reason of rows whose result the type cannot hold."""
    return lambda _: f"[ARITHMETIC_OVERFLOW] {flink_sql(call)} exceeds the range of {call.type.text()}"


def _overflows(sign: str, x: Any, y: Any, bits: int) -> NDArray[np.bool_]:
    """Where the result has more than ``bits``. Rows with nulls may be among them."""
    if bits < 64:
        wide = _NUMPY[sign](np.asarray(x, np.int64), np.asarray(y, np.int64))
        return np.asarray((wide < -(1 << bits - 1)) | (wide >= 1 << bits - 1))
    wraps = np.asarray(_NUMPY[sign](x, y))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        if sign == "+":
            return np.asarray(((x ^ wraps) & (y ^ wraps)) < 0)
        if sign == "-":
            return np.asarray(((x ^ y) & (x ^ wraps)) < 0)
        least = np.iinfo(np.int64).min
        safe = np.where(x == 0, 1, x)
        return np.asarray((x != 0) & ((wraps // safe != y) | ((x == -1) & (y == least)) | ((y == -1) & (x == least))))


def negation(call: Call, zone: str) -> Kernel | None:
    """``-x``."""
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_negated, call))
    if isinstance(call.type, DecimalType) and call.type.precision > _DIGITS:
        return None
    return Strict(arrow, pc.negate)


def _negated(call: Call, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.negate_checked(values)
    except pa.ArrowInvalid:
        found = numbers(values)
        failed = (found == np.iinfo(found.dtype).min) & valid_rows(values)
        return Vector(pc.negate(values), (Failure(failed, overflow(call)),))
