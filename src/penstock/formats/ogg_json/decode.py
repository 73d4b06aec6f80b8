"""``ogg-json`` messages to rows with row kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from penstock.exact import timestamps
from penstock.formats.changes.decode import DELETE, INSERT, UPDATE, ChangeDecoder, DecodedChanges, read_image_changes
from penstock.formats.changes.envelopes import Envelopes, Faults
from penstock.formats.changes.metadata import Metadata, moment_reader, read_unchanged
from penstock.formats.changes.options import ChangeOptions
from penstock.types import STRING, ArrayType, Field, RowType, TimestampType

_OPERATIONS = {"I": INSERT, "U": UPDATE, "D": DELETE}
_TEXTS = ArrayType(element=STRING)
_MICROSECONDS = TimestampType(precision=6, local_zone=True)
_DAY = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_LOOSE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(\.[0-9]{0,9})?)?")
_STRICT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}")
_DAY_MICROS = 86_400_000_000


def _read_current_time(text: str) -> int | None:
    """``current_ts``: 'yyyy-MM-ddTHH:mm:ss.SSSSSS', or any text that ``java.sql.Timestamp`` or ``Date`` reads, else
    null."""
    try:
        if _STRICT.fullmatch(text):
            return timestamps.parse_timestamp(text.replace("T", " "), False, False)
        found = _LOOSE.fullmatch(text.strip())
        if found is None:
            return None
        hour, minute, second = (int(each or 0) for each in found.group(4, 5, 6))
        micros = int((found.group(7) or ".0")[1:].ljust(6, "0")[:6])
        days = timestamps.parse_lenient_date("-".join(found.group(1, 2, 3)))
        return days * _DAY_MICROS + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    except ValueError:
        return None


def _read_operation_time(text: str) -> int:
    """``op_ts``: 'yyyy-M-d', optionally with a space and 'H:m:s' with or without fraction. Raises ValueError."""
    found = _LOOSE.fullmatch(text)
    if found is None:
        raise ValueError(f"expected a timestamp 'yyyy-MM-dd HH:mm:ss[.f]', not '{text}'")
    year, month, day, hour, minute, second = (int(each or 0) for each in found.group(1, 2, 3, 4, 5, 6))
    padded = f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}{found.group(7) or ''}"
    return timestamps.parse_timestamp(padded, False, False)


#: The metadata columns, by key.
METADATA = {
    "table": Metadata(STRING, Field("table", STRING), read_unchanged),
    "primary-keys": Metadata(_TEXTS, Field("primary_keys", _TEXTS), read_unchanged),
    "ingestion-timestamp": Metadata(
        _MICROSECONDS, Field("current_ts", STRING), moment_reader(rf"^{_DAY}T{_TIME}\.[0-9]{{6}}$", _read_current_time)
    ),
    "event-timestamp": Metadata(
        _MICROSECONDS,
        Field("op_ts", STRING),
        moment_reader(rf"^{_DAY} {_TIME}(?:\.[0-9]{{1,6}})?$", _read_operation_time),
    ),
}


class OggJsonDecoder(ChangeDecoder[ChangeOptions]):
    """Decodes messages of Oracle GoldenGate: ``before``, ``after`` and ``op_type``, which is I, U or D."""

    known: ClassVar[Mapping[str, Metadata]] = METADATA

    def _envelope(self) -> RowType:
        images = (Field("before", self.schema), Field("after", self.schema), Field("op_type", STRING))
        return RowType((*images, *self._metadata_fields()))

    def _changes(self, envelopes: Envelopes, faults: Faults, messages: pa.BinaryArray) -> DecodedChanges:
        return read_image_changes(envelopes.columns, _OPERATIONS, "op_type", self._path, faults)
