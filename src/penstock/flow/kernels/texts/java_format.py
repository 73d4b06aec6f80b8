"""``PRINTF``: Java's ``String.format``."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from penstock.exact.numbers import format_double, format_float
from penstock.flow.kernels.characters import from_units, to_units
from penstock.flow.kernels.rowwise import row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call
from penstock.types import DataType
from penstock.types.casts import is_integer
from penstock.types.logical import root

_SPECIFIER = re.compile(r"%(?:(\d+)\$|(<))?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])|%")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_WIDE = Context(prec=2000, rounding=ROUND_HALF_UP)
#: The types of values that ``%s`` can show as Java does.
_SHOWN = {"STRING", "BOOLEAN", *_BITS, "FLOAT", "DOUBLE", "DECIMAL"}


class _IllegalFormatError(Exception):
    """A format that Java refuses, or that its values do not fit."""


def printf(call: Call, session: Session) -> Kernel | None:
    """``PRINTF``: null where the format does not fit its values."""
    roots = [root(each.type) for each in call.args[1:]]
    if not set(roots) <= _SHOWN | {"NULL"}:
        return None
    types = [each.type for each in call.args[1:]]

    def format_row(pattern: str | None, *values: Any) -> str | None:
        if pattern is None:
            return None
        try:
            return _format_values(pattern, values, types)
        except _IllegalFormatError:
            return None

    return row_by_row(format_row, strict=False)(call, session)


def _format_values(pattern: str, values: tuple[Any, ...], types: list[DataType]) -> str:
    ordinary, last = 0, -1

    def one(found: re.Match[str]) -> str:
        nonlocal ordinary, last
        position, again, flags, width, precision, kind = found.groups()
        if kind is None:
            raise _IllegalFormatError
        if kind in "n%":
            return _fit_width("\n" if kind == "n" else "%", flags, int(width or 0))
        if position:
            last = int(position) - 1
        elif not again:
            last, ordinary = ordinary, ordinary + 1
        if not 0 <= last < len(values):
            raise _IllegalFormatError
        places = None if precision is None else int(precision)
        text = _convert_value(kind, flags, int(width or 0), places, values[last], types[last])
        return text.upper() if kind.isupper() else text

    return _SPECIFIER.sub(one, pattern)


def _convert_value(kind: str, flags: str, width: int, places: int | None, value: Any, data_type: DataType) -> str:
    if "-" in flags and not width:
        raise _IllegalFormatError
    lower = kind.lower()
    if lower == "b":
        text = "false" if value is None else str(value).lower() if isinstance(value, bool) else "true"
        return _fit_width(text[:places], flags, width)
    if lower == "s":
        return _fit_width(from_units(to_units(_write_text(value, data_type))[:places]), flags, width)
    if kind not in "dxXofeEgGcCh" or lower not in "dxofegch":
        raise _IllegalFormatError
    if value is None:
        return _fit_width("null"[:places], flags.replace("0", ""), width)
    if lower == "c":
        if not is_integer(data_type) or places is not None or not 0 <= value <= 0x10FFFF:
            raise _IllegalFormatError
        return _fit_width(from_units(chr(value)), flags, width)
    if lower in "dxo":
        if not is_integer(data_type) or places is not None:
            raise _IllegalFormatError
        if lower == "d":
            return _write_number(str(abs(value)), value < 0, flags, width)
        bits = value & ((1 << _BITS[root(data_type)]) - 1)
        prefix = ("0x" if lower == "x" else "0") if "#" in flags else ""
        return _pad_number(prefix, f"{bits:{lower}}", flags, width)
    if lower in "feg" and root(data_type) in ("FLOAT", "DOUBLE", "DECIMAL"):
        return _write_real(lower, flags, width, 6 if places is None else places, value)
    raise _IllegalFormatError


def _write_text(value: Any, data_type: DataType) -> str:
    match root(data_type):
        case _ if value is None:
            return "null"
        case "FLOAT":
            return format_float(value)
        case "DOUBLE":
            return format_double(value)
        case "BOOLEAN":
            return "true" if value else "false"
    return str(value)


def _write_real(kind: str, flags: str, width: int, places: int, value: float | Decimal) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        text = "NaN" if math.isnan(value) else "Infinity"
        return _write_number(text, value < 0, flags.replace("0", "").replace(",", ""), width)
    exact = Decimal(format_double(value)) if isinstance(value, float) else value
    negative = exact.is_signed()
    if kind == "g":
        places = max(places, 1)
        rounded = Context(prec=places, rounding=ROUND_HALF_UP).plus(exact)
        small = rounded.is_zero() or Decimal("0.0001") <= abs(rounded) < Decimal(10) ** places
        kind, places = (
            ("f", places - 1 - (0 if rounded.is_zero() else rounded.adjusted())) if small else ("e", places - 1)
        )
        exact = rounded
    if kind == "f":
        return _write_number(
            f"{abs(exact).quantize(Decimal(1).scaleb(-places), context=_WIDE):f}", negative, flags, width
        )
    if exact.is_zero():
        mantissa, power = Decimal(0), 0
    else:
        rounded = Context(prec=places + 1, rounding=ROUND_HALF_UP).plus(abs(exact))
        power = rounded.adjusted()
        mantissa = rounded.scaleb(-power)
    text = (
        f"{mantissa.quantize(Decimal(1).scaleb(-places), context=_WIDE):f}e{'-' if power < 0 else '+'}{abs(power):02d}"
    )
    return _write_number(text, negative, flags, width)


def _write_number(digits: str, negative: bool, flags: str, width: int) -> str:
    if "," in flags:
        whole, point, rest = digits.partition(".")
        digits = f"{int(whole):,}{point}{rest}"
    if negative:
        before, after = ("(", ")") if "(" in flags else ("-", "")
    else:
        before, after = "+" if "+" in flags else " " if " " in flags else "", ""
    return _pad_number(before, digits + after, flags, width)


def _pad_number(before: str, text: str, flags: str, width: int) -> str:
    if "0" in flags:
        return before + text.rjust(width - len(before), "0")
    return _fit_width(before + text, flags, width)


def _fit_width(text: str, flags: str, width: int) -> str:
    missing = " " * (width - len(to_units(text)))
    return text + missing if "-" in flags else missing + text
