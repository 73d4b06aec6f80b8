"""A SQL file to jobs: statements in order, tables by name, and every problem of the file at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from penstock.errors import DefinitionError, OptionsError, Problem
from penstock.plan.flink_plan import flink_explain
from penstock.plan.nodes import Job, Node, Sink
from penstock.plan.planning import plan_job, plan_query
from penstock.schemas import FoundColumns
from penstock.settings import BATCH
from penstock.settings.given import GivenSettings
from penstock.spi import Connector, Registry, TableDefinition
from penstock.spi import connectors as known_connectors
from penstock.sql.bind.results import Result
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.bind.tables.found_columns import FindsColumns
from penstock.sql.bind.tables.hints import collect_remarks, with_options
from penstock.sql.catalogs import ViewEntry, display_path
from penstock.sql.copies import CopiesTables
from penstock.sql.copy_definitions import CopyDefinitions
from penstock.sql.ddl import Definitions
from penstock.sql.insertion import Insertion
from penstock.sql.parse.commands import find_created_name, parse_statement, split_statements
from penstock.sql.parse.queries import QueryGrammar
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.statements import (
    BeginSet,
    CreateDatabaseAs,
    CreateTableAs,
    Describe,
    EndSet,
    Explain,
    Insert,
    Reset,
    SetOption,
    Show,
    Statement,
)
from penstock.sql.parse.syntax import TableName
from penstock.sql.parse.tokens import Token, scan
from penstock.sql.showing import Showing


@dataclass(frozen=True)
class Script:
    """The jobs of a SQL file, in order, warnings about what has no effect, and what EXPLAIN and SHOW print."""

    jobs: tuple[Job, ...]
    warnings: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()


def parse_script(
    text: str,
    *,
    file: str = "",
    variables: Mapping[str, str] | None = None,
    default_name: str = "",
    connectors: Registry[Connector] = known_connectors,
    folder: str = "",
    copies: CopiesTables | None = None,
    find_columns: FindsColumns | None = None,
) -> Script:
    """The jobs of a file of Flink SQL.

    Each INSERT INTO is a separate job; a statement set is one job with several sinks. A job is named by
    ``pipeline.name``, else ``default_name``, else ``insert-into_<table>``; a name that is taken gets ``-<table>``.
    ``variables`` replace ``${NAME}``. Modules of functions are searched for in what ``python.files``
    names, in ``folder``, and among the installed ones. ``copies`` makes the job of CREATE TABLE .. AS TABLE whose table
    follows the columns of the other; without it the columns are those of now. ``find_columns`` finds the columns of a
    table that declares none, for a query; without it such a table has none.

    Raises SqlError, SchemaError, OptionsError or UnsupportedError (SqlError when they are mixed) with every problem of
    the file, each with file, line and column; PluginError for a connector that does not load.
    """
    source = SourceText(text, file)
    reader = _ScriptReader(source, connectors, default_name, folder, copies, find_columns)
    tokens = scan(source, variables or {})
    for statement in split_statements(tokens):
        reader.read(statement)
    try:
        return reader.finish()
    except DefinitionError as error:
        raise type(error)(_sort_problems(error.problems, source, tokens)) from None


def _sort_problems(problems: tuple[Problem, ...], source: SourceText, tokens: tuple[Token, ...]) -> tuple[Problem, ...]:
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
    folder: str = ""
    copies: CopiesTables | None = None
    find_columns: FindsColumns | None = None
    errors: Errors = field(default_factory=Errors)
    jobs: list[Job] = field(default_factory=list)
    settings: GivenSettings = field(default_factory=GivenSettings)
    #: Where the open statement set began, its sinks, and the details to be explained if it is not run.
    set_at: int | None = None
    sinks: list[Sink] = field(default_factory=list)
    details: frozenset[str] | None = None
    printed: list[str] = field(default_factory=list)
    #: The first table that the job of the present statement writes; empty if it is not known.
    target: str = ""
    definitions: Definitions = field(init=False)

    def __post_init__(self) -> None:
        self.definitions = Definitions(
            self.source, self.connectors, self.settings.warnings, self._is_batch, self._python_files
        )
        if self.find_columns is not None:
            self.definitions.find_columns = partial(self._find_columns, self.find_columns)

    def _find_columns(self, find: FindsColumns, table: TableDefinition) -> FoundColumns | None:
        """The columns of a table that declares none, for the job of the present statement."""
        first = self.sinks[0].table if self.sinks else self.target
        return find(table, self._choose_free_name(first), self.settings.settings())

    def _begin_job(self, target: TableName) -> None:
        """From now on, columns are found for the job that writes this table."""
        self.target = display_path(self.definitions.path(target))
        if self.find_columns is not None:
            self.definitions.catalogs.version += 1  # views may read tables whose columns another job found

    def _python_files(self) -> tuple[str, ...]:
        """Where the modules of functions are, those of ``python.files`` relative to the file."""
        given = (str(Path(self.folder, each)) for each in self.settings.value("python_files") or ())
        return (*given, *([self.folder] if self.folder else ()))

    def _is_batch(self) -> bool:
        return bool(self.settings.value("runtime_mode") == BATCH)

    def read(self, tokens: tuple[Token, ...]) -> None:
        """Read one statement, and keep its problems."""
        try:
            with self.source.limit_nesting(tokens[0].at, "statement"):
                self._run(parse_statement(QueryGrammar(self.source, tokens)))
        except DefinitionError as error:
            self.errors.append(error)
            if name := find_created_name(QueryGrammar(self.source, tokens)):
                self.definitions.remember_failed(name)
            cursor = QueryGrammar(self.source, tokens)
            if cursor.sees("EXECUTE", "STATEMENT", "SET", "BEGIN"):
                self._begin(tokens[0].at, None)
            elif cursor.sees("EXPLAIN") and any(each.keyword == "BEGIN" for each in tokens):
                self._begin(tokens[0].at, frozenset())

    def finish(self) -> Script:
        """The script. Raises DefinitionError with every problem that was found."""
        if self.set_at is not None:
            self.errors.append(self.source.error(self.set_at, "the statement set has no END", "close it with END;"))
        if not self.jobs and not self.printed and not self.errors:
            reason = "there is no INSERT INTO, so there is nothing to run"
            self.errors += [OptionsError((problem,)) for _, problem in self.definitions.find_unusable()]
            self.errors.append(self.source.error(len(self.source.text), reason, "add one"))
        self.errors.check()
        warnings = [
            f"{problem.where}: table '{table.definition.name}' cannot be read or written: {problem.reason}"
            for table, problem in self.definitions.find_unusable()
            if table.connector  # without one it may serve LIKE only
        ]
        return Script(tuple(self.jobs), (*self.settings.warnings, *warnings), tuple(self.printed))

    def _run(self, statement: Statement) -> None:
        if self.set_at is not None and not isinstance(statement, Insert | CreateTableAs | EndSet):
            reason = "a statement set takes INSERT INTO only"
            raise self.source.error(statement.at, reason, "close it with END;")
        if self.definitions.run(statement):
            return
        match statement:
            case Insert():
                self._add_sink(self._bind_sink(statement))
            case CreateTableAs():
                self._add_sink(self._create_table_as(statement))
            case CreateDatabaseAs():
                self._add_sink(self._copy_database(statement))
            case Explain():
                self._explain(statement)
            case Show():
                self._print(self._showing.show(statement))
            case Describe():
                self._print(self._showing.describe(statement))
            case SetOption(key=key, value=value, shown=shown):
                key_at, value_at = str(self.source.at(statement.key_at)), str(self.source.at(statement.value_at))
                quoted = shown if shown.startswith("'") else f"'{shown}'"
                self.settings.put(key, value, value_at, at=key_at, shown=quoted)
            case Reset(key="", key_at=_):
                self.settings.clear()
            case Reset(key=key, key_at=at):
                self.settings.remove(key, str(self.source.at(at)))
            case BeginSet(first=first, details=details):
                self._begin(statement.at, details)
                if first is not None:
                    self._run(first)
            case EndSet():
                self._end(statement)

    @property
    def _showing(self) -> Showing:
        return Showing(self.definitions, self.settings.pairs)

    def _print(self, text: str) -> None:
        if text:
            self.printed.append(text)

    # --- jobs -------------------------------------------------------------------------------------------------

    def _begin(self, at: int, details: frozenset[str] | None) -> None:
        self.set_at, self.sinks, self.details = at, [], details

    def _end(self, statement: EndSet) -> None:
        if self.set_at is None:
            hint = "begin one with EXECUTE STATEMENT SET BEGIN"
            raise self.source.error(statement.at, "END without a statement set", hint)
        at, self.set_at = self.set_at, None
        if self.sinks and self.details is not None:
            self._explain_sinks(tuple(self.sinks), self.details)
        elif self.sinks:
            self._start(tuple(self.sinks))
        elif not self.errors:
            raise self.source.error(at, "the statement set is empty", "put INSERT INTO statements into it")

    def _start(self, sinks: tuple[Sink, ...]) -> None:
        self.jobs.append(Job(self._choose_free_name(sinks[0].table), sinks, self.settings.settings()))

    def _choose_free_name(self, table: str) -> str:
        """The name of the next job, which writes this table first."""
        wanted = self._choose_name(table)
        taken = {job.name for job in self.jobs}
        name = wanted if wanted not in taken else f"{wanted}-{table}"
        count = 2
        while name in taken:
            name, count = f"{wanted}-{table}-{count}", count + 1
        return name

    def _choose_name(self, table: str) -> str:
        return self.settings.name or self.default_name or f"insert-into_{table}"

    def _explain(self, statement: Explain) -> None:
        if isinstance(statement.explained, tuple):
            sinks = [self._bind_sink(each) for each in statement.explained]
            known = tuple(each for each in sinks if each is not None)
            if len(known) == len(sinks):
                self._explain_sinks(known, statement.details)
            return
        if isinstance(statement.explained, CreateTableAs):
            sink = self._create_table_as(statement.explained, keep=False)
            if sink is not None:
                self._explain_sinks((sink,), statement.details)
            return
        errors = Errors()
        rows = self.definitions.queries(errors).plan_query(statement.explained)
        errors.check()
        if rows is not None:
            job = plan_query(rows, "EXPLAIN", self.settings.settings())
            self._print_plan((rows,), (job.sinks[0].input,), job, statement.details)

    def _explain_sinks(self, sinks: tuple[Sink, ...], details: frozenset[str]) -> None:
        job = plan_job(Job(self._choose_name(sinks[0].table), sinks, self.settings.settings()))
        self._print_plan(sinks, job.sinks, job, details)

    def _print_plan(self, given: tuple[Node, ...], nodes: tuple[Node, ...], job: Job, details: frozenset[str]) -> None:
        from penstock.flow.graph.routes import describe_route  # a file without EXPLAIN is read without it

        text = flink_explain(given, nodes, details, batch=job.settings.batch)
        self._print(f"{text}\n== Route ==\n{describe_route(job)}\n")

    def _add_sink(self, sink: Sink | None) -> None:
        if sink is None:
            return
        if self.set_at is not None:
            self.sinks.append(sink)
        else:
            self._start((sink,))

    def _bind_sink(self, statement: Insert) -> Sink | None:
        """The sink of an INSERT INTO; None if one of its tables has problems. Raises DefinitionError with every problem
        of the statement."""
        errors = Errors()
        self._begin_job(statement.table)
        entry = errors.attempt(partial(self.definitions.entry, statement.table))
        if isinstance(entry, ViewEntry):
            reason = f"'{statement.table.text}' is a view and cannot be written"
            raise self.source.error(statement.table.at, reason, "insert into a table")
        into = None if entry is None else entry.found
        if into is not None:
            into = errors.attempt(partial(with_options, into, statement.hints, self.source))
            self.settings.warnings += collect_remarks(statement.hints, self.source)
        if into is not None:
            into = errors.attempt(partial(self.definitions.check_columns, into, statement.table))
        return self._bind_insert(statement, into, self.definitions.queries(errors).result(statement.query), errors)

    def _create_table_as(self, statement: CreateTableAs, *, keep: bool = True) -> Sink | None:
        """The sink of a CREATE TABLE .. AS, whose table is in no catalog unless it is to ``keep``; None if a table that
        it reads has problems. Raises DefinitionError with every problem of the statement."""
        copied = self._copy_table(statement, keep=keep)
        if copied is not None:
            return copied
        errors = Errors()
        self._begin_job(statement.created.table)
        result = self.definitions.queries(errors).result(statement.query)
        problem = self.definitions.connector_problem(statement.created)
        if errors and problem is not None:
            errors.append(OptionsError((problem,)))
        errors.check()
        if result.complete is None:
            if keep:
                self.definitions.remember_failed(statement.created.table.path)
            return None
        into, insert = self.definitions.create_as(statement, result.complete, keep=keep)
        return self._bind_insert(insert, into, result, errors)

    @property
    def _copies(self) -> CopyDefinitions:
        return CopyDefinitions(self.definitions)

    def _copy_table(self, statement: CreateTableAs, *, keep: bool) -> Sink | None:
        """The sink of CREATE TABLE .. AS TABLE whose table follows the columns of the other; None for a copy with the
        columns that it has now: of a table whose columns cannot change, into a table that there is, with columns of its
        own, or in a statement set."""
        fixed = statement.names or statement.created.columns or statement.created.partitioned_by
        if self.copies is None or statement.copied is None or fixed or self.set_at is not None or self._is_batch():
            return None
        zone = self.settings.settings().session_time_zone or ""
        copy = self._copies.describe(statement, zone)
        sink = None if copy is None else self.copies(copy)
        if keep and sink is not None and copy is not None:
            self._copies.create(statement, copy)
        return sink

    def _copy_database(self, statement: CreateDatabaseAs) -> Sink | None:
        """The sink of CREATE DATABASE .. AS DATABASE. Raises DefinitionError with every problem of the statement."""
        copy = self._copies.describe_database(statement, self.settings.settings().session_time_zone or "")
        sink = None if self.copies is None or self._is_batch() else self.copies(copy)
        if sink is None:
            reason = f"databases cannot be copied by the connector '{copy.target_connector}', or in batch jobs"
            raise self.source.unsupported_feature(statement.at, reason, "write CREATE TABLE .. AS TABLE for each table")
        return sink

    def _bind_insert(
        self, statement: Insert, into: DeclaredTable | None, result: Result, errors: Errors
    ) -> Sink | None:
        insertion = Insertion(statement, self.source, self.connectors, errors, into)
        sink = insertion.sink(result)
        errors.check()
        if sink is None:
            return None
        for column in statement.columns:
            if column.text in insertion.virtual:
                reason = f"'{column.text}' is VIRTUAL, but is written because it is named here"
                self.settings.warnings.append(f"{self.source.at(column.at)}: {reason}")
        return sink
