"""Rows to ``avro-confluent`` messages."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from penstock.errors import OptionsError, Problem
from penstock.formats.avro.datum import DatumWriter
from penstock.formats.avro.derived_schema import parse_or_derive_record
from penstock.formats.avro.schema import Record, format_schema
from penstock.formats.avro_confluent.client import registry_for
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.formats.shared.codec import TableCodec

_NAME = "avro-confluent"


class AvroConfluentEncoder(TableCodec[AvroConfluentOptions]):
    """Encodes each row as one record after the id of its schema, which is requested with the first row.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema, and OptionsError without a
    subject.
    """

    def _check(self) -> None:
        if self.options.subject is None:
            hint = "only tables with one topic have a default"
            raise OptionsError((Problem("is required to write", "subject", hint=hint),))
        _ = DatumWriter(self._writer_schema, self.schema).program

    @cached_property
    def _writer_schema(self) -> Record:
        return parse_or_derive_record(self.schema, self.options.schema, self.options.legacy_timestamps)

    @cached_property
    def _writer(self) -> DatumWriter:
        # The registry gets the text of the user's schema, which may have attributes that are not parsed here.
        number = registry_for(self.options.settings).find_id(
            self.options.subject or "",
            self.options.schema or format_schema(self._writer_schema),
            register=self.options.auto_register,
        )
        return DatumWriter(self._writer_schema, self.schema, b"\0" + number.to_bytes(4, "big"), _NAME)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row.

        Raises RecordError for a row that the schema cannot hold, with its index, and SchemaRegistryError if the
        registry refuses the schema or cannot be reached.
        """
        return self._writer.messages(rows) if rows.num_rows else pa.array([], pa.binary())
