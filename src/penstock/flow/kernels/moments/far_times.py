"""Local times in years for which Arrow does not know a zone's clock changes, one moment at a time.

The files of zones list the changes until 2037, then a rule. Arrow does not read the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from penstock.flow.kernels.moments.calendar import DAY_MICROS, ERA_DAYS

#: The start of 2037 in UTC, in microseconds since 1970.
LISTED_END = 2_114_380_800_000_000
_EPOCH = datetime(1970, 1, 1)
_MICRO = timedelta(microseconds=1)
_ERA_MICROS = ERA_DAYS * DAY_MICROS
#: Times between these are within the years of Python's calendar, in all zones.
_LEAST, _MOST = -62_135_000_000_000_000, 253_402_000_000_000_000

Micros = NDArray[np.int64]


def to_python_time(micros: int) -> tuple[datetime, int]:
    """A time in microseconds since 1970 as Python's, in a year with the same calendar and the same rules of zones, and
    how many years earlier or later that is. The calendar repeats after 400 years; Python knows the years 1 to 9999."""
    eras = 0 if _LEAST <= micros < _MOST else micros // _ERA_MICROS - 3
    return _EPOCH + timedelta(microseconds=micros - eras * _ERA_MICROS), 400 * eras


def ahead_at(zone: tzinfo, moment: int) -> int:
    """How far local time is ahead of UTC at a moment, in microseconds."""
    return (to_python_time(moment)[0].replace(tzinfo=UTC).astimezone(zone).utcoffset() or timedelta()) // _MICRO


def ahead_of_local(zone: tzinfo, local: int, *, last: bool) -> int:
    """How far a local time is ahead of UTC, in microseconds. Of two moments with that local time it is the earlier one,
    or with ``last`` the later one; a local time that the zone leaves out is counted on from before it."""
    first, later = _folds(zone, local)
    return min(first, later) if last else first


def first_moment(zone: tzinfo, local: int) -> int:
    """The moment of a local time: of two moments the later one; for a local time that the zone leaves out, the moment
    at which clocks are changed."""
    before, after = _folds(zone, local)
    found = local - min(before, after)
    if before >= after:
        return found
    low, high = local - after, found
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if ahead_at(zone, middle) == before else (low, middle)
    return high


def _folds(zone: tzinfo, local: int) -> tuple[int, int]:
    wall = to_python_time(local)[0]
    first, later = ((wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()) // _MICRO for fold in (0, 1))
    return first, later


def map_each(micros: Micros, measure: Callable[[int], int]) -> Micros:
    """``measure`` of each time. Equal times are measured once."""
    different, places = np.unique(micros, return_inverse=True)
    return np.array([measure(each) for each in different.tolist()], np.int64)[places]
