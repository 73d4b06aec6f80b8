"""Kafka sources and sinks in YAML, said as tables of the ``kafka`` connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.connectors.kafka.table.metadata import READABLE
from penstock.errors import OptionsError, Problem, SchemaError, UnsupportedError
from penstock.ingest.ddl import TableSchema, parse_ddls
from penstock.ingest.definition import SinkDef, SourceDef
from penstock.ingest.options import (
    InferenceStrategy,
    KafkaIngestSinkOptions,
    KafkaIngestSourceOptions,
    PartitionStrategy,
)
from penstock.ingest.tables import topic_of
from penstock.options import OptionSet, Origin, nearest
from penstock.spi import Column, ColumnKind, Surface, TableDefinition

__all__ = ["SinkTarget", "sink_table", "source_table"]

#: The format of values in YAML, unless one is named.
DEFAULT_FORMAT = "debezium-json"

_DDLS = "scan.value.initial-schemas.ddls"


def source_table(source: SourceDef) -> TableDefinition:
    """The table that ``source`` reads. Raises OptionsError, SchemaError or UnsupportedError."""
    given = dict(source.options)
    options = KafkaIngestSourceOptions.from_text(given, source.origin)
    _supported(options, given, source.origin)
    schema = _schema(options.ddls or "", source.origin)
    rest = _without(given, KafkaIngestSourceOptions)
    prefix = rest.get("value.fields-prefix", "")
    columns = tuple(Column(_prefixed(each.name, prefix), each.type) for each in schema.columns.fields)
    columns += _metadata_columns(options.metadata, source.origin)
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT, **rest}
    if options.ignore_errors:
        rest[f"{rest['value.format']}.ignore-parse-errors"] = "true"
    return TableDefinition(".".join(schema.id), columns, rest, source.origin, Surface.YAML, schema.primary_key)


def _supported(options: KafkaIngestSourceOptions, given: Mapping[str, str], origin: Origin) -> None:
    problems = []
    if not options.ddls:
        hint = f"give the schema: '{_DDLS}: CREATE TABLE orders (id BIGINT, ...)'"
        problems.append(Problem("schemas are not inferred yet", _DDLS, origin.of(""), hint))
    if options.strategy is not InferenceStrategy.STATIC:
        key = "schema.inference.strategy"
        hint = f"write '{key}: static'"
        problems.append(Problem("changes of a schema are not followed yet", key, origin.of(key), hint))
    if options.table_id_fields:
        key = "json.decode.parser-table-id.fields"
        problems.append(Problem("several tables in one topic are not supported yet", key, origin.of(key), "remove it"))
    if options.max_errors >= 0:
        key = "ingestion.error-tolerance.max-count"
        problems.append(Problem("counting errors is not supported yet", key, origin.of(key), "remove it, or write -1"))
    if "key.format" in given and "key.fields" not in given:
        hint = "name the key's columns in 'key.fields', and declare them in the CREATE TABLE"
        problems.append(Problem("keys are not inferred yet", "key.format", origin.of("key.format"), hint))
    if problems:
        raise UnsupportedError(tuple(problems))


def _schema(text: str, origin: Origin) -> TableSchema:
    place = origin.of(_DDLS)
    try:
        tables = parse_ddls(text)
    except SchemaError as error:
        inside = [
            replace(each, key=_DDLS, where=", ".join(filter(None, (place, each.where)))) for each in error.problems
        ]
        raise SchemaError(tuple(inside)) from None
    if len(tables) != 1:
        raise UnsupportedError((Problem(f"expected one CREATE TABLE, not {len(tables)}", _DDLS, place),))
    return tables[0]


def _prefixed(name: str, prefix: str) -> str:
    return name if name.startswith(prefix) else prefix + name


def _metadata_columns(text: str, origin: Origin) -> tuple[Column, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in READABLE]
    if unknown:
        place = origin.of("metadata.list")
        raise OptionsError(
            tuple(
                Problem(
                    f"there is no metadata '{name}'",
                    "metadata.list",
                    place,
                    nearest(name, READABLE) or f"known are {', '.join(READABLE)}",
                )
                for name in unknown
            )
        )
    return tuple(Column(name, READABLE[name], ColumnKind.METADATA, name, virtual=True) for name in names)


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
    for key, wanted in (
        ("sink.add-tableId-to-header-enabled", options.table_id_in_header),
        ("sink.custom-header", bool(options.custom_header)),
    ):
        if wanted:
            raise UnsupportedError((Problem("headers cannot be added yet", key, sink.origin.of(key), "remove it"),))
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
    """What hashing by key needs: key columns, and a format for them."""
    if not target.primary_key and "key.fields" not in given:
        hint = "name the columns in a transform: 'primary-keys: id'"
        reason = f"'hash-by-key' needs a primary key, and '{target.name}' has none"
        raise OptionsError((Problem(reason, "partition.strategy", origin.of("partition.strategy"), hint),))
    return {"key.format": given.get("key.format", "json")}


def _without(given: Mapping[str, str], cls: type[OptionSet]) -> dict[str, str]:
    declared = cls.keys()
    return {key: value for key, value in given.items() if key not in declared}
