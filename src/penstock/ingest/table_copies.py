"""CREATE TABLE .. AS TABLE of SQL as a pipeline with one table, which follows the columns of its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import OptionsError, Problem, SchemaError
from penstock.flow.kernels.session import Session
from penstock.ingest.definition import RouteDef, TransformDef
from penstock.ingest.format_options import find_key_reader, find_prefix
from penstock.ingest.kafka_options import KafkaIngestSourceOptions
from penstock.ingest.tables.declared_tables import DeclaredTable, DeclaredTables
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.message_columns import KEY, VALUE, MessageColumns
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.source_tables import TOPIC, SourceTables
from penstock.ingest.tables.work import IngestWork
from penstock.ingest.transforms import BoundRule, DerivedColumns, TableTransform
from penstock.options import BOOLEAN, LIST
from penstock.plan.nodes import Ingest, Scan, Sink
from penstock.schemas import ChangeFilter, SchemaChangeBehavior, SchemaVersion, TableSchema
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    ChangeFormat,
    Column,
    ColumnKind,
    InferringFormat,
    Output,
    Surface,
    TableDefinition,
    TableReader,
    WritesTables,
    connectors,
    formats,
    scan_spec,
    sink_spec,
)
from penstock.sql import TableCopy
from penstock.types import BYTES, STRING, Field, RowType

_NO_COLUMNS = RowType((), nullable=False)
#: The options that name a table of a database.
_TABLE_NAMES = ("table-name", "tablename")
#: Options that the scan of messages does not have.
_OF_COLUMNS = {
    "key.fields",
    "value.fields-include",
    "key.format",
    "key.fields-prefix",
    "value.fields-prefix",
    "max.fetch.records",
}


def copy_table(copy: TableCopy) -> Sink | None:
    """What writes a copy whose columns follow those of its source: a table of ``kafka`` in a format whose columns can
    be inferred, which is written to a connector that can alter tables. None for other tables. Raises DefinitionError
    with every problem of both tables."""
    connector = connectors.get(copy.target_connector)
    found = _find_format(copy.source)
    if copy.connector != "kafka" or found is None or not isinstance(connector, WritesTables):
        return None
    scan, source = _make_source(copy, *found)
    binder = CopyBinder(copy)
    copy.find_declared_columns()  # whose problems are those of the statement
    programs = Programs(CopyRouter(copy.prefix), binder, source.declared, any(True for _ in copy.functions.names()))
    behavior = SchemaChangeBehavior.LENIENT
    evolver = Evolver(source, programs, behavior, ChangeFilter.from_options((), (), behavior))
    target = CopiedTable(_name_table(copy), copy.target_connector, copy.prefix if copy.all_topics else None)
    skips = BOOLEAN.parse(copy.source.options.get(f"{source.prefix}ignore-parse-errors", "false"))
    work = IngestWork(source, programs, evolver, target, ErrorPolicy(skips))
    kinds = CHANGES if isinstance(formats.get(source.identifier), ChangeFormat) else INSERTIONS
    name = f"tables of '{copy.target.name}'" if copy.all_topics else f"table '{copy.target.name}'"
    node = Ingest(_NO_COLUMNS, scan, work, (f"{name}, whose columns follow {source.identifier} messages",), kinds)
    spec = connector.tables_sink(target.table)
    return Sink(_NO_COLUMNS, node, copy.target.name, copy.target_connector, spec, at=copy.at)


def _name_table(copy: TableCopy) -> TableDefinition:
    """The table with the name that it has in its database, which is its id: there it is altered."""
    table = copy.target
    if copy.all_topics:
        return table if copy.target_connector == "kafka" else replace(table, surface=Surface.YAML)
    option = next((each for each in _TABLE_NAMES if each in table.options), None)
    if option is None:
        return table
    options = {key: each for key, each in table.options.items() if key != option}
    return replace(table, name=table.options[option].strip(), options=options, surface=Surface.YAML)


def _name_by_topic(table: TableDefinition, name: str, topic: str) -> TableDefinition:
    """One of many tables."""
    options = {**table.options, "topic": topic} if table.surface is Surface.SQL else table.options
    return replace(table, name=name, options=options)


def _read_count(table: TableDefinition) -> int:
    """How many of the newest records of each partition are read before the first batch. Raises OptionsError."""
    given = table.options.get("max.fetch.records")
    options = {} if given is None else {"scan.max.pre.fetch.records": given}
    return KafkaIngestSourceOptions.from_text(options, table.origin).prefetch


def _find_format(table: TableDefinition) -> tuple[str, InferringFormat] | None:
    """The option that names the format of values, and the format if columns can be inferred."""
    key = "value.format" if "value.format" in table.options else "format"
    identifier = table.options.get(key, "").strip().lower()
    found = formats.get(identifier) if identifier in formats.names() else None
    return (key, found) if isinstance(found, InferringFormat) else None


def _make_source(copy: TableCopy, key: str, found: InferringFormat) -> tuple[Scan, SourceTables]:
    """The scan that gives the messages of a table as they are, and how they are read."""
    table, origin = copy.source, copy.source.origin
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
    physical = tuple(each for each in copy.declared.fields if each.name not in names)
    schema = TableSchema(RowType(physical, nullable=False), table.primary_key)
    declared = DeclaredTables({copy.target.name: DeclaredTable(schema)}, by_topic=True)
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
        looks_ahead=_read_count(table),
        only="" if copy.all_topics else copy.target.name,
    )
    spec = scan_spec(connectors.get(copy.connector), messages)
    return Scan(messages.produced, messages.name, copy.connector, spec), source


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
    known = connectors.get("kafka").metadata  # type: ignore[attr-defined]
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


@dataclass(frozen=True)
class CopyRouter:
    """The tables of a copy have the names of those of the source after a ``prefix``."""

    prefix: str = ""

    @property
    def routes(self) -> tuple[RouteDef, ...]:
        """There are none."""
        return ()

    def find_targets(self, table: str) -> tuple[str, ...]:
        """The id of the table of the sink."""
        return (self.prefix + table,)


@dataclass(frozen=True)
class CopyBinder:
    """Binds the columns of a copy to those of its source (:class:`penstock.ingest.transforms.TransformBinder`)."""

    copy: TableCopy

    @property
    def rules(self) -> tuple[TransformDef, ...]:
        """None: the copy has all columns."""
        return ()

    def bind(self, table: str, schema: TableSchema, derived: DerivedColumns | None = None) -> TableTransform:
        """The columns of the copy from those of the source. Raises DefinitionError for an expression that does not fit
        them."""
        items = self.copy.bind_columns(schema.row)
        row = RowType(tuple(Field(each.name, each.expression.type) for each in items), nullable=False)
        key = self.copy.target.primary_key or schema.primary_key
        _check_key(key, row, self.copy)
        made = BoundRule(
            schema,
            TableSchema(row, key),
            tuple(each.expression for each in items),
            Session(self.copy.zone or "UTC"),
        )
        made.compile()
        return TableTransform(table, made)


def _check_key(key: tuple[str, ...], row: RowType, copy: TableCopy) -> None:
    for name in key:
        if row.field(name) is None:
            reason = f"the PRIMARY KEY names '{name}', which is not a column of '{copy.source.name}'"
            hint = f"columns are {', '.join(row.names)}"
            raise SchemaError((Problem(reason, where=copy.target.origin.locate(""), hint=hint),))


@dataclass(frozen=True)
class CopiedTable:
    """The table that a copy is written to (:class:`penstock.ingest.tables.sink_tables.SinkTables`)."""

    table: TableDefinition
    connector: str
    #: Of the names of many tables, which is what follows it in a topic's name; None for one table.
    prefix: str | None = None

    def output(self, version: SchemaVersion) -> Output:
        """How a version of the table is written. Raises a DefinitionError."""
        schema, table = version.schema, self.table
        if self.prefix is not None:
            table = _name_by_topic(table, version.table, version.table.removeprefix(self.prefix))
        table = replace(table, columns=tuple(self._define_columns(schema)), primary_key=schema.primary_key)
        spec = sink_spec(connectors.get(self.connector), table)
        return Output(0, version.table, spec, RowType(table.written.fields, nullable=False))

    def _define_columns(self, schema: TableSchema) -> Iterator[Column]:
        for each in schema.row.fields:
            yield Column(each.name, each.type.with_nullability(False) if each.name in schema.primary_key else each.type)
