"""Points in time as local times of the session's zone, and back, by Java's rules."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session

_UTC = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    zone = _known(session)
    return None if zone is None else lambda values: _local(zone, values)


def from_local(session: Session) -> Convert | None:
    """Makes TIMESTAMP_LTZ of TIMESTAMP; None if the zone is not known. Of two moments with one local time it is the
    earlier one. A local time that the zone leaves out is counted on from before it."""
    if is_utc(session):
        return lambda values: values.view(pa.int64()).view(_UTC)
    zone = _known(session)
    return None if zone is None else lambda values: _moments(zone, values)


def _known(session: Session) -> str | None:
    """The zone, if Arrow has it."""
    try:
        _local(session.zone, pa.array([0], _UTC))
        zoneinfo.ZoneInfo(session.zone)
    except (pa.ArrowInvalid, ValueError, zoneinfo.ZoneInfoNotFoundError):
        return None
    return session.zone


def _local(zone: str, values: pa.Array) -> pa.Array:
    return pc.local_timestamp(values.cast(pa.timestamp("us", zone)))


def _moments(zone: str, values: pa.Array) -> pa.Array:
    found = pc.assume_timezone(values, zone, ambiguous="earliest", nonexistent="earliest").cast(_UTC)
    left_out = pc.fill_null(pc.not_equal(_local(zone, found), values), False)
    if not left_out.true_count:
        return found
    place = zoneinfo.ZoneInfo(zone)
    given = pc.if_else(left_out, values, None).to_pylist()
    exact = [None if each is None else each.replace(tzinfo=place) - _EPOCH for each in given]
    moments = pa.array(exact, pa.duration("us")).cast(pa.int64()).view(_UTC)
    return pc.if_else(left_out, moments, found)
