"""Dates, times and timestamps inside compiled loops: text to numbers and back, for years 0001 to 9999.

The loops refuse other years, days that Java would move to the end of the month, and ``24:00:00``, because
:mod:`penstock.exact.timestamps` implements all rules.
"""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.bytes import HIGH_BITS, NONE, eight_bytes
from penstock.loops.compiled import Vector, Word, compiled, inlined
from penstock.loops.digits import put_two_digits

#: Returned by parsers for text that they refuse; never a valid number of days, microseconds or nanoseconds.
REFUSED = -(2**63)

DAY_MICROS = 86_400_000_000

#: 0000-01-01 and 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719528, 2932896
#: The bytes of ``yyyy-MM-`` and of ``dd HH:mm``, with 0 for digits, the first byte lowest; and what, added to the
#: differences of a text from it, sets the highest bit of a byte that is not a digit, or not the separator that it has
#: to be.
_MONTH, _WRONG_IN_MONTH = np.uint64(0x2D30302D30303030), np.uint64(0x7F76767F76767676)
_MINUTE, _WRONG_IN_MINUTE = np.uint64(0x30303A3030003030), np.uint64(0x76767F76767F7676)
_TEN, _SIXTY, _BILLION = np.uint64(10), np.uint64(60), np.uint64(1_000_000_000)


@inlined
def days_from_date(year: int, month: int, day: int) -> int:
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
    if century < 0 or year < 0:
        return REFUSED
    return _count_days(century * 100 + year, month, day)


@inlined
def _count_days(year: int, month: int, day: int) -> int:
    """Days since the epoch, or REFUSED for a day that the calendar does not have."""
    if year < 1 or month < 1 or month > 12 or day < 1 or day > 31:
        return REFUSED
    if day > 28:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if month == 2 and day > (29 if leap else 28):
            return REFUSED
        if day == 31 and month in (4, 6, 9, 11):
            return REFUSED
    return days_from_date(year, month, day)


@inlined
def parse_time(text: Vector, start: int, end: int) -> int:
    """``HH:mm:ss`` with at most nine more digits after a point to nanoseconds of the day, or REFUSED."""
    size = end - start
    if size < 8 or text[start + 2] != chars.COLON or text[start + 5] != chars.COLON or size > 18:
        return REFUSED
    hour, minute = two_digits(text, start), two_digits(text, start + 3)
    return _read_nanos(hour, minute, two_digits(text, start + 6), text, start + 8, end)


@inlined
def _read_nanos(hour: int, minute: int, second: int, text: Vector, at: int, end: int) -> int:
    """Nanoseconds of the day at a time with the fraction in ``text[at:end]``, or REFUSED."""
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return REFUSED
    nanos = 0
    if at < end:
        if text[at] != chars.POINT or at + 1 == end or end - at > 10:
            return REFUSED
        for pos in range(at + 1, end):
            digit = text[pos] - chars.ZERO
            if digit < 0 or digit > 9:
                return REFUSED
            nanos = nanos * 10 + digit
        for _ in range(end - at, 10):
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
    if end - start < 19 or text[start + 16] != chars.COLON:
        return REFUSED
    # Eight bytes at a time: digits become 0 to 9, and the separators 0.
    month = eight_bytes(text, start) ^ _MONTH
    minute = eight_bytes(text, start + 8) ^ (_MINUTE | np.uint64(separator) << np.uint64(16))
    wrong = (month + _WRONG_IN_MONTH) | month | (minute + _WRONG_IN_MINUTE) | minute
    if wrong & HIGH_BITS != NONE:
        return REFUSED
    month = month * _TEN + (month >> np.uint64(8))  # pairs of digits are numbers
    minute = minute * _TEN + (minute >> np.uint64(8))
    days = _count_days(_byte(month, 0) * 100 + _byte(month, 2), _byte(month, 5), _byte(minute, 0))
    nanos = _read_nanos(_byte(minute, 3), _byte(minute, 6), two_digits(text, start + 17), text, start + 19, end)
    if REFUSED in (days, nanos):
        return REFUSED
    return days * DAY_MICROS + nanos // 1000


@inlined
def _byte(word: Word, number: int) -> Word:
    return np.int64(word >> np.uint64(8 * number) & np.uint64(255))


@inlined
def date_from_days(days: int) -> tuple[Word, Word, Word]:
    """Year, month and day of a number of days since 1970-01-01; the inverse of :func:`days_from_date`.

    Fractions instead of divisions, as in C. Neri and L. Schneider, "Euclidean affine functions and their application to
    calendar algorithms" (2022).
    """
    shifted = days + 719468
    era = shifted // 146097
    quarters = np.uint64(4 * (shifted - era * 146097) + 3)
    century = quarters // np.uint64(146097)
    product = np.uint64(2939745) * ((quarters % np.uint64(146097)) | np.uint64(3))
    of_year = (product & np.uint64(0xFFFFFFFF)) // np.uint64(2939745) >> np.uint64(2)
    months = np.uint64(2141) * of_year + np.uint64(197913)
    month, day = np.int64(months >> np.uint64(16)), np.int64((months & np.uint64(0xFFFF)) // np.uint64(2141)) + 1
    year = era * 400 + np.int64(century * np.uint64(100) + (product >> np.uint64(32)))
    return (year + 1, month - 12, day) if month > 12 else (year, month, day)


@inlined
def write_date(out: Vector, at: int, days: int) -> int:
    """Write ``yyyy-MM-dd``; returns the position after it, or -1 for a year beyond 0000 to 9999."""
    if days < _FIRST_DAY or days > _LAST_DAY:
        return -1
    year, month, day = date_from_days(days)
    put_two_digits(out, at, year // 100)
    put_two_digits(out, at + 2, year % 100)
    out[at + 4] = chars.MINUS
    put_two_digits(out, at + 5, month)
    out[at + 7] = chars.MINUS
    put_two_digits(out, at + 8, day)
    return at + 10


@inlined
def write_time(out: Vector, at: int, nanos: int) -> int:
    """Write ``HH:mm:ss`` and the fraction without trailing zeros; returns the position after it."""
    seconds = np.uint64(nanos) // _BILLION
    minutes = seconds // _SIXTY
    put_two_digits(out, at, minutes // _SIXTY)
    out[at + 2] = chars.COLON
    put_two_digits(out, at + 3, minutes % _SIXTY)
    out[at + 5] = chars.COLON
    put_two_digits(out, at + 6, seconds % _SIXTY)
    at += 8
    fraction = np.uint64(nanos) - seconds * _BILLION
    if fraction:
        digits = 9
        while fraction % _TEN == 0:
            fraction //= _TEN
            digits -= 1
        out[at] = chars.POINT
        for pos in range(digits, 0, -1):
            out[at + pos] = np.uint64(chars.ZERO) + fraction % _TEN
            fraction //= _TEN
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
