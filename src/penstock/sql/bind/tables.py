"""CREATE TABLE to a table definition: columns get types, computed columns get expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError
from penstock.options import Origin, nearest
from penstock.plan import AssignWatermarks, Item, Node, Scan, project
from penstock.plan.expressions import Call, ColumnRef, Expression, Literal
from penstock.spi import (
    WATERMARK,
    Column,
    ColumnKind,
    Connector,
    Registry,
    ScanSpec,
    SinkSpec,
    TableDefinition,
    Watermark,
    scan_spec,
    sink_spec,
    unknown_connector,
)
from penstock.sql.bind.scope import Scope
from penstock.sql.parse.source import Source, combined
from penstock.sql.parse.statements import ColumnDeclaration, CreateTable
from penstock.sql.parse.syntax import Name
from penstock.types import BIGINT, Field, NullType, RowType, TimestampType

Spec = TypeVar("Spec")

#: The keys of metadata that holds the contents of a record begin with these.
_CONTENTS = ("__raw_", "value.")


@dataclass(frozen=True)
class ComputedColumn(Column):
    """A column whose values are computed from those of others."""

    expression: Expression = field(kw_only=True)


@dataclass(frozen=True)
class Table:
    """A declared table and where it was declared."""

    definition: TableDefinition
    connector: str
    source: Source
    at: int
    shown: Mapping[str, tuple[str, str]]
    #: The column with the event time, and the watermark after a row, of WATERMARK FOR.
    event_time: str = ""
    watermark: Expression | None = None

    @property
    def schema(self) -> RowType:
        """The columns that SELECT may use, computed ones included, in the order of declaration."""
        return RowType(tuple(Field(each.name, each.type) for each in self.definition.columns), nullable=False)

    def scan(self, connectors: Registry[Connector], *, with_watermark: bool = False) -> Node:
        """Reading the table, computed columns included, and with the present watermark as a last column if
        ``with_watermark``. Raises DefinitionError with every problem found."""
        spec = self._located(scan_spec, connectors, self.definition)
        present = (ColumnRef(WATERMARK, type=BIGINT),) if with_watermark else ()
        rows = read(self.definition, self.connector, spec, *present)
        if self.watermark is None:
            return rows
        return AssignWatermarks(rows.schema, rows, self.event_time, self.watermark)

    def sink(self, connectors: Registry[Connector], named: tuple[str, ...]) -> tuple[TableDefinition, SinkSpec]:
        """Writing the table: the definition and the connector's spec. Raises DefinitionError.

        A VIRTUAL metadata column is not written, unless the INSERT statement names it: then the connector decides.
        """
        columns = tuple(
            replace(each, virtual=each.virtual and each.name not in named) for each in self.definition.columns
        )
        definition = replace(self.definition, columns=columns)
        return definition, self._located(sink_spec, connectors, definition)

    def _located(
        self,
        made: Callable[[Connector, TableDefinition], Spec],
        connectors: Registry[Connector],
        definition: TableDefinition,
    ) -> Spec:
        """The spec that the connector makes, its errors with their places in the script."""
        try:
            return made(connectors.get(self.connector), definition)
        except DefinitionError as error:
            raise type(error)(tuple(self._placed(problem) for problem in error.problems)) from None

    def _placed(self, problem: Problem) -> Problem:
        """``problem`` with a line even if the option is missing, and with ``${NAME}`` instead of a variable's value."""
        where = problem.where if "line " in problem.where else self.definition.origin.of("")
        value, shown = self.shown.get(problem.key, ("", ""))
        reason = problem.reason.replace(f"'{value}'", shown) if value else problem.reason
        return replace(problem, where=where, reason=reason)


def read(definition: TableDefinition, connector: str, spec: ScanSpec, *others: ColumnRef) -> Node:
    """Reading a table: its columns in the order of declaration, computed ones included, and ``others`` behind them."""
    node = Scan(definition.produced, definition.name, connector, spec)
    items = tuple(Item(each.name, _value(each)) for each in definition.columns)
    fields = [Field(each.name, each.type) for each in definition.columns]
    fields += (Field(each.name, each.type) for each in others)
    items += tuple(Item(each.name, each) for each in others)
    return project(node, items, RowType(tuple(fields), nullable=False))


def declare(statement: CreateTable, source: Source, connectors: Registry[Connector]) -> tuple[Table, list[str]]:
    """The table that a statement declares, and warnings. Raises DefinitionError with every problem found."""
    errors: list[DefinitionError] = []
    columns, primary_key = declared(statement, source, errors)
    warnings = _partitioned(statement, columns, source, errors)
    watermark, after_row = _watermark(statement, columns, source, errors)
    options, origin = _options(statement, source, errors)
    connector = options.get("connector", "").strip().lower()
    if not connector:
        hint = "for example 'connector' = 'kafka'"
        errors.append(OptionsError((Problem("is required", "connector", origin.of("connector"), hint),)))
    elif connector not in connectors.names():
        written = next(value.shown for key, value in reversed(statement.options) if key.text == "connector")
        reason, hint = unknown_connector(connector, connectors.names(), written)
        errors.append(OptionsError((Problem(reason, "connector", origin.of("connector"), hint),)))
    if errors:
        raise combined(errors)
    definition = TableDefinition(
        statement.table.name,
        columns,
        options,
        replace(origin, places=dict(origin.places)),
        primary_key=primary_key,
        watermark=watermark,
    )
    if not definition.physical.fields and not any(each.key.startswith(_CONTENTS) for each in columns):
        place = source.place(statement.table.at)
        warnings.append(f"{place}: '{definition.name}' has metadata columns only: the contents of its records are lost")
    shown = {key.text: (value.text, value.shown) for key, value in statement.options if "${" in value.shown}
    event_time = statement.watermark[0].text if statement.watermark is not None else ""
    return Table(definition, connector, source, statement.table.at, shown, event_time, after_row), warnings


def declared(
    statement: CreateTable, source: Source, errors: list[DefinitionError]
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns and the primary key of a table. Adds their problems to ``errors``."""
    columns = columns_of(statement.columns, source, errors, statement.table.name)
    key = _primary_key(statement, columns, source, errors)
    return tuple(
        replace(each, type=each.type.with_nullability(False)) if each.name in key else each for each in columns
    ), key


def columns_of(
    declarations: tuple[ColumnDeclaration, ...], source: Source, errors: list[DefinitionError], table: str = ""
) -> tuple[Column, ...]:
    """The columns of ``table`` that are declared so. Adds their problems to ``errors``."""
    seen: set[str] = set()
    for each in declarations:
        if each.name.text in seen:
            problem = source.problem(each.name.at, f"column '{each.name.text}' is declared twice")
            errors.append(SchemaError((problem,)))
        seen.add(each.name.text)
    given = RowType(
        tuple(Field(each.name.text, each.type) for each in declarations if each.type is not None), nullable=False
    )
    # Computed columns see the others, but not one another, as in Flink.
    scope = Scope(given, source, table)
    found = []
    for each in declarations:
        try:
            found.append(_column(each, scope))
        except DefinitionError as error:
            errors.append(error)
    return tuple(found)


def _value(column: Column) -> Expression:
    return column.expression if isinstance(column, ComputedColumn) else ColumnRef(column.name, type=column.type)


def _column(declared: ColumnDeclaration, scope: Scope) -> Column:
    name = declared.name.text
    if declared.expression is not None:
        value = scope.value(declared.expression)
        if isinstance(value.type, NullType):
            at = declared.expression.at
            raise scope.source.error(at, "the type of NULL is not known here", "write CAST(NULL AS STRING)")
        return ComputedColumn(name, value.type, ColumnKind.COMPUTED, expression=value)
    if declared.type is None:  # unreachable: the grammar gives a type or an expression
        raise scope.source.error(declared.name.at, f"column '{name}' has no type")
    if declared.metadata_key is not None:
        return Column(name, declared.type, ColumnKind.METADATA, declared.metadata_key, virtual=declared.virtual)
    return Column(name, declared.type)


def _primary_key(
    statement: CreateTable, columns: tuple[Column, ...], source: Source, errors: list[DefinitionError]
) -> tuple[str, ...]:
    marked = tuple(each.name for each in statement.columns if each.primary_key)
    if marked and (statement.primary_key or len(marked) > 1):
        errors.append(source.error(marked[-1].at, "a table has one PRIMARY KEY"))
    key = statement.primary_key or marked
    known = {each.name: each for each in columns}
    for name in key:
        if _missing(name, known, statement, source, errors):
            continue
        if known[name.text].kind is ColumnKind.COMPUTED:
            problem = source.problem(name.at, f"computed column '{name.text}' cannot be part of a PRIMARY KEY")
            errors.append(SchemaError((problem,)))
    return tuple(name.text for name in key)


def _missing(
    name: Name, known: Mapping[str, Column], statement: CreateTable, source: Source, errors: list[DefinitionError]
) -> bool:
    if name.text in known:
        return False
    if all(each.name.text != name.text for each in statement.columns):  # else its own problem is reported already
        hint = nearest(name.text, known)
        errors.append(SchemaError((source.problem(name.at, f"there is no column '{name.text}'", hint),)))
    return True


def _partitioned(
    statement: CreateTable, columns: tuple[Column, ...], source: Source, errors: list[DefinitionError]
) -> list[str]:
    """Check PARTITIONED BY, which has no effect, and warn of it."""
    known, warnings = {each.name: each for each in columns}, []
    for name in statement.partitioned_by:
        _missing(name, known, statement, source, errors)
    if statement.partitioned_by:
        place = source.place(statement.partitioned_by[0].at)
        warnings.append(f"{place}: PARTITIONED BY has no effect here; a record's partition follows from 'key.fields'")
    return warnings


def _watermark(
    statement: CreateTable, columns: tuple[Column, ...], source: Source, errors: list[DefinitionError]
) -> tuple[Watermark | None, Expression | None]:
    """The watermark of WATERMARK FOR: for a connector, and as an expression over a row."""
    if statement.watermark is None:
        return None, None
    name, tree = statement.watermark
    known = {each.name: each for each in columns}
    if not _missing(name, known, statement, source, errors) and not isinstance(known[name.text].type, TimestampType):
        reason = f"a watermark needs a TIMESTAMP column, and '{name.text}' is {known[name.text].type.text()}"
        errors.append(SchemaError((source.problem(name.at, reason),)))
    try:
        row = RowType(tuple(Field(each.name, each.type) for each in columns), nullable=False)
        value = Scope(row, source, statement.table.name).value(tree)
        if not isinstance(value.type, TimestampType):
            raise source.error(tree.at, f"a watermark is a TIMESTAMP, not {value.type.text()}")
    except DefinitionError as error:
        if len(columns) == len(statement.columns):
            errors.append(error)
        return None, None
    return _plain(value, known.get(name.text)), value


def _plain(watermark: Expression, event_time: Column | None) -> Watermark:
    """The watermark as a column minus a delay, which tasks can measure by themselves; without a lag if it is another
    expression."""
    lag = timedelta(0)
    match watermark:
        case Call(function="-", args=(moment, Literal(value=timedelta() as lag))):
            watermark = moment
    if event_time is None or not (isinstance(watermark, ColumnRef) and watermark.name == event_time.name):
        return Watermark(lag=None)
    millis = -(-lag // timedelta(milliseconds=1))  # rounded up
    if not isinstance(event_time, ComputedColumn):
        return Watermark(event_time.name, millis)
    match event_time.expression:
        case Call(function="TO_TIMESTAMP_LTZ", args=(ColumnRef(name=number), Literal(value=0 | 3 as digits))):
            return Watermark(number, millis, unit=1 if digits == 3 else 1000)
    return Watermark(lag=None)


def _options(statement: CreateTable, source: Source, errors: list[DefinitionError]) -> tuple[dict[str, str], Origin]:
    options: dict[str, str] = {}
    places = {"": f"{source.spot(statement.table.at)}, table '{statement.table.name}'"}
    places["connector"] = places[""]
    for key, value in statement.options:
        if key.text in options:
            errors.append(OptionsError((source.problem(key.at, "is given twice", key=key.text),)))
        options[key.text] = value.text
        places[key.text] = source.spot(key.at)
    return options, Origin(source.name, places)
