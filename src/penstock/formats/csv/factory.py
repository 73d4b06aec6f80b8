"""The ``csv`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.csv.decode import CsvDecoder
from penstock.formats.csv.encode import CsvEncoder
from penstock.formats.csv.options import CsvOptions
from penstock.options import OptionSet
from penstock.types import RowType


class CsvFormat:
    """One line of CSV per message, by Flink's rules."""

    identifier = "csv"
    options: type[OptionSet] = CsvOptions
    by_name = False

    def decoder(self, schema: RowType, options: OptionSet) -> CsvDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for types that CSV does not have."""
        return CsvDecoder(schema, CsvOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> CsvEncoder:
        """An encoder for rows of ``schema``. Raises SchemaError for types that CSV does not have."""
        return CsvEncoder(schema, CsvOptions.expect(options))
