"""From the definition of a pipeline to a plan, which equals the plan of the same job in SQL or Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from penstock.errors import DefinitionError, PipelineError, Problem, UnsupportedError, nearest
from penstock.ingest.definition import ConnectorDef, PipelineDef, RouteDef, RouteMode, SourceDef, TransformDef
from penstock.ingest.kafka import DDLS, sink_table, source_table
from penstock.ingest.table_ids import explain_pattern, match_table_id
from penstock.ingest.tables import lowering as tables_lowering
from penstock.ingest.tables.routing import make_target_id
from penstock.ingest.transforms import unescape_stars
from penstock.options import Origin
from penstock.plan.expressions import ColumnRef, columns_of
from penstock.plan.nodes import Filter, Item, Job, Node, Sink, items_of, project, row_of
from penstock.plan.scalar_functions import Function
from penstock.spi import (
    Column,
    ScanSpec,
    SinkSpec,
    Surface,
    TableDefinition,
    connectors,
    explain_unknown_connector,
    scan_spec,
    sink_spec,
)
from penstock.sql import NamedFunctions, function_of_code, locate_problem, parse_condition, parse_projection, read_table
from penstock.types import BIGINT

_T = TypeVar("_T")


def lower(defn: PipelineDef, default_name: str = "pipeline", warn: Callable[[str], None] = lambda _: None) -> Job:
    """The plan of ``defn``; ``default_name`` is the job's name if the pipeline has none. ``warn`` is called for what
    has no effect, or another effect than it seems.

    Raises PipelineError with every problem found, or UnsupportedError if all of them are features that penstock lacks.
    """
    return _Lowering(replace(defn, source=_choose_start(defn.source, warn)), warn).job(default_name)


def _choose_start(source: SourceDef, warn: Callable[[str], None]) -> SourceDef:
    """The source with a start, if it names neither one nor a consumer group: where ``auto.offset.reset`` says, else at
    the earliest offset."""
    given = dict(source.options)
    if source.type != "kafka" or "scan.startup.mode" in given or "properties.group.id" in given:
        return source
    reset = given.get("properties.auto.offset.reset", "").strip().lower()
    if reset not in ("earliest", "latest"):
        place, reset = source.origin.locate(""), "earliest"
        warn(f"{place}: 'scan.startup.mode' and 'properties.group.id' are missing, so it starts at the earliest offset")
    return replace(source, options=tuple(sorted({**given, "scan.startup.mode": f"{reset}-offset"}.items())))


@dataclass(frozen=True)
class _Stream:
    """The rows of a table between source and sink, with its id and primary key. Patterns may fit the id, or the id that
    it was ``declared`` under."""

    node: Node
    id: str
    primary_key: tuple[str, ...]
    declared: str


#: Sources of other systems that read a database, not a topic.
_DATABASES = {"mongodb", "mysql", "oceanbase", "oracle", "postgres", "sqlserver", "tidb", "vitess"}

#: Options of sinks that name columns.
_OF_COLUMNS = {"key.fields", "key.fields-prefix", "value.fields-include"}


class _Lowering:
    def __init__(self, defn: PipelineDef, warn: Callable[[str], None]):
        self.defn = defn
        self.warn = warn
        self.problems: list[Problem] = []
        self.unsupported: list[Problem] = []
        self._functions = NamedFunctions({})

    def job(self, default_name: str) -> Job:
        options = self.defn.pipeline
        self._functions = self._define_functions()
        if self._finds_tables():
            return self._find_tables(default_name)
        stream = self._make_source()
        broken = len(self._functions.functions) < len(self.defn.functions)  # no further problems of their calls
        stream = self._transform(stream) if stream and not broken else stream
        sinks = self._make_sinks(stream) if stream else ()
        if stream is None:
            self._check_sink()
        if self.problems or self.unsupported:
            error = PipelineError if self.problems else UnsupportedError
            raise error((*self.problems, *self.unsupported))
        return Job(options.name or default_name, sinks, options.settings)

    def _finds_tables(self) -> bool:
        """Whether the tables of the source, or their columns, are found while the job runs, or more than one is
        declared."""
        options = dict(self.defn.source.options)
        strategy = options.get("schema.inference.strategy", "continuous").strip().lower()
        several = "topic-pattern" in options or ";" in options.get("topic", "").strip(" ;")
        declared = options.get(DDLS, "").upper().count("CREATE TABLE")
        infers = any(part in key for key in options for part in (".infer-schema.", ".parser-table-id.", ".mysql."))
        limits = self.defn.collector is not None or "ingestion.error-tolerance.max-count" in options
        finds = strategy != "static" or several or infers or limits or declared != 1
        return self.defn.source.type == "kafka" and finds

    def _find_tables(self, default_name: str) -> Job:
        """The plan of a job that finds its tables."""
        options = self.defn.pipeline
        source = self.defn.source
        if not self._check_connector(self.defn.sink):
            self._attempt(source, partial(tables_lowering.make_source, source, self.warn))
            raise PipelineError((*self.problems, *self.unsupported))
        sink = self._attempt(source, partial(tables_lowering.make_sink, self.defn, self._functions, self.warn))
        if sink is None:
            self._check_sink()
        if self.problems or self.unsupported or sink is None:
            error = PipelineError if self.problems else UnsupportedError
            raise error((*self.problems, *self.unsupported))
        return Job(options.name or default_name, (sink,), options.settings)

    def _attempt(self, side: ConnectorDef, make: Callable[[], _T]) -> _T | None:
        """The result of ``make``, or None if it raised a DefinitionError, whose problems are collected."""
        try:
            return make()
        except UnsupportedError as error:
            self.unsupported += [_locate_problem(problem, side) for problem in error.problems]
        except DefinitionError as error:
            self.problems += [_locate_problem(problem, side) for problem in error.problems]
        return None

    def _check_connector(self, side: ConnectorDef) -> bool:
        if side.type in connectors.names():
            return True
        reason, hint = explain_unknown_connector(side.type, connectors.names())
        self.problems.append(Problem(reason, "type", side.origin.locate("type"), hint))
        return False

    # --- source ----------------------------------------------------------------------------------------------

    def _make_source(self) -> _Stream | None:
        source = self.defn.source
        if source.type in _DATABASES:
            reason = f"'{source.type}' cannot be a source of a pipeline yet"
            hint = "let Debezium or Canal write the changes of the database to Kafka, and read them with 'type: kafka'"
            self.unsupported.append(Problem(reason, "type", source.origin.locate("type"), hint))
            return None
        if not self._check_connector(source):
            return None
        if source.type != "kafka":
            reason, hint = f"'{source.type}' cannot be a source of a pipeline", "use 'type: kafka'"
            self.unsupported.append(Problem(reason, "type", source.origin.locate("type"), hint))
            return None
        found = self._attempt(source, partial(source_table, source, self.warn))
        if found is None:
            return None
        table, declared = found
        spec = self._attempt(source, partial(scan_spec, connectors.get(source.type), table))
        # Without a spec there is no job, but the rest is still checked.
        node = read_table(table, source.type, cast("ScanSpec", spec))
        return _Stream(node, table.name, table.primary_key, declared)

    def _define_functions(self) -> NamedFunctions:
        """The functions that the pipeline defines."""
        found: dict[str, Function] = {}
        for each in self.defn.functions:
            where = each.origin.locate("python-code")
            if each.name.upper() in found:
                reason, hint = f"there are two functions '{each.name}'", "give each its own name"
                self.problems.append(Problem(reason, "name", each.origin.locate("name"), hint))
                continue
            try:
                found[each.name.upper()] = function_of_code(each.name, each.python_code)
            except ValueError as error:
                hint = "write one function 'eval' with hints, such as 'def eval(x: int) -> int:'"
                self.problems.append(Problem(str(error), "python-code", where, hint))
        return NamedFunctions(found)

    # --- transform -------------------------------------------------------------------------------------------

    def _transform(self, stream: _Stream) -> _Stream | None:
        """The stream after the first rule that matches it."""
        self._warn_of_others("transform", self.defn.transforms, stream)
        for rule in self.defn.transforms:
            if self._match_id(rule.source_table, stream, rule.origin) is None:
                continue
            node = self._attempt(self.defn.source, partial(self._filter_and_project, stream.node, rule))
            return self._set_keys(stream, node, rule) if node is not None else None
        return stream

    def _filter_and_project(self, node: Node, rule: TransformDef) -> Node:
        """Filter and projection. As in Flink CDC, the filter may use columns of the source and computed ones."""
        items = columns = items_of(node.schema)
        if rule.projection:
            items = parse_projection(
                unescape_stars(rule.projection),
                node.schema,
                origin=_find_place(rule, "projection"),
                user_functions=self._functions,
            )
        if not rule.filter:
            return project(node, items)
        computed = tuple(each for each in items if node.schema.field(each.name) is None)
        wanted = parse_condition(
            rule.filter,
            row_of((*columns, *computed)),
            origin=_find_place(rule, "filter"),
            user_functions=self._functions,
        )
        names = columns_of(wanted)
        used = tuple(each for each in computed if each.name in names)
        below = project(node, (*columns, *used))
        last = tuple(
            Item(each.name, ColumnRef(each.name, type=each.expression.type)) if each in used else each for each in items
        )
        return project(Filter(below.schema, below, wanted), last)

    def _set_keys(self, stream: _Stream, node: Node, rule: TransformDef) -> _Stream:
        key = rule.primary_keys or tuple(name for name in stream.primary_key if node.schema.field(name))
        for name in rule.primary_keys:
            if node.schema.field(name) is None:
                hint = nearest(name, node.schema.names) or f"columns are {', '.join(node.schema.names)}"
                where = rule.origin.locate("primary-keys")
                self.problems.append(Problem(f"'{name}' is not a column", "primary-keys", where, hint))
        return replace(stream, node=node, primary_key=key)

    # --- sinks -----------------------------------------------------------------------------------------------

    def _make_sinks(self, stream: _Stream) -> tuple[Sink, ...]:
        """One sink for each route that matches; without one, the table keeps its own id."""
        sink = self.defn.sink
        if not self._check_connector(sink):
            return ()
        names = list(dict.fromkeys(self._route_stream(stream))) or [stream.id]
        made = (self._attempt(sink, partial(self._make_sink, name, stream)) for name in names)
        return tuple(each for each in made if each is not None)

    def _check_sink(self) -> None:
        """The problems of the sink when the source has problems too, so that its columns are not known."""
        sink = self.defn.sink
        if not self._check_connector(sink):
            return
        column, options = Column("id", BIGINT.with_nullability(False)), {"connector": sink.type, **dict(sink.options)}
        table = TableDefinition("sink", (column,), options, sink.origin, Surface.YAML, ("id",))

        def spec() -> SinkSpec:
            return sink_spec(connectors.get(sink.type), sink_table(sink, table) if sink.type == "kafka" else table)

        before = len(self.problems)
        self._attempt(sink, spec)
        self.problems[before:] = [each for each in self.problems[before:] if each.key not in _OF_COLUMNS]

    def _make_sink(self, name: str, stream: _Stream) -> Sink:
        sink = self.defn.sink
        columns = tuple(
            Column(each.name, each.type.with_nullability(False) if each.name in stream.primary_key else each.type)
            for each in stream.node.schema.fields
        )
        options = {"connector": sink.type, **dict(sink.options)}
        table = TableDefinition(name, columns, options, sink.origin, Surface.YAML, stream.primary_key)
        if sink.type == "kafka":
            table = sink_table(sink, table)
            self._warn_of_circle(table)
        spec = sink_spec(connectors.get(sink.type), table)
        return Sink(table.written, stream.node, table.name, sink.type, spec)

    def _warn_of_circle(self, table: TableDefinition) -> None:
        """Warn of a sink without 'topic' whose topic, by its table's name, is what the source reads."""
        source, sink = dict(self.defn.source.options), dict(self.defn.sink.options)
        topic, servers = table.options.get("topic"), "properties.bootstrap.servers"
        if "topic" not in sink and topic == source.get("topic") and sink.get(servers) == source.get(servers):
            self.warn(
                f"{self.defn.sink.origin.locate('')}: the sink writes to '{topic}', by its table's name, and the "
                "source reads that topic, so the job would read its own output: name another 'topic', or give the "
                "table another name in a route"
            )

    def _route_stream(self, stream: _Stream) -> Iterator[str]:
        self._warn_of_others("route", self.defn.routes, stream)
        for route in self.defn.routes:
            match = self._match_id(route.source_table, stream, route.origin)
            if match is not None:
                yield make_target_id(route, match, stream.id)
                if self.defn.pipeline.route_mode is RouteMode.FIRST_MATCH:
                    return

    def _warn_of_others(self, part: str, rules: Sequence[RouteDef | TransformDef], stream: _Stream) -> None:
        """Warn of rules that do not match the only table."""
        for rule in rules:
            try:
                found = match_table_id(rule.source_table, stream.id) or match_table_id(
                    rule.source_table, stream.declared
                )
            except re.error:  # which is a problem where the rule is used
                continue
            if found is None:
                self.warn(
                    f"{rule.origin.locate('source-table')}: the {part} for '{rule.source_table}' has no effect: the "
                    f"only table is '{stream.id}' (in a pattern, a dot separates the parts of a name, '\\.' stands "
                    "for any character, and case counts)"
                )

    def _match_id(self, pattern: str, stream: _Stream, origin: Origin) -> re.Match[str] | None:
        try:
            return match_table_id(pattern, stream.id) or match_table_id(pattern, stream.declared)
        except re.error as error:
            self.problems.append(explain_pattern(pattern, error, origin))
            return None


def _locate_problem(problem: Problem, side: ConnectorDef) -> Problem:
    values = dict(side.options)
    return locate_problem(problem, side.origin, {key: (values[key], f"'{text}'") for key, text in side.written})


def _find_place(rule: TransformDef, key: str) -> str:
    """The place of an expression in the file, from which its own line and column are counted."""
    return f"{rule.origin.locate(key)}, {key}"
