"""Constants: their text in Spark SQL and their type."""

from __future__ import annotations

import math
import re
from datetime import datetime
from decimal import Decimal

from penstock.sql.coercion import NULL, IntervalType
from penstock.sql.rendering import Expression, number, quoted
from penstock.sql.source import Source
from penstock.sql.syntax import Interval, Literal
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    BinaryType,
    DataType,
    DecimalType,
    TimestampType,
    TimeType,
)

__all__ = ["interval", "literal", "millis"]

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
_MILLIS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000}
_MOMENTS = {
    "DATE": (r"\d{4}-\d\d-\d\d", "2026-01-31"),
    "TIME": (r"\d\d:\d\d:\d\d(\.\d+)?", "23:59:59"),
    "TIMESTAMP": (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "2026-01-31 23:59:59.999"),
}
_LARGEST_INT, _LARGEST_BIGINT = 2**31 - 1, 2**63 - 1


def literal(tree: Literal, source: Source) -> Expression:
    """A constant. Raises SqlError for one that its type cannot hold."""
    match tree.kind:
        case "NUMBER":
            return _number(tree, source)
        case "STRING":
            return Expression(quoted(tree.text), STRING.with_nullability(False))
        case "BOOLEAN":
            return Expression(tree.text, BOOLEAN.with_nullability(False))
        case "NULL":
            return Expression("NULL", NULL)
        case "BYTES":
            if re.fullmatch(r"([0-9a-fA-F]{2})*", tree.text) is None:
                raise source.error(tree.at, "X'..' holds pairs of hexadecimal digits")
            return Expression(f"X'{tree.text.upper()}'", BinaryType(nullable=False))
    return _moment(tree, source)


def _number(tree: Literal, source: Source) -> Expression:
    text = tree.text
    if "e" in text.lower():
        value = float(text)
        if value in (float("inf"), float("-inf")):
            raise source.error(tree.at, "the number is too large for DOUBLE")
        return number(f"{value!r}D", DOUBLE.with_nullability(False))
    if "." not in text:
        whole = int(text)
        if abs(whole) <= _LARGEST_BIGINT or whole == -_LARGEST_BIGINT - 1:
            small = -_LARGEST_INT - 1 <= whole <= _LARGEST_INT
            return number(str(whole), (INT if small else BIGINT).with_nullability(False))
    digits = Decimal(text).as_tuple()
    scale = max(-int(digits.exponent), 0)
    precision = max(len(digits.digits), scale, 1)
    if precision > 38:
        raise source.error(tree.at, "the number has more than 38 digits, the most that DECIMAL holds")
    return number(f"{Decimal(text):f}BD", DecimalType(precision, scale, nullable=False))


def _moment(tree: Literal, source: Source) -> Expression:
    text = tree.text.strip()
    fraction = text.partition(".")[2]
    text = text[: len(text) - max(len(fraction) - 6, 0)]
    pattern, example = _MOMENTS[tree.kind]
    try:
        if re.fullmatch(pattern, text, re.ASCII) is None or len(fraction) > 9:
            raise ValueError
        datetime.fromisoformat({"TIME": "2000-01-01 "}.get(tree.kind, "") + text.partition(".")[0])
    except ValueError:
        raise source.error(tree.at, f"not a {tree.kind}", f"write it as {tree.kind} '{example}'") from None
    data_type: DataType = {
        "DATE": DATE,
        "TIME": TimeType(len(fraction)),
        "TIMESTAMP": TimestampType(len(fraction)),
    }[tree.kind]
    word = "TIMESTAMP_NTZ" if tree.kind == "TIMESTAMP" else tree.kind
    return Expression(f"{word} {quoted(text)}", data_type.with_nullability(False))


def millis(tree: Interval) -> int | None:
    """The length of an interval in ms, rounded up; None for months, which differ in length."""
    first, _, last = tree.unit.partition(" TO ")
    if first not in _MILLIS:
        return None
    units = list(_MILLIS)[list(_MILLIS).index(first) : list(_MILLIS).index(last or first) + 1]
    text = tree.text.strip()
    parts = re.split(r"[ :]+", text.lstrip("+-"))
    length = sum(Decimal(part) * _MILLIS[unit] for unit, part in zip(units, parts, strict=False))
    return math.ceil(-length if text.startswith("-") else length)


def interval(tree: Interval, source: Source) -> Expression:
    """``INTERVAL '..' unit``. Raises SqlError when text and unit do not go together."""
    text = " ".join(tree.text.split())
    if tree.unit not in _INTERVALS:
        raise source.error(tree.at, f"there is no interval {tree.unit}", f"one of {', '.join(_INTERVALS)}")
    if re.fullmatch(_INTERVALS[tree.unit], text, re.ASCII) is None:
        raise source.error(tree.at, f"not an interval {tree.unit}", "for example INTERVAL '1 12:00:00' DAY TO SECOND")
    months = tree.unit in ("YEAR", "MONTH", "YEAR TO MONTH")
    return Expression(f"INTERVAL {quoted(text)} {tree.unit}", IntervalType(months, nullable=False))
