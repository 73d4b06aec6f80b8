"""Kafka sources and sinks in YAML as tables of the ``kafka`` connector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError, UnsupportedError, nearest
from penstock.ingest.definition import SinkDef, SourceDef
from penstock.ingest.kafka_options import (
    KafkaIngestSinkOptions,
    KafkaIngestSourceOptions,
    PartitionStrategy,
)
from penstock.ingest.table_ids import find_topic
from penstock.options import LIST, OptionSet, Origin
from penstock.plan.expressions import ColumnRef, Expression, rewrite
from penstock.spi import Column, ColumnKind, Surface, TableDefinition, TableFormat, WithMetadata, connectors, formats
from penstock.sql import ComputedColumn, TableSchema, parse_tables
from penstock.types import STRING

#: The format of values in YAML, unless one is named.
DEFAULT_FORMAT = "debezium-json"

DDLS, _PREFETCH = "scan.value.initial-schemas.ddls", "scan.max.pre.fetch.records"
#: Types of metadata in 'metadata.list' that is read as text instead of bytes.
_TEXTS = {"__raw_key__": STRING, "__raw_value__": STRING}


def source_table(source: SourceDef, warn: Callable[[str], None]) -> tuple[TableDefinition, str]:
    """The table that ``source`` reads, and the name that it is declared under. ``warn`` is called for what is not done
    as written. Raises a DefinitionError with every problem found."""
    given, origin = dict(source.options), source.origin
    options = KafkaIngestSourceOptions.from_text(given, origin)
    _check_supported(given, origin)
    schema = _read_schema(options.ddls or "", origin)
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **_remove_keys(given, KafkaIngestSourceOptions)}
    schema, prefix_options = _prefix_columns(schema, rest, origin)
    _leave_out_errors(rest)
    _warn_of_prefetch(given, origin, warn)
    declared = ".".join(schema.id)
    schema = _name_by_topic(schema, rest, origin, warn)
    columns = schema.columns + make_metadata_columns(options.metadata, origin)
    _check_columns(columns, origin)
    name = ".".join(schema.id)
    return TableDefinition(name, columns, rest | prefix_options, origin, Surface.YAML, schema.primary_key), declared


def _check_supported(given: Mapping[str, str], origin: Origin) -> None:
    if "key.format" in given and "key.fields" not in given:
        hint = f"name the key's columns in 'key.fields', and declare them in '{DDLS}'"
        refuse({"key.format": ("the columns of a key are not inferred yet", hint)}, origin)


def refuse(refused: Mapping[str, tuple[str, str]], origin: Origin) -> None:
    """Raises UnsupportedError for these keys, each with its reason and what to do, unless there are none."""
    if refused:
        # An option that is missing has the place of the connector.
        places = {key: origin.locate(key if key in origin.places else "") for key in refused}
        raise UnsupportedError(tuple(Problem(why, key, places[key], hint) for key, (why, hint) in refused.items()))


def _read_schema(text: str, origin: Origin) -> TableSchema:
    place = origin.locate(DDLS)
    try:
        found = parse_tables(text, origin=place)
    except DefinitionError as error:
        raise type(error)(tuple(replace(each, key=DDLS) for each in error.problems)) from None
    if not found:
        raise SchemaError((Problem("expected CREATE TABLE", DDLS, place, "declare the columns of the topic"),))
    return found[0]


def _leave_out_errors(given: dict[str, str]) -> None:
    """Replace ``<format>.ignore-parse-errors`` by the option that leaves whole records out: in YAML it skips the row,
    where SQL has NULL for a value that does not fit."""
    asked = [key for key in given if key.endswith(".ignore-parse-errors") and given[key].strip().lower() == "true"]
    for key in asked:
        del given[key]
        given["ingestion.ignore-errors"] = "true"


def _warn_of_prefetch(given: Mapping[str, str], origin: Origin, warn: Callable[[str], None]) -> None:
    if _PREFETCH in given:
        warn(
            f"{origin.locate(_PREFETCH)}: '{_PREFETCH}' has no effect: the schema is declared, and nothing is read "
            "before"
        )


def _name_by_topic(
    schema: TableSchema, given: Mapping[str, str], origin: Origin, warn: Callable[[str], None]
) -> TableSchema:
    """``schema`` under the name of the topic, where messages do not name their table; a database may precede it."""
    identifier, topic = given["value.format"].strip().lower(), given.get("topic", "").strip()
    if not topic or identifier not in formats.names() or isinstance(formats.get(identifier), TableFormat):
        return schema
    if topic in (schema.id[-1], ".".join(schema.id)):
        return schema
    warn(
        f"{origin.locate(DDLS)}: messages of '{identifier}' do not say which table they belong to, so the table is "
        f"named after its topic, '{topic}', and has the columns of '{'.'.join(schema.id)}'; transforms and routes "
        "find it by both names"
    )
    return replace(schema, id=(topic,))


def _prefix_columns(
    schema: TableSchema, given: Mapping[str, str], origin: Origin
) -> tuple[TableSchema, dict[str, str]]:
    """``schema`` with the prefixes of keys and values before the names of columns that lack them, and the options for
    them. 'key.fields' names the columns of the key, which may be named without their prefix."""
    key_prefix, value_prefix = given.get("key.fields-prefix", ""), given.get("value.fields-prefix", "")
    if not key_prefix and not value_prefix:
        return schema, {}
    if key_prefix and value_prefix and (key_prefix.startswith(value_prefix) or value_prefix.startswith(key_prefix)):
        reason = f"'{key_prefix}' and the 'value.fields-prefix' '{value_prefix}' begin with the same text"
        hint = "neither of the two may be a prefix of the other"
        raise OptionsError((Problem(reason, "key.fields-prefix", origin.locate("key.fields-prefix"), hint),))
    declared = {each.name for each in schema.columns if each.kind is ColumnKind.PHYSICAL}
    keys = {name: key_prefix + name.removeprefix(key_prefix) for name in LIST.parse(given.get("key.fields", ""))}
    names = {name: value_prefix + name.removeprefix(value_prefix) for name in declared}
    for name, full in keys.items():
        names[full if full in declared else name] = full

    def rename(part: Expression) -> Expression:
        return replace(part, name=names.get(part.name, part.name)) if isinstance(part, ColumnRef) else part

    columns = tuple(
        replace(each, expression=rewrite(each.expression, rename))
        if isinstance(each, ComputedColumn)
        else replace(each, name=names.get(each.name, each.name))
        for each in schema.columns
    )
    options = {"key.fields": ";".join(keys.values()), "value.fields-include": "EXCEPT_KEY"} if keys else {}
    if "value.fields-include" in given:
        options.pop("value.fields-include", None)
    key = tuple(names.get(name, name) for name in schema.primary_key)
    return TableSchema(schema.id, columns, key), options


def make_metadata_columns(text: str, origin: Origin) -> tuple[Column, ...]:
    """The columns of 'metadata.list'. Raises OptionsError."""
    kafka = connectors.get("kafka")
    known = kafka.metadata if isinstance(kafka, WithMetadata) else {}
    names = [name.strip() for name in text.split(",") if name.strip()]
    place = origin.locate("metadata.list")
    problems = []
    for name in names:
        if name not in known:
            hint = nearest(name, known) or f"there are {', '.join(known)}"
            problems.append(Problem(f"there is no metadata '{name}'", "metadata.list", place, hint))
    if problems:
        raise OptionsError(tuple(problems))
    types = {**known, **_TEXTS}
    return tuple(Column(name, types[name], ColumnKind.METADATA, name, virtual=True) for name in names)


def _check_columns(columns: tuple[Column, ...], origin: Origin) -> None:
    problems = []
    names = [each.name for each in columns]
    for name in sorted({name for name in names if names.count(name) > 1}):
        reason = f"there are two columns '{name}'"
        hint = f"rename it in '{DDLS}', or leave it out of 'metadata.list'"
        problems.append(Problem(reason, DDLS, origin.locate(DDLS), hint))
    if not any(each.kind is ColumnKind.PHYSICAL or each.key in _TEXTS for each in columns):
        reason = "the table has metadata columns only, so the contents of its records would be lost"
        hint = "declare the columns of the value, or read '__raw_value__'"
        problems.append(Problem(reason, DDLS, origin.locate(DDLS), hint))
    if problems:
        raise SchemaError(tuple(problems))


def sink_table(sink: SinkDef, table: TableDefinition) -> TableDefinition:
    """``table`` with the options of the ``kafka`` connector. Raises OptionsError or UnsupportedError."""
    given = dict(sink.options)
    options = KafkaIngestSinkOptions.from_text(given, sink.origin)
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **_remove_keys(given, KafkaIngestSinkOptions)}
    if "topic" not in rest and "topic-pattern" not in rest:
        try:
            rest["topic"] = find_topic(options.mapping, table.name) or table.name
        except ValueError as error:
            key, hint = "sink.tableId-to-topic.mapping", "for example 'db.t1,db.t2:orders'"
            raise OptionsError((Problem(str(error), key, sink.origin.locate(key), hint),)) from None
    if "sink.partitioner" not in rest:
        by_key = options.partition_strategy is PartitionStrategy.HASH_BY_KEY
        rest["sink.partitioner"] = "default" if by_key else "all-to-zero"
        if by_key:
            if not table.primary_key and "key.fields" not in rest:
                hint = "name the columns in a transform: 'primary-keys: id'"
                reason = f"'hash-by-key' needs a primary key, and '{table.name}' has none"
                place = sink.origin.locate("partition.strategy")
                raise OptionsError((Problem(reason, "partition.strategy", place, hint),))
            rest.setdefault("key.format", "json")
    elif "partition.strategy" in given:
        reason = "cannot be combined with 'sink.partitioner'"
        raise OptionsError(
            (Problem(reason, "partition.strategy", sink.origin.locate("partition.strategy"), "choose one"),)
        )
    if "key.format" in rest and table.primary_key:
        rest.setdefault("key.fields", ";".join(table.primary_key))
    objects = {**table.objects, "sink.headers": tuple(_make_headers(options, table.name))}
    if "key.format" in rest:
        objects["key.table"] = table.name
    if options.schema_included:
        objects["value.schema"] = True
    return replace(table, options=rest, objects=objects)


def _make_headers(options: KafkaIngestSinkOptions, table: str) -> Iterator[tuple[str, bytes]]:
    """The headers of the messages of a table: the parts of its id, under the names that Flink CDC gives them, and those
    of the options."""
    if options.table_id_in_header:
        *spaces, name = table.split(".")
        namespace, schema = ["", "", *spaces][-2:]
        yield from (("namespace", namespace.encode()), ("schemaName", schema.encode()), ("tableName", name.encode()))
    yield from ((key, each.encode()) for key, each in options.custom_header)


def _remove_keys(given: Mapping[str, str], cls: type[OptionSet]) -> dict[str, str]:
    return {key: given[key] for key in given if key not in set(cls.keys())}
