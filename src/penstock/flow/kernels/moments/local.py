"""Points in time as local times of the session's zone, and back, by Java's rules."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.moments.far_times import LISTED_END, ahead_at, ahead_of_local, map_each
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import column, numbers, valid_rows

_UTC = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")
#: Session time zones in which local time and UTC are the same.
_SAME = {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Universal", "Etc/Universal", "Zulu", "Etc/Zulu"}

Convert = Callable[[pa.Array], pa.Array]


def is_utc(session: Session) -> bool:
    """Whether local time is UTC."""
    return session.zone in _SAME


def local_zone(session: Session) -> str:
    """The zone of local time; empty for UTC, or if it is not known."""
    return "" if is_utc(session) else session.zone


def to_local(session: Session) -> Convert | None:
    """Makes TIMESTAMP of TIMESTAMP_LTZ; None if the zone is not known."""
    if is_utc(session):
        return lambda values: values.view(pa.int64()).view(_NAIVE)
    zone = _find_known_zone(session)
    return None if zone is None else lambda values: _find_local(zone, values)


def from_local(session: Session, *, last: bool = False) -> Convert | None:
    """Makes TIMESTAMP_LTZ of TIMESTAMP; None if the zone is not known. Of two moments with one local time it is the
    earlier one, or with ``last`` the later one. A local time that the zone leaves out is counted on from before it."""
    if is_utc(session):
        return lambda values: values.view(pa.int64()).view(_UTC)
    zone = _find_known_zone(session)
    return None if zone is None else lambda values: _find_moments(zone, values, "latest" if last else "earliest")


def is_known_zone(zone: str) -> bool:
    """Whether there are local times of a zone."""
    return to_local(Session(zone)) is not None


def _find_known_zone(session: Session) -> str | None:
    """The zone, if Arrow has it."""
    try:
        _find_local(session.zone, pa.array([0], _UTC))
        zoneinfo.ZoneInfo(session.zone)
    except (pa.ArrowInvalid, ValueError, zoneinfo.ZoneInfoNotFoundError):
        return None
    return session.zone


def _find_local(zone: str, values: pa.Array) -> pa.Array:
    found = pc.local_timestamp(values.cast(pa.timestamp("us", zone)))
    place = zoneinfo.ZoneInfo(zone)
    return _replace_far_times(found, values, lambda micros: micros + ahead_at(place, micros))


def _find_moments(zone: str, values: pa.Array, ambiguous: str) -> pa.Array:
    found = pc.assume_timezone(values, zone, ambiguous=ambiguous, nonexistent="earliest").cast(_UTC)
    local = pc.local_timestamp(found.cast(pa.timestamp("us", zone)))
    left_out = pc.fill_null(pc.not_equal(local, values), False)
    if left_out.true_count:
        # Arrow gives the last moment before the clock is changed, and so how far local time was ahead of UTC then.
        ahead = pc.subtract(local.cast(pa.int64()), found.cast(pa.int64()))
        found = pc.if_else(left_out, pc.subtract(values.cast(pa.int64()), ahead).view(_UTC), found)
    place, last = zoneinfo.ZoneInfo(zone), ambiguous == "latest"
    return _replace_far_times(found, values, lambda micros: micros - ahead_of_local(place, micros, last=last))


def _replace_far_times(found: pa.Array, values: pa.Array, convert: Callable[[int], int]) -> pa.Array:
    """``found`` with other times for those of ``values`` for which Arrow does not know the rules of zones."""
    micros = values.view(pa.int64())
    far = numbers(micros) >= LISTED_END
    if not far.any():
        return found
    made = numbers(found.view(pa.int64())).copy()
    far &= valid_rows(micros)
    made[far] = map_each(numbers(micros)[far], convert)
    return column(made, valid_rows(micros), found.type)
