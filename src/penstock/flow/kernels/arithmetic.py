"""Arithmetic: as in Spark's ANSI mode, a result that its type cannot hold is an error."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_DOWN, Context, Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.flow.kernels.decimals import EXACT, MOST, WIDEST, dividend, fitted, quotient
from penstock.flow.kernels.moments import shifted
from penstock.flow.kernels.rowwise import ValueFailure, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Mask, Strict, Values, Vector, column, numbers, valid_rows
from penstock.formats.exact.numbers import double_text, float_text
from penstock.plan.expressions import Call, Literal
from penstock.plan.flink_sql import flink_sql
from penstock.types import DecimalType, IntervalType, arrow_type
from penstock.types.casts import is_integer
from penstock.types.logical import root

_WIDE = Context(prec=400)
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_NUMPY: dict[str, Callable[[Any, Any], Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def arithmetic(call: Call, session: Session) -> Kernel | None:
    """``+ - *`` of numbers, and a timestamp plus or minus an interval."""
    left, right = (each.type for each in call.args)
    arrow = arrow_type(call.type)
    if isinstance(right, IntervalType):
        return shifted(call, session)
    if root(call.type) in ("FLOAT", "DOUBLE"):
        return Strict(arrow, _PLAIN[call.function]) if left == right or root(left) == root(right) else None
    if is_integer(call.type):
        return Strict(arrow, partial(_whole, call, arrow))
    if isinstance(left, DecimalType) and isinstance(right, DecimalType) and isinstance(call.type, DecimalType):
        return _decimal_arithmetic(call.function, left, right, call.type, session)
    return None


def _decimal_arithmetic(
    sign: str, a: DecimalType, b: DecimalType, target: DecimalType, session: Session
) -> Kernel | None:
    """Exact results, rounded where their type is too small. Spark rounds products of more than 38 digits before."""
    if sign == "*":
        precision, scale = a.precision + b.precision + 1, a.scale + b.scale
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    arrow = arrow_type(target)
    if (precision, scale) == (target.precision, target.scale):
        return Strict(arrow, _PLAIN[sign])
    if precision > WIDEST or (sign == "*" and a.precision + b.precision > MOST and not session.alone):
        return None
    return Strict(arrow, lambda left, right: fitted(_PLAIN[sign](_widest(left), _widest(right)), target))


def _widest(values: Values) -> Values:
    return pc.cast(values, pa.decimal256(values.type.precision, values.type.scale))


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


def negation(call: Call, session: Session) -> Kernel | None:
    """``-x``."""
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_negated, call))
    if isinstance(call.type, DecimalType) and call.type.precision > EXACT and not session.alone:
        return None
    return Strict(arrow, pc.negate)


def _negated(call: Call, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.negate_checked(values)
    except pa.ArrowInvalid:
        found = numbers(values)
        failed = (found == np.iinfo(found.dtype).min) & valid_rows(values)
        return Vector(pc.negate(values), (Failure(failed, overflow(call)),))


# --- division ------------------------------------------------------------------------------------------------


def division(call: Call, session: Session) -> Kernel | None:
    """``/``: integers without a remainder, decimals rounded half up."""
    left, right = (each.type for each in call.args)
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_divided, call, _whole_quotient))
    if root(call.type) == "DOUBLE":
        return Strict(arrow, partial(_divided, call, _real_quotient))
    if isinstance(left, DecimalType) and isinstance(right, DecimalType) and isinstance(call.type, DecimalType):
        wide = dividend(left, right, call.type, alone=session.alone)
        return None if wide is None else Strict(arrow, partial(_decimal_quotient, call.type, wide))
    return None


def _zero(values: Values, rows: int) -> NDArray[np.bool_]:
    """Where the divisor is zero."""
    if isinstance(values, pa.Scalar):
        return np.full(rows, values.as_py() == 0)
    found: NDArray[np.bool_] = pc.equal(values, 0).fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _by_zero(zero: NDArray[np.bool_]) -> Failure:
    return Failure(zero, lambda _: "[DIVIDE_BY_ZERO] division by zero")


def _rows(*values: Values) -> int:
    return max(len(each) for each in values if isinstance(each, pa.Array))


def _known(*values: Values) -> Mask | None:
    """Where no value is null, None if none is."""
    found = [valid_rows(each) for each in values if isinstance(each, pa.Array) and each.null_count]
    return np.logical_and.reduce(found) if found else None


def _divided(
    call: Call, divide: Callable[[Any, Any, Any], tuple[Any, Any]], left: Values, right: Values
) -> pa.Array | Vector:
    rows, arrow = _rows(left, right), arrow_type(call.type)
    zero = _zero(right, rows)
    x, y = numbers(left), np.where(zero, 1, numbers(right))
    known = _known(left, right)
    if known is not None:
        y = np.where(known, y, 1)  # values under nulls are anything
    found, beyond = divide(x, y, arrow.to_pandas_dtype())
    failures = [_by_zero(zero), Failure(np.broadcast_to(beyond, rows), overflow(call))]
    made = column(np.ascontiguousarray(np.broadcast_to(found, rows)), known, arrow)
    return Vector(made, tuple(each for each in failures if each.rows.any()))


def _whole_quotient(x: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    """Towards zero. Only the least number divided by -1 exceeds the range."""
    x, y = np.asarray(x, np.int64), np.asarray(y, np.int64)
    least = np.iinfo(dtype).min
    beyond = (x == least) & (y == -1)
    y = np.where(beyond, 1, y)
    return ((x - np.fmod(x, y)) // y).astype(dtype), beyond


def _real_quotient(x: Any, y: Any, dtype: Any) -> tuple[Any, Any]:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return np.asarray(x) / np.asarray(y), np.False_


def _decimal_quotient(target: DecimalType, wide: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    zero = _zero(right, _rows(left, right))
    if not zero.any():
        return quotient(wide, target, left, right)
    divisors = pc.if_else(pa.array(zero), pa.scalar(None, right.type), right)
    found = quotient(wide, target, left, divisors)
    if isinstance(found, Vector):
        return Vector(found.values, (_by_zero(zero), *found.failures))
    return Vector(found, (_by_zero(zero),))


def remainder(call: Call, session: Session) -> Kernel | None:
    """``MOD`` of integers: with the sign of the dividend."""
    if not is_integer(call.type):
        return None
    return Strict(arrow_type(call.type), partial(_remainder, arrow_type(call.type)))


def _remainder(arrow: pa.DataType, left: Values, right: Values) -> pa.Array | Vector:
    rows = _rows(left, right)
    zero, known = _zero(right, rows), _known(left, right)
    x, y = np.asarray(numbers(left), np.int64), np.where(zero, 1, numbers(right)).astype(np.int64)
    y = np.where(y == -1, 1, y)  # the remainder is 0 either way
    if known is not None:
        y = np.where(known, y, 1)
    made = column(np.fmod(x, y).astype(arrow.to_pandas_dtype()), known, arrow)
    reason = "[REMAINDER_BY_ZERO] remainder of a division by zero"
    return Vector(made, (Failure(zero, lambda _: reason),)) if zero.any() else made


# --- functions -----------------------------------------------------------------------------------------------


def magnitude(call: Call, session: Session) -> Kernel | None:
    """``ABS``."""
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, partial(_magnitude, call))
    if isinstance(call.type, DecimalType) and call.type.precision > EXACT and not session.alone:
        return None
    return Strict(arrow, pc.abs)


def _magnitude(call: Call, values: pa.Array) -> pa.Array | Vector:
    try:
        return pc.abs_checked(values)
    except pa.ArrowInvalid:
        found = numbers(values)
        return Vector(pc.abs(values), (Failure(found == np.iinfo(found.dtype).min, overflow(call)),))


def ceiling(call: Call, session: Session) -> Kernel | None:
    """``CEIL``."""
    return _whole_number(call, np.ceil, pc.ceil)


def floor(call: Call, session: Session) -> Kernel | None:
    """``FLOOR``."""
    return _whole_number(call, np.floor, pc.floor)


def _whole_number(call: Call, reals: Callable[[Any], Any], decimals: Callable[[Any], Any]) -> Kernel | None:
    arrow = arrow_type(call.type)
    if is_integer(call.type):
        return Strict(arrow, lambda values: values)
    if isinstance(call.type, DecimalType):
        target = call.type
        return Strict(arrow, lambda values: fitted(decimals(_wider(values)), target))
    return Strict(arrow, partial(_whole_real, call, reals))


def _wider(values: pa.Array) -> pa.Array:
    """Decimals with room for one digit more."""
    return pc.cast(values, pa.decimal256(values.type.precision + 1, values.type.scale))


def _whole_real(call: Call, convert: Callable[[Any], Any], values: pa.Array) -> pa.Array | Vector:
    """By way of BIGINT, as in Spark: NaN becomes 0."""
    whole = convert(np.asarray(numbers(values), np.float64))
    beyond = (whole >= 2.0**63) | (whole < -(2.0**63))
    with np.errstate(invalid="ignore"):
        found = np.where(np.isnan(whole) | beyond, 0.0, whole) + 0.0
    arrow = arrow_type(call.type)
    known = valid_rows(values) if values.null_count else None
    made = column(found.astype(arrow.to_pandas_dtype()), known, arrow)
    return Vector(made, (Failure(beyond, overflow(call)),)) if beyond.any() else made


def rounded(call: Call, session: Session) -> Kernel | None:
    """``ROUND`` to a constant number of digits. Spark rounds the text of floating-point numbers."""
    digits = call.args[1].value if len(call.args) == 2 and isinstance(call.args[1], Literal) else 0
    arrow = arrow_type(call.type)
    if not isinstance(digits, int):
        return None
    if is_integer(call.type):
        return Strict(arrow, lambda values, *_: values) if digits >= 0 else None
    if isinstance(call.type, DecimalType):
        target = call.type
        return Strict(arrow, lambda values, *_: fitted(_rounded(values, digits), target)) if digits >= -38 else None
    if not session.shortest or abs(digits) > 400:
        return None
    return Strict(arrow, lambda values, *_: _rounded_real(digits, values))


def _rounded_real(digits: int, values: pa.Array) -> pa.Array:
    from penstock.flow.kernels import reals

    return reals.rounded(digits, values)


def _rounded(values: pa.Array, digits: int) -> pa.Array:
    if digits >= values.type.scale:
        return values
    whole = max(values.type.precision - values.type.scale, -digits) + 1
    wide = pc.cast(values, pa.decimal256(whole + values.type.scale, values.type.scale))
    return pc.round(wide, ndigits=digits, round_mode="half_towards_infinity")


def sign(call: Call, session: Session) -> Kernel | None:
    """``SIGN`` of numbers that are no decimals."""
    arrow = arrow_type(call.type)
    if isinstance(call.type, DecimalType):
        return None
    if is_integer(call.type):
        return Strict(arrow, lambda values: pc.cast(pc.sign(values), arrow))
    return Strict(arrow, partial(_real_sign, arrow))


def _real_sign(arrow: pa.DataType, values: pa.Array) -> pa.Array:
    given = numbers(values)
    found = np.where((given == 0) | np.isnan(given), given, np.copysign(given.dtype.type(1), given))
    return column(found, valid_rows(values) if values.null_count else None, arrow)


def square_root(call: Call, session: Session) -> Kernel | None:
    """``SQRT``, which is NaN for negative numbers."""
    return Strict(pa.float64(), pc.sqrt)


#: Functions of DOUBLE whose last digit depends on the library.
OF_REALS: dict[str, Callable[..., Any]] = {
    "POWER": np.power,
    "EXP": np.exp,
    "LN": np.log,
    "LOG10": np.log10,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ATAN2": np.arctan2,
    "COT": lambda x: 1.0 / np.tan(x),
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "TANH": np.tanh,
    "DEGREES": lambda x: x * (180.0 / np.pi),
    "RADIANS": lambda x: x * (np.pi / 180.0),
}
#: Functions that Spark computes too.
_IN_SPARK = frozenset({"POWER", "EXP", "LN", "LOG10", "SIN", "COS", "TAN", "ATAN2"})


def of_reals(call: Call, session: Session) -> Kernel | None:
    """Powers, logarithms and trigonometric functions. LN and LOG10 of numbers that are not positive are null, as in
    Spark."""
    if not session.alone and call.function in _IN_SPARK:
        return None
    return Strict(pa.float64(), partial(_of_reals, call.function))


def logarithm(call: Call, session: Session) -> Kernel:
    """``LOG`` and ``LOG2`` of positive numbers; to a base above 1."""
    return Strict(pa.float64(), partial(_logarithm, call.function == "LOG2"))


def _logarithm(binary: bool, *values: Values) -> pa.Array | Vector:
    *base, number = (np.asarray(numbers(each), np.float64) for each in values)
    rows, known = _rows(*values), _known(*values)
    with np.errstate(all="ignore"):
        found = np.log2(number) if binary else np.log(number)
        if base:
            found = found / np.log(base[0])
    beyond = np.broadcast_to(number <= 0, rows)
    low = np.broadcast_to(base[0] <= 1, rows) if base else np.zeros(rows, np.bool_)
    made = column(np.ascontiguousarray(np.broadcast_to(found, rows)), known, pa.float64())
    reasons = ((low, "the base of LOG is not above 1"), (beyond, "a logarithm is of a number that is not positive"))
    failures = tuple(Failure(where.copy(), lambda _, text=text: text) for where, text in reasons if where.any())  # type: ignore[misc]
    return Vector(made, failures) if failures else made


def truncated(call: Call, session: Session) -> Kernel | None:
    """``TRUNCATE``: towards zero."""
    single = root(call.type) == "FLOAT"
    return row_by_row(partial(_truncated, single))(call, session)


def _truncated(single: bool, value: int | float | Decimal, digits: int = 0) -> int | float | Decimal:
    if isinstance(value, float):
        if not np.isfinite(value):
            raise ValueFailure(f"TRUNCATE takes a finite number, not {value}")
        text = float_text(value) if single else double_text(value)
        return float(_cut(Decimal(text), digits))
    return int(_cut(Decimal(value), digits)) if isinstance(value, int) else _cut(value, digits)


def _cut(value: Decimal, digits: int) -> Decimal:
    if digits >= -int(value.as_tuple().exponent):
        return value
    return value.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN, context=_WIDE)


def _of_reals(function: str, *values: Values) -> pa.Array:
    given = [numbers(each) for each in values]
    known = _known(*values)
    if function in ("LN", "LOG10"):
        positive = ~(given[0] <= 0)
        known = positive if known is None else known & positive
    with np.errstate(all="ignore"):
        found = np.asarray(OF_REALS[function](*given), np.float64)
    return column(np.ascontiguousarray(np.broadcast_to(found, _rows(*values))), known, pa.float64())


def pi(call: Call, session: Session) -> Kernel:
    """``PI`` and ``E``."""
    value = np.pi if call.function == "PI" else np.e
    return lambda args, rows: Vector(pa.scalar(value, pa.float64()))
