"""Dates, times and timestamps as text by all of Java's rules, one value at a time.

The formatters are Flink's ``TimeFormats``. Java resolves the SQL and the zoned formats *smartly*: a day past
the end of its month becomes the last day of the month, and ``24:00:00`` is midnight of the next day. ``ISO_LOCAL_DATE``
and ``ISO_LOCAL_DATE_TIME`` are strict. A year has a sign if it has more than four digits.
"""

from __future__ import annotations

import re

from penstock.exact.errors import show_value
from penstock.loops.timestamps import date_from_days, days_from_date

_DATE = re.compile(r"([+-]?)([0-9]{4,10})-([0-9]{2})-([0-9]{2})")
_SQL_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{0,9}))?")
_ISO_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?")
_OFFSET = re.compile(r"(.*?)(Z|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)", re.DOTALL)
_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DAY = 86_400_000_000
_DAY_NANOS = 86_400_000_000_000


def _last_day(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else _LENGTHS[month - 1]


def parse_date(text: str, smart: bool = False) -> int:
    """``yyyy-MM-dd`` to days since the epoch. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a date 'yyyy-MM-dd', not {show_value(text)}")
    sign, digits = match.group(1), match.group(2)
    if (len(digits) > 4) != (sign == "+") and sign != "-":
        raise ValueError(
            f"expected a sign before a year of more than four digits, and only there, in {show_value(text)}"
        )
    year, month, day = int(sign + digits), int(match.group(3)), int(match.group(4))
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"no such day: {show_value(text)}")
    if day > _last_day(year, month):
        if not smart:
            raise ValueError(f"no such day: {show_value(text)}")
        day = _last_day(year, month)
    days = days_from_date(year, month, day)
    if not -(2**31) <= days < 2**31:
        raise ValueError(f"out of the range of dates: {show_value(text)}")
    return days


def parse_lenient_date(text: str) -> int:
    """``yyyy-[M]M-[d]d`` as ``java.sql.Date.valueOf`` reads it: a day past the end of the month is in the next
    month."""
    match = _SQL_DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a date 'yyyy-MM-dd', not {show_value(text)}")
    year, month, day = (int(group) for group in match.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"no such day: {show_value(text)}")
    return days_from_date(year, month, 1) + day - 1


def _to_nanos(text: str, match: re.Match[str] | None, form: str, smart: bool) -> int:
    if match is None:
        raise ValueError(f"expected a time '{form}', not {show_value(text)}")
    hour, minute, second = int(match.group(1)), int(match.group(2)), int(match.group(3) or 0)
    nanos = int((match.group(4) or "").ljust(9, "0"))
    if smart and (hour, minute, second, nanos) == (24, 0, 0, 0):
        return _DAY_NANOS
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"no such time of day: {show_value(text)}")
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + nanos


def parse_time(text: str) -> int:
    """``HH:mm:ss[.f]`` to nanoseconds of the day. Raises ValueError."""
    return _to_nanos(text, _TIME.fullmatch(text), "HH:mm:ss[.f]", True) % _DAY_NANOS


def parse_iso_time(text: str) -> int:
    """``HH:mm[:ss[.f]]``, strictly, to nanoseconds of the day. Raises ValueError."""
    return _to_nanos(text, _ISO_TIME.fullmatch(text), "HH:mm[:ss[.f]]", False)


def parse_timestamp(text: str, iso: bool, zone: bool, offset: bool = False) -> int:
    """A timestamp to microseconds since the epoch; further digits are cut off.

    ``zone``: TIMESTAMP_LTZ, which ends in ``Z``. ``offset``: ISO-8601 with an offset, which either type may have.
    Raises ValueError.
    """
    form = f"yyyy-MM-dd{'T' if iso else ' '}HH:mm{'[:ss[.f]]' if iso else ':ss[.f]'}"
    form += "+HH:mm" if offset else "Z" if zone else ""
    body, shift = text, 0
    if offset:
        found = _OFFSET.fullmatch(text)
        if found is None:
            raise ValueError(f"expected a timestamp '{form}', not {show_value(text)}")
        body, shift = found.group(1), _parse_offset(found.group(2))
    elif zone:
        if not text.endswith("Z"):
            raise ValueError(f"expected a timestamp '{form}', not {show_value(text)}")
        body = text[:-1]
    smart = offset or zone or not iso
    if not smart:  # ISO_LOCAL_DATE_TIME ignores case
        body = body.replace("t", "T")
    date, separator, time = body.partition("T" if iso else " ")
    if not separator:
        raise ValueError(f"expected a timestamp '{form}', not {show_value(text)}")
    days = parse_date(date, smart)
    nanos = _to_nanos(time, (_ISO_TIME if iso else _TIME).fullmatch(time), form, smart)
    micros = days * _DAY + nanos // 1000 - shift
    if not -(2**63) < micros < 2**63:
        raise ValueError(f"out of the range of timestamps: {show_value(text)}")
    return micros


def _parse_offset(text: str) -> int:
    if text == "Z":
        return 0
    hours, minutes, seconds = (int(part) for part in (text[1:] + ":0").split(":")[:3])
    if hours > 18 or minutes > 59 or seconds > 59:
        raise ValueError(f"no such offset from UTC: {show_value(text)}")
    micros = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    return -micros if text[0] == "-" else micros


def format_date(days: int) -> str:
    """Days since the epoch as ``yyyy-MM-dd``; a sign before years outside 0000 to 9999."""
    year, month, day = date_from_days(days)
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):04d}"
    return f"{shown}-{month:02d}-{day:02d}"


def format_time(nanos: int) -> str:
    """Nanoseconds of the day as ``HH:mm:ss`` with the fraction, if any, without trailing zeros."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown}.{fraction:09d}".rstrip("0") if fraction else shown


def format_timestamp(micros: int, iso: bool = False, zone: bool = False) -> str:
    """Microseconds since the epoch as text; ``zone`` appends ``Z``."""
    days, rest = divmod(micros, _DAY)
    return f"{format_date(days)}{'T' if iso else ' '}{format_time(rest * 1000)}{'Z' if zone else ''}"
