"""CREATE TABLE .. AS TABLE of SQL as a pipeline with one table, which follows the columns of its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.errors import Problem, SchemaError, UnsupportedError
from penstock.flow.kernels.session import Session
from penstock.ingest.definition import RouteMode, TransformDef
from penstock.ingest.kafka_options import KafkaIngestSourceOptions
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.message_columns import VALUE, MessageColumns
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.routing import Router
from penstock.ingest.tables.source_tables import TOPIC, SourceTables
from penstock.ingest.tables.work import IngestWork
from penstock.ingest.transforms import BoundRule, TableTransform
from penstock.options import BOOLEAN
from penstock.plan.expressions import walk
from penstock.plan.nodes import Ingest, Scan, Sink
from penstock.plan.scalar_functions import UserCall
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
#: Options that only tables with declared columns have, and what to do instead.
_KEYS = ("key.format", "key.fields", "key.fields-prefix", "value.fields-prefix", "value.fields-include")


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
    calls = any(
        isinstance(part, UserCall) for each in copy.bind_columns(copy.declared) for part in walk(each.expression)
    )
    programs = Programs(Router((), RouteMode.ALL_MATCH), binder, calls)
    behavior = SchemaChangeBehavior.LENIENT
    evolver = Evolver(source, programs, behavior, ChangeFilter.from_options((), (), behavior))
    target = CopiedTable(_name_table(copy.target), copy.target_connector)
    prefix = source.prefix
    skips = BOOLEAN.parse(copy.source.options.get(f"{prefix}ignore-parse-errors", "false"))
    work = IngestWork(source, programs, evolver, target, ErrorPolicy(skips))
    kinds = CHANGES if isinstance(formats.get(source.identifier), ChangeFormat) else INSERTIONS
    lines = f"table '{copy.target.name}', whose columns follow {source.identifier} messages"
    node = Ingest(_NO_COLUMNS, scan, work, (lines,), kinds)
    spec = connector.tables_sink(target.table)
    return Sink(_NO_COLUMNS, node, copy.target.name, copy.target_connector, spec, at=copy.at)


def _name_table(table: TableDefinition) -> TableDefinition:
    """The table with the name that it has in its database, which is its id: there it is altered."""
    option = next((each for each in _TABLE_NAMES if each in table.options), None)
    if option is None:
        return table
    options = {key: each for key, each in table.options.items() if key != option}
    return replace(table, name=table.options[option].strip(), options=options, surface=Surface.YAML)


def _find_format(table: TableDefinition) -> tuple[str, InferringFormat] | None:
    """The option that names the format of values, and the format if columns can be inferred."""
    key = "value.format" if "value.format" in table.options else "format"
    identifier = table.options.get(key, "").strip().lower()
    found = formats.get(identifier) if identifier in formats.names() else None
    return (key, found) if isinstance(found, InferringFormat) else None


def _make_source(copy: TableCopy, key: str, found: InferringFormat) -> tuple[Scan, SourceTables]:
    """The scan that gives the messages of a table as they are, and how they are read."""
    table, origin = copy.source, copy.source.origin
    problems = tuple(
        Problem(
            "is not supported where the columns of a copy follow the messages",
            name,
            origin.locate(name),
            "leave it out, or write CREATE TABLE .. AS SELECT * FROM the table: a copy with these columns",
        )
        for name in _KEYS
        if name in table.options
    )
    if problems:
        raise UnsupportedError(problems)
    prefix = f"value.{found.identifier}." if key == "value.format" else f"{found.identifier}."
    if key == "value.format" and not any(each.startswith(prefix) for each in table.options):
        prefix = f"{found.identifier}."
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
    declared = TableSchema(RowType(physical, nullable=False), table.primary_key)
    source = SourceTables(
        MessageColumns(found.table_reader(bound, inference)),
        found.identifier,
        prefix,
        {copy.target.name: declared},
        tuple(Field(each.name, each.type) for each in metadata),
        looks_ahead=KafkaIngestSourceOptions().prefetch,
        only=copy.target.name,
    )
    spec = scan_spec(connectors.get(copy.connector), messages)
    return Scan(messages.produced, messages.name, copy.connector, spec), source


def _define_messages(table: TableDefinition, own: set[str], metadata: tuple[Column, ...]) -> TableDefinition:
    """The table that gives the messages of another as they are."""
    columns = [Column(VALUE, BYTES)]
    if TOPIC not in [each.name for each in metadata]:
        columns.append(Column(TOPIC, STRING.with_nullability(False), ColumnKind.METADATA, TOPIC, virtual=True))
    known = connectors.get("kafka").metadata  # type: ignore[attr-defined]
    columns += [replace(each, type=known.get(each.key, each.type), virtual=True) for each in metadata]
    options = {name: each for name, each in table.options.items() if name not in own}
    return replace(
        table, columns=tuple(columns), options={**options, "value.format": "raw"}, primary_key=(), watermark=None
    )


@dataclass(frozen=True)
class CopyBinder:
    """Binds the columns of a copy to those of its source (:class:`penstock.ingest.transforms.TransformBinder`)."""

    copy: TableCopy

    @property
    def rules(self) -> tuple[TransformDef, ...]:
        """None: the copy has all columns."""
        return ()

    def bind(self, table: str, schema: TableSchema) -> TableTransform:
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

    def output(self, version: SchemaVersion) -> Output:
        """How a version of the table is written. Raises a DefinitionError."""
        schema = version.schema
        columns = tuple(self._define_columns(schema))
        table = replace(self.table, columns=columns, primary_key=schema.primary_key)
        spec = sink_spec(connectors.get(self.connector), table)
        return Output(0, version.table, spec, RowType(table.written.fields, nullable=False))

    def _define_columns(self, schema: TableSchema) -> Iterator[Column]:
        for each in schema.row.fields:
            yield Column(each.name, each.type.with_nullability(False) if each.name in schema.primary_key else each.type)
