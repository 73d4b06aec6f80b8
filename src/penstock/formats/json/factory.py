"""The ``json`` format as the registry knows it."""

from __future__ import annotations

from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.json.options import JsonOptions
from penstock.options import OptionSet
from penstock.types import RowType


class JsonFormat:
    """One JSON object per message, by Flink's rules."""

    identifier = "json"
    options: type[OptionSet] = JsonOptions
    by_name = True

    def decoder(self, schema: RowType, options: OptionSet) -> JsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        return JsonDecoder(schema, JsonOptions.expect(options))

    def encoder(self, schema: RowType, options: OptionSet) -> JsonEncoder:
        """An encoder for rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        return JsonEncoder(schema, JsonOptions.expect(options))
