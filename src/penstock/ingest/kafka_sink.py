"""Kafka sinks in YAML as tables of the ``kafka`` connector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from penstock.errors import OptionsError, Problem
from penstock.ingest.definition import SinkDef
from penstock.ingest.kafka_options import DEFAULT_FORMAT, KafkaIngestSinkOptions, PartitionStrategy
from penstock.ingest.table_ids import find_topic
from penstock.spi import TableDefinition


def sink_table(sink: SinkDef, table: TableDefinition) -> TableDefinition:
    """``table`` with the options of the ``kafka`` connector. Raises OptionsError or UnsupportedError."""
    given = dict(sink.options)
    options = KafkaIngestSinkOptions.from_text(given, sink.origin)
    own = set(KafkaIngestSinkOptions.keys())
    rest = {"connector": "kafka", "value.format": DEFAULT_FORMAT} | {k: v for k, v in given.items() if k not in own}
    if "topic" not in rest and "topic-pattern" not in rest:
        rest["topic"] = choose_topic(sink, table.name)
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


def choose_topic(sink: SinkDef, table: str) -> str:
    """The topic of a table for a sink without 'topic'. Raises OptionsError for a mapping that is not one."""
    key = "sink.tableId-to-topic.mapping"
    try:
        return find_topic(dict(sink.options).get(key, ""), table) or table
    except ValueError as error:
        hint = "for example 'db.t1,db.t2:orders'"
        raise OptionsError((Problem(str(error), key, sink.origin.locate(key), hint),)) from None


def _make_headers(options: KafkaIngestSinkOptions, table: str) -> Iterator[tuple[str, bytes]]:
    """The headers of the messages of a table: the parts of its id, under the names that Flink CDC gives them, and those
    of the options."""
    if options.table_id_in_header:
        *spaces, name = table.split(".")
        namespace, schema = ["", "", *spaces][-2:]
        yield from (("namespace", namespace.encode()), ("schemaName", schema.encode()), ("tableName", name.encode()))
    yield from ((key, each.encode()) for key, each in options.custom_header)
