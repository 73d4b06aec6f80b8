"""Division and remainders. Integers and decimals fail for a divisor that is zero, in every session; floating-point
numbers become infinite, or NaN."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.columns.buffers import decimal_pairs, fixed_column
from penstock.exact.numbers import to_decimal
from penstock.flow.kernels.decimals import dividend, quotient
from penstock.flow.kernels.numbers.arithmetic import overflow_reason
from penstock.flow.kernels.rowwise import ValueFailure, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import (
    Failure,
    Kernel,
    Strict,
    Values,
    Vector,
    column,
    find_known,
    numbers,
    rows_of,
    valid_rows,
)
from penstock.loops import type_roots
from penstock.plan.expressions import Call
from penstock.types import DecimalType, arrow_type
from penstock.types.casts import as_decimal, is_integer
from penstock.types.logical import root

_BY_ZERO = "[DIVIDE_BY_ZERO] division by zero"
_WIDE = Context(prec=100)
#: Decimals of at most this many digits are 64-bit numbers.
_NARROW = 18


def division(call: Call, session: Session) -> Kernel | None:
    """``/``: integers without a remainder, decimals rounded half up."""
    left, right = (each.type for each in call.args)
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_divide_integers, call, session.strict))
    if root(call.type) in ("FLOAT", "DOUBLE"):
        return Strict(arrow, pc.divide)
    if isinstance(left, DecimalType) and isinstance(right, DecimalType) and isinstance(call.type, DecimalType):
        wide = dividend(left, right, call.type)
        if wide is not None:
            return Strict(arrow, partial(_make_decimal_quotient, call.type, session.strict, wide))
        return row_by_row(partial(_divide_decimals, call.type, session.strict))(call, session)
    return None


def _find_zeros(values: Values, rows: int) -> NDArray[np.bool_]:
    """Where the divisor is zero."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, values.as_py() == 0)
    found: NDArray[np.bool_] = pc.equal(values, 0).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _make_zero_failure(zero: NDArray[np.bool_]) -> Failure:
    return Failure(zero, lambda _: _BY_ZERO)


def _divide_integers(call: Call, strict: bool, left: Values, right: Values) -> pa.Array | Vector:
    """Rounds towards zero. Only the least number divided by -1 exceeds the range; it stays the same."""
    rows, arrow = rows_of(left, right), arrow_type(call.type)
    zero = _find_zeros(right, rows)
    x, y = np.asarray(numbers(left), np.int64), np.where(zero, 1, numbers(right)).astype(np.int64)
    valid = find_known(left, right)
    if valid is not None:
        y = np.where(valid, y, 1)  # values under nulls are undefined
    beyond = (x == np.iinfo(arrow.to_pandas_dtype()).min) & (y == -1)
    y = np.where(beyond, 1, y)
    found = ((x - np.fmod(x, y)) // y).astype(arrow.to_pandas_dtype())
    failures = [_make_zero_failure(zero), Failure(np.broadcast_to(beyond & strict, rows), overflow_reason(call))]
    made = column(np.ascontiguousarray(np.broadcast_to(found, rows)), valid, arrow)
    return Vector(made, tuple(each for each in failures if each.rows.any()))


def _make_decimal_quotient(
    target: DecimalType, strict: bool, wide: pa.DataType, left: Values, right: Values
) -> pa.Array | Vector:
    zero = _find_zeros(right, rows_of(left, right))
    if not zero.any():
        return quotient(wide, target, strict, left, right)
    divisors = pc.if_else(pa.array(zero), pa.scalar(None, right.type), right)
    found = quotient(wide, target, strict, left, divisors)
    if isinstance(found, Vector):
        return Vector(found.values, (_make_zero_failure(zero), *found.failures))
    return Vector(found, (_make_zero_failure(zero),))


def _divide_decimals(target: DecimalType, strict: bool, dividend: Decimal, divisor: Decimal) -> Decimal | None:
    if not divisor:
        raise ValueFailure(_BY_ZERO)
    found = to_decimal(_WIDE.divide(dividend, divisor), target)
    if found is None and strict:
        raise ValueFailure(f"[NUMERIC_VALUE_OUT_OF_RANGE] {dividend} / {divisor} is beyond {target.text()}")
    return found


_NO_REMAINDER = "[REMAINDER_BY_ZERO] remainder of a division by zero"


def remainder(call: Call, session: Session) -> Kernel | None:
    """``MOD``: with the sign of the dividend."""
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_remainder, arrow))
    if not isinstance(call.type, DecimalType):
        return None
    given = [as_decimal(each.type) for each in call.args]
    scale = max(each.scale for each in given)
    if all(each.precision - each.scale + scale <= _NARROW for each in given):
        return Strict(arrow, partial(_decimal_remainder, scale, arrow))
    return row_by_row(_wide_remainder)(call, session)


def _remainder(arrow: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    x, y = (np.asarray(numbers(each), np.int64) for each in (left, right))
    return _modulo(x, y, arrow, left, right)


def _modulo(x: Any, y: Any, arrow: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    rows, valid = rows_of(left, right), find_known(left, right)
    zero = _find_zeros(right, rows)
    y = np.where(zero, 1, y)
    y = np.where(y == -1, 1, y)  # the remainder is 0 either way
    if valid is not None:
        y = np.where(valid, y, 1)  # values under nulls are undefined
    made = column(np.fmod(x, y).astype(arrow.to_pandas_dtype()), valid, arrow)
    return Vector(made, (Failure(zero, lambda _: _NO_REMAINDER),)) if zero.any() else made


def _decimal_remainder(scale: int, arrow: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    """By the digits of both in one scale, as whole numbers."""
    found = _modulo(_count_units(left, scale), _count_units(right, scale), pa.int64(), left, right)
    made = found if isinstance(found, pa.Array) else found.values
    valid = valid_rows(made).view(np.uint8)
    decimals = fixed_column(arrow, type_roots.DECIMAL, numbers(made), valid)
    return decimals if isinstance(found, pa.Array) else Vector(decimals, found.failures)


def _count_units(values: Values, scale: int) -> Any:
    """Numbers times a power of ten, undefined under nulls; one number for a constant."""
    if isinstance(values, pa.Scalar):
        return np.int64(Decimal(values.as_py()).scaleb(scale))
    if pa.types.is_decimal(values.type):
        return decimal_pairs(pc.cast(values, pa.decimal128(_NARROW, scale)))[:, 0]
    return numbers(values).astype(np.int64) * 10**scale


def _wide_remainder(dividend: Decimal | int, divisor: Decimal | int) -> Decimal:
    if not divisor:
        raise ValueFailure(_NO_REMAINDER)
    return _WIDE.remainder(Decimal(dividend), Decimal(divisor))
