"""CREATE TABLE to a table definition: columns get types, computed columns get expressions.

The values of options are bound later, by :meth:`TableDefinition.bind_options` (``spi/plugin/tables.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from penstock.errors import DefinitionError, OptionsError, Problem
from penstock.options import Origin
from penstock.plan.expressions import Call, ColumnRef, Expression, Literal
from penstock.plan.nodes import AssignWatermarks, Item, Node, Scan, project
from penstock.schemas import FoundColumns
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
    WithPartitions,
    explain_unknown_connector,
    scan_spec,
    sink_spec,
    split_options,
)
from penstock.sql.bind.expressions.scope import NO_INTERVAL, UNTYPED_NULL, Scope
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.statements import ColumnDeclaration, CreateTable
from penstock.sql.parse.syntax import Name
from penstock.types import BIGINT, Field, NullType, RowType, TimestampType
from penstock.types.casts import has_interval

#: The keys of metadata that holds the contents of a record begin with these.
_CONTENTS = ("__raw_", "value.")


@dataclass(frozen=True)
class ComputedColumn(Column):
    """A column whose values are computed from those of others."""

    expression: Expression = field(kw_only=True)


@dataclass(frozen=True)
class DeclaredTable:
    """A table that CREATE TABLE declares. ``problem`` is why it can be neither read nor written; as in Flink, an error
    only where it is used."""

    definition: TableDefinition
    connector: str
    #: The values of options that contain variables, and these values as they were written.
    shown: Mapping[str, tuple[str, str]]
    #: The column with the event time, and the watermark after a row, of WATERMARK FOR.
    event_time: str = ""
    watermark: Expression | None = None
    problem: Problem | None = None
    #: The columns that its records showed, if it declares none.
    found: FoundColumns | None = None

    @property
    def schema(self) -> RowType:
        """The columns that SELECT may use, computed ones included, in the order of declaration."""
        return RowType(tuple(Field(each.name, each.type) for each in self.definition.columns), nullable=False)

    def scan(self, connectors: Registry[Connector], *, with_watermark: bool = False) -> Node:
        """Reading the table, computed columns included, and with the present watermark as a last column if
        ``with_watermark``. Raises DefinitionError with every problem found."""
        with self._locate_errors():
            spec = scan_spec(self._find_connector(connectors), self.definition)
        present = (ColumnRef(WATERMARK, type=BIGINT),) if with_watermark else ()
        rows = read_table(self.definition, self.connector, spec, *present, found=self.found)
        if self.watermark is None:
            return rows
        return AssignWatermarks(rows.schema, rows, self.event_time, self.watermark)

    def sink(
        self, connectors: Registry[Connector], named: tuple[str, ...], *, overwrite: bool = False
    ) -> tuple[TableDefinition, SinkSpec]:
        """Writing the table, or ``overwrite`` it: the definition and the connector's spec. Raises DefinitionError.

        A VIRTUAL metadata column is not written, unless the INSERT statement names it: then the connector decides.
        """
        columns = tuple(
            replace(each, virtual=each.virtual and each.name not in named) for each in self.definition.columns
        )
        definition = replace(self.definition, columns=columns, overwrite=overwrite)
        with self._locate_errors():
            return definition, sink_spec(self._find_connector(connectors), definition)

    def _find_connector(self, connectors: Registry[Connector]) -> Connector:
        if self.problem is not None:
            raise OptionsError((self.problem,))
        return connectors.get(self.connector)

    @contextmanager
    def _locate_errors(self) -> Iterator[None]:
        """Raises the errors of a connector with their places in the script."""
        try:
            yield
        except DefinitionError as error:
            origin = self.definition.origin
            raise type(error)(tuple(locate_problem(each, origin, self.shown) for each in error.problems)) from None


def locate_problem(problem: Problem, origin: Origin, shown: Mapping[str, tuple[str, str]]) -> Problem:
    """``problem`` with a line even if the option is missing. ``shown`` maps keys of options to values with variables,
    which may be secret, and to the texts that errors show instead."""
    where = problem.where if "line " in problem.where else origin.locate("")
    value, written = shown.get(problem.key, ("", ""))
    reason = problem.reason.replace(f"'{value}'", written) if value else problem.reason
    return replace(problem, where=where, reason=reason)


def read_table(
    definition: TableDefinition,
    connector: str,
    spec: ScanSpec,
    *others: ColumnRef,
    found: FoundColumns | None = None,
) -> Node:
    """Reading a table: its columns in the order of declaration, computed ones included, then ``others``."""
    node = Scan(definition.produced, definition.name, connector, spec, definition.primary_key, found)
    computed = {each.name: each.expression for each in definition.columns if isinstance(each, ComputedColumn)}
    columns = (ColumnRef(each.name, type=each.type) for each in definition.columns)
    return project(node, tuple(Item(each.name, computed.get(each.name, each)) for each in (*columns, *others)))


@dataclass(frozen=True)
class Declaration:
    """A CREATE TABLE statement of ``source``, whose problems are added to ``errors``."""

    statement: CreateTable
    source: SourceText
    errors: Errors
    user_functions: UserFunctions = NO_FUNCTIONS

    def table(self, connectors: Registry[Connector]) -> tuple[DeclaredTable, list[str]]:
        """The table, and warnings. Raises DefinitionError with every problem of its columns; problems of its options
        are found where it is used."""
        statement, source = self.statement, self.source
        columns, primary_key = self.bind_columns_and_key()
        self._check_names(statement.partitioned_by)
        watermark, after_row = self._bind_watermark(columns)
        options, origin = self.read_options()
        connector = options.get("connector", "").strip().lower()
        problem = self.connector_problem(connectors)
        if self.errors and problem is not None:
            self.errors.append(OptionsError((problem,)))
        self.errors.check()
        name = statement.table.name
        definition = TableDefinition(
            name,
            columns,
            options,
            origin,
            primary_key=primary_key,
            watermark=watermark,
            partitioned_by=tuple(each.text for each in statement.partitioned_by),
        )
        _, event_time_options, _ = split_options(options, origin)
        warnings = [
            f"{origin.locate(key)}: '{key}' has no effect here: {why}" for key, why in event_time_options.remarks
        ]
        if statement.partitioned_by and not (problem or isinstance(connectors.get(connector), WithPartitions)):
            reason = "PARTITIONED BY has no effect here; a record's partition follows from 'key.fields'"
            warnings.append(f"{source.at(statement.partitioned_by[0].at)}: {reason}")
        if columns and not definition.physical.fields and not any(each.key.startswith(_CONTENTS) for each in columns):
            reason = f"'{name}' has metadata columns only: the contents of its records are lost"
            warnings.append(f"{source.at(statement.table.at)}: {reason}")
        shown = {key.text: (value.text, value.shown) for key, value in statement.options if "${" in value.shown}
        event_time = statement.watermark[0].text if statement.watermark is not None else ""
        return DeclaredTable(definition, connector, shown, event_time, after_row, problem), warnings

    def connector_problem(self, connectors: Registry[Connector]) -> Problem | None:
        """The problem of the option 'connector', if it has one."""
        given = [value for key, value in self.statement.options if key.text == "connector"]
        name = given[-1].text.strip().lower() if given else ""
        if name in connectors.names():
            return None
        reason, hint = "is required", "for example 'connector' = 'kafka'"
        if name:
            reason, hint = explain_unknown_connector(name, connectors.names(), given[-1].shown)
        return Problem(reason, "connector", self._make_origin().locate("connector"), hint)

    def bind_columns_and_key(self) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns and the primary key, whose columns are NOT NULL."""
        declared = self.statement.columns
        columns = bind_columns(declared, self.source, self.errors, self.statement.table.name, self.user_functions)
        marked = tuple(each.name for each in declared if each.primary_key)
        if marked and (self.statement.primary_key is not None or len(marked) > 1):
            self.errors.append(
                self.source.error(marked[-1].at, "a table can have only one PRIMARY KEY", "leave the others out")
            )
        names = marked if self.statement.primary_key is None else self.statement.primary_key.columns
        self._check_names(names)
        computed = {each.name for each in columns if each.kind is ColumnKind.COMPUTED}
        for name in names:
            if name.text in computed:
                reason = f"computed column '{name.text}' cannot be part of a PRIMARY KEY"
                self.errors.append(self.source.schema_error(name.at, reason, "use columns of the table's records"))
        key = tuple(name.text for name in names)
        return tuple(make_not_null(each) if each.name in key else each for each in columns), key

    def _check_names(self, names: tuple[Name, ...]) -> None:
        declared = dict.fromkeys(each.name.text for each in self.statement.columns)
        for name in names:
            if name.text not in declared:
                self.errors.append(self.source.not_found_error(name.at, "column", name.text, declared))

    def _bind_watermark(self, columns: tuple[Column, ...]) -> tuple[Watermark | None, Expression | None]:
        """The watermark of WATERMARK FOR: for a connector, and as an expression over a row."""
        if self.statement.watermark is None:
            return None, None
        name, after_row = self.statement.watermark
        self._check_names((name,))
        column = {each.name: each for each in columns}.get(name.text)
        if column is not None and not isinstance(column.type, TimestampType):
            reason = f"a watermark needs a TIMESTAMP column, and '{name.text}' is {column.type.text()}"
            self.errors.append(self.source.schema_error(name.at, reason, "compute one with AS CAST(..)"))
        if isinstance(column, ComputedColumn) and is_proctime(column.expression):
            reason = f"'{name.text}' is the processing time, which has no watermark"
            self.errors.append(self.source.schema_error(name.at, reason, "leave the watermark out"))
        if len(columns) < len(self.statement.columns):
            return None, None  # the expression may need a column that has a problem
        row = RowType(tuple(Field(each.name, each.type) for each in columns), nullable=False)
        value = self.errors.attempt(lambda: self._make_scope(row).value(after_row))
        if value is not None and not isinstance(value.type, TimestampType):
            reason = f"a watermark must be a TIMESTAMP, not {value.type.text()}"
            self.errors.append(self.source.error(after_row.at, reason, "such as ts - INTERVAL '5' SECOND"))
        return (None, None) if value is None else (_find_plain_watermark(value, column), value)

    def _make_scope(self, row: RowType) -> Scope:
        """Binds the expression of the watermark."""
        return Scope(row, self.source, self.statement.table.name, user_functions=self.user_functions)

    def read_options(self) -> tuple[dict[str, str], Origin]:
        """The options of WITH, and where they are."""
        options: dict[str, str] = {}
        for key, value in self.statement.options:
            if key.text in options:
                problem = self.source.problem(key.at, "is given twice", "leave one of them out", key.text)
                self.errors.append(OptionsError((problem,)))
            options[key.text] = value.text
        return options, self._make_origin()

    def _make_origin(self) -> Origin:
        table = self.statement.table
        places = dict.fromkeys(("", "connector"), f"{self.source.at(table.at).spot}, table '{table.name}'")
        places |= {key.text: self.source.at(key.at).spot for key, _ in self.statement.options}
        return Origin(self.source.name, places)


def is_proctime(value: Expression) -> bool:
    """Whether an expression is a processing-time attribute."""
    return isinstance(value, Call) and value.function == "PROCTIME"


def bind_columns(
    declarations: tuple[ColumnDeclaration, ...],
    source: SourceText,
    errors: Errors,
    table: str = "",
    user_functions: UserFunctions = NO_FUNCTIONS,
) -> tuple[Column, ...]:
    """The columns of ``table``. Adds their problems to ``errors``."""
    seen: set[str] = set()
    for each in declarations:
        if each.name.text in seen:
            reason = f"column '{each.name.text}' is declared twice"
            errors.append(source.schema_error(each.name.at, reason, "rename one of them"))
        seen.add(each.name.text)
    given = tuple(Field(each.name.text, each.type) for each in declarations if each.type is not None)
    # Computed columns see the others, but not one another, as in Flink.
    scope = Scope(RowType(given, nullable=False), source, table, user_functions=user_functions)
    found = (errors.attempt(partial(_bind_column, each, scope)) for each in declarations)
    return tuple(each for each in found if each is not None)


def make_not_null(column: Column) -> Column:
    """The column as NOT NULL."""
    return replace(column, type=column.type.with_nullability(False))


def check_typed(value: Expression, scope: Scope, at: int) -> Expression:
    """``value``, which may not be an untyped NULL."""
    if isinstance(value.type, NullType):
        raise scope.source.error(at, *UNTYPED_NULL)
    return value


def check_storable(value: Expression, scope: Scope, at: int) -> Expression:
    """``value``, which may be neither an untyped NULL nor an interval."""
    if has_interval(value.type):
        raise scope.source.error(at, *NO_INTERVAL)
    return check_typed(value, scope, at)


def _bind_column(declared: ColumnDeclaration, scope: Scope) -> Column:
    name = declared.name.text
    if declared.expression is not None:
        value = check_typed(scope.value(declared.expression), scope, declared.expression.at)
        return ComputedColumn(name, value.type, ColumnKind.COMPUTED, expression=value)
    assert declared.type is not None  # noqa: S101 - the grammar gives a type or an expression
    if declared.metadata_key is not None:
        return Column(name, declared.type, ColumnKind.METADATA, declared.metadata_key, virtual=declared.virtual)
    return Column(name, declared.type)


def _find_plain_watermark(watermark: Expression, event_time: Column | None) -> Watermark:
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
