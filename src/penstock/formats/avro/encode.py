"""Rows to ``avro`` messages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.formats.avro.datum import DatumWriter
from penstock.formats.avro.derived_schema import derived
from penstock.formats.avro.json_encoding import JsonEncoding
from penstock.formats.avro.options import AvroOptions, Encoding
from penstock.formats.avro.schema import Record, parse
from penstock.types import RowType


@dataclass(frozen=True)
class AvroEncoder:
    """Encodes each row as one record, without its schema.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema.
    """

    schema: RowType
    options: AvroOptions

    def __post_init__(self) -> None:
        _ = self._writer.program

    @cached_property
    def _writer(self) -> DatumWriter:
        given = parse(self.options.schema) if self.options.schema else None
        if not isinstance(given, Record):
            given = derived(self.schema, self.options.legacy_timestamps)
        return DatumWriter(given, self.schema)

    @cached_property
    def _json(self) -> JsonEncoding:
        return JsonEncoding(self._writer.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError for a row that the schema cannot hold, with its index."""
        if self.options.encoding is Encoding.BINARY:
            return self._writer.messages(rows)
        return self._json.texts(*self._writer.write(rows))
