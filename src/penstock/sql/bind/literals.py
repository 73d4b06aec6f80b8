"""Constants and intervals: their values and types."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from penstock.plan.expressions import Literal
from penstock.sql.parse import syntax
from penstock.sql.parse.source import Source
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
    "YEAR": r"-?\d+",
    "MONTH": r"-?\d+",
    "DAY": r"-?\d+",
    "HOUR": r"-?\d+",
    "MINUTE": r"-?\d+",
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
_MOMENTS = {
    "DATE": (r"\d{4}-\d\d-\d\d", "2026-01-31"),
    "TIME": (r"\d\d:\d\d:\d\d(\.\d+)?", "23:59:59"),
    "TIMESTAMP": (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "2026-01-31 23:59:59.999"),
}
_LARGEST_INT, _LARGEST_BIGINT = 2**31 - 1, 2**63 - 1


def literal(tree: syntax.Literal, source: Source) -> Literal:
    """A constant. Raises SqlError for one that its type cannot hold."""
    value: object
    match tree.kind:
        case "NUMBER":
            value, data_type = _number(tree, source)
        case "STRING":
            value, data_type = tree.text, STRING
        case "BOOLEAN":
            value, data_type = tree.text == "TRUE", BOOLEAN
        case "NULL":
            return Literal(None, type=NULL, place=source.at(tree.at))
        case "BYTES":
            if re.fullmatch(r"([0-9a-fA-F]{2})*", tree.text) is None:
                raise source.error(tree.at, "X'..' holds pairs of hexadecimal digits")
            value, data_type = bytes.fromhex(tree.text), BinaryType()
        case _:
            value, data_type = _moment(tree, source)
    return Literal(value, type=data_type.with_nullability(False), place=source.at(tree.at))


def _number(tree: syntax.Literal, source: Source) -> tuple[int | float | Decimal, DataType]:
    text = tree.text
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise source.error(tree.at, "the number is too large for DOUBLE")
        return value, DOUBLE
    if "." not in text:
        whole = int(text)
        if abs(whole) <= _LARGEST_BIGINT or whole == -_LARGEST_BIGINT - 1:
            return whole, INT if -_LARGEST_INT - 1 <= whole <= _LARGEST_INT else BIGINT
    exact = Decimal(text)
    digits = exact.as_tuple()
    scale = max(-int(digits.exponent), 0)
    precision = max(len(digits.digits), scale, 1)
    if precision > 38:
        raise source.error(tree.at, "the number has more than 38 digits, the most that DECIMAL holds")
    return exact, DecimalType(precision, scale)


def _moment(tree: syntax.Literal, source: Source) -> tuple[date | time | datetime, DataType]:
    text = tree.text.strip()
    whole, _, fraction = text.partition(".")
    pattern, example = _MOMENTS[tree.kind]
    micros = int(fraction[:6].ljust(6, "0")) if fraction.isascii() and fraction.isdigit() else 0
    try:
        if re.fullmatch(pattern, text, re.ASCII) is None or len(fraction) > 9:
            raise ValueError
        match tree.kind:
            case "DATE":
                return date.fromisoformat(whole), DATE
            case "TIME":
                return time.fromisoformat(whole).replace(microsecond=micros), TimeType(len(fraction))
        return datetime.fromisoformat(whole).replace(microsecond=micros), TimestampType(len(fraction))
    except ValueError:
        raise source.error(tree.at, f"not a {tree.kind}", f"write it as {tree.kind} '{example}'") from None


def interval(tree: syntax.Interval, source: Source) -> Literal:
    """``INTERVAL '..' unit``. Raises SqlError when the text does not fit the unit."""
    text = " ".join(tree.text.split())
    if tree.unit not in _INTERVALS:
        raise source.error(tree.at, f"there is no interval {tree.unit}", f"one of {', '.join(_INTERVALS)}")
    if re.fullmatch(_INTERVALS[tree.unit], text, re.ASCII) is None:
        raise source.error(tree.at, f"not an interval {tree.unit}", "for example INTERVAL '1 12:00:00' DAY TO SECOND")
    sign = -1 if text.startswith("-") else 1
    parts = [Decimal(part) for part in re.split(r"[ :-]", text.removeprefix("-"))]
    first, _, last = tree.unit.partition(" TO ")
    months = first in ("YEAR", "MONTH")
    try:
        if months:
            years, rest = (parts[0], sum(parts[1:])) if first == "YEAR" else (0, parts[0])
            value: int | timedelta = sign * int(years * 12 + rest)
        else:
            units = list(_MICROS)[list(_MICROS).index(first) : list(_MICROS).index(last or first) + 1]
            micros = sum(part * _MICROS[unit] for unit, part in zip(units, parts, strict=True))
            value = sign * timedelta(microseconds=int(micros))
    except OverflowError:
        raise source.error(tree.at, "the interval is too long") from None
    return Literal(value, type=IntervalType(months, nullable=False), place=source.at(tree.at))
