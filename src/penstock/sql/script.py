"""A SQL file to jobs: statements in order, tables by name, and every problem of the file at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.errors import DefinitionError, Problem
from penstock.options import nearest
from penstock.plan.explain import explain, explain_rows
from penstock.plan.expressions import Literal, cast
from penstock.plan.nodes import Job, Sink, project
from penstock.plan.planning import planned, planned_rows
from penstock.settings.given import GivenSettings
from penstock.spi import Connector, Registry
from penstock.spi import connectors as known_connectors
from penstock.sql.bind.hints import with_options
from penstock.sql.bind.queries import Queries
from penstock.sql.bind.results import Relation, Result
from penstock.sql.bind.selection import Selected, projected
from penstock.sql.bind.tables import Declaration, DeclaredTable
from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.source import Errors, SourceText, similar
from penstock.sql.parse.statements import (
    BeginSet,
    CreateTable,
    CreateView,
    DropTable,
    EndSet,
    Explain,
    Insert,
    Reset,
    SetOption,
    Statement,
    created_name,
    parse_statement,
    statements_of,
)
from penstock.sql.parse.syntax import TableName
from penstock.sql.parse.tokens import Token, scan
from penstock.types import NULL, Field, NullType, RowType
from penstock.types.casts import assignable


@dataclass(frozen=True)
class Script:
    """The jobs of a SQL file, in order, warnings about what has no effect, and the plans that EXPLAIN asks for."""

    jobs: tuple[Job, ...]
    warnings: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()


def parse_script(
    text: str,
    *,
    file: str = "",
    variables: Mapping[str, str] | None = None,
    default_name: str = "",
    connectors: Registry[Connector] = known_connectors,
) -> Script:
    """The jobs of a file of Flink SQL.

    Each INSERT INTO is a job of its own; those of a statement set are one job with several sinks. A job is named by
    ``pipeline.name``, else ``default_name``, else ``insert-into_<table>``; a name that is taken gets ``-<table>``.
    ``variables`` replace ``${NAME}``. Raises SqlError, SchemaError, OptionsError or UnsupportedError (SqlError when
    they are mixed) with every problem of the file, each with file, line and column; PluginError for a connector
    that does not load.
    """
    source = SourceText(text, file)
    reader = _ScriptReader(source, connectors, default_name)
    tokens = scan(source, variables or {})
    for statement in statements_of(tokens):
        reader.read(statement)
    try:
        return reader.finish()
    except DefinitionError as error:
        raise type(error)(_ordered(error.problems, source, tokens)) from None


def _ordered(problems: tuple[Problem, ...], source: SourceText, tokens: tuple[Token, ...]) -> tuple[Problem, ...]:
    """The problems in the file's order, with ``${NAME}`` where one quotes a name that came from a variable."""
    put_in = {str(source.at(token.at)): token for token in tokens if "${" in token.shown and token.text}

    def mask(problem: Problem) -> Problem:
        token = put_in.get(problem.where)
        if token is None:
            return problem
        value, shown = re.compile(rf"(?<!\w){re.escape(token.text)}(?!\w)", re.IGNORECASE), token.shown
        return replace(
            problem, reason=value.sub(lambda _: shown, problem.reason), hint=value.sub(lambda _: shown, problem.hint)
        )

    return tuple(mask(problem) for problem in sorted(problems, key=_line_and_column))


def _line_and_column(problem: Problem) -> tuple[int, int]:
    found = re.search(r"line (\d+), column (\d+)", problem.where)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


@dataclass
class _ScriptReader:
    source: SourceText
    connectors: Registry[Connector]
    default_name: str
    errors: Errors = field(default_factory=Errors)
    jobs: list[Job] = field(default_factory=list)
    settings: GivenSettings = field(default_factory=GivenSettings)
    #: Tables and views. None: it is declared, but has problems.
    tables: dict[str, DeclaredTable | Relation | None] = field(default_factory=dict)
    #: Where the open statement set began, and its sinks.
    set_at: int | None = None
    sinks: list[Sink] = field(default_factory=list)
    plans: list[str] = field(default_factory=list)

    def read(self, tokens: tuple[Token, ...]) -> None:
        """Read one statement, and keep its problems."""
        try:
            with self.source.limited_nesting(tokens[0].at, "statement"):
                self._run(parse_statement(QueryGrammar(self.source, tokens)))
        except DefinitionError as error:
            self.errors.append(error)
            if name := created_name(QueryGrammar(self.source, tokens)):
                self.tables.setdefault(name, None)
            if QueryGrammar(self.source, tokens).sees("EXECUTE", "STATEMENT", "SET", "BEGIN"):
                self.set_at, self.sinks = tokens[0].at, []

    def finish(self) -> Script:
        """The script. Raises DefinitionError with every problem that was found."""
        if self.set_at is not None:
            self.errors.append(self.source.error(self.set_at, "the statement set has no END", "close it with END;"))
        if not self.jobs and not self.plans and not self.errors:
            reason = "there is no INSERT INTO, so there is nothing to run"
            raise self.source.error(len(self.source.text), reason, "add one")
        self.errors.check()
        return Script(tuple(self.jobs), tuple(self.settings.warnings), tuple(self.plans))

    def _run(self, statement: Statement) -> None:
        if self.set_at is not None and not isinstance(statement, Insert | EndSet):
            reason = "a statement set takes INSERT INTO only"
            raise self.source.error(statement.at, reason, "close it with END;")
        match statement:
            case CreateTable():
                self._create(statement)
            case CreateView():
                self._create_view(statement)
            case DropTable():
                self._drop(statement)
            case Insert():
                self._insert(statement)
            case Explain():
                self._explain(statement)
            case SetOption(key=key, value=value, shown=shown):
                key_at, value_at = str(self.source.at(statement.key_at)), str(self.source.at(statement.value_at))
                quoted = shown if shown.startswith("'") else f"'{shown}'"
                self.settings.put(key, value, value_at, at=key_at, shown=quoted)
            case Reset(key="", key_at=_):
                self.settings.clear()
            case Reset(key=key, key_at=at):
                self.settings.remove(key, str(self.source.at(at)))
            case BeginSet(first=first):
                self.set_at, self.sinks = statement.at, []
                if first is not None:
                    self._run(first)
            case EndSet():
                self._end(statement)

    def _end(self, statement: EndSet) -> None:
        if self.set_at is None:
            hint = "begin one with EXECUTE STATEMENT SET BEGIN"
            raise self.source.error(statement.at, "END without a statement set", hint)
        at, self.set_at = self.set_at, None
        if self.sinks:
            self._start(tuple(self.sinks))
        elif not self.errors:
            raise self.source.error(at, "the statement set is empty", "put INSERT INTO statements into it")

    def _create(self, statement: CreateTable) -> None:
        name = statement.table.name
        if not self._is_new(statement.table, statement.if_not_exists, "TABLE"):
            return
        self.tables[name] = None
        self.tables[name], warnings = Declaration(statement, self.source, Errors()).table(self.connectors)
        self.settings.warnings += warnings

    def _create_view(self, statement: CreateView) -> None:
        if not self._is_new(statement.view, statement.if_not_exists, "VIEW"):
            return
        errors = Errors()
        found = self._queries(errors).relation(statement.query, statement.columns)
        self.tables[statement.view.name] = None if errors else found
        errors.check()

    def _queries(self, errors: Errors) -> Queries:
        return Queries(self.source, self.connectors, errors, self.tables, self._unknown_table, self.settings.warnings)

    def _is_new(self, table: TableName, if_not_exists: bool, kind: str) -> bool:
        """Whether a table or view is to be created. Raises SqlError if there is one of its name, unless it is created
        only ``if_not_exists``."""
        if table.name not in self.tables:
            return True
        if if_not_exists:
            return False
        hint = f"write IF NOT EXISTS, or DROP {kind} before it"
        raise self.source.error(table.at, f"table '{table.name}' exists already", hint)

    def _drop(self, statement: DropTable) -> None:
        name = statement.table.name
        if name not in self.tables and not statement.if_exists:
            raise self._unknown_table(statement.table)
        found = self.tables.get(name)
        if found is not None and isinstance(found, DeclaredTable) is statement.view:
            is_a, drop = ("table", "DROP TABLE") if statement.view else ("view", "DROP VIEW")
            raise self.source.error(statement.table.at, f"'{name}' is a {is_a}", f"write {drop}")
        self.tables.pop(name, None)

    def _unknown_table(self, table: TableName) -> DefinitionError:
        hint = similar(table.name, self.tables) or "declare it with CREATE TABLE"
        return self.source.error(table.at, f"there is no table '{table.name}'", hint)

    def _start(self, sinks: tuple[Sink, ...]) -> None:
        wanted = self.settings.name or self.default_name or f"insert-into_{sinks[0].table}"
        taken = {job.name for job in self.jobs}
        name = wanted if wanted not in taken else f"{wanted}-{sinks[0].table}"
        count = 2
        while name in taken:
            name, count = f"{wanted}-{sinks[0].table}-{count}", count + 1
        self.jobs.append(Job(name, sinks, self.settings.settings()))

    def _explain(self, statement: Explain) -> None:
        if isinstance(statement.explained, Insert):
            sink = self._sink(statement.explained)
            if sink is not None:
                name = self.settings.name or self.default_name or f"insert-into_{sink.table}"
                self.plans.append(explain(planned(Job(name, (sink,), self.settings.settings()))))
            return
        errors = Errors()
        rows = self._queries(errors).rows(statement.explained)
        errors.check()
        if rows is not None:
            self.plans.append(explain_rows(planned_rows(rows, "EXPLAIN"), self.settings.value("state_ttl")))

    def _insert(self, statement: Insert) -> None:
        sink = self._sink(statement)
        if sink is None:
            return
        if self.set_at is not None:
            self.sinks.append(sink)
        else:
            self._start((sink,))

    def _sink(self, statement: Insert) -> Sink | None:
        """The sink of an INSERT INTO; None if one of its tables has problems. Raises DefinitionError with every problem
        of the statement."""
        errors = Errors()
        if statement.table.name not in self.tables:
            errors.append(self._unknown_table(statement.table))
        into = self.tables.get(statement.table.name)
        if into is not None and not isinstance(into, DeclaredTable):
            reason = f"'{statement.table.name}' is a view and cannot be written"
            raise self.source.error(statement.table.at, reason, "insert into a table")
        if into is not None:
            table = into
            into = errors.attempt(lambda: with_options(table, statement.hints, self.source))
        insertion = _Insertion(statement, self.source, self.connectors, errors, into)
        sink = insertion.sink(self._queries(errors).result(statement.query))
        errors.check()
        if sink is None:
            return None
        for column in statement.columns:
            if column.text in insertion.virtual:
                reason = f"'{column.text}' is VIRTUAL, but is written because it is named here"
                self.settings.warnings.append(f"{self.source.at(column.at)}: {reason}")
        return sink


@dataclass(frozen=True)
class _Insertion:
    """An INSERT INTO statement, with the table that it writes, if that has no problems."""

    statement: Insert
    source: SourceText
    connectors: Registry[Connector]
    errors: Errors
    into: DeclaredTable | None

    @property
    def virtual(self) -> tuple[str, ...]:
        """The columns that are written only if the statement names them, sorted."""
        return tuple(sorted(each.name for each in self.into.definition.columns if each.virtual)) if self.into else ()

    def sink(self, result: Result) -> Sink | None:
        """The sink of the query's result, or None after a problem, which was added to the errors."""
        if self.into is None:
            return None
        named = tuple(name.text for name in self.statement.columns)
        made = self.errors.attempt(partial(self.into.sink, self.connectors, named))
        if made is None:
            return None
        definition, spec = made
        order = self._order(self.into, definition.written)
        columns = [] if result.columns is None else self._fitted(list(result.columns), definition.written, order)
        if self.errors or result.node is None:
            return None
        input_ = project(result.node, projected(columns))
        return Sink(definition.written, input_, definition.name, self.into.connector, spec)

    def _order(self, into: DeclaredTable, written: RowType) -> tuple[str, ...]:
        """The columns that the query's values go to, in the query's order."""
        names = self.statement.columns
        for index, name in enumerate(names):
            if into.schema.field(name.text) is None:
                hint = nearest(name.text, written.names) or f"there are {', '.join(written.names)}"
                reason = f"table '{into.definition.name}' has no column '{name.text}'"
            elif written.field(name.text) is None:
                reason, hint = f"column '{name.text}' is computed and cannot be written", "leave it out"
            elif name.text in {each.text for each in names[:index]}:
                reason, hint = f"column '{name.text}' is named twice", "name it once"
            else:
                continue
            self._problem(name.at, reason, hint)
        return tuple(name.text for name in names) or written.names

    def _fitted(self, selected: list[Selected | None], written: RowType, order: tuple[str, ...]) -> list[Selected]:
        """The values in the order of the table's columns, NULL where the statement names no value."""
        if len(selected) != len(order):
            if None not in selected:  # else their number is not known
                takes = f"'{self.statement.table.name}' takes {len(order)}: {', '.join(order)}"
                reason = f"the number of columns in the query is {len(selected)}, but {takes}"
                at = selected[0].at if selected and selected[0] else self.statement.query.at
                self._problem(at, reason, self._virtual_hint(self.virtual))
            return []
        given = {name: item for name, item in zip(order, selected, strict=True) if item is not None}
        fitted = []
        for column in written.fields:
            if column.name in given:
                fitted.append(self._cast(given[column.name], column))
            elif column.name not in order:
                if not column.type.nullable:
                    reason = f"column '{column.name}' is NOT NULL and gets no value"
                    self._problem(self.statement.table.at, reason, "name it too")
                fitted.append(Selected(column.name, cast(_NULL, column.type), -1))
        return fitted

    def _cast(self, item: Selected, column: Field) -> Selected:
        if not assignable(item.value.type, column.type):
            reason = f"{item.value.type.text()} does not fit column '{column.name}', which is {column.type.text()}"
            virtual = self._virtual_hint((item.name,) if item.name in self.virtual else ())
            self._problem(item.at, reason, virtual or f"CAST it: CAST(.. AS {column.type.text()})")
        if isinstance(item.value.type, NullType):
            return replace(item, value=cast(item.value, column.type))
        return item

    def _virtual_hint(self, virtual: tuple[str, ...]) -> str:
        """A hint that these columns get a value only if the statement names them."""
        if not virtual or self.statement.columns:
            return ""
        names = ", ".join(f"'{name}'" for name in virtual)
        are = "is VIRTUAL: it is" if len(virtual) == 1 else "are VIRTUAL: they are"
        return f"{names} {are} written only if named, as in INSERT INTO {self.statement.table.name} ({virtual[0]}, ..)"

    def _problem(self, at: int, reason: str, hint: str) -> None:
        self.errors.append(self.source.schema_error(at, reason, hint))


_NULL = Literal(None, type=NULL)
