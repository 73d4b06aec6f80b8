"""Dates, times and timestamps inside compiled loops: text to numbers and back, for years 0001 to 9999.

The loops refuse other years, days that Java would move to the end of the month, and ``24:00:00``, because
:mod:`penstock.formats.exact.timestamps` implements all rules.
"""

from __future__ import annotations

from penstock.formats.loops import chars
from penstock.formats.loops.compiled import Vector, compiled, inlined

#: Returned by parsers for text that they refuse; never a valid number of days, microseconds or nanoseconds.
REFUSED = -(2**63)

DAY_MICROS = 86_400_000_000


@inlined
def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 of a day in the proleptic Gregorian calendar, years from March to February."""
    shifted = year - (1 if month <= 2 else 0)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@inlined
def two_digits(text: Vector, at: int) -> int:
    """The number in two ASCII digits, or -1."""
    high, low = text[at] - chars.ZERO, text[at + 1] - chars.ZERO
    if high < 0 or high > 9 or low < 0 or low > 9:
        return -1
    return int(high * 10 + low)


@inlined
def parse_date(text: Vector, start: int, end: int) -> int:
    """``yyyy-MM-dd`` in ``text[start:end]`` to days since the epoch, or REFUSED."""
    if end - start != 10 or text[start + 4] != chars.MINUS or text[start + 7] != chars.MINUS:
        return REFUSED
    century, year, month, day = (
        two_digits(text, start),
        two_digits(text, start + 2),
        two_digits(text, start + 5),
        two_digits(text, start + 8),
    )
    if century < 0 or year < 0 or month < 1 or month > 12 or day < 1 or day > 31:
        return REFUSED
    year += century * 100
    if year < 1:
        return REFUSED
    if day > 28:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if month == 2 and day > (29 if leap else 28):
            return REFUSED
        if day == 31 and month in (4, 6, 9, 11):
            return REFUSED
    return days_of(year, month, day)


@inlined
def parse_time(text: Vector, start: int, end: int) -> int:
    """``HH:mm:ss`` with at most nine more digits after a point to nanoseconds of the day, or REFUSED."""
    size = end - start
    if size < 8 or text[start + 2] != chars.COLON or text[start + 5] != chars.COLON or size > 18:
        return REFUSED
    hour, minute, second = two_digits(text, start), two_digits(text, start + 3), two_digits(text, start + 6)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return REFUSED
    nanos = 0
    if size > 8:
        if text[start + 8] != chars.POINT or size == 9:
            return REFUSED
        for at in range(start + 9, end):
            digit = text[at] - chars.ZERO
            if digit < 0 or digit > 9:
                return REFUSED
            nanos = nanos * 10 + digit
        for _ in range(size - 9, 9):
            nanos *= 10
    return int((hour * 3600 + minute * 60 + second) * 1_000_000_000 + nanos)


@inlined
def parse_timestamp(text: Vector, start: int, end: int, separator: int, zone: bool) -> int:
    """A date, ``separator``, a time and with ``zone`` a ``Z``, to microseconds since the epoch, or REFUSED.

    Digits beyond microseconds are cut off.
    """
    if zone:
        if end - start < 20 or text[end - 1] != chars.UPPER_Z:
            return REFUSED
        end -= 1
    if end - start < 19 or text[start + 10] != separator:
        return REFUSED
    days = parse_date(text, start, start + 10)
    nanos = parse_time(text, start + 11, end)
    if REFUSED in (days, nanos):
        return REFUSED
    return days * DAY_MICROS + nanos // 1000


@compiled
def _put_two(out: Vector, at: int, value: int) -> None:
    out[at] = chars.ZERO + value // 10
    out[at + 1] = chars.ZERO + value % 10


@inlined
def day_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01; the inverse of :func:`days_of`."""
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march = (5 * of_year + 2) // 153
    month = march + 3 if march < 10 else march - 9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, of_year - (153 * march + 2) // 5 + 1


@compiled
def write_date(out: Vector, at: int, days: int) -> int:
    """Write ``yyyy-MM-dd``; returns the position after it, or -1 for a year beyond 0000 to 9999."""
    year, month, day = day_of(days)
    if year < 0 or year > 9999:
        return -1
    _put_two(out, at, year // 100)
    _put_two(out, at + 2, year % 100)
    out[at + 4] = chars.MINUS
    _put_two(out, at + 5, month)
    out[at + 7] = chars.MINUS
    _put_two(out, at + 8, day)
    return at + 10


@compiled
def write_time(out: Vector, at: int, nanos: int) -> int:
    """Write ``HH:mm:ss`` and the fraction without trailing zeros; returns the position after it."""
    seconds = nanos // 1_000_000_000
    fraction = nanos - seconds * 1_000_000_000
    _put_two(out, at, seconds // 3600)
    out[at + 2] = chars.COLON
    _put_two(out, at + 3, seconds // 60 % 60)
    out[at + 5] = chars.COLON
    _put_two(out, at + 6, seconds % 60)
    at += 8
    if fraction:
        digits = 9
        while fraction % 10 == 0:
            fraction //= 10
            digits -= 1
        out[at] = chars.POINT
        for pos in range(digits, 0, -1):
            out[at + pos] = chars.ZERO + fraction % 10
            fraction //= 10
        at += digits + 1
    return at


@compiled
def write_timestamp(out: Vector, at: int, micros: int, separator: int, zone: bool) -> int:
    """Write a timestamp in microseconds; returns the position after it, or -1 (see :func:`write_date`)."""
    days = micros // DAY_MICROS
    at = write_date(out, at, days)
    if at < 0:
        return at
    out[at] = separator
    at = write_time(out, at + 1, (micros - days * DAY_MICROS) * 1000)
    if zone:
        out[at] = chars.UPPER_Z
        at += 1
    return at
