"""Which values of messages the columns of pipelines take, and where these come from."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import SchemaError
from tests.unit.ingest.pipelines import SINK, Message, Pipeline

SOURCE = """source:
  type: kafka
  properties.bootstrap.servers: localhost:9092
  topic: orders
  scan.startup.mode: earliest-offset
"""
STATIC = ("schema.inference.strategy: static", "ingestion.ignore-errors: true")


def pipeline(*lines: str, sink: str = "") -> Pipeline:
    return Pipeline(SOURCE + "".join(f"  {each}\n" for each in lines) + SINK + sink)


def connect(value: Any, type: str = "int64") -> Message:
    """A change of debezium-json with the schema of Kafka Connect."""
    fields = [{"field": "id", "type": type, "optional": True}]
    rows = [{"field": each, "type": "struct", "optional": True, "fields": fields} for each in ("before", "after")]
    payload = {"op": "c", "before": None, "after": {"id": value}, "source": {"db": "db", "table": "t"}}
    return Message({"schema": {"type": "struct", "fields": rows}, "payload": payload})


def canal(value: Any) -> Message:
    types = {"sqlType": {"id": -5}, "mysqlType": {"id": "bigint"}}
    return Message({"type": "INSERT", "data": [{"id": value}], "database": "db", "table": "t", **types})


@pytest.mark.parametrize("value", [b'{"id": 1e400}', b'{"id": -1e400}'])
def test_a_number_that_no_double_holds_is_refused(value):
    found = pipeline("value.format: json", "ingestion.ignore-errors: true")
    found.run(Message({"id": 1.5}), Message(value), Message({"id": 1e300}))
    assert found.table("orders") == [{"id": 1.5}, {"id": 1e300}]
    assert found.refused == 1


@pytest.mark.parametrize(("include", "ids"), [("ALL", [1, None]), ("EXCEPT_KEY", [7, 8])])
def test_a_column_of_values_does_not_take_the_value_of_the_key(include, ids):
    ddl = "scan.value.initial-schemas.ddls: CREATE TABLE orders (id INT, n INT);"
    keys = "key.format: json", "key.fields: id", f"value.fields-include: {include}"
    found = pipeline("value.format: json", *STATIC, ddl, *keys)
    found.run(Message({"id": 1, "n": 1}, key={"id": 7}), Message({"id": None, "n": 2}, key={"id": 8}))
    assert [row["id"] for row in found.table("orders")] == ids


def test_a_value_fits_its_declared_column_although_the_schema_of_the_message_is_wider():
    ddl = "scan.value.initial-schemas.ddls: CREATE TABLE db.t (id INT);"
    found = pipeline("value.format: debezium-json", "debezium-json.schema-include: true", *STATIC, ddl)
    found.run(connect(5), connect(2**40), connect(None), connect(6, "int32"), connect("x", "string"))
    assert found.table("db.t") == [{"id": 5}, {"id": None}, {"id": 6}]
    assert found.refused == 2


@pytest.mark.parametrize("strategy", ["AUTO", "SQL_TYPE", "MYSQL_TYPE"])
def test_numbers_of_canal_fit_their_declared_column_also_as_texts(strategy):
    ddl = "scan.value.initial-schemas.ddls: CREATE TABLE db.t (id INT);"
    found = pipeline("value.format: canal-json", f"canal-json.infer-schema.strategy: {strategy}", *STATIC, ddl)
    found.run(*map(canal, (5, "6", "x", 2**40, str(2**40), "1.5", None)))
    assert found.table("db.t") == [{"id": 5}, {"id": 6}, {"id": None}]
    assert found.refused == 4


def test_a_sink_of_insertions_names_no_connector_that_pipelines_do_not_have():
    with pytest.raises(SchemaError, match="the source has updates and deletions") as raised:
        pipeline("value.format: debezium-json", sink="  value.format: json\n")
    assert "upsert-kafka" not in str(raised.value)
