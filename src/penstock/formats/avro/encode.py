"""Rows to ``avro`` messages."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from penstock.formats.avro.datum import DatumWriter
from penstock.formats.avro.derived_schema import parse_or_derive_record
from penstock.formats.avro.json_encoding import JsonEncoding
from penstock.formats.avro.options import AvroOptions, Encoding
from penstock.formats.shared.codec import TableCodec


class AvroEncoder(TableCodec[AvroOptions]):
    """Encodes each row as one record, without its schema.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema.
    """

    def _check(self) -> None:
        _ = self._writer.program

    @cached_property
    def _writer(self) -> DatumWriter:
        options = self.options
        return DatumWriter(parse_or_derive_record(self.schema, options.schema, options.legacy_timestamps), self.schema)

    @cached_property
    def _json(self) -> JsonEncoding:
        return JsonEncoding(self._writer.schema)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError for a row that the schema cannot hold, with its index."""
        if self.options.encoding is Encoding.BINARY:
            return self._writer.messages(rows)
        return self._json.texts(*self._writer.write(rows))
