"""Functions that only transforms of pipelines have."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.moments import patterns
from penstock.flow.kernels.moments.datetimes import micros_of
from penstock.flow.kernels.rowwise import ValueFailure, compute_each, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Vector, column, failed_rows, valid_rows
from penstock.plan.expressions import Call, Literal
from penstock.types import arrow_type

_LOCAL = pa.timestamp("us")
_SECONDS = ("yyyy", b"-", "MM", b"-", "dd", b"T", "HH", b":", "mm", b":", "ss")
#: The forms that are read by columns, and their lengths.
_USUAL = (
    (patterns.Pattern(_SECONDS), 19),
    (patterns.Pattern((*_SECONDS, b".", "SSS")), 23),
    (patterns.Pattern((*_SECONDS, b".", "SSSSSS")), 26),
)
#: What Java's LocalDate, LocalDateTime, Instant and ZonedDateTime read, except the name of a zone.
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(T(?P<minute>\d\d:\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d\d:\d\d(\[[\w/+-]+\])?)?)?",
    re.ASCII,
)


def as_type(call: Call, session: Session) -> Kernel | None:
    """The same values under another type of the same layout."""
    (given,) = call.args
    if arrow_type(given.type) != arrow_type(call.type):
        return None
    return lambda args, rows: args[0]


def in_utc(call: Call, session: Session) -> Kernel:
    """The local time in UTC of a TIMESTAMP_LTZ."""
    return Strict(pa.timestamp("us"), lambda values: values.view(pa.int64()).view(pa.timestamp("us")))


def from_utc(call: Call, session: Session) -> Kernel:
    """The TIMESTAMP_LTZ of a local time in UTC."""
    return Strict(pa.timestamp("us", "UTC"), lambda values: values.view(pa.int64()).view(pa.timestamp("us", "UTC")))


def readable(call: Call, session: Session) -> Kernel:
    """The first argument, which was read from the second. Rows fail where it could not be read."""
    name = call.type.text()

    def kernel(args: Sequence[Vector], rows: int) -> Vector:
        found, given = args
        texts = given.spread(rows)
        failures = (*given.failures, *found.failures)
        failed = given.validity(rows) & ~found.validity(rows) & ~failed_rows(failures, rows)
        if failed.any():
            failures = (*failures, Failure(failed, lambda row: f"'{texts[row].as_py()}' cannot be read as {name}"))
        return Vector(found.values, failures)

    return kernel


def iso_text(call: Call, session: Session) -> Kernel:
    """A TIMESTAMP as Java's ``LocalDateTime.toString`` writes it: without seconds and digits that are zero."""
    return Strict(pa.string(), _write_iso)


def _write_iso(values: pa.Array) -> pa.Array:
    micros = micros_of(values)
    texts = _USUAL[-1][0].write(micros, values)
    ends = ((micros % 1_000 == 0, -3), (micros % 1_000_000 == 0, -7), (micros % 60_000_000 == 0, -10))
    found = texts
    for cut, stop in ends:
        if cut.any():
            found = pc.if_else(pa.array(cut), pc.utf8_slice_codeunits(texts, 0, stop), found)
    return found


def iso_timestamp(call: Call, session: Session) -> Kernel:
    """The local time that a text in ISO 8601's form means in the session; null for other text."""
    return Strict(pa.timestamp("us"), partial(_read_texts, session.zone))


def _read_texts(zone: str, texts: pa.Array) -> pa.Array:
    lengths = pc.utf8_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    micros, accepted = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.bool_)
    for pattern, length in _USUAL:
        chosen = lengths == length
        if chosen.any():
            found, good = pattern.read(pc.if_else(pa.array(chosen), texts, None), lambda _: None)
            micros[good] = found[good]
            accepted |= good
    left = valid_rows(texts) & ~accepted
    if left.any():
        others = compute_each(partial(_read_iso, zone), _LOCAL, (texts.filter(pa.array(left)),)).spread(0)
        micros[left] = others.view(pa.int64()).fill_null(0).to_numpy()
        accepted[left] = valid_rows(others)
    return column(micros, accepted, _LOCAL)


def _read_iso(zone: str, text: str) -> datetime | None:
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    try:
        clock = f"{found['minute'] or '00:00'}:{found['second'] or '00'}"
        local = datetime.fromisoformat(f"{found['day']}T{clock}")
    except ValueError:
        return None
    local += timedelta(microseconds=int((found["fraction"] or "").ljust(6, "0")[:6]))
    if found["zone"] != "Z":  # Java leaves out an offset
        return local
    ahead = local.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo(zone or "UTC"))
    return ahead.replace(tzinfo=None)


def format_in_zone(call: Call, session: Session) -> Kernel | None:
    """``DATE_FORMAT_TZ`` of a TIMESTAMP_LTZ."""
    zone = call.args[2]
    if not isinstance(zone, Literal) or not isinstance(zone.value, str):
        return None
    written = replace(call, function="DATE_FORMAT", args=call.args[:2])
    kernel = patterns.date_format(written, replace(session, zone=zone.value))
    return None if kernel is None else lambda args, rows: kernel(args[:2], rows)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueFailure(f"'{text}' is not Base64") from None


def _overlay(value: bytes, other: bytes, start: int, length: int | None = None) -> bytes:
    if not 0 < start <= len(value):
        return value
    count = len(other) if length is None else length
    rest = value[start - 1 + count :] if count > 0 else b""
    return value[: start - 1] + other + rest


def _find(wanted: bytes, value: bytes, start: int = 1) -> int:
    if not wanted:
        return 1
    return value.find(wanted, max(start - 1, 0)) + 1


FROM_BASE64_BINARY = row_by_row(_decode)
OVERLAY_OF_BYTES = row_by_row(_overlay)
POSITION_OF_BYTES = row_by_row(_find)
