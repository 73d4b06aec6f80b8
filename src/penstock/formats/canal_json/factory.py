"""The ``canal-json`` format as the registry knows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.formats.canal_json.decode import METADATA, CanalJsonDecoder
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.formats.changes.encode import ChangeJsonEncoder, Frame, json_fields
from penstock.formats.changes.metadata import checked
from penstock.options import OptionSet
from penstock.types import DataType, RowType


class CanalJsonFormat:
    """Changes as Canal writes them, by Flink's rules."""

    identifier = "canal-json"
    options: type[OptionSet] = CanalJsonOptions
    by_name = True
    metadata: Mapping[str, DataType] = {key: each.type for key, each in METADATA.items()}
    table_keys = ("database", "table")

    def decoder(self, schema: RowType, options: OptionSet, metadata: Sequence[str] = ()) -> CanalJsonDecoder:
        """A decoder for rows of ``schema``. Raises SchemaError for maps with keys other than text, and for metadata
        that is not known."""
        return CanalJsonDecoder(schema, CanalJsonOptions.expect(options), checked(metadata, METADATA, self.identifier))

    def encoder(self, schema: RowType, options: OptionSet) -> ChangeJsonEncoder:
        """An encoder for changes of rows of ``schema``. Raises SchemaError for maps with keys other than text."""
        given = CanalJsonOptions.expect(options)
        others = ""
        if given.table:
            names = {"database": given.database, "table": given.table[-1], "pkNames": given.primary_key}
            others = json_fields(names)
        inserted, deleted = (
            Frame(b'{"data":[', f'],"type":"{operation}"{others}}}'.encode()) for operation in ("INSERT", "DELETE")
        )
        return ChangeJsonEncoder(self.identifier, schema, given, inserted, deleted)

    def with_table(self, options: OptionSet, table: tuple[str, ...], primary_key: tuple[str, ...]) -> OptionSet:
        """``options`` for messages with the database, the table and the names of its primary key."""
        return replace(CanalJsonOptions.expect(options), table=table, primary_key=primary_key)
