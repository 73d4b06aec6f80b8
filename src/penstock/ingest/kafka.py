"""Kafka sources and sinks in YAML as tables of the ``kafka`` connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError, UnsupportedError
from penstock.ingest.definition import SinkDef, SourceDef
from penstock.ingest.options import (
    InferenceStrategy,
    KafkaIngestSinkOptions,
    KafkaIngestSourceOptions,
    PartitionStrategy,
)
from penstock.ingest.tables import topic_of
from penstock.options import LIST, OptionSet, Origin, nearest
from penstock.plan.expressions import ColumnRef, Expression, rewrite
from penstock.spi import Column, ColumnKind, Surface, TableDefinition, WithMetadata, connectors
from penstock.sql import ComputedColumn, TableSchema, tables
from penstock.types import STRING

#: The format of values in YAML, unless one is named.
DEFAULT_FORMAT = "debezium-json"

_DDLS = "scan.value.initial-schemas.ddls"
#: Metadata that 'metadata.list' gives as text, whatever bytes it is.
_TEXTS = {"__raw_key__": STRING, "__raw_value__": STRING}


def source_table(source: SourceDef) -> TableDefinition:
    """The table that ``source`` reads. Raises a DefinitionError with every problem found."""
    given, origin = dict(source.options), source.origin
    options = KafkaIngestSourceOptions.from_text(given, origin)
    _check_supported(options, given, origin)
    schema = _schema(options.ddls or "", origin)
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **_without(given, KafkaIngestSourceOptions)}
    schema, renamed = _prefixed(schema, rest, origin)
    columns = schema.columns + _metadata_columns(options.metadata, origin)
    _check_columns(columns, origin)
    return TableDefinition(".".join(schema.id), columns, rest | renamed, origin, Surface.YAML, schema.primary_key)


def _check_supported(options: KafkaIngestSourceOptions, given: Mapping[str, str], origin: Origin) -> None:
    problems = []

    def refuse(key: str, reason: str, hint: str) -> None:
        problems.append(Problem(reason, key, origin.of(key), hint))

    if not options.ddls:
        hint = f"give the schema: '{_DDLS}: CREATE TABLE orders (id BIGINT, ...)'"
        problems.append(Problem("schemas are not inferred yet", _DDLS, origin.of(""), hint))
    if options.strategy is not InferenceStrategy.STATIC:
        key = "schema.inference.strategy"
        refuse(key, "changes of a schema are not followed yet", f"write '{key}: static'")
    for key in options.inference():
        refuse(key, "schemas are not inferred yet", f"declare the columns in '{_DDLS}' and leave this out")
    if len(LIST.parse(given.get("topic", ""))) > 1:
        refuse("topic", "several topics are not supported yet", "write one pipeline for each topic")
    if "topic-pattern" in given:
        refuse("topic-pattern", "several topics are not supported yet", "write one pipeline for each topic: 'topic'")
    if options.table_id_fields:
        key = "json.decode.parser-table-id.fields"
        refuse(key, "several tables in one topic are not supported yet", "leave it out, and declare the one table")
    if options.max_errors >= 0:
        key = "ingestion.error-tolerance.max-count"
        refuse(key, "a limit of errors is not supported yet", "leave it out, or write -1")
    if "key.format" in given and "key.fields" not in given:
        hint = f"name the key's columns in 'key.fields', and declare them in '{_DDLS}'"
        refuse("key.format", "the columns of a key are not inferred yet", hint)
    if problems:
        raise UnsupportedError(tuple(problems))


def _schema(text: str, origin: Origin) -> TableSchema:
    place = origin.of(_DDLS)
    try:
        found = tables(text, origin=place)
    except DefinitionError as error:
        raise type(error)(tuple(replace(each, key=_DDLS) for each in error.problems)) from None
    if len(found) > 1:
        names = ", ".join(".".join(each.id) for each in found)
        reason = f"several tables are not supported yet: expected one CREATE TABLE, not {len(found)} ({names})"
        raise UnsupportedError((Problem(reason, _DDLS, place, "write one pipeline for each table"),))
    if not found:
        raise SchemaError((Problem("expected CREATE TABLE", _DDLS, place),))
    return found[0]


def _prefixed(schema: TableSchema, given: Mapping[str, str], origin: Origin) -> tuple[TableSchema, dict[str, str]]:
    """``schema`` with the prefixes of keys and values before the names of columns that lack them, and the options that
    follow. The columns in 'key.fields' are those of the key; they may be named without their prefix."""
    key_prefix, value_prefix = given.get("key.fields-prefix", ""), given.get("value.fields-prefix", "")
    if not key_prefix and not value_prefix:
        return schema, {}
    if key_prefix and value_prefix and (key_prefix.startswith(value_prefix) or value_prefix.startswith(key_prefix)):
        reason = f"'{key_prefix}' and the 'value.fields-prefix' '{value_prefix}' begin alike"
        hint = "neither of the two may be a prefix of the other"
        raise OptionsError((Problem(reason, "key.fields-prefix", origin.of("key.fields-prefix"), hint),))
    declared = {each.name for each in schema.columns if each.kind is ColumnKind.PHYSICAL}
    keys = {name: _with_prefix(name, key_prefix) for name in LIST.parse(given.get("key.fields", ""))}
    names = {name: _with_prefix(name, value_prefix) for name in declared}
    for name, full in keys.items():
        names[full if full in declared else name] = full

    def renamed(part: Expression) -> Expression:
        return replace(part, name=names.get(part.name, part.name)) if isinstance(part, ColumnRef) else part

    columns: list[Column] = []
    for each in schema.columns:
        if isinstance(each, ComputedColumn):
            columns.append(replace(each, expression=rewrite(each.expression, renamed)))
        else:
            columns.append(replace(each, name=names.get(each.name, each.name)))
    options = {"key.fields": ";".join(keys.values()), "value.fields-include": "EXCEPT_KEY"} if keys else {}
    if "value.fields-include" in given:
        options.pop("value.fields-include", None)
    key = tuple(names.get(name, name) for name in schema.primary_key)
    return TableSchema(schema.id, tuple(columns), key), options


def _with_prefix(name: str, prefix: str) -> str:
    return name if name.startswith(prefix) else prefix + name


def _metadata_columns(text: str, origin: Origin) -> tuple[Column, ...]:
    kafka = connectors.get("kafka")
    known = kafka.metadata if isinstance(kafka, WithMetadata) else {}
    names = [name.strip() for name in text.split(",") if name.strip()]
    place = origin.of("metadata.list")
    problems = [
        Problem(
            f"there is no metadata '{name}'",
            "metadata.list",
            place,
            nearest(name, known) or f"known are {', '.join(known)}",
        )
        for name in names
        if name not in known
    ]
    if problems:
        raise OptionsError(tuple(problems))
    types = {**known, **_TEXTS}
    return tuple(Column(name, types[name], ColumnKind.METADATA, name, virtual=True) for name in names)


def _check_columns(columns: tuple[Column, ...], origin: Origin) -> None:
    problems = []
    names = [each.name for each in columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reason = f"there are two columns '{name}'"
        hint = f"rename it in '{_DDLS}', or leave it out of 'metadata.list'"
        problems.append(Problem(reason, _DDLS, origin.of(_DDLS), hint))
    contents = (each for each in columns if each.kind is ColumnKind.PHYSICAL or each.key in _TEXTS)
    if not any(contents):
        reason = "the table has metadata columns only, so the contents of its records would be lost"
        hint = "declare the columns of the value, or read '__raw_value__'"
        problems.append(Problem(reason, _DDLS, origin.of(_DDLS), hint))
    if problems:
        raise SchemaError(tuple(problems))


@dataclass(frozen=True)
class SinkTarget:
    """One table that the sink writes: its id, columns and primary key."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]


def sink_table(sink: SinkDef, target: SinkTarget) -> TableDefinition:
    """The table that ``sink`` writes ``target`` to. Raises OptionsError or UnsupportedError."""
    given = dict(sink.options)
    options = KafkaIngestSinkOptions.from_text(given, sink.origin)
    later = {
        "sink.add-tableId-to-header-enabled": (options.table_id_in_header, "headers cannot be added yet"),
        "sink.custom-header": (bool(options.custom_header), "headers cannot be added yet"),
        "debezium-json.include-schema.enabled": (options.schema_included, "messages have no schema in them yet"),
    }
    problems = [
        Problem(reason, key, sink.origin.of(key), "leave it out") for key, (wanted, reason) in later.items() if wanted
    ]
    if problems:
        raise UnsupportedError(tuple(problems))
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **_without(given, KafkaIngestSinkOptions)}
    if "topic" not in rest and "topic-pattern" not in rest:
        rest["topic"] = _mapped(options.mapping, target.name, sink.origin) or target.name
    if "sink.partitioner" not in rest:
        by_key = options.partition_strategy is PartitionStrategy.HASH_BY_KEY
        rest["sink.partitioner"] = "default" if by_key else "all-to-zero"
        if by_key:
            rest |= _key_options(rest, target, sink.origin)
    elif "partition.strategy" in given:
        reason = "cannot be combined with 'sink.partitioner'"
        raise OptionsError((Problem(reason, "partition.strategy", sink.origin.of("partition.strategy")),))
    if "key.format" in rest and target.primary_key:
        rest.setdefault("key.fields", ";".join(target.primary_key))
    return TableDefinition(target.name, target.columns, rest, sink.origin, Surface.YAML, target.primary_key)


def _mapped(mapping: str, name: str, origin: Origin) -> str | None:
    key = "sink.tableId-to-topic.mapping"
    try:
        return topic_of(mapping, name)
    except ValueError as error:
        raise OptionsError((Problem(str(error), key, origin.of(key), "for example 'db.t1,db.t2:orders'"),)) from None


def _key_options(given: Mapping[str, str], target: SinkTarget, origin: Origin) -> dict[str, str]:
    """The options that hashing by key needs: a format for the key's columns."""
    if not target.primary_key and "key.fields" not in given:
        hint = "name the columns in a transform: 'primary-keys: id'"
        reason = f"'hash-by-key' needs a primary key, and '{target.name}' has none"
        raise OptionsError((Problem(reason, "partition.strategy", origin.of("partition.strategy"), hint),))
    return {"key.format": given.get("key.format", "json")}


def _without(given: Mapping[str, str], cls: type[OptionSet]) -> dict[str, str]:
    declared = cls.keys()
    return {key: value for key, value in given.items() if key not in declared}
