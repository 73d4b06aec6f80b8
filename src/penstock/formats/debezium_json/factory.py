"""The ``debezium-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.errors import OptionsError, Problem
from penstock.formats.changes.encode import ChangeJsonEncoder, image_frames
from penstock.formats.changes.metadata import checked
from penstock.formats.debezium_json.decode import METADATA, DebeziumJsonDecoder
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.options import OptionSet
from penstock.types import DataType, RowType


class DebeziumJsonFormat:
    """Changes as Debezium writes them, by Flink's rules."""

    identifier = "debezium-json"
    options: type[OptionSet] = DebeziumJsonOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}
    table_keys = ("source.database", "source.table")

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
        source = {"db": given.database, "table": given.table[-1]} if given.table else None
        if source is not None and given.ignore_null_fields:
            source = {name: value for name, value in source.items() if value is not None}
        others = {} if source is None else {"source": source}
        return ChangeJsonEncoder(
            self.identifier, schema, given, *image_frames("op", "c", "d", omit=given.ignore_null_fields, others=others)
        )

    def with_table(self, options: OptionSet, table: tuple[str, ...], primary_key: tuple[str, ...]) -> OptionSet:
        """``options`` for messages whose ``source`` has the database and the table."""
        return replace(DebeziumJsonOptions.expect(options), table=table, primary_key=primary_key)
