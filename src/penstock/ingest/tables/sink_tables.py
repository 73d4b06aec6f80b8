"""The tables of a pipeline's sink."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.ingest.definition import SinkDef
from penstock.ingest.kafka_sink import sink_table
from penstock.schemas import SchemaVersion, TableSchema
from penstock.spi import Column, Output, Surface, TableDefinition, connectors, sink_spec
from penstock.types import RowType


@dataclass(frozen=True)
class SinkTables:
    """How tables are written that are found while the job runs."""

    sink: SinkDef

    def define(self, table: str, schema: TableSchema) -> TableDefinition:
        """The table of the sink with this schema. Raises a DefinitionError."""
        columns = tuple(
            Column(each.name, each.type.with_nullability(False) if each.name in schema.primary_key else each.type)
            for each in schema.row.fields
        )
        options = {"connector": self.sink.type, **dict(self.sink.options)}
        found = TableDefinition(table, columns, options, self.sink.origin, Surface.YAML, schema.primary_key)
        return sink_table(self.sink, found) if self.sink.type == "kafka" else found

    def output(self, version: SchemaVersion) -> Output:
        """How a version of a table is written. Raises a DefinitionError."""
        table = self.define(version.table, version.schema)
        spec = sink_spec(connectors.get(self.sink.type), table)
        return Output(0, version.table, spec, RowType(table.written.fields, nullable=False))
