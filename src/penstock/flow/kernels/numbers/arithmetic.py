"""Arithmetic. A result that its type cannot hold is an error in a strict session; else integers wrap, and decimals are
NULL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.exact.numbers import format_double, format_float, to_decimal
from penstock.flow.kernels.decimals import WIDEST, fit_decimals, from_integers
from penstock.flow.kernels.makers import Maker
from penstock.flow.kernels.moments.datetimes import shift
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
from penstock.plan.expressions import Call, Literal
from penstock.plan.flink_sql import flink_sql
from penstock.types import DecimalType, IntervalType, arrow_type
from penstock.types.casts import is_integer
from penstock.types.logical import root

_WIDE = Context(prec=1000)
#: More digits than any number has before its point.
_MOST_DIGITS = 400
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def arithmetic(call: Call, session: Session) -> Kernel | None:
    """``+ - *`` of numbers, and a timestamp plus or minus an interval."""
    left, right = (each.type for each in call.args)
    if isinstance(call.type, IntervalType):
        return Strict(pa.int64(), partial(_compute_integers, call, pa.int64(), True))
    arrow = arrow_type(call.type)
    if isinstance(right, IntervalType):
        return shift(call, session)
    if root(call.type) in ("FLOAT", "DOUBLE"):
        return Strict(arrow, _PLAIN[call.function]) if left == right or root(left) == root(right) else None
    if is_integer(call.type):
        return Strict(arrow, partial(_compute_integers, call, arrow, session.strict))
    if isinstance(left, DecimalType) and isinstance(right, DecimalType) and isinstance(call.type, DecimalType):
        return _make_decimal_kernel(call, left, right, call.type, session)
    return None


def _make_decimal_kernel(
    call: Call, a: DecimalType, b: DecimalType, target: DecimalType, session: Session
) -> Kernel | None:
    """Exact results, rounded where their type is too small."""
    sign = call.function
    if sign == "*":
        precision, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    arrow = arrow_type(target)
    if (precision, scale) == (target.precision, target.scale):
        return Strict(arrow, _PLAIN[sign])
    if precision > WIDEST:
        return row_by_row(partial(_multiply, target, session.strict))(call, session)
    strict = session.strict
    return Strict(
        arrow, lambda left, right: fit_decimals(_PLAIN[sign](_widen_fully(left), _widen_fully(right)), target, strict)
    )


def _multiply(target: DecimalType, strict: bool, left: Decimal, right: Decimal) -> Decimal | None:
    found = to_decimal(_WIDE.multiply(left, right), target)
    if found is None and strict:
        raise ValueFailure(f"[NUMERIC_VALUE_OUT_OF_RANGE] {left} * {right} is beyond the range of {target.text()}")
    return found


def _widen_fully(values: Values) -> Values:
    return pc.cast(values, pa.decimal256(values.type.precision, values.type.scale))


def _compute_integers(call: Call, arrow: pa.DataType, strict: bool, left: Values, right: Values) -> pa.Array | Vector:
    if not strict:
        return _PLAIN[call.function](left, right)
    try:
        return _CHECKED[call.function](left, right)
    except pa.ArrowInvalid:
        pass
    x, y = numbers(left), numbers(right)
    failed = _find_overflows(call.function, x, y, arrow.bit_width)
    return Vector(_PLAIN[call.function](left, right), (Failure(failed, overflow_reason(call)),))


def overflow_reason(call: Call) -> Callable[[int], str]:
    """The reason of rows whose result the type cannot hold."""
    return lambda _: f"[ARITHMETIC_OVERFLOW] {flink_sql(call)} exceeds the range of {call.type.text()}"


def _find_overflows(sign: str, x: Any, y: Any, bits: int) -> NDArray[np.bool_]:
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


def negation(call: Call, session: Session) -> Kernel | None:
    """``-x``."""
    arrow = arrow_type(call.type)
    if isinstance(call.type, IntervalType):
        return Strict(arrow, partial(_negate, call))
    if is_integer(call.type):
        return Strict(arrow, partial(_negate, call) if session.strict else pc.negate)
    return Strict(arrow, pc.negate)


def _negate(call: Call, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.negate_checked(values)
    except pa.ArrowInvalid:
        found = numbers(values)
        failed = (found == np.iinfo(found.dtype).min) & valid_rows(values)
        return Vector(pc.negate(values), (Failure(failed, overflow_reason(call)),))


# --- functions -----------------------------------------------------------------------------------------------


def magnitude(call: Call, session: Session) -> Kernel | None:
    """``ABS``."""
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_compute_magnitude, call) if session.strict else pc.abs)
    return Strict(arrow, pc.abs)


def _compute_magnitude(call: Call, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid:
        found = numbers(values)
        return Vector(pc.abs(values), (Failure(found == np.iinfo(found.dtype).min, overflow_reason(call)),))


def ceiling(call: Call, session: Session) -> Kernel | None:
    """``CEIL``."""
    return _make_whole_number_kernel(call, session, pc.ceil)


def floor(call: Call, session: Session) -> Kernel | None:
    """``FLOOR``."""
    return _make_whole_number_kernel(call, session, pc.floor)


def _make_whole_number_kernel(call: Call, session: Session, convert: Callable[[Any], Any]) -> Kernel | None:
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, lambda values: values)
    if isinstance(call.type, DecimalType):
        target, strict = call.type, session.strict
        return Strict(arrow, lambda values: fit_decimals(convert(_widen(values)), target, strict))
    return Strict(arrow, convert)


def _widen(values: pa.Array) -> pa.Array:
    """Decimals with room for one digit more."""
    return pc.cast(values, pa.decimal256(values.type.precision + 1, values.type.scale))


def round_number(call: Call, session: Session) -> Kernel | None:
    """``ROUND``: floating-point numbers by the digits of their text."""
    digits = call.args[1].value if len(call.args) == 2 and isinstance(call.args[1], Literal) else 0
    arrow = arrow_type(call.type)
    if len(call.args) == 2 and not isinstance(call.args[1], Literal):
        return _make_rounding(call, session)
    if not isinstance(digits, int):
        return None
    if is_integer(call.type):
        return Strict(arrow, lambda values, *_: values) if digits >= 0 else _make_rounding(call, session)
    if isinstance(call.type, DecimalType):
        target, strict = call.type, session.strict
        if digits < -38:
            return _make_rounding(call, session)
        return Strict(arrow, lambda values, *_: fit_decimals(_round_values(values, digits), target, strict))
    if abs(digits) > 400:
        return _make_rounding(call, session)
    return Strict(arrow, lambda values, *_: _round_reals(digits, values))


def _round_reals(digits: int, values: pa.Array) -> pa.Array:
    from penstock.flow.kernels.numbers import reals

    return reals.round_reals(digits, values)


def _round_values(values: pa.Array, digits: int) -> pa.Array:
    if digits >= values.type.scale:
        return values
    whole = max(values.type.precision - values.type.scale, -digits) + 1
    wide = pc.cast(values, pa.decimal256(whole + values.type.scale, values.type.scale))
    return pc.round(wide, ndigits=digits, round_mode="half_towards_infinity")


def sign(call: Call, session: Session) -> Kernel | None:
    """``SIGN``."""
    arrow = arrow_type(call.type)
    if isinstance(call.type, DecimalType):
        target = call.type
        return Strict(arrow, lambda values: from_integers(pc.sign(values), target, session.strict))
    if is_integer(call.type):
        return Strict(arrow, lambda values: pc.cast(pc.sign(values), arrow))
    return Strict(arrow, partial(_compute_sign, arrow))


def _compute_sign(arrow: pa.DataType, values: pa.Array) -> pa.Array:
    given = numbers(values)
    found = np.where((given == 0) | np.isnan(given), given, np.copysign(given.dtype.type(1), given))
    return column(found, valid_rows(values) if values.null_count else None, arrow)


def make_real_kernel(function: Callable[..., Any]) -> Maker:
    """Makes kernels of a ``function`` of DOUBLE, such as those of ``java.lang.Math``."""
    return lambda call, session: Strict(pa.float64(), partial(_compute_reals, function))


def truncate(call: Call, session: Session) -> Kernel:
    """``TRUNCATE``: towards zero."""
    return _make_rounding_by_row(call, session, ROUND_DOWN)


def _make_rounding(call: Call, session: Session) -> Kernel:
    return _make_rounding_by_row(call, session, ROUND_HALF_UP)


def _make_rounding_by_row(call: Call, session: Session, mode: str) -> Kernel:
    """Rounds each number to as many digits as its row says."""
    single, target, strict = root(call.type) == "FLOAT", call.type, session.strict
    limits = np.iinfo(arrow_type(target).to_pandas_dtype()) if is_integer(target) else None

    def round_one(value: int | float | Decimal, digits: int = 0) -> int | float | Decimal | None:
        if isinstance(value, float):
            if not np.isfinite(value):
                raise ValueFailure(f"{call.function} takes a finite number, not {value}")
            text = format_float(value) if single else format_double(value)
            return float(_cut_digits(Decimal(text), digits, mode)) + 0.0
        found = _cut_digits(Decimal(value), digits, mode)
        wide = isinstance(target, DecimalType) and found and found.adjusted() >= target.precision - target.scale
        if strict and (wide or (limits is not None and not limits.min <= found <= limits.max)):
            raise ValueFailure(overflow_reason(call)(0))
        if limits is not None:
            return wrap_integer(int(found), limits.bits)
        return None if wide else found

    return row_by_row(round_one)(call, session)


def wrap_integer(value: int, bits: int) -> int:
    """The lowest bits of a whole number, whose highest bit is the sign."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def _cut_digits(value: Decimal, digits: int, mode: str) -> Decimal:
    if digits >= -int(value.as_tuple().exponent):
        return value
    found = value.quantize(Decimal(1).scaleb(-max(digits, -_MOST_DIGITS)), rounding=mode, context=_WIDE)
    return found if digits > 0 else found.quantize(Decimal(1), context=_WIDE)


def _compute_reals(function: Callable[..., Any], *values: Values) -> pa.Array:
    given = [numbers(each) for each in values]
    valid = find_known(*values)
    with np.errstate(all="ignore"):
        found = np.asarray(function(*given), np.float64)
    every = found if found.ndim else np.full(rows_of(*values), found)
    return column(np.ascontiguousarray(every), valid, pa.float64())


def pi(call: Call, session: Session) -> Kernel:
    """``PI`` and ``E``."""
    value = np.pi if call.function == "PI" else np.e
    return lambda args, rows: Vector(pa.scalar(value, pa.float64()))
