"""The ``avro-confluent`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.avro_confluent.decode import AvroConfluentDecoder
from penstock.formats.avro_confluent.encode import AvroConfluentEncoder
from penstock.formats.avro_confluent.options import AvroConfluentOptions
from penstock.options import OptionSet
from penstock.types import RowType


class AvroConfluentFormat:
    """One Avro record per message, after the id of its schema in a schema registry."""

    identifier = "avro-confluent"
    options: type[OptionSet] = AvroConfluentOptions
    by_name = True
    subject_option = "subject"

    def decoder(self, schema: RowType, options: OptionSet) -> AvroConfluentDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for columns that Avro cannot hold."""
        return AvroConfluentDecoder(schema, AvroConfluentOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> AvroConfluentEncoder:
        """An encoder for rows of ``schema``. Raises SchemaError for columns that Avro cannot hold, and OptionsError
        without a subject."""
        return AvroConfluentEncoder(schema, AvroConfluentOptions.expect(options))
