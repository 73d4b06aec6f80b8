"""Numbers as text by the rules of Java's ``parseInt``, ``parseDouble`` and ``BigDecimal``, one value at a time."""

from __future__ import annotations

import decimal
import math
import re
import struct
from decimal import Decimal
from typing import TypeVar

import numpy as np

from penstock.exact.errors import show_value
from penstock.types import DecimalType

_N = TypeVar("_N", int, Decimal)

#: Type name to least and most value.
INTEGER_RANGES = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INT": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
}

_BLANK = "".join(map(chr, range(ord(" ") + 1)))
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}")
_DECIMAL = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?0*\d{1,10})?"
)  # digits of all scripts of the first plane, as in Java
_DOUBLE = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<nan>NaN)|(?P<infinity>Infinity)"
    r"|(?P<plain>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
#: Wide enough for every value that a DECIMAL can hold before it is rounded to its scale.
_EXACT = decimal.Context(prec=4096, rounding=decimal.ROUND_HALF_UP, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def trim_like_java(text: str) -> str:
    """``text`` without characters up to the space at either end, as ``String.trim`` removes them."""
    return text.strip(_BLANK)


def parse_integer(text: str, name: str) -> int:
    """A whole number within the range of the type ``name``. Raises ValueError."""
    plain = trim_like_java(text)
    if _INTEGER.fullmatch(plain) is None:
        raise ValueError(f"expected a whole number, not {show_value(text)}")
    return check_range(int(plain), name, text)


def check_range(value: _N, name: str, text: str) -> _N:
    """``value``, if the type ``name`` can hold it. Raises ValueError."""
    least, most = INTEGER_RANGES[name]
    if not least <= value <= most:
        raise range_error(text, name)
    return value


def range_error(text: str, name: str) -> ValueError:
    """The error that a value is not in the range of the type ``name``."""
    return ValueError(f"{show_value(text)} is out of the range of {name}")


def _match_number(text: str) -> re.Match[str]:
    match = _DOUBLE.fullmatch(trim_like_java(text))
    if match is None:
        raise ValueError(f"expected a number, not {show_value(text)}")
    return match


def parse_double(text: str) -> float:
    """The nearest double. Raises ValueError."""
    match = _match_number(text)
    sign = -1.0 if match["sign"] == "-" else 1.0
    if match["nan"]:
        return math.nan
    if match["infinity"]:
        return sign * math.inf
    if match["hex"]:
        try:
            return sign * float.fromhex(match["hex"])
        except OverflowError:
            return sign * math.inf
    return sign * float(match["plain"])


def parse_float(text: str) -> float:
    """The nearest single-precision number, infinite beyond their range. Raises ValueError.

    Rounding to a double first may land exactly between two floats; then the text itself decides.
    """
    value = parse_double(text)
    if not math.isfinite(value) or value == 0.0:
        return value
    rounded = _to_single(value)
    match = _match_number(text)
    if rounded == value or not match["plain"]:
        return rounded
    other = _next_single(rounded, value)
    if math.isinf(rounded) or math.isinf(other) or (rounded + other) / 2 != value:
        return rounded
    exact = abs(Decimal(match["plain"]))
    if exact == Decimal(abs(value)):
        return rounded
    larger, smaller = (rounded, other) if abs(rounded) > abs(other) else (other, rounded)
    return larger if exact > Decimal(abs(value)) else smaller


def _to_single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _next_single(single: float, value: float) -> float:
    """The next single-precision number from ``single`` in the direction of ``value``."""
    bits = struct.unpack("<i", struct.pack("<f", single))[0]
    step = 1 if abs(value) > abs(single) else -1
    return float(struct.unpack("<f", struct.pack("<i", bits + step))[0])


def parse_decimal(text: str) -> Decimal:
    """The value of ``new BigDecimal(text)``. Raises ValueError."""
    if _DECIMAL.fullmatch(text) is None or (not text.isascii() and max(text) > "\uffff"):
        raise ValueError(f"expected a decimal number, not {show_value(text)}")
    return _EXACT.create_decimal(text) if len(text) < 4096 else Decimal(text)


def to_decimal(value: Decimal, to: DecimalType) -> Decimal | None:
    """``value`` rounded half up to the scale of ``to``; None if it then has too many digits, as in Flink."""
    if not value:
        return Decimal(0).scaleb(-to.scale)
    if value.adjusted() > to.precision - to.scale:
        return None
    if value.adjusted() < -to.scale - 1:
        return Decimal(0).scaleb(-to.scale)
    rounded = value.quantize(Decimal(1).scaleb(-to.scale), context=_EXACT)
    if not rounded:
        return Decimal(0).scaleb(-to.scale)
    return rounded if len(rounded.as_tuple().digits) <= to.precision else None


def format_decimal(value: Decimal, plain: bool) -> str:
    """A decimal as Flink writes it: in Java's notation without trailing zeros or, if ``plain``, with all digits of its
    scale and no exponent."""
    if plain:
        return f"{value:f}"
    return str(value.normalize(_EXACT)) if value else "0"


def format_double(value: float) -> str:
    """``Double.toString`` of Java 19 and later: the shortest text that reads back as ``value``."""
    return _to_java_notation(value, repr(value))


def format_float(value: float) -> str:
    """``Float.toString`` of Java 19 and later, for a value that a float holds exactly."""
    if not math.isfinite(value) or value == 0.0:
        return format_double(value)
    return _to_java_notation(value, np.format_float_scientific(np.float32(value), unique=True))


def _to_java_notation(value: float, shortest: str) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0.0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    if len(digits) == 1:  # Java picks the nearest number of two digits even if one digit is enough
        sign, digits, exponent = Decimal(f"{value:.1e}").normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)  # the value is 0.text * 10**point
    mark = "-" if sign else ""
    if 0 < point <= 7:
        return f"{mark}{text[:point].ljust(point, '0')}.{text[point:] or '0'}"
    if -3 < point <= 0:
        return f"{mark}0.{'0' * -point}{text}"
    return f"{mark}{text[0]}.{text[1:] or '0'}E{point - 1}"
