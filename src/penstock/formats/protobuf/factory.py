"""The ``protobuf`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.protobuf.decode import ProtobufDecoder
from penstock.formats.protobuf.encode import ProtobufEncoder
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.options import OptionSet
from penstock.types import RowType


class ProtobufFormat:
    """One protobuf message per row, of a type that a file describes, by Flink's rules."""

    identifier = "protobuf"
    options: type[OptionSet] = ProtobufOptions
    by_name = True

    def decoder(self, schema: RowType, options: OptionSet) -> ProtobufDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for columns that do not fit the message."""
        return ProtobufDecoder(schema, ProtobufOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> ProtobufEncoder:
        """An encoder for rows of ``schema``. Raises SchemaError for columns that do not fit the message."""
        return ProtobufEncoder(schema, ProtobufOptions.expect(options))
