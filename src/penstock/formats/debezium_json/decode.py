"""``debezium-json`` messages to rows with row kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from penstock.formats.changes.decode import DELETE, INSERT, UPDATE, ChangeDecoder, DecodedChanges, read_image_changes
from penstock.formats.changes.envelopes import Envelopes, Faults, always, is_null
from penstock.formats.changes.metadata import (
    MILLISECONDS,
    TEXT_MAP,
    Metadata,
    epoch_reader,
    read_epoch_text,
    read_unchanged,
)
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.types import BIGINT, STRING, Field, RowType

#: The values of ``op``.
OPERATIONS = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
_SOURCE = Field("source", TEXT_MAP)

#: The metadata columns, by key.
METADATA = {
    "schema": Metadata(STRING, Field("schema", STRING), read_unchanged, beside=True),
    "ingestion-timestamp": Metadata(MILLISECONDS, Field("ts_ms", BIGINT), epoch_reader(1000)),
    "source.timestamp": Metadata(MILLISECONDS, _SOURCE, read_epoch_text, "ts_ms"),
    "source.database": Metadata(STRING, _SOURCE, read_unchanged, "db"),
    "source.schema": Metadata(STRING, _SOURCE, read_unchanged, "schema"),
    "source.table": Metadata(STRING, _SOURCE, read_unchanged, "table"),
    "source.properties": Metadata(TEXT_MAP, _SOURCE, read_unchanged),
}


class DebeziumJsonDecoder(ChangeDecoder[DebeziumJsonOptions]):
    """Decodes messages of Debezium: ``before``, ``after`` and ``op``, which is c or r, u, or d."""

    known: ClassVar[Mapping[str, Metadata]] = METADATA

    def _envelope(self) -> RowType:
        payload = (
            Field("before", self.schema),
            Field("after", self.schema),
            Field("op", STRING),
            *self._metadata_fields(),
        )
        if self.options.schema_include:
            payload = (Field("payload", RowType(payload)),)
        return RowType((*payload, *self._metadata_fields(beside=True)))

    def _metadata_fields(self, *, beside: bool = False) -> tuple[Field, ...]:
        return tuple(self._source() if each == _SOURCE else each for each in super()._metadata_fields(beside=beside))

    def _source(self) -> Field:
        """``source`` as a row of the requested fields, which is faster than reading all of it."""
        if "source.properties" in self.metadata:
            return _SOURCE
        names = dict.fromkeys(METADATA[key].entry for key in self.metadata if METADATA[key].field == _SOURCE)
        return Field("source", RowType(tuple(Field(name, STRING) for name in names)))

    def _path(self, name: str) -> str:
        return f"payload.{name}" if self.options.schema_include else name

    def _changes(self, envelopes: Envelopes, faults: Faults, messages: pa.BinaryArray) -> DecodedChanges:
        if self.options.schema_include:
            missing = "the field is missing or null; set 'schema-include' to false if messages hold no schema"
            faults.add(is_null(envelopes.columns["payload"]), always("payload", missing))
        return read_image_changes(self._payload(envelopes), OPERATIONS, "op", self._path, faults)

    def _payload(self, envelopes: Envelopes) -> dict[str, pa.Array]:
        if not self.options.schema_include:
            return envelopes.columns
        payload = envelopes.columns["payload"]
        return dict(zip((each.name for each in payload.type), payload.flatten(), strict=True))

    def _column(self, envelopes: Envelopes, each: Metadata) -> pa.Array:
        return (envelopes.columns if each.beside else self._payload(envelopes))[each.field.name]
