"""The proleptic Gregorian calendar, for columns of days and microseconds since 1970."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]

DAY_MICROS = 86_400_000_000
#: The number of days in 400 years.
ERA_DAYS = 146_097
_SHIFT = 719_468
_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


def day_and_time(micros: Numbers) -> tuple[Numbers, Numbers]:
    """Days since 1970, and microseconds of the day."""
    days = micros // DAY_MICROS
    return days, micros - days * DAY_MICROS


def civil(days: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Year, month and day."""
    shifted = days + _SHIFT
    era = shifted // ERA_DAYS
    of_era = shifted - era * ERA_DAYS
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march = (5 * of_year + 2) // 153
    month = march + np.where(march < 10, 3, -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * march + 2) // 5 + 1


def days_of(year: Numbers, month: Numbers, day: Any) -> Numbers:
    """Days since 1970; the inverse of :func:`civil`."""
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    found: Numbers = era * ERA_DAYS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _SHIFT
    return found


def last_day(year: Numbers, month: Numbers) -> Numbers:
    """The number of days of a month."""
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    found: Numbers = _LENGTHS[month - 1] + ((month == 2) & leap)
    return found


def months_later(days: Numbers, months: Any) -> Numbers:
    """The same day of another month, or its last one."""
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return days_of(year, month, np.minimum(day, last_day(year, month)))


def iso_week(days: Numbers) -> Numbers:
    """The week of the year by ISO 8601: the one of its Thursday."""
    thursday = days - (days + 3) % 7 + 3
    year = civil(thursday)[0]
    return (thursday - days_of(year, np.ones_like(year), 1)) // 7 + 1
