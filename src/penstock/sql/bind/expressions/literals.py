"""Constants and intervals: their values and types."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from penstock.plan.expressions import Expression, Literal
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import UnboundLiteral
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    BinaryType,
    DataType,
    DecimalType,
    IntervalType,
    TimestampType,
    TimeType,
)

_INTERVALS = {
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE"), r"-?\d+"),
    "SECOND": r"-?\d+(\.\d{1,9})?",
    "YEAR TO MONTH": r"-?\d+-\d{1,2}",
    "DAY TO HOUR": r"-?\d+ \d{1,2}",
    "DAY TO MINUTE": r"-?\d+ \d{1,2}:\d{1,2}",
    "DAY TO SECOND": r"-?\d+ \d{1,2}:\d{1,2}:\d{1,2}(\.\d{1,9})?",
    "HOUR TO MINUTE": r"-?\d+:\d{1,2}",
    "HOUR TO SECOND": r"-?\d+:\d{1,2}:\d{1,2}(\.\d{1,9})?",
    "MINUTE TO SECOND": r"-?\d+:\d{1,2}(\.\d{1,9})?",
}
_MICROS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000, "SECOND": 1_000_000}
#: Intervals are shorter than these.
MONTHS_END, TIME_END = 12 * 10_000, timedelta(days=100_000_000)
#: The reason and the hint for longer ones.
TOO_LONG = ("the interval is too long", "write one of less than 10000 years, or of less than 100000000 days")
_MOMENTS = {
    "DATE": (r"\d{4}-\d\d-\d\d", "2026-01-31"),
    "TIME": (r"\d\d:\d\d:\d\d(\.\d+)?", "23:59:59"),
    "TIMESTAMP": (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "2026-01-31 23:59:59.999"),
}


def bind_literal(given: UnboundLiteral, source: SourceText) -> Literal:
    """A constant. Raises SqlError for one that its type cannot hold, or whose text does not fit its type."""
    value: object
    match given.form:
        case "NUMBER":
            value, data_type = _read_number(given, source)
        case "STRING":
            value, data_type = given.text, STRING
        case "BOOLEAN":
            value, data_type = given.text == "TRUE", BOOLEAN
        case "NULL":
            return Literal(None, type=NULL, place=source.at(given.at))
        case "BYTES":
            if re.fullmatch(r"([0-9a-fA-F]{2})*", given.text) is None:
                raise source.error(given.at, "X'..' holds pairs of hexadecimal digits", "such as X'0AFF'")
            value, data_type = bytes.fromhex(given.text), BinaryType()
        case form if form in _MOMENTS:
            value, data_type = _read_moment(given, source)
        case _:
            value, data_type = _read_interval(given, source)
    return Literal(value, type=data_type.with_nullability(False), place=source.at(given.at))


def _read_number(given: UnboundLiteral, source: SourceText) -> tuple[int | float | Decimal, DataType]:
    text = given.text
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise source.error(given.at, "the number is too large for DOUBLE", "write one below 1.8E308")
        return value, DOUBLE
    if "." not in text:
        whole = int(text)
        if -(2**63) <= whole < 2**63:
            return whole, INT if -(2**31) <= whole < 2**31 else BIGINT
    exact = Decimal(text)
    digits = exact.as_tuple()
    scale = max(-int(digits.exponent), 0)
    precision = max(len(digits.digits), scale, 1)
    if precision > 38:
        raise source.error(
            given.at, "the number has more than 38 digits, the most that DECIMAL holds", "write it as 1E40"
        )
    return exact, DecimalType(precision, scale)


def _read_moment(given: UnboundLiteral, source: SourceText) -> tuple[date | time | datetime, DataType]:
    text = given.text.strip()
    whole, _, fraction = text.partition(".")
    pattern, example = _MOMENTS[given.form]
    micros = int(fraction[:6].ljust(6, "0")) if fraction.isascii() and fraction.isdigit() else 0
    try:
        if re.fullmatch(pattern, text, re.ASCII) is None or len(fraction) > 9:
            raise ValueError
        match given.form:
            case "DATE":
                return date.fromisoformat(whole), DATE
            case "TIME":
                return time.fromisoformat(whole).replace(microsecond=micros), TimeType(len(fraction))
        return datetime.fromisoformat(whole).replace(microsecond=micros), TimestampType(len(fraction))
    except ValueError:
        raise source.error(given.at, f"this is not a {given.form}", f"write it as {given.form} '{example}'") from None


def _read_interval(given: UnboundLiteral, source: SourceText) -> tuple[int | timedelta, DataType]:
    text, unit = " ".join(given.text.split()), given.form.removeprefix("INTERVAL ")
    if unit not in _INTERVALS:
        raise source.error(given.at, f"there is no interval {unit}", f"one of {', '.join(_INTERVALS)}")
    if re.fullmatch(_INTERVALS[unit], text, re.ASCII) is None:
        raise source.error(
            given.at, f"this is not an interval {unit}", "for example INTERVAL '1 12:00:00' DAY TO SECOND"
        )
    sign = -1 if text.startswith("-") else 1
    parts = [Decimal(part) for part in re.split(r"[ :-]", text.removeprefix("-"))]
    first, _, last = unit.partition(" TO ")
    if first in ("YEAR", "MONTH"):
        years, rest = (parts[0], sum(parts[1:])) if first == "YEAR" else (0, parts[0])
        months = int(years * 12 + rest)
        if months >= MONTHS_END:
            raise source.error(given.at, *TOO_LONG)
        return sign * months, IntervalType(True)
    units = list(_MICROS)[list(_MICROS).index(first) : list(_MICROS).index(last or first) + 1]
    micros = sum(part * _MICROS[each] for each, part in zip(units, parts, strict=True))
    if micros >= TIME_END // timedelta(microseconds=1):
        raise source.error(given.at, *TOO_LONG)
    return sign * timedelta(microseconds=int(micros)), IntervalType(False)


def type_text(given: Expression) -> str:
    """The type of an expression as TYPEOF writes it: the type of a string literal has its length."""
    if isinstance(given, Literal) and isinstance(given.value, str):
        return f"CHAR({len(given.value)}) NOT NULL"
    return str(given.type)
