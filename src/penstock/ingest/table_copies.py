"""CREATE TABLE .. AS TABLE of SQL as a pipeline with one table, which follows the columns of its source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.errors import Problem, SchemaError
from penstock.flow.kernels.session import Session
from penstock.ingest.definition import RouteDef, TransformDef
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.work import IngestWork
from penstock.ingest.topic_tables import find_format, make_source
from penstock.ingest.transforms import BoundRule, DerivedColumns, TableTransform
from penstock.options import BOOLEAN
from penstock.plan.nodes import Ingest, Sink
from penstock.schemas import ChangeFilter, SchemaChangeBehavior, SchemaVersion, TableSchema
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    ChangeFormat,
    Column,
    Output,
    Surface,
    TableDefinition,
    WritesTables,
    connectors,
    formats,
    sink_spec,
)
from penstock.sql import TableCopy
from penstock.types import Field, RowType

_NO_COLUMNS = RowType((), nullable=False)
#: The options that name a table of a database.
_TABLE_NAMES = ("table-name", "tablename")


def copy_table(copy: TableCopy) -> Sink | None:
    """What writes a copy whose columns follow those of its source: a table of ``kafka`` in a format whose columns can
    be inferred, which is written to a connector that can alter tables. None for other tables. Raises DefinitionError
    with every problem of both tables."""
    connector = connectors.get(copy.target_connector)
    found = find_format(copy.source)
    if found is None or not isinstance(connector, WritesTables):
        return None
    scan, source = make_source(copy.source, found, copy.declared, copy.target.name, all_topics=copy.all_topics)
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
