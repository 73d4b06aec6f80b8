"""The messages that the Kafka sink of a pipeline writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.kafka.record_batches import scan
from penstock.spi import HIDDEN, KIND, Task
from tests.unit.ingest.pipelines import Pipeline
from tests.unit.ingest.test_found_tables import debezium, pipeline

ONE = {"id": 1, "name": "a"}
TWO = {"id": 1, "name": "ä"}
CHANGES = (debezium("c", None, ONE), debezium("u", ONE, TWO), debezium("d", TWO, None))
KEYED = "transform:\n  - source-table: \\.*.\\.*\n    projection: \\*\n    primary-keys: id\n"


def read(found: Pipeline) -> Iterator[tuple[str, int, Any, Any, dict[str, str]]]:
    """The messages of the last batch: topic, partition, key, value and headers."""
    for each in found.batches:
        spec = found.work.output(each.version).spec
        encoder = RowEncoder(spec, spec.client_config, lambda _: 4, {}, Task(0, 1))
        names = [*HIDDEN.names, *([KIND] if KIND in each.rows.schema.names else [])]
        rows = each.rows.select(list(each.version.schema.row.names))
        for topic, batch in encoder.encode(rows, each.rows.select(names)):
            records = scan(batch.data, start_offset=0, end_offset=batch.count, headers=True)
            for key, value, headers in zip(
                *(column.to_pylist() for column in (records.keys, records.values, records.headers)), strict=True
            ):
                yield topic, batch.partition, key, value, {one["key"]: one["value"].decode() for one in headers or ()}


def values(found: Pipeline) -> list[Any]:
    return [json.loads(value) for _, _, _, value, _ in read(found)]


def test_an_update_is_one_message_with_both_rows():
    source = {"db": "shop", "table": "orders"}
    assert values(pipeline(more=KEYED).run(*CHANGES)) == [
        {"before": None, "after": ONE, "op": "c", "source": source},
        {"before": ONE, "after": TWO, "op": "u", "source": source},
        {"before": TWO, "after": None, "op": "d", "source": source},
    ]


def test_canal_names_the_table_and_its_key():
    names = {"database": "shop", "table": "orders", "pkNames": ["id"]}
    found = pipeline(sink="  value.format: canal-json\n", more=KEYED).run(*CHANGES)
    assert values(found) == [
        {"old": None, "data": [ONE], "type": "INSERT", **names},
        {"old": [ONE], "data": [TWO], "type": "UPDATE", **names},
        {"old": None, "data": [TWO], "type": "DELETE", **names},
    ]


def test_what_is_left_of_a_filtered_update_is_a_message_of_its_own():
    rule = KEYED + "    filter: name <> 'a'\n"
    assert [(each["op"], each["after"]) for each in values(pipeline(more=rule).run(*CHANGES))] == [
        ("c", TWO),
        ("d", None),
    ]


def test_messages_may_contain_their_schema():
    sink = "  debezium-json.include-schema.enabled: true\n"
    found, *_ = values(pipeline(sink=sink, more=KEYED).run(*CHANGES))
    columns = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "name"},
    ]
    assert found["schema"] == {
        "type": "struct",
        "fields": [
            {"type": "struct", "fields": columns, "optional": True, "field": name} for name in ("before", "after")
        ],
        "optional": False,
    }
    assert found["payload"]["after"] == ONE
    read_again = pipeline("debezium-json.schema-include: true").run(found)
    assert read_again.table("shop.orders") == [ONE]


def test_keys_begin_with_the_table():
    found = list(read(pipeline(sink="  key.format: json\n", more=KEYED).run(*CHANGES)))
    assert [json.loads(key) for _, _, key, _, _ in found] == [{"TableId": "shop.orders", "id": 1}] * 3
    assert {partition for _, partition, *_ in found} == {0}
    assert [key for _, _, key, _, _ in read(pipeline(more=KEYED).run(*CHANGES))] == [None] * 3


def test_keys_can_choose_the_partition():
    rows = [debezium("c", None, {"id": at}) for at in range(20)]
    sink = "  partition.strategy: hash-by-key\n  key.format: csv\n"
    found = list(read(pipeline(sink=sink, more=KEYED).run(*rows)))
    assert {partition for _, partition, *_ in found} == {0, 1, 2, 3}
    assert found[0][2] in [f"shop.orders,{at}".encode() for at in range(20)]


def test_headers_name_the_table():
    sink = "  sink.add-tableId-to-header-enabled: true\n  sink.custom-header: origin:shop;team:sales\n"
    (_, _, _, _, headers), *_ = read(pipeline(sink=sink).run(*CHANGES))
    assert headers == {"namespace": "", "schemaName": "shop", "tableName": "orders", "origin": "shop", "team": "sales"}


@pytest.mark.parametrize(
    ("sink", "topic"),
    [
        ("", "shop.orders"),
        ("  topic: all\n", "all"),
        ("  sink.tableId-to-topic.mapping: shop.o\\.*:o;shop.items:i\n", "o"),
    ],
)
def test_topics_are_those_of_tables_unless_they_are_named(sink: str, topic: str):
    assert {each for each, *_ in read(pipeline(sink=sink).run(*CHANGES))} == {topic}


def test_plain_rows_are_written_as_json():
    sink = "  value.format: json\n"
    assert values(pipeline("value.format: json", sink=sink).run(ONE, {"id": 2})) == [ONE, {"id": 2, "name": None}]
