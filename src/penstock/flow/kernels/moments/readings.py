"""Text to dates, timestamps and numbers by the rules of Flink's CAST, one value at a time.

The compiled loops (``penstock.flow.kernels.casts.parsing``) read what is in its usual form.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

from penstock.exact.numbers import parse_decimal, parse_double, parse_float, to_decimal, trim_like_java
from penstock.flow.kernels.moments.calendar import DAY_MICROS, days_of, last_day
from penstock.types import DecimalType

#: The characters that are stripped from a text that is cast to BOOLEAN: blanks and control characters.
BLANK = "".join(map(chr, (*range(33), 127)))

_WHOLE = re.compile(r"([+-]?)(?:([0-9]+)(?:\.[0-9]*)?|\.[0-9]+)")
_DATE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?")
_TIME = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9})(?::([0-9]{1,9})(?:\.([0-9]*))?)?)?")
_DAY = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_CLOCK = r"([0-9]{1,9}):([0-9]{1,9}):([0-9]{1,9})"
_TIMESTAMP = re.compile(rf"{_DAY}(?: ([0-9]{{1,2}}):([0-9]{{1,2}}):([0-9]{{1,2}})(?:\.([0-9]{{0,9}}))?)?")
_SQL_TIMESTAMP = re.compile(rf"{_DAY} {_CLOCK}(?:\.([0-9]{{1,9}}))?")
_SQL_DATE = re.compile(_DAY)
_PREFIX = re.compile(rf"\s*([0-9]{{1,9}})-([0-9]{{1,9}})-([0-9]{{1,9}}) +{_CLOCK}")
_SECOND = 1_000_000
#: Flink reads decimals of at most this many digits from at most this many bytes without ``BigDecimal``.
_SHORT = 18


def integer(text: str) -> int | None:
    """A whole number, without the digits after the point; None if the text is not a number."""
    found = _WHOLE.fullmatch(text.strip(" "))
    if found is None or len(found[2] or "") > 100:
        return None
    value = int(found[2] or 0)
    return -value if found[1] == "-" else value


def _count_days(year: int, month: int, day: int) -> int:
    """Days since 1970. A day after the last one of the month is in the next month."""
    return int(days_of(np.array([year]), np.array([month]), 1)[0]) + day - 1


def _count_days_of_month(year: int, month: int) -> int:
    return int(last_day(np.array([year]), np.array([month]))[0])


def days(text: str) -> int | None:
    """A date in days since 1970. What follows a space is ignored, as are a month and a day that are missing."""
    plain = text.strip(BLANK)
    found = _DATE.fullmatch(plain.partition(" ")[0])
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2] or 1), int(found[3] or 1)
    return _count_days(year, month, day) if 1 <= month <= 12 and 1 <= day <= _count_days_of_month(year, month) else None


def _read_fraction(digits: str | None) -> int:
    return int((digits or "").ljust(6, "0")[:6])


def micros(text: str) -> int | None:
    """A timestamp in microseconds since 1970. A day that the month does not have is its last one, and 24:00:00 the
    next midnight."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(each or 0) for each in found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= 31 and minute < 60 and second < 60):
        return None
    time = ((hour * 60 + minute) * 60 + second) * _SECOND + _read_fraction(found[7])
    if hour > 23 and time != DAY_MICROS:
        return None
    return _count_days(year, month, min(day, _count_days_of_month(year, month))) * DAY_MICROS + time


def sql_moment(text: str) -> int | None:
    """What Java's ``Timestamp.valueOf`` and ``Date.valueOf`` read, which Flink tries where a pattern does not match:
    microseconds since 1970. Days and times that are too large overflow into the next unit."""
    plain = text.strip(BLANK)
    found = _SQL_TIMESTAMP.fullmatch(plain) if " " in plain else _SQL_DATE.fullmatch(plain)
    if found is None:
        return None
    year, month, day, *clock = found.groups()
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    return _count_days(int(year), int(month), int(day)) * DAY_MICROS + (
        _read_time(clock) + _read_fraction(clock[3]) if clock else 0
    )


def _read_time(clock: list[str]) -> int:
    return ((int(clock[0]) * 60 + int(clock[1])) * 60 + int(clock[2])) * _SECOND


def lenient(text: str) -> int | None:
    """What Java's lenient SimpleDateFormat reads by ``yyyy-MM-dd HH:mm:ss`` at the start of a text: microseconds since
    1970. Fields that are too large overflow into the next unit."""
    found = _PREFIX.match(text)
    if found is None:
        return None
    year, month, day, *clock = found.groups()
    months = int(year) * 12 + int(month) - 1
    total = _count_days(months // 12, months % 12 + 1, int(day)) * DAY_MICROS + _read_time(clock)
    return total if -(2**63) <= total < 2**63 else None


def time_of_day(text: str) -> int | None:
    """A time in microseconds of the day."""
    found = _TIME.fullmatch(text.strip(BLANK))
    if found is None:
        return None
    hour, minute, second = (int(each or 0) for each in found.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    return ((hour * 60 + minute) * 60 + second) * _SECOND + _read_fraction(found[4])


def double(text: str) -> float | None:
    """The nearest DOUBLE; None if the text is not a number."""
    return _read_real(text, single=False)


def single(text: str) -> float | None:
    """The nearest FLOAT; None if the text is not a number."""
    return _read_real(text, single=True)


def _read_real(text: str, *, single: bool) -> float | None:
    try:
        return parse_float(text) if single else parse_double(text)
    except ValueError:
        return None


def decimal(text: str, target: DecimalType) -> Decimal | str:
    """The DECIMAL; "malformed" if the text is not a number, "range" if it has too many digits. As in Flink, a short
    text for a DECIMAL of few digits has digits of ASCII only, others have those that ``BigDecimal`` knows."""
    if target.precision <= _SHORT and not text.isascii() and len(text.encode()) <= _SHORT:
        return "malformed"
    try:
        found = parse_decimal(trim_like_java(text))
    except ValueError:
        return "malformed"
    fitted = to_decimal(found, target)
    return "range" if fitted is None else fitted
