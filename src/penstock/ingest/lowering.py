"""From the definition of a pipeline to a plan, whose tables are found while the job runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.ingest.collectors import FileOptions, read_collector
from penstock.ingest.definition import ConnectorDef, PipelineDef, RouteDef, SinkDef, SourceDef, TransformDef
from penstock.ingest.kafka_sink import choose_topic
from penstock.ingest.kafka_source import read_source
from penstock.ingest.problems import Problems
from penstock.ingest.table_ids import compile_patterns, explain_pattern
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.reports import SeenTable, encode_report
from penstock.ingest.tables.routing import Router
from penstock.ingest.tables.sink_tables import SinkTables
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.tables.work import IngestWork
from penstock.ingest.transforms import DecimalPrecisionMode, TransformBinder
from penstock.options import LIST
from penstock.plan.nodes import Ingest, Job, Sink
from penstock.plan.scalar_functions import Function
from penstock.schemas import ChangeFilter, SchemaChangeBehavior, Schemas, Side, TableSchema
from penstock.spi import (
    Column,
    SinkSpec,
    WritesTables,
    connectors,
    explain_unknown_connector,
)
from penstock.sql import NamedFunctions, function_of_code
from penstock.types import STRING, Field, RowType

_T = TypeVar("_T")
#: The name of all tables of a sink together.
TABLES = "tables"
#: Sources of other systems that read a database, not a topic.
_DATABASES = {"mongodb", "mysql", "oceanbase", "oracle", "postgres", "sqlserver", "tidb", "vitess"}
_SERVERS = "properties.bootstrap.servers"
_NO_COLUMNS = RowType((), nullable=False)


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


class _Lowering:
    def __init__(self, defn: PipelineDef, warn: Callable[[str], None]):
        self._defn, self._warn, self._problems = defn, warn, Problems()
        self._tables = SinkTables(defn.sink)

    def job(self, default_name: str) -> Job:
        """The plan. Raises PipelineError or UnsupportedError."""
        options = self._defn.pipeline
        sink = self._make_sink()
        self._problems.check()
        assert sink is not None, "or there is a problem"  # noqa: S101
        return Job(options.name or default_name, (sink,), options.settings)

    def _make_sink(self) -> Sink | None:
        """The tables of the sink, above the work that finds them; None after problems."""
        defn, options = self._defn, self._defn.pipeline
        functions = self._define_functions()
        known = self._check_type(defn.source)
        source = read_source(defn.source, self._problems, self._warn) if known else None
        patterns = [*_check_patterns(defn)]
        self._problems.errors += patterns
        spec = self._attempt(self._define_sink) if self._check_connector(defn.sink) else None
        behavior = SchemaChangeBehavior(options.schema_change_behavior)
        chosen = self._attempt(partial(_choose_changes, defn.sink, behavior))
        policy = self._attempt(partial(self._make_policy, source.errors)) if source is not None else None
        if source is None or chosen is None or policy is None or patterns:
            return None
        binder = TransformBinder(
            defn.transforms,
            functions,
            options.settings.session_time_zone or "UTC",
            DecimalPrecisionMode[options.decimal_mode],
            options.trims_keys,
        )
        router = Router(defn.routes, options.route_mode)
        programs = Programs(router, binder, source.tables.declared, bool(defn.functions))
        evolver = Evolver(source.tables, programs, behavior, chosen)
        work = IngestWork(source.tables, programs, evolver, self._tables, policy)
        if len(functions.functions) == len(defn.functions):  # else calls would have further problems
            self._check_tables(work, writable=spec is not None)
        if spec is None:
            return None
        node = Ingest(_NO_COLUMNS, source.scan, work, tuple(_explain(defn, source.tables)), source.kinds)
        return Sink(_NO_COLUMNS, node, TABLES, defn.sink.type, spec)

    def _attempt(self, make: Callable[[], _T]) -> _T | None:
        return self._problems.attempt(self._defn.sink, make)

    # --- parts -----------------------------------------------------------------------------------------------

    def _check_connector(self, side: ConnectorDef) -> bool:
        if side.type in connectors.names():
            return True
        reason, hint = explain_unknown_connector(side.type, connectors.names())
        self._problems.errors.append(Problem(reason, "type", side.origin.locate("type"), hint))
        return False

    def _check_type(self, source: SourceDef) -> bool:
        """Whether the source can be read; otherwise a problem is added."""
        if source.type == "kafka":
            return True
        reason, hint = f"'{source.type}' cannot be a source of a pipeline", "use 'type: kafka'"
        if source.type in _DATABASES:
            reason += " yet"
            hint = "let Debezium or Canal write the changes of the database to Kafka, and read them with 'type: kafka'"
        elif not self._check_connector(source):
            return False
        self._problems.unsupported.append(Problem(reason, "type", source.origin.locate("type"), hint))
        return False

    def _define_functions(self) -> NamedFunctions:
        """The functions that the pipeline defines."""
        found: dict[str, Function] = {}
        for each in self._defn.functions:
            where = each.origin.locate("python-code")
            if each.name.upper() in found:
                reason, hint = f"there are two functions '{each.name}'", "give each its own name"
                self._problems.errors.append(Problem(reason, "name", each.origin.locate("name"), hint))
                continue
            try:
                found[each.name.upper()] = function_of_code(each.name, each.python_code)
            except ValueError as error:
                hint = "write one function 'eval' with hints, such as 'def eval(x: int) -> int:'"
                self._problems.errors.append(Problem(str(error), "python-code", where, hint))
        return NamedFunctions(found)

    def _define_sink(self) -> SinkSpec:
        """How all tables of the sink together are written: without what only some of them have. Raises a
        DefinitionError."""
        sink = self._defn.sink
        connector = connectors.get(sink.type)
        if not isinstance(connector, WritesTables):
            known = [name for name in connectors.names() if isinstance(connectors.get(name), WritesTables)]
            hint = f"use {', '.join(known)}, or write the job in SQL, with INSERT INTO a table of '{sink.type}'"
            reason = f"'{sink.type}' cannot be the sink of a pipeline, whose tables are found while it runs"
            raise UnsupportedError((Problem(reason, "type", sink.origin.locate("type"), hint),))
        key = Column("key", STRING.with_nullability(False))
        given = self._tables.define(TABLES, TableSchema(RowType((Field(key.name, key.type),)), (key.name,)))
        options = {
            name: each for name, each in given.options.items() if name != "topic" or "topic" in dict(sink.options)
        }
        return connector.tables_sink(replace(given, options=options, columns=()))

    def _make_policy(self, errors: ErrorPolicy) -> ErrorPolicy:
        """What happens to records that cannot be read, with the collector. Raises OptionsError for the collector."""
        collector = self._defn.collector
        if collector is None:
            return errors
        found, place = read_collector(collector), collector.origin.locate("")
        if not errors.ignores:
            self._warn(
                f"{place}: the collector keeps nothing, because the job ends at the first record that cannot be read: "
                "write 'ingestion.ignore-errors: true' in the source to leave such records out"
            )
        return replace(errors, folder=found.path if isinstance(found, FileOptions) else "")

    # --- tables that are known from the start ----------------------------------------------------------------

    def _check_tables(self, work: IngestWork, *, writable: bool) -> None:
        """Add the problems of tables whose columns are declared and do not change, and warn of what has no effect on
        the tables that there can be."""
        source, programs = work.source, work.programs
        if source.names:
            for each in programs.explain_unused(source.names, "tables"):
                self._warn(f"{each} (in a pattern a dot separates the parts of a name, '\\.' is any character)")
        seen = []
        for name in source.settled:
            begin = source.initial_schema(name)
            schema = replace(begin, row=source.add_metadata(begin.row))
            if self._attempt(partial(programs.bind, name, schema)) is not None:
                seen.append(SeenTable(name, begin.row, first=(0, 0)))
        report = encode_report(seen)
        found = self._attempt(partial(work.evolve, Schemas(), [report])) if report else ()
        for version in (each.version for each in found or ()):
            certain = bool(version.schema.primary_key) or not source.reader.names_keys
            if writable and certain and version.side is Side.SINK:
                self._attempt(partial(self._tables.output, version))
        for name in dict.fromkeys((*source.names, *source.settled)):
            self._warn_of_circle(programs.find_targets(name))

    def _warn_of_circle(self, targets: Sequence[str]) -> None:
        """Warn of tables of a sink without 'topic' whose topics, by their names, the source reads."""
        source, sink = dict(self._defn.source.options), dict(self._defn.sink.options)
        if self._defn.sink.type != "kafka" or "topic" in sink or sink.get(_SERVERS) != source.get(_SERVERS):
            return
        read = LIST.parse(source.get("topic", ""))
        for target in targets:
            topic = self._attempt(partial(choose_topic, self._defn.sink, target))
            if topic in read:
                self._warn(
                    f"{self._defn.sink.origin.locate('')}: the sink writes to '{topic}', by its table's name, and the "
                    "source reads that topic, so the job would read its own output: name another 'topic', or give the "
                    "table another name in a route"
                )


def _check_patterns(defn: PipelineDef) -> Iterator[Problem]:
    """The routes and rules of transforms whose tables are no patterns."""
    rules: tuple[RouteDef | TransformDef, ...] = (*defn.routes, *defn.transforms)
    for rule in rules:
        try:
            compile_patterns(rule.source_table)
        except re.error as error:
            yield explain_pattern(rule.source_table, error, rule.origin)


def _choose_changes(sink: SinkDef, behavior: SchemaChangeBehavior) -> ChangeFilter:
    """The changes that the sink is to follow. Raises OptionsError for a kind that is not one."""
    try:
        return ChangeFilter.from_options(sink.include, sink.exclude, behavior)
    except SchemaError as error:
        place = sink.origin.locate("")
        raise OptionsError(tuple(replace(each, where=each.where or place) for each in error.problems)) from None


def _explain(defn: PipelineDef, source: SourceTables) -> Iterator[str]:
    """The lines of the work in EXPLAIN."""
    yield f"tables of {source.identifier} messages, found while the job runs"
    if source.declared.tables:
        yield f"  declared: {', '.join(source.declared.tables)}"
    yield f"  schemas: {'fixed once a table is known' if source.static else 'follow the messages'}"
    yield f"  changes of the sink: {defn.pipeline.schema_change_behavior.lower()}"
    for each in defn.routes:
        yield f"  route: {each.source_table} to {each.sink_table}"
