"""A SQL file to jobs: statements in order, tables by name, and every problem of the file at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.errors import DefinitionError, Problem, SchemaError
from penstock.options import nearest
from penstock.plan import Filter, Item, Job, Node, Sink, project
from penstock.plan.expressions import Call, Literal, cast, walk
from penstock.settings.declared import Given
from penstock.spi import Connector, Registry
from penstock.spi import connectors as known_connectors
from penstock.sql.bind.scope import Scope
from penstock.sql.bind.selection import Selected, select, unique
from penstock.sql.bind.tables import Table, declare
from penstock.sql.parse.cursor import Cursor
from penstock.sql.parse.source import Source, combined
from penstock.sql.parse.statements import (
    BeginSet,
    CreateTable,
    DropTable,
    EndSet,
    Insert,
    Reset,
    SetOption,
    Statement,
    created_name,
    parse_statement,
    statements_of,
)
from penstock.sql.parse.syntax import Name, TableName
from penstock.sql.parse.tokens import Token, scan
from penstock.types import NULL, Field, NullType, RowType
from penstock.types.casts import assignable

_T = TypeVar("_T")


@dataclass(frozen=True)
class Script:
    """The jobs of a SQL file, in order, and warnings about settings without effect."""

    jobs: tuple[Job, ...]
    warnings: tuple[str, ...] = ()


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
    source = Source(text, file)
    reader = _Reader(source, connectors, default_name)
    tokens = scan(source, variables or {})
    for statement in statements_of(tokens):
        reader.read(statement)
    try:
        return reader.finish()
    except DefinitionError as error:
        raise type(error)(_ordered(error.problems, source, tokens)) from None


def _ordered(problems: tuple[Problem, ...], source: Source, tokens: tuple[Token, ...]) -> tuple[Problem, ...]:
    """The problems in the file's order, with ``${NAME}`` where one quotes a name that came from a variable."""
    put_in = {source.place(token.at): token for token in tokens if "${" in token.shown and token.text}

    def mask(problem: Problem) -> Problem:
        token = put_in.get(problem.where)
        if token is None:
            return problem
        value, shown = re.compile(rf"(?<!\w){re.escape(token.text)}(?!\w)", re.IGNORECASE), token.shown
        return replace(
            problem, reason=value.sub(lambda _: shown, problem.reason), hint=value.sub(lambda _: shown, problem.hint)
        )

    return tuple(mask(problem) for problem in sorted(problems, key=_position))


def _position(problem: Problem) -> tuple[int, int]:
    found = re.search(r"line (\d+), column (\d+)", problem.where)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


@dataclass
class _Reader:
    source: Source
    connectors: Registry[Connector]
    default_name: str
    errors: list[DefinitionError] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    #: None: declared, but with problems that were reported.
    tables: dict[str, Table | None] = field(default_factory=dict)
    #: Where the open statement set began, and its sinks.
    set_at: int | None = None
    sinks: list[Sink] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.given = Given()

    def read(self, tokens: tuple[Token, ...]) -> None:
        """Read one statement; its problems are kept."""
        try:
            self._run(parse_statement(Cursor(self.source, tokens)))
        except RecursionError:
            self.errors.append(self.source.error(tokens[0].at, "the statement is nested too deeply", "split it"))
        except DefinitionError as error:
            self.errors.append(error)
            if name := created_name(Cursor(self.source, tokens)):
                self.tables.setdefault(name, None)
            if tokens[0].keyword == "EXECUTE" and Cursor(self.source, tokens).sees(
                "EXECUTE", "STATEMENT", "SET", "BEGIN"
            ):
                self.set_at, self.sinks = tokens[0].at, []

    def finish(self) -> Script:
        """The script. Raises DefinitionError with every problem that was found."""
        if self.set_at is not None:
            self.errors.append(self.source.error(self.set_at, "the statement set has no END", "close it with END;"))
        if not self.jobs and not self.errors:
            self.errors.append(
                self.source.error(
                    len(self.source.text), "there is no INSERT INTO, so there is nothing to run", "add one"
                )
            )
        if self.errors:
            raise combined(self.errors)
        return Script(tuple(self.jobs), tuple(self.given.warnings))

    def _set(self, statement: SetOption) -> None:
        key_at, value_at = self.source.place(statement.key_at), self.source.place(statement.value_at)
        shown = statement.shown if statement.shown.startswith("'") else f"'{statement.shown}'"
        self.given.put(statement.key, statement.value, value_at, at=key_at, shown=shown)

    def _reset(self, statement: Reset) -> None:
        if statement.key:
            self.given.remove(statement.key, self.source.place(statement.key_at))
        else:
            self.given.clear()

    def _run(self, statement: Statement) -> None:
        if self.set_at is not None and not isinstance(statement, Insert | EndSet):
            raise self.source.error(statement.at, "only INSERT INTO may stand in a statement set", "close it with END;")
        match statement:
            case CreateTable():
                self._create(statement)
            case DropTable():
                self._drop(statement)
            case Insert():
                self._insert(statement)
            case SetOption():
                self._set(statement)
            case Reset():
                self._reset(statement)
            case BeginSet(first=first):
                self.set_at, self.sinks = statement.at, []
                if first is not None:
                    self._run(first)
            case EndSet():
                self._end(statement)

    def _end(self, statement: EndSet) -> None:
        if self.set_at is None:
            raise self.source.error(
                statement.at, "END without a statement set", "begin one with EXECUTE STATEMENT SET BEGIN"
            )
        at, self.set_at = self.set_at, None
        if self.sinks:
            self._start(tuple(self.sinks))
        elif not self.errors:
            raise self.source.error(at, "the statement set is empty", "put INSERT INTO statements into it")

    def _create(self, statement: CreateTable) -> None:
        name = statement.table.name
        if name in self.tables:
            if statement.if_not_exists:
                return
            hint = "write IF NOT EXISTS, or DROP TABLE before it"
            raise self.source.error(statement.table.at, f"table '{name}' exists already", hint)
        self.tables[name] = None
        self.tables[name], warnings = declare(statement, self.source, self.connectors)
        self.given.warnings += warnings

    def _drop(self, statement: DropTable) -> None:
        if statement.table.name not in self.tables and not statement.if_exists:
            raise self._unknown_table(statement.table)
        self.tables.pop(statement.table.name, None)

    def _unknown_table(self, table: TableName) -> DefinitionError:
        hint = nearest(table.name, self.tables) or "declare it with CREATE TABLE"
        same = next((known for known in self.tables if known.lower() == table.name.lower()), None)
        if same is not None:
            hint = f"did you mean '{same}'? names are case-sensitive"
        return self.source.error(table.at, f"there is no table '{table.name}'", hint)

    def _start(self, sinks: tuple[Sink, ...]) -> None:
        wanted = self.given.name or self.default_name or f"insert-into_{sinks[0].table}"
        taken = {job.name for job in self.jobs}
        name = wanted if wanted not in taken else f"{wanted}-{sinks[0].table}"
        count = 2
        while name in taken:
            name, count = f"{wanted}-{sinks[0].table}-{count}", count + 1
        self.jobs.append(Job(name, sinks, self.given.settings()))

    # --- INSERT INTO ----------------------------------------------------------------------------------------

    def _insert(self, statement: Insert) -> None:
        errors: list[DefinitionError] = []
        target, origin = (self._table(name, errors) for name in (statement.table, statement.query.table))
        if origin is not None:
            self._lower(statement, target, origin, errors)
        if errors:
            raise combined(errors)

    def _table(self, name: TableName, errors: list[DefinitionError]) -> Table | None:
        if name.name not in self.tables:
            errors.append(self._unknown_table(name))
        return self.tables.get(name.name)

    def _lower(self, statement: Insert, target: Table | None, origin: Table, errors: list[DefinitionError]) -> None:
        query = statement.query
        alias = query.alias.text if query.alias else query.table.name
        scope = Scope(origin.schema, self.source, alias, origin.event_time)
        selected = select(query.items, scope, errors)
        condition = None
        if query.condition is not None:
            tree = query.condition
            condition = _attempt(lambda: scope.condition(tree, "the condition of WHERE"), errors)
        values = [each.value for each in selected if each] + ([condition] if condition else [])
        parts = (part for value in values for part in walk(value))
        used = any(isinstance(part, Call) and part.function == "CURRENT_WATERMARK" for part in parts)
        node = _attempt(lambda: origin.scan(self.connectors, with_watermark=used), errors)
        if target is None:
            return
        named = tuple(name.text for name in statement.columns)
        sink = _attempt(lambda: target.sink(self.connectors, named), errors)
        if sink is None:
            return
        definition, spec = sink
        order = self._order(statement.columns, target, definition.written, errors)
        virtual = frozenset(each.name for each in target.definition.columns if each.virtual)
        columns = self._fit(statement, selected, definition.written, order, virtual, errors)
        if errors or node is None:
            return
        self._remark_virtual(statement.columns, target)
        if condition is not None:
            node = Filter(node.schema, node, condition)
        found = Sink(definition.written, _projected(node, columns), definition.name, target.connector, spec)
        if self.set_at is not None:
            self.sinks.append(found)
        else:
            self._start((found,))

    def _order(
        self, names: tuple[Name, ...], target: Table, written: RowType, errors: list[DefinitionError]
    ) -> tuple[str, ...]:
        """The columns that the query's values go to, in the query's order."""
        if not names:
            return written.names
        for index, name in enumerate(names):
            if target.schema.field(name.text) is None:
                hint = nearest(name.text, written.names) or f"there are {', '.join(written.names)}"
                reason = f"table '{target.definition.name}' has no column '{name.text}'"
            elif written.field(name.text) is None:
                reason, hint = f"column '{name.text}' is computed and cannot be written", "leave it out"
            elif name.text in {each.text for each in names[:index]}:
                reason, hint = f"column '{name.text}' is named twice", ""
            else:
                continue
            errors.append(SchemaError((self.source.problem(name.at, reason, hint),)))
        return tuple(name.text for name in names)

    def _fit(
        self,
        statement: Insert,
        selected: list[Selected | None],
        written: RowType,
        order: tuple[str, ...],
        virtual: frozenset[str],
        errors: list[DefinitionError],
    ) -> list[Selected]:
        """The values in the order of the table's columns, NULL where the statement names no value. ``virtual``: the
        columns that are written only if they are named."""
        if len(selected) != len(order):
            if None not in selected:  # else how many there are is not known
                takes = f"'{statement.table.name}' takes {len(order)}: {', '.join(order)}"
                reason = f"the number of columns in the query is {len(selected)}, but {takes}"
                at, hint = statement.query.items[0].tree.at, _virtual_hint(statement, virtual)
                errors.append(SchemaError((self.source.problem(at, reason, hint),)))
            return []
        given = {name: item for name, item in zip(order, selected, strict=True) if item is not None}
        fitted = []
        for wanted in written.fields:
            item = given.get(wanted.name)
            if item is not None:
                fitted.append(self._checked(statement, item, wanted, virtual, errors))
            elif wanted.name not in order:
                if not wanted.type.nullable:
                    reason = f"column '{wanted.name}' is NOT NULL and gets no value"
                    errors.append(SchemaError((self.source.problem(statement.table.at, reason, "name it too"),)))
                fitted.append(Selected(wanted.name, cast(_NULL, wanted.type), -1))
        return fitted

    def _checked(
        self,
        statement: Insert,
        item: Selected,
        wanted: Field,
        virtual: frozenset[str],
        errors: list[DefinitionError],
    ) -> Selected:
        if not assignable(item.value.type, wanted.type):
            reason = f"{item.value.type.text()} does not fit column '{wanted.name}', which is {wanted.type.text()}"
            hint = f"CAST it: CAST(.. AS {wanted.type.text()})"
            if item.name in virtual and not statement.columns:
                hint = _virtual_hint(statement, frozenset((item.name,)))
            errors.append(SchemaError((self.source.problem(item.at, reason, hint),)))
        if isinstance(item.value.type, NullType):
            return replace(item, value=cast(item.value, wanted.type))
        return item

    def _remark_virtual(self, names: tuple[Name, ...], target: Table) -> None:
        virtual = {each.name for each in target.definition.columns if each.virtual}
        for name in names:
            if name.text in virtual:
                place = self.source.place(name.at)
                self.given.warnings.append(
                    f"{place}: '{name.text}' is VIRTUAL, but is written because it is named here"
                )


_NULL = Literal(None, type=NULL)


def _virtual_hint(statement: Insert, virtual: frozenset[str]) -> str:
    """How columns get a value that are written only if they are named."""
    if not virtual or statement.columns:
        return ""
    names = ", ".join(f"'{name}'" for name in sorted(virtual))
    are = "is VIRTUAL: it is" if len(virtual) == 1 else "are VIRTUAL: they are"
    return f"{names} {are} written only if named, as in INSERT INTO {statement.table.name} ({min(virtual)}, ..)"


def _attempt(work: Callable[[], _T], errors: list[DefinitionError]) -> _T | None:
    """The result of ``work``, or None if it fails; the error is kept."""
    try:
        return work()
    except DefinitionError as error:
        errors.append(error)
        return None


def _projected(node: Node, columns: list[Selected]) -> Node:
    names = unique(tuple(item.name for item in columns))
    items = tuple(Item(name, item.value) for name, item in zip(names, columns, strict=True))
    row = RowType(
        tuple(Field(name, item.value.type) for name, item in zip(names, columns, strict=True)), nullable=False
    )
    return project(node, items, row)
