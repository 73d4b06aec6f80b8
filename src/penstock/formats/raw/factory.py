"""The ``raw`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.raw.decode import RawDecoder
from penstock.formats.raw.encode import RawEncoder
from penstock.formats.raw.options import RawOptions
from penstock.options import OptionSet
from penstock.types import RowType


class RawFormat:
    """A message is the value of the only column, by Flink's rules."""

    identifier = "raw"
    options: type[OptionSet] = RawOptions
    by_name = False

    def decoder(self, schema: RowType, options: OptionSet) -> RawDecoder:
        """A decoder for the only column. Raises SchemaError for several columns or a type that raw does not know."""
        return RawDecoder(schema, RawOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> RawEncoder:
        """An encoder for the only column. Raises SchemaError for several columns or a type that raw does not know."""
        return RawEncoder(schema, RawOptions.expect(options))
