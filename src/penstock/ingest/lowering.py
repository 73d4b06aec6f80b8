"""From the definition of a pipeline to a plan, which equals that of the same job in SQL or Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar, cast

from penstock.errors import DefinitionError, PipelineError, Problem, UnsupportedError
from penstock.ingest.definition import PipelineDef, RouteDef, RouteMode, RuntimeMode, SinkDef, SourceDef, TransformDef
from penstock.ingest.kafka import SinkTarget, sink_table, source_table
from penstock.ingest.tables import TablePattern
from penstock.options import Origin, nearest
from penstock.plan import Filter, Item, Job, Node, Sink, items_of, project
from penstock.plan.expressions import ColumnRef, columns_of
from penstock.spi import Column, ScanSpec, Surface, TableDefinition, connectors, scan_spec, sink_spec, unknown_connector
from penstock.sql import condition, projection, read
from penstock.types import Field, RowType

DEFAULT_NAME = "pipeline"

_T = TypeVar("_T")


def lower(defn: PipelineDef, default_name: str = DEFAULT_NAME) -> Job:
    """The plan of ``defn``; ``default_name`` is the job's name where the pipeline has none.

    Raises PipelineError with every problem found, or UnsupportedError if all of them are features that penstock lacks.
    """
    return _Lowering(defn).job(default_name)


@dataclass(frozen=True)
class _Stream:
    """The rows of a table between source and sink, with its id and primary key."""

    node: Node
    id: str
    primary_key: tuple[str, ...]


class _Lowering:
    def __init__(self, defn: PipelineDef):
        self.defn = defn
        self.problems: list[Problem] = []
        self.unsupported: list[Problem] = []

    def job(self, default_name: str) -> Job:
        options = self.defn.pipeline
        if options.runtime_mode is RuntimeMode.BATCH:
            hint = "leave it out and give the source an end with 'scan.bounded.mode'"
            self.unsupported.append(Problem("BATCH is not supported", "execution.runtime-mode", hint=hint))
        stream = self._source()
        stream = self._transform(stream) if stream else None
        sinks = self._sinks(stream) if stream else ()
        if self.problems or self.unsupported:
            kind = PipelineError if self.problems else UnsupportedError
            raise kind((*self.problems, *self.unsupported))
        return Job(options.name or default_name, sinks, options.settings)

    def _attempt(self, side: SourceDef | SinkDef, make: Callable[[], _T]) -> _T | None:
        """The result of ``make``, or None if it raised problems, which are kept."""
        try:
            return make()
        except UnsupportedError as error:
            self.unsupported += [_placed(problem, side) for problem in error.problems]
        except DefinitionError as error:
            self.problems += [_placed(problem, side) for problem in error.problems]
        return None

    def _known(self, kind: str, origin: Origin) -> bool:
        if kind in connectors.names():
            return True
        reason, hint = unknown_connector(kind, connectors.names())
        self.problems.append(Problem(reason, "type", origin.of("type"), hint))
        return False

    # --- source ----------------------------------------------------------------------------------------------

    def _source(self) -> _Stream | None:
        source = self.defn.source
        if not self._known(source.type, source.origin):
            return None
        if source.type != "kafka":
            where = source.origin.of("type")
            hint = "use 'type: kafka'"
            self.unsupported.append(Problem(f"'{source.type}' cannot be a source of a pipeline", "type", where, hint))
            return None
        table = self._attempt(source, partial(source_table, source))
        if table is None:
            return None
        spec = self._attempt(source, partial(scan_spec, connectors.get(source.type), table))
        # Without a spec there is no job, but the rest is still checked.
        node = read(table, source.type, cast("ScanSpec", spec))
        return _Stream(node, table.name, table.primary_key)

    # --- transform -------------------------------------------------------------------------------------------

    def _transform(self, stream: _Stream) -> _Stream | None:
        """The stream after the first rule that matches it."""
        for rule in self.defn.transforms:
            if self._match(rule.source_table, stream.id, rule.origin) is None:
                continue
            node = self._attempt(self.defn.source, partial(self._computed, stream.node, rule))
            return self._keyed(stream, node, rule) if node is not None else None
        return stream

    def _computed(self, node: Node, rule: TransformDef) -> Node:
        """Filter and projection. As in Flink CDC, the filter may use columns of the source and computed ones."""
        items, schema = items_of(node.schema), node.schema
        if rule.projection:
            items, schema = projection(rule.projection, node.schema, origin=_place(rule, "projection"))
        if not rule.filter:
            return project(node, items, schema)
        computed = [each for each in _pairs(items, schema) if node.schema.field(each[0].name) is None]
        wide = replace(node.schema, fields=(*node.schema.fields, *(field for _, field in computed)))
        wanted = condition(rule.filter, wide, origin=_place(rule, "filter"))
        read = columns_of(wanted)
        used = [each for each in computed if each[0].name in read]
        if not used:
            return project(Filter(node.schema, node, wanted), items, schema)
        wide = replace(node.schema, fields=(*node.schema.fields, *(field for _, field in used)))
        below = project(node, (*items_of(node.schema), *(item for item, _ in used)), wide)
        ready = {item.name for item, _ in used}
        last = tuple(
            Item(item.name, ColumnRef(item.name, type=field.type)) if item.name in ready else item
            for item, field in _pairs(items, schema)
        )
        return project(Filter(wide, below, wanted), last, schema)

    def _keyed(self, stream: _Stream, node: Node, rule: TransformDef) -> _Stream:
        key = rule.primary_keys or tuple(name for name in stream.primary_key if node.schema.field(name))
        for name in rule.primary_keys:
            if node.schema.field(name) is None:
                hint = nearest(name, node.schema.names) or f"columns are {', '.join(node.schema.names)}"
                where = rule.origin.of("primary-keys")
                self.problems.append(Problem(f"'{name}' is not a column", "primary-keys", where, hint))
        return _Stream(node, stream.id, key)

    # --- sinks -----------------------------------------------------------------------------------------------

    def _sinks(self, stream: _Stream) -> tuple[Sink, ...]:
        """One sink for each route that matches; without one, the table keeps its own id."""
        sink = self.defn.sink
        if not self._known(sink.type, sink.origin):
            return ()
        names = list(dict.fromkeys(self._routed(stream))) or [stream.id]
        made = (self._attempt(sink, partial(self._sink, name, stream)) for name in names)
        return tuple(each for each in made if each is not None)

    def _sink(self, name: str, stream: _Stream) -> Sink:
        kind = self.defn.sink.type
        table = self._sink_table(name, stream)
        return Sink(table.written, stream.node, table.name, kind, sink_spec(connectors.get(kind), table))

    def _routed(self, stream: _Stream) -> Iterator[str]:
        for route in self.defn.routes:
            match = self._match(route.source_table, stream.id, route.origin)
            if match is not None:
                yield _target(route, match, stream.id)
                if self.defn.pipeline.route_mode is RouteMode.FIRST_MATCH:
                    return

    def _match(self, pattern: str, name: str, origin: Origin) -> re.Match[str] | None:
        try:
            return TablePattern(pattern).match(name)
        except re.error as error:
            reason = f"'{pattern}' is not a valid pattern: {error}"
            self.problems.append(Problem(reason, "source-table", origin.of("source-table"), "check its brackets"))
            return None

    def _sink_table(self, name: str, stream: _Stream) -> TableDefinition:
        sink = self.defn.sink
        columns = tuple(
            Column(each.name, each.type.with_nullability(False) if each.name in stream.primary_key else each.type)
            for each in stream.node.schema.fields
        )
        if sink.type == "kafka":
            return sink_table(sink, SinkTarget(name, columns, stream.primary_key))
        options = {"connector": sink.type, **dict(sink.options)}
        return TableDefinition(name, columns, options, sink.origin, Surface.YAML, stream.primary_key)


def _placed(problem: Problem, side: SourceDef | SinkDef) -> Problem:
    """``problem`` with a line even if the option is missing, and with ``${name}`` instead of a variable's value."""
    if problem.where == side.origin.name:
        problem = replace(problem, where=side.origin.of(""))
    values, written = dict(side.options), dict(side.written)
    if problem.key not in written:
        return problem
    return replace(problem, reason=problem.reason.replace(f"'{values[problem.key]}'", f"'{written[problem.key]}'"))


def _pairs(items: tuple[Item, ...], schema: RowType) -> list[tuple[Item, Field]]:
    return list(zip(items, schema.fields, strict=True))


def _target(route: RouteDef, match: re.Match[str], name: str) -> str:
    """The id of the sink's table, with the source table's name for the symbol and groups of the pattern for ``$1``."""
    if route.replace_symbol:
        return route.sink_table.replace(route.replace_symbol, name.rpartition(".")[2])

    def group(found: re.Match[str]) -> str:
        number = int(found[1])
        return (match[number] or "") if number <= len(match.groups()) else found[0]

    return re.sub(r"\$(\d+)", group, route.sink_table)


def _place(rule: TransformDef, key: str) -> str:
    """The place of an expression in the file, from which its own line and column are counted."""
    return f"{rule.origin.of(key)}, {key}"
