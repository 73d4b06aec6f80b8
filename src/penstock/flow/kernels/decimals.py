"""Decimals: rounded half up; where the type has too few digits NULL, or an error in a strict session."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import decimal_pairs
from penstock.flow.kernels.vectors import Failure, Vector, column, mark_overflows, valid_rows
from penstock.types import DataType, DecimalType

MOST, WIDEST = 38, 76
_AWAY = "half_towards_infinity"
_CUT = "towards_zero"


def out_of_range_reason(values: pa.Array, target: DataType) -> Callable[[int], str]:
    """The reason of rows whose value has too many digits."""
    return lambda row: f"[NUMERIC_VALUE_OUT_OF_RANGE] {values[row].as_py()} is beyond the range of {target.text()}"


def fit_decimals(values: pa.Array, target: DecimalType, strict: bool, mode: str = _AWAY) -> pa.Array | Vector:
    """Decimals rounded to the scale of ``target``."""
    arrow = pa.decimal128(target.precision, target.scale)
    given = values.type
    whole, wanted = given.precision - given.scale, target.precision - target.scale
    rounds = given.scale > target.scale
    if wanted >= whole + rounds or (wanted >= whole and mode == _CUT):
        return _rescale(_round_to_scale(values, target.scale, mode) if rounds else values, arrow)
    wide = _round_to_scale(values, target.scale, mode) if rounds else values
    limit = pa.scalar(Decimal(10**wanted), pa.decimal256(wanted + 1, 0))
    failed = pc.greater_equal(pc.abs(wide), limit).fill_null(False).to_numpy(zero_copy_only=False)
    if not failed.any():
        return _rescale(wide, arrow)
    kept = pc.if_else(pa.array(failed), pa.scalar(None, wide.type), wide)
    return mark_overflows(strict, _rescale(kept, arrow), failed, out_of_range_reason(values, target))


def _round_to_scale(values: pa.Array, scale: int, mode: str) -> pa.Array:
    """Values with zeros after ``scale``, with room for one digit more."""
    wide = pc.cast(values, pa.decimal256(values.type.precision + 1, values.type.scale))
    return pc.round(wide, ndigits=scale, round_mode=mode)


def _rescale(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    return pc.cast(values, arrow)


def from_integers(values: pa.Array, target: DecimalType, strict: bool) -> pa.Array | Vector:
    """Whole numbers as decimals."""
    return fit_decimals(pc.cast(values, pa.decimal128(19, 0)), target, strict)


def to_integers(values: pa.Array, arrow: pa.DataType, strict: bool, reason: Callable[[int], str]) -> pa.Array | Vector:
    """Decimals without their fraction. Those that are too large keep their lowest bits."""
    given, limits = values.type, np.iinfo(arrow.to_pandas_dtype())
    plain = (
        pc.cast(pc.trunc(values), pa.decimal128(max(given.precision - given.scale, 1), 0)) if given.scale else values
    )
    low, high = decimal_pairs(plain).T
    narrow = low.astype(limits.dtype)
    made = column(narrow, valid_rows(values) if values.null_count else None, arrow)
    failed = (narrow.astype(np.int64) != low) | (high != low >> 63)
    if not strict or not failed.any():
        return made
    return Vector(made, (Failure(failed, reason),))


def to_reals(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """The nearest floating-point numbers."""
    if values.type.precision <= 15 and arrow == pa.float64():  # both numbers and their quotient are exact or nearest
        found = decimal_pairs(values)[:, 0] / 10.0**values.type.scale
        return column(found, valid_rows(values) if values.null_count else None, arrow)
    return pc.cast(pc.cast(values, pa.string()), arrow)


def to_text(values: pa.Array) -> pa.Array:
    """All digits of the scale, and no exponent."""
    found = pc.cast(values, pa.string())
    short = pc.match_substring(found, "E")
    if values.type.scale <= 6 or not pc.any(short, min_count=0).as_py():
        return found
    others = [None if each is None else f"{each:f}" for each in pc.if_else(short, values, None).to_pylist()]
    return pc.coalesce(pa.array(others, pa.string()), found)


def dividend(a: DecimalType, b: DecimalType, target: DecimalType) -> pa.DataType | None:
    """The type of a dividend for which Arrow's quotient, which is cut off, has a digit more than ``target``. None if
    that has too many digits."""
    scale = max(a.scale, target.scale - b.precision + b.scale)
    whole = a.precision - a.scale
    digits = whole + b.scale + max(4, scale + b.precision - b.scale + 1)
    if max(digits, whole + scale) > WIDEST:
        return None
    return pa.decimal256(whole + scale, scale)


def quotient(wide: pa.DataType, target: DecimalType, strict: bool, left: Any, right: Any) -> pa.Array | Vector:
    """Decimals, the dividends in the type :func:`dividend`, divided by decimals that are not zero."""
    divisor = pa.decimal256(right.type.precision, right.type.scale)
    return fit_decimals(pc.divide(pc.cast(left, wide), pc.cast(right, divisor)), target, strict)
