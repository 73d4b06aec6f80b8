"""The ``debezium-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import OptionsError, Problem
from penstock.formats.changes.encode import ChangeJsonEncoder, image_frames
from penstock.formats.changes.metadata import checked
from penstock.formats.debezium_json.decode import METADATA, DebeziumJsonDecoder
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.options import OptionSet
from penstock.types import DataType, RowType

__all__ = ["DebeziumJsonFormat"]


class DebeziumJsonFormat:
    """Changes as Debezium writes them, by Flink's rules."""

    identifier = "debezium-json"
    options: type[OptionSet] = DebeziumJsonOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> DebeziumJsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text, and for metadata
        that is not known."""
        return DebeziumJsonDecoder(
            schema, DebeziumJsonOptions.expect(options), checked(metadata, METADATA, self.identifier)
        )

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeJsonEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys other than text.

        Raises OptionsError when messages are to hold their schema, which only Kafka Connect knows."""
        given = DebeziumJsonOptions.expect(options)
        if given.schema_include:
            hint = "remove it; it is for reading alone"
            raise OptionsError((Problem("messages cannot be written with their schema", "schema-include", hint=hint),))
        return ChangeJsonEncoder(
            self.identifier, schema, given, *image_frames("op", "c", "d", omit=given.ignore_null_fields)
        )
