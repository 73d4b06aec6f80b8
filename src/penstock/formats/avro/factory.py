"""The ``avro`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.avro.decode import AvroDecoder
from penstock.formats.avro.encode import AvroEncoder
from penstock.formats.avro.options import AvroOptions
from penstock.options import OptionSet
from penstock.types import RowType


class AvroFormat:
    """One Avro record per message, without its schema, by Flink's rules."""

    identifier = "avro"
    options: type[OptionSet] = AvroOptions
    by_name = False

    def decoder(self, schema: RowType, options: OptionSet) -> AvroDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for columns that Avro cannot hold."""
        return AvroDecoder(schema, AvroOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> AvroEncoder:
        """An encoder for rows of ``schema``. Raises SchemaError for columns that Avro cannot hold."""
        return AvroEncoder(schema, AvroOptions.expect(options))
