"""Tables that a pipeline finds: their schemas follow the messages, and rows come out under the newest ones."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import RecordError, SchemaError
from tests.unit.ingest.pipelines import SINK, Message, Pipeline

SOURCE = """
source:
  type: kafka
  topic: orders
  properties.bootstrap.servers: localhost:9092
  scan.startup.mode: earliest-offset
"""


def pipeline(*lines: str, sink: str = "", more: str = "", tasks: int = 1) -> Pipeline:
    source = SOURCE + "".join(f"  {each}\n" for each in lines)
    return Pipeline(source + SINK + sink + more, tasks)


def debezium(op: str, before: Any, after: Any, table: str = "orders") -> dict[str, Any]:
    return {"before": before, "after": after, "op": op, "source": {"db": "shop", "table": table}}


def test_a_table_is_found_and_gets_columns():
    found = pipeline("value.format: json").run({"id": 1}, {"id": 2, "name": "x"})
    assert found.passes == 2
    assert found.changes("source") == ["orders: new table with `id` BIGINT, `name` STRING"]
    assert found.changes("sink") == ["orders: new table with `id` BIGINT, `name` STRING"]
    assert found.table("orders") == [{"id": 1, "name": None}, {"id": 2, "name": "x"}]
    found.run({"id": 3}).run({"id": 4, "price": 1.5})
    assert found.passes == 5
    assert found.changes()[1:] == ["orders: new columns `price` DOUBLE"]
    assert found.columns("orders") == "id BIGINT, name STRING, price DOUBLE"
    assert found.table("orders")[-1] == {"id": 4, "name": None, "price": 1.5}


def test_types_are_widened_for_all_rows_of_the_batch():
    found = pipeline("value.format: json").run({"id": 1}).run({"id": 2}, {"id": "three"}, {"id": 4})
    assert found.changes()[1:] == ["orders: other types: `id` STRING"]
    assert [row["id"] for row in found.table("orders")] == [1, "2", "three", "4"]


def test_one_topic_has_changes_of_many_tables():
    found = pipeline().run(
        debezium("c", None, {"id": 1}), debezium("c", None, {"k": "a"}, "items"), debezium("u", {"id": 1}, {"id": 2})
    )
    assert found.rows == [
        ("shop.orders", "+I", {"id": 1}),
        ("shop.orders", "-U", {"id": 1}),
        ("shop.orders", "+U", {"id": 2}),
        ("shop.items", "+I", {"k": "a"}),
    ]
    assert [each.table for each in found.history] == ["shop.items", "shop.orders"] * 2


def test_tables_of_json_are_named_after_their_topics():
    found = pipeline("value.format: json").run(Message({"a": 1}), Message({"b": 1}, topic="items"))
    assert found.table("orders") == [{"a": 1}]
    assert found.table("items") == [{"b": 1}]


@pytest.mark.parametrize("tasks", [1, 2, 8])
def test_the_history_does_not_depend_on_the_number_of_tasks(tasks: int):
    found = pipeline("value.format: json", tasks=tasks)
    found.run(*(Message({"id": at, f"c{at % 3}": at}, partition=at % 4) for at in range(12)))
    found.run(*(Message({"id": str(at) if at == 7 else at}, partition=at % 4) for at in range(12)))
    assert found.changes("source") == [
        "orders: new table with `id` BIGINT, `c0` BIGINT, `c1` BIGINT, `c2` BIGINT",
        "orders: other types: `id` STRING",
    ]
    assert len(found.rows) == 24


def test_a_message_that_cannot_be_read_ends_the_job_unless_such_are_left_out():
    with pytest.raises(RecordError, match="ignore-errors") as caught:
        pipeline("value.format: json").run({"id": 1}, b"{")
    assert (caught.value.partition, caught.value.offset) == (0, 1)
    for option in ("ingestion.ignore-errors: true", "json.ignore-parse-errors: true"):
        found = pipeline("value.format: json", option).run({"id": 1}, b"{", {"id": 2})
        assert [row["id"] for row in found.table("orders")] == [1, 2]


# --- declared schemas ----------------------------------------------------------------------------------------

DDLS = (
    "scan.value.initial-schemas.ddls: CREATE TABLE db1.t1 (id INT, name VARCHAR(10)); "
    "CREATE TABLE db1.t2 (id BIGINT, PRIMARY KEY (id) NOT ENFORCED);"
)


def test_tables_begin_with_declared_columns():
    found = pipeline("value.format: json", "json.decode.parser-table-id.fields: db,t", DDLS)
    found.run({"db": "db1", "t": "t1", "id": 1, "name": "x"}, {"db": "db1", "t": "t2", "id": 2}, {"t": "t3"})
    assert found.columns("db1.t1") == "id INT, name VARCHAR(10), db STRING, t STRING"
    assert found.columns("db1.t2") == "id BIGINT NOT NULL, db STRING, t STRING"
    assert found.schemas.sinks["db1.t2"].schema.primary_key == ("id",)
    assert found.columns("t3") == "t STRING"
    found.run({"db": "db1", "t": "t1", "id": 2**40, "name": "more than ten characters"})
    assert found.columns("db1.t1") == "id BIGINT, name STRING, db STRING, t STRING"


# --- routes --------------------------------------------------------------------------------------------------


def test_tables_that_go_to_one_table_have_its_columns():
    route = "route:\n  - source-table: shop.orders_\\.*\n    sink-table: shop.orders\n"
    found = pipeline(more=route)
    found.run(debezium("c", None, {"id": 1, "a": 1}, "orders_1"), debezium("c", None, {"id": 2.5, "b": 1}, "orders_2"))
    assert found.columns("shop.orders") == "id DOUBLE, a BIGINT, b BIGINT"
    assert found.table("shop.orders") == [{"id": 1.0, "a": 1, "b": None}, {"id": 2.5, "a": None, "b": 1}]
    assert list(found.schemas.sources) == ["shop.orders_1", "shop.orders_2"]


def test_a_table_goes_to_each_table_that_a_route_names():
    routes = (
        "route:\n  - source-table: shop.(o\\.*)\n    sink-table: a.$1\n"
        "  - source-table: shop.\\.*\n    sink-table: b.<>\n    replace-symbol: <>\n"
    )
    found = pipeline(more=routes).run(debezium("c", None, {"id": 1}))
    assert [table for table, _, _ in found.rows] == ["a.orders", "b.orders"]
    first = pipeline(more=routes + "pipeline:\n  route-mode: FIRST_MATCH\n").run(debezium("c", None, {"id": 1}))
    assert [table for table, _, _ in first.rows] == ["a.orders"]


# --- behaviors -----------------------------------------------------------------------------------------------


def behavior(name: str) -> Pipeline:
    found = pipeline("value.format: json", more=f"pipeline:\n  schema.change.behavior: {name}\n")
    return found.run({"id": 1})


def test_a_change_ends_a_pipeline_that_allows_none():
    found = behavior("exception")
    with pytest.raises(SchemaError, match="new columns `b` BIGINT"):
        found.run({"id": 2, "b": 1})


def test_tables_of_a_sink_stay_as_they_are_where_changes_are_ignored():
    found = behavior("ignore").run({"id": 2, "b": 1})
    assert found.columns("orders") == "id BIGINT"
    assert found.changes("source")[-1] == "orders: new columns `b` BIGINT"
    assert found.table("orders") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("name", ["evolve", "try_evolve", "lenient"])
def test_tables_of_a_sink_follow(name: str):
    assert behavior(name).run({"id": 2, "b": 1}).table("orders") == [{"id": 1}, {"id": 2, "b": 1}]


# --- metadata ------------------------------------------------------------------------------------------------


def test_metadata_columns_follow_those_of_the_first_messages():
    found = pipeline("value.format: json", "metadata.list: topic,offset").run({"id": 1}, {"id": 2, "topic": "mine"})
    assert found.columns("orders") == "id BIGINT, topic STRING NOT NULL, offset BIGINT NOT NULL"
    found.run({"id": 3, "b": 1})
    assert found.columns("orders") == "id BIGINT, topic STRING NOT NULL, offset BIGINT NOT NULL, b BIGINT"
    assert found.table("orders")[-1] == {"id": 3, "topic": "orders", "offset": 2, "b": 1}
