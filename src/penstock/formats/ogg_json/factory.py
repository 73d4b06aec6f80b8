"""The ``ogg-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.formats.changes.encode import ChangeJsonEncoder, image_frames
from penstock.formats.changes.metadata import checked
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.ogg_json.decode import METADATA, OggJsonDecoder
from penstock.options import OptionSet
from penstock.types import DataType, RowType


class OggJsonFormat:
    """Changes as Oracle GoldenGate writes them, by Flink's rules."""

    identifier = "ogg-json"
    options: type[OptionSet] = ChangeOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> OggJsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text, and for metadata
        that is not known."""
        return OggJsonDecoder(schema, ChangeOptions.expect(options), checked(metadata, METADATA, self.identifier))

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeJsonEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        given = ChangeOptions.expect(options)
        return ChangeJsonEncoder(
            self.identifier, schema, given, *image_frames("op_type", "I", "D", omit=given.ignore_null_fields)
        )
