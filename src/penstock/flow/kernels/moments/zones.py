"""Local times in other zones, row by row."""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache

from penstock.flow.kernels.moments.far_times import ahead_at, ahead_of_local, to_python_time
from penstock.flow.kernels.moments.readings import lenient
from penstock.flow.kernels.rowwise import row_by_row

_OFFSET = re.compile(r"GMT([+-])(\d{1,2}):?(\d{2})?")
#: Java's short names of zones with daylight saving.
_SHORT = {"PST": "America/Los_Angeles", "CST": "America/Chicago", "JST": "Asia/Tokyo", "IST": "Asia/Kolkata"}


@lru_cache(maxsize=64)
def _find_zone(name: str) -> tzinfo:
    """The zone of a name; UTC for one that is not known, as in Java."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        lapse = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-lapse if offset[1] == "-" else lapse) if lapse < timedelta(hours=24) else UTC
    try:
        return zoneinfo.ZoneInfo(_SHORT.get(name, name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        return UTC


def _convert(text: str, source: str, target: str) -> str | None:
    """A local time as text; None for a text in another form. Of two moments with one local time it is the later one, as
    in Java's calendar."""
    local = lenient(text)
    if local is None:
        return None
    moment = local - ahead_of_local(_find_zone(source), local, last=True)
    found, years = to_python_time(moment + ahead_at(_find_zone(target), moment))
    year = found.year + years
    return f"{year if year > 0 else 1 - year:04d}-{found:%m-%d %H:%M:%S}"


CONVERT_TZ = row_by_row(_convert)
