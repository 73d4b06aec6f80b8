"""Pipelines as documentation shows them: what they find in messages, and what they make of it."""

from __future__ import annotations

import pytest

from tests.unit.ingest.pipelines import Message, Pipeline

SOURCE = """source:
  type: kafka
  name: Kafka Source
  properties.bootstrap.servers: host:9092
  topic: test-topic
  value.format: json
  scan.startup.mode: earliest-offset
"""
PRINT = "\nsink:\n  type: print\n"
DEBEZIUM = SOURCE.replace("value.format: json", "value.format: debezium-json")


def row(value, topic: str = "test-topic") -> Message:
    return Message(value, topic)


def insertion(table: str, **after) -> Message:
    return row({"op": "c", "before": None, "after": after, "source": {"db": "db", "table": table}})


def test_the_shortest_pipeline():
    """A topic of debezium-json, which is the default, to topics of the same format, named like their tables."""
    found = Pipeline(
        "source:\n  type: kafka\n  name: Kafka source\n  properties.bootstrap.servers: localhost:9092\n"
        "  topic: shop\nsink:\n  type: kafka\n  name: Kafka Sink\n  properties.bootstrap.servers: localhost:9092\n"
    ).run(insertion("orders", id=1), insertion("lines", id=2, note="a"))

    assert found.table("db.orders") == [{"id": 1}]
    assert found.columns("db.lines") == "id BIGINT, note STRING"


def test_tables_that_begin_with_declared_columns():
    ddls = "CREATE TABLE db1.t1 (id BIGINT, name VARCHAR(10)); CREATE TABLE db1.t2 (id BIGINT);"
    found = Pipeline(DEBEZIUM + f"  scan.value.initial-schemas.ddls: {ddls}\n" + PRINT)
    messages = [
        row({"op": "c", "after": {"id": 1, "name": name}, "source": {"db": "db1", "table": "t1"}})
        for name in ("short", "longer than ten characters")
    ]

    found.run(messages[0])
    assert found.columns("db1.t1") == "id BIGINT, name VARCHAR(10)"
    found.run(messages[1])
    assert found.columns("db1.t1") == "id BIGINT, name STRING"
    assert "db1.t2" not in found.schemas.sinks


def test_fields_whose_types_are_fixed():
    text = SOURCE + "  json.infer-schema.fixed-types: id BIGINT, name VARCHAR(10)\n  scan.max.pre.fetch.records: 0\n"
    found = Pipeline(text + PRINT).run(row({"id": "7", "name": "2026-11-30 00:00:00"}))

    assert found.columns("test-topic") == "id BIGINT, name VARCHAR(10)"


def test_fields_that_name_the_table():
    found = Pipeline(SOURCE + "  json.decode.parser-table-id.fields: col1,col2\n" + PRINT)
    found.run(row({"col1": "db", "col2": "a", "n": 1}), row({"col1": "db", "col2": "b", "n": 2}))

    assert found.table("db.a") == [{"col1": "db", "col2": "a", "n": 1}]
    assert found.table("db.b") == [{"col1": "db", "col2": "b", "n": 2}]


def test_a_primary_key_for_all_tables():
    text = DEBEZIUM + PRINT
    text += r"""
transform:
  - source-table: \.*\.\.*
    projection: \*
    primary-keys: key1, key2
"""
    found = Pipeline(text).run(insertion("t", key1=1, key2="a", n=3))

    assert found.schemas.sinks["db.t"].schema.primary_key == ("key1", "key2")
    assert found.table("db.t") == [{"key1": 1, "key2": "a", "n": 3}]


@pytest.mark.parametrize("most", [1000, -1])
@pytest.mark.parametrize("collector", ["", "\npipeline:\n  dirty-data.collector:\n    type: logger\n"])
def test_records_that_cannot_be_read_are_left_out(most, collector, caplog):
    errors = f"  ingestion.ignore-errors: true\n  ingestion.error-tolerance.max-count: {most}\n"
    found = Pipeline(SOURCE + errors + PRINT + collector).run(row({"id": 1}), row(b"{"), row({"id": 2}))

    assert found.table("test-topic") == [{"id": 1}, {"id": 2}]
    assert found.refused == 1


def test_tables_that_are_merged_into_one():
    """The second of two routes to a table widens it by its columns."""
    text = DEBEZIUM + "\nsink:\n  type: kafka\n  properties.bootstrap.servers: host:9092\n"
    text += "\n route:\n  - source-table: db.mytable1,db.mytable2\n    sink-table: mytable1\n"
    found = Pipeline(text).run(insertion("mytable1", id=1), insertion("mytable2", id=2, note="a"))

    assert sorted(found.table("mytable1"), key=lambda each: each["id"])[1] == {"id": 2, "note": "a"}
    assert found.columns("mytable1") == "id BIGINT, note STRING"


@pytest.mark.parametrize("mapping", ["db.mytable1,db.mytable2:mytable", "db.mytable1:mytable;db.mytable2:mytable"])
@pytest.mark.parametrize("side", ["source", "sink"])
def test_tables_that_share_a_topic(mapping, side):
    """The mapping is read below the source as well, where some examples have it."""
    option = f"  sink.tableId-to-topic.mapping: {mapping}\n"
    text = DEBEZIUM + option * (side == "source")
    text += "\nsink:\n  type: kafka\n  properties.bootstrap.servers: host:9092\n" + option * (side == "sink")
    found = Pipeline(text).run(insertion("mytable1", id=1), insertion("mytable2", id=2))

    topics = [found.work.output(each).spec.topics for each in found.history if each.side.value == "sink"]
    assert topics == [("mytable",), ("mytable",)]
