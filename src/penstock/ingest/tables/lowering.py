"""From the definition of a pipeline to the plan of a job that finds its tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.errors import DefinitionError, OptionsError, PipelineError, Problem, SchemaError, UnsupportedError
from penstock.ingest.collectors import FileOptions, read_collector
from penstock.ingest.definition import PipelineDef, RouteDef, SinkDef, SourceDef, TransformDef
from penstock.ingest.kafka import DDLS, DEFAULT_FORMAT, make_metadata_columns, refuse
from penstock.ingest.kafka_options import InferenceStrategy, KafkaIngestSourceOptions
from penstock.ingest.table_ids import compile_patterns, explain_pattern
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.message_columns import KEY, VALUE, MessageColumns
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy
from penstock.ingest.tables.routing import Router
from penstock.ingest.tables.sink_tables import SinkTables
from penstock.ingest.tables.source_tables import TOPIC, SourceTables
from penstock.ingest.tables.work import IngestWork
from penstock.ingest.transforms import DecimalPrecisionMode, TransformBinder
from penstock.options import Origin
from penstock.plan.nodes import Ingest, Scan, Sink
from penstock.schemas import ChangeFilter, SchemaChangeBehavior, TableSchema
from penstock.spi import (
    CHANGES,
    INSERTIONS,
    BuildsDeadLetters,
    ChangeFormat,
    Column,
    ColumnKind,
    InferringFormat,
    Surface,
    TableDefinition,
    TableReader,
    WritesTables,
    connectors,
    formats,
    scan_spec,
)
from penstock.sql import TableSchema as DeclaredTable
from penstock.sql import UserFunctions, parse_tables
from penstock.types import BYTES, STRING, Field, RowType

#: The name of the table that gives the messages of a source as they are, in checkpoints too.
SOURCE = "source"
#: The name of all tables of a sink together.
TABLES = "tables"
_NO_COLUMNS = RowType((), nullable=False)


def make_sink(defn: PipelineDef, functions: UserFunctions, warn: Callable[[str], None]) -> Sink:
    """The tables of the sink, above the work that finds them. Raises a DefinitionError with every problem of the source
    or of the sink."""
    scan, source = make_source(defn.source, warn)
    if problems := (*_check_patterns(defn),):
        raise PipelineError(problems)
    options = defn.pipeline
    behavior = SchemaChangeBehavior(options.schema_change_behavior)
    router = Router(defn.routes, options.route_mode)
    binder = TransformBinder(
        defn.transforms,
        functions,
        options.settings.session_time_zone or "UTC",
        DecimalPrecisionMode[options.decimal_mode],
        options.trims_keys,
    )
    programs = Programs(router, binder, bool(defn.functions))
    evolver = Evolver(source, programs, behavior, _choose_changes(defn.sink, behavior))
    tables = SinkTables(defn.sink)
    work = IngestWork(source, programs, evolver, tables, _make_policy(defn, source, warn))
    changes = isinstance(formats.get(source.identifier), ChangeFormat)
    kinds = CHANGES if changes else INSERTIONS
    node = Ingest(_NO_COLUMNS, scan, work, tuple(_explain(defn, source)), kinds)
    connector = connectors.get(defn.sink.type)
    if not isinstance(connector, WritesTables):
        reason = f"'{defn.sink.type}' cannot write tables whose columns are found while the job runs"
        hint = f"declare the table in '{DDLS}', and write 'schema.inference.strategy: static'"
        raise UnsupportedError((Problem(reason, "type", defn.sink.origin.locate("type"), hint),))
    spec = connector.tables_sink(_define_all(defn.sink))
    return Sink(_NO_COLUMNS, node, TABLES, defn.sink.type, spec)


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


def _define_all(sink: SinkDef) -> TableDefinition:
    """All tables of a sink together, as its connector takes them: without what only some of them have."""
    key = Column("key", STRING.with_nullability(False))
    given = SinkTables(sink).define(TABLES, TableSchema(RowType((Field(key.name, key.type),)), (key.name,)))
    options = {name: each for name, each in given.options.items() if name != "topic" or "topic" in dict(sink.options)}
    return replace(given, options=options, columns=())


def make_source(source: SourceDef, warn: Callable[[str], None]) -> tuple[Scan, SourceTables]:
    """The scan that gives messages as they are, and how they are read. Raises a DefinitionError."""
    given, origin = dict(source.options), source.origin
    options = KafkaIngestSourceOptions.from_text(given, origin)
    identifier = given.get("value.format", DEFAULT_FORMAT).strip().lower()
    found = formats.get(identifier) if identifier in formats.names() else None
    if not isinstance(found, InferringFormat):
        raise _unread_error(source, identifier)
    prefix = next((each for each in (f"value.{identifier}.", f"{identifier}.") if _has_prefix(given, each)), "")
    prefix = prefix or f"{identifier}."
    bound = found.options.from_text(given, origin, prefix)
    standard = f"{prefix}timestamp-format.standard"
    if given.get(standard, "").strip().upper() == _WITH_OFFSET:
        refuse({standard: (f"{_WITH_OFFSET} is not supported with inferred schemas yet", "use ISO-8601")}, origin)
    inference = found.inference.from_text(given, origin, f"{identifier}.")
    metadata = make_metadata_columns(options.metadata, origin)
    known = {prefix + key for key in found.options.keys()} | {f"{identifier}.{key}" for key in found.inference.keys()}  # noqa: SIM118
    check_prefixes(given, origin)
    kept = make_metadata_columns(_OF_LETTERS, origin) if _LETTERS in given else ()
    table = _define_messages(source, given, known, (*metadata, *(each for each in kept if each not in metadata)))
    declared = {
        ".".join(each.id): _read_schema(each.columns, each.primary_key) for each in _parse(options.ddls, source)
    }
    tables = SourceTables(
        MessageColumns(
            found.table_reader(bound, inference),
            given.get("value.fields-prefix", ""),
            make_key_reader(given, origin),
            given.get("key.fields-prefix", ""),
        ),
        identifier,
        prefix,
        declared,
        tuple(Field(each.name, each.type) for each in metadata),
        options.strategy is InferenceStrategy.STATIC,
        0 if _has_prefix(given, f"{identifier}.infer-schema.fixed-types") else options.prefetch,
    )
    spec = scan_spec(connectors.get(source.type), table)
    if kept and isinstance(spec, BuildsDeadLetters):
        tables = replace(tables, letters=spec)
    return Scan(table.produced, table.name, source.type, spec), tables


def _has_prefix(given: Mapping[str, str], prefix: str) -> bool:
    return any(key.startswith(prefix) for key in given)


def _unread_error(source: SourceDef, identifier: str) -> DefinitionError:
    place = source.origin.locate("value.format" if "value.format" in dict(source.options) else "")
    known = [name for name in formats.names() if isinstance(formats.get(name), InferringFormat)]
    reason = f"schemas cannot be inferred from '{identifier}'"
    hint = f"use {', '.join(known)}, or declare the table in '{DDLS}' with 'schema.inference.strategy: static'"
    return OptionsError((Problem(reason, "value.format", place, hint),))


def _define_messages(
    source: SourceDef, given: Mapping[str, str], of_format: set[str], metadata: tuple[Column, ...]
) -> TableDefinition:
    """The table that gives messages as they are."""
    own = {*KafkaIngestSourceOptions.keys(), *of_format, *_OF_PARTS}
    left = {key: each for key, each in given.items() if key not in own and not key.startswith("key.json.")}
    later = {key: ("is not supported with inferred schemas yet", "leave it out") for key in _LATER if key in left}
    refuse(later, source.origin)
    keys = (Column(KEY, BYTES, ColumnKind.METADATA, KEY, True),) if "key.format" in given else ()
    topic = Column(TOPIC, STRING.with_nullability(False), ColumnKind.METADATA, TOPIC, True)
    columns = (Column(VALUE, BYTES), topic, *keys)
    names = [each.name for each in columns]
    others = tuple(
        replace(each, type=BYTES) if each.key in _RAW else each for each in metadata if each.key not in names
    )
    options = {"connector": source.type, "value.format": "raw", **left}
    return TableDefinition(SOURCE, (*columns, *others), options, source.origin, Surface.YAML)


#: Metadata that is bytes, and text in the columns of tables.
_RAW = ("__raw_key__", "__raw_value__")
_WITH_OFFSET = "ISO-8601-WITH-OFFSET"
_LATER = ("key.fields", "value.fields-include")
#: The option for records that cannot be read, and the metadata that is kept of them.
_LETTERS, _OF_LETTERS = "scan.dead-letter.topic", "__raw_key__,header-list,timestamp,partition"
_OF_PARTS = ("value.format", "ingestion.ignore-errors", "key.format", "key.fields-prefix", "value.fields-prefix")


def make_key_reader(given: Mapping[str, str], origin: Origin) -> TableReader[Any] | None:
    """What reads the keys of messages; None if they are not read. Raises OptionsError for a format that keys cannot
    have."""
    identifier = given.get("key.format", "").strip().lower()
    if not identifier:
        return None
    found = formats.get(identifier) if identifier in formats.names() else None
    if not isinstance(found, InferringFormat) or isinstance(found, ChangeFormat):
        place, reason = origin.locate("key.format"), f"columns cannot be inferred from keys of '{identifier}'"
        raise OptionsError((Problem(reason, "key.format", place, "use json, or leave it out"),))
    options = found.options.from_text(given, origin, f"key.{identifier}.")
    return found.table_reader(options, found.inference.from_text({}))


def check_prefixes(given: Mapping[str, str], origin: Origin) -> None:
    """Raises OptionsError where it could not be told whether a column is of the key or of the value."""
    key, value = given.get("key.fields-prefix", ""), given.get("value.fields-prefix", "")
    if key and value and (key.startswith(value) or value.startswith(key)):
        reason = f"'{key}' and the 'value.fields-prefix' '{value}' begin with the same text"
        hint = "neither of the two may be a prefix of the other"
        raise OptionsError((Problem(reason, "key.fields-prefix", origin.locate("key.fields-prefix"), hint),))


def _make_policy(defn: PipelineDef, source: SourceTables, warn: Callable[[str], None]) -> ErrorPolicy:
    """What happens to records that cannot be read. Raises OptionsError for the collector."""
    given = dict(defn.source.options)
    most = KafkaIngestSourceOptions.from_text(given, defn.source.origin).max_errors
    tolerates = _is_true(given, "ingestion.ignore-errors")
    skips = [f"{prefix}{source.identifier}.ignore-parse-errors" for prefix in ("", "value.")]
    keeps = _LETTERS in given
    ignores = tolerates or keeps or any(_is_true(given, key) for key in skips)
    collector, folder = defn.collector, ""
    if collector is not None:
        found, place = read_collector(collector), collector.origin.locate("")
        folder = found.path if isinstance(found, FileOptions) else ""
        if not ignores:
            warn(
                f"{place}: the collector keeps nothing, because the job ends at the first record that cannot be read: "
                "write 'ingestion.ignore-errors: true' in the source to leave such records out"
            )
    return ErrorPolicy(ignores, most if tolerates or keeps else -1, folder)


def _is_true(given: Mapping[str, str], key: str) -> bool:
    return given.get(key, "").strip().lower() == "true"


def _parse(text: str | None, source: SourceDef) -> tuple[DeclaredTable, ...]:
    place = source.origin.locate(DDLS)
    try:
        return parse_tables(text, origin=place) if text else ()
    except DefinitionError as error:
        raise type(error)(tuple(replace(each, key=DDLS) for each in error.problems)) from None


def _read_schema(columns: tuple[Column, ...], key: tuple[str, ...]) -> TableSchema:
    physical = tuple(Field(each.name, each.type) for each in columns if each.kind is ColumnKind.PHYSICAL)
    return TableSchema(RowType(physical, nullable=False), key)


def _explain(defn: PipelineDef, source: SourceTables) -> Iterator[str]:
    """The lines of the work in EXPLAIN."""
    yield f"tables of {source.identifier} messages, found while the job runs"
    if source.declared:
        yield f"  declared: {', '.join(source.declared)}"
    yield f"  schemas: {'fixed once a table is known' if source.static else 'follow the messages'}"
    yield f"  changes of the sink: {defn.pipeline.schema_change_behavior.lower()}"
    for each in defn.routes:
        yield f"  route: {each.source_table} to {each.sink_table}"
