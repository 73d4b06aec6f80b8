"""Tables of SQL over topics whose columns messages show: how their messages are read as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import OptionsError, Problem, SchemaError
from penstock.ingest.format_options import find_key_reader, find_prefix
from penstock.ingest.kafka_options import KafkaIngestSourceOptions
from penstock.ingest.tables.declared_tables import DeclaredTable, DeclaredTables
from penstock.ingest.tables.message_columns import KEY, VALUE, MessageColumns
from penstock.ingest.tables.source_tables import TOPIC, SourceTables
from penstock.options import LIST
from penstock.plan.nodes import Scan
from penstock.schemas import TableSchema
from penstock.spi import (
    Column,
    ColumnKind,
    InferringFormat,
    TableDefinition,
    TableReader,
    connectors,
    formats,
    scan_spec,
)
from penstock.types import BYTES, STRING, Field, RowType

_CONNECTOR = "kafka"
#: Options that the scan of messages does not have.
_OF_COLUMNS = {
    "key.fields",
    "value.fields-include",
    "key.format",
    "key.fields-prefix",
    "value.fields-prefix",
    "max.fetch.records",
}


def read_count(table: TableDefinition) -> int:
    """How many of the newest records of each partition are read before the first batch. Raises OptionsError."""
    given = table.options.get("max.fetch.records")
    options = {} if given is None else {"scan.max.pre.fetch.records": given}
    return KafkaIngestSourceOptions.from_text(options, table.origin).prefetch


@dataclass(frozen=True)
class ValueFormat:
    """The format of the values of a table, from which columns can be inferred, and the option ``key`` that names it."""

    key: str
    format: InferringFormat


def find_format(table: TableDefinition) -> ValueFormat | None:
    """The format of the values of a table over topics; None if columns cannot be inferred from it, and for tables of
    other connectors."""
    key = "value.format" if "value.format" in table.options else "format"
    identifier = table.options.get(key, "").strip().lower()
    found = formats.get(identifier) if identifier in formats.names() else None
    of_topics = table.options.get("connector", "").strip().lower() == _CONNECTOR
    return ValueFormat(key, found) if of_topics and isinstance(found, InferringFormat) else None


def make_source(
    table: TableDefinition, values: ValueFormat, row: RowType, name: str, *, all_topics: bool = False
) -> tuple[Scan, SourceTables]:
    """The scan that gives the messages of a table as they are, and how they are read: those of ``all_topics`` are
    tables of the names of their topics, else they are one table of this ``name``. ``row`` are the declared columns of
    records. Raises a DefinitionError."""
    origin, key, found = table.origin, values.key, values.format
    prefix = find_prefix(table.options if key == "value.format" else (), found.identifier)
    bound = found.options.from_text(table.options, origin, prefix)
    inference = found.inference.from_text(table.options, origin, f"{found.identifier}.")
    own = {prefix + each for each in found.options.keys()} | {  # noqa: SIM118
        f"{found.identifier}.{each}"
        for each in found.inference.keys()  # noqa: SIM118
    }
    metadata = tuple(each for each in table.columns if each.kind is ColumnKind.METADATA)
    for each in metadata:
        if each.name in (VALUE, TOPIC) and each.key != each.name:
            reason = f"a metadata column of a copied table cannot have the name '{each.name}'"
            raise SchemaError((Problem(reason, where=origin.locate(""), hint="give it another name"),))
    messages = _define_messages(table, own | {key}, metadata)
    names = {each.name for each in metadata}
    physical = tuple(each for each in row.fields if each.name not in names)
    schema = TableSchema(RowType(physical, nullable=False), table.primary_key)
    declared = DeclaredTables({name: DeclaredTable(schema)}, by_topic=True)
    source = SourceTables(
        MessageColumns(
            found.table_reader(bound, inference),
            table.options.get("value.fields-prefix", ""),
            _make_key_reader(table),
            table.options.get("key.fields-prefix", ""),
            tuple(LIST.parse(table.options.get("key.fields", ""))),
            table.options.get("value.fields-include", "ALL").strip().upper() != "EXCEPT_KEY",
        ),
        found.identifier,
        prefix,
        declared,
        tuple(Field(each.name, each.type) for each in metadata),
        looks_ahead=read_count(table),
        only="" if all_topics else name,
    )
    spec = scan_spec(connectors.get(_CONNECTOR), messages)
    return Scan(messages.produced, messages.name, _CONNECTOR, spec), source


def _make_key_reader(table: TableDefinition) -> TableReader[Any] | None:
    """What reads keys: those that are declared by 'key.fields', or whatever JSON has; None if they are not read. Raises
    OptionsError for another format of keys that have no declared columns."""
    identifier, origin = table.options.get("key.format", "").strip().lower(), table.origin
    if not identifier:
        return None
    declared = bool(table.options.get("key.fields"))
    found = formats.get(identifier) if identifier in formats.names() else None
    reader = None if found is None else find_key_reader(found, table.options, origin, declared=declared)
    if reader is not None:
        return reader
    reason, hint = f"columns cannot be inferred from keys of '{identifier}'", "use json, or name them in 'key.fields'"
    raise OptionsError((Problem(reason, "key.format", origin.locate("key.format"), hint),))


def _define_messages(table: TableDefinition, own: set[str], metadata: tuple[Column, ...]) -> TableDefinition:
    """The table that gives the messages of another as they are."""
    columns = [Column(VALUE, BYTES)]
    if TOPIC not in [each.name for each in metadata]:
        columns.append(Column(TOPIC, STRING.with_nullability(False), ColumnKind.METADATA, TOPIC, virtual=True))
    known = connectors.get(_CONNECTOR).metadata  # type: ignore[attr-defined]
    if "key.format" in table.options:
        columns.append(Column(KEY, BYTES, ColumnKind.METADATA, KEY, virtual=True))
    columns += [replace(each, type=known.get(each.key, each.type), virtual=True) for each in metadata]
    options = {
        name: each
        for name, each in table.options.items()
        if name not in own | _OF_COLUMNS and not name.startswith("key.json.")
    }
    return replace(
        table, columns=tuple(columns), options={**options, "value.format": "raw"}, primary_key=(), watermark=None
    )
