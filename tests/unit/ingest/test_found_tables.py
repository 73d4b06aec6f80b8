"""Tables that a pipeline finds: their schemas follow the messages, and rows come out under the newest ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import ExecutionError, PipelineError, RecordError, SchemaError
from penstock.ingest.tables.row_fitting import RowFitter
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


# --- transforms ----------------------------------------------------------------------------------------------


def transform(*lines: str) -> str:
    return "transform:\n  - source-table: \\.*.\\.*\n" + "".join(f"    {each}\n" for each in lines)


def test_transforms_are_bound_to_each_version_of_a_table():
    rule = transform("projection: \\*, UPPER(name) AS loud, __table_name__ AS t", "filter: id > 1", "primary-keys: id")
    found = pipeline(more=rule).run(
        debezium("c", None, {"id": 1, "name": "a"}), debezium("c", None, {"id": 2, "name": "b"})
    )
    assert found.columns("shop.orders") == "id BIGINT NOT NULL, name STRING, loud STRING, t STRING NOT NULL"
    assert found.table("shop.orders") == [{"id": 2, "name": "b", "loud": "B", "t": "orders"}]
    found.run(debezium("u", {"id": 1, "name": "a"}, {"id": 3, "name": "c", "n": 1}))
    assert found.changes()[-1] == "shop.orders: new columns `n` BIGINT"
    assert found.rows[-1] == ("shop.orders", "+I", {"id": 3, "name": "c", "n": 1, "loud": "C", "t": "orders"})


def with_other_transform(kind: str, *lines: str) -> Pipeline:
    """A pipeline that begins again with another transform, after it has read a row."""
    rule, options = transform(r"projection: \*"), f"pipeline:\n  schema.change.behavior: {kind}\n"
    first = pipeline(more=rule + options).run(debezium("c", None, {"id": 1, "name": "a"}))
    again = pipeline(more=transform(*lines) + options)
    again.schemas = first.schemas
    return again


@pytest.mark.parametrize("kind", ["evolve", "try_evolve", "lenient"])
def test_a_known_table_follows_another_transform(kind):
    again = with_other_transform(kind, r"projection: \*, UPPER(name) AS loud, CHAR_LENGTH(name) AS size").restart()
    assert again.changes() == ["shop.orders: new columns `loud` STRING, `size` INT"]
    again.restart().run(debezium("c", None, {"id": 2, "name": "b"}))
    assert again.table("shop.orders") == [{"id": 2, "name": "b", "loud": "B", "size": 1}]
    assert len(again.changes()) == 1


def test_a_column_that_a_transform_no_longer_has_stays():
    again = with_other_transform("evolve", "projection: id").restart().run(debezium("c", None, {"id": 2, "name": "b"}))
    assert (again.changes(), again.table("shop.orders")) == ([], [{"id": 2, "name": None}])


def test_another_transform_changes_no_table_that_must_stay_as_it_is():
    lines = (r"projection: \*, UPPER(name) AS loud",)
    ignoring = with_other_transform("ignore", *lines).restart().run(debezium("c", None, {"id": 2, "name": "b"}))
    assert (ignoring.changes(), ignoring.table("shop.orders")) == ([], [{"id": 2, "name": "b"}])
    with pytest.raises(SchemaError, match=r"'shop.orders' changes \(new columns `loud` STRING\), .* no change"):
        with_other_transform("exception", *lines).restart()


@pytest.mark.parametrize("projection", [r"\*", "id", "id, UPPER(name) AS name"])
def test_a_row_without_a_value_of_the_primary_key_cannot_be_read(projection):
    rule = transform(f"projection: {projection}", "primary-keys: id")
    rows = debezium("c", None, {"id": 1, "name": "a"}), debezium("c", None, {"id": None, "name": "b"})
    with pytest.raises(
        RecordError, match=r"column 'id' is of the primary key, and the row has no value for it"
    ) as raised:
        pipeline(more=rule).run(*rows)
    assert raised.value.offset == 1
    found = pipeline("ingestion.ignore-errors: true", more=rule).run(*rows)
    assert ([row["id"] for row in found.table("shop.orders")], found.refused) == ([1], 1)


def test_new_columns_stay_out_of_an_explicit_projection():
    found = pipeline(more=transform("projection: id, name")).run(debezium("c", None, {"id": 1, "name": "a"}))
    found.run(debezium("c", None, {"id": 2, "name": "b", "n": 1}))
    assert found.columns("shop.orders") == "id BIGINT, name STRING"
    assert [each.side.value for each in found.history] == ["source", "sink", "source"]
    found.run(debezium("c", None, {"id": "three", "name": "c"}))
    assert found.columns("shop.orders") == "id STRING, name STRING"


def test_a_rule_that_does_not_fit_a_table_is_named_with_its_place():
    found = pipeline(more=transform("projection: id, nam"))
    with pytest.raises(PipelineError, match=r"p.yaml, line \d+") as caught:
        found.run(debezium("c", None, {"id": 1, "name": "a"}))
    assert "name" in str(caught.value)


def test_deletions_can_become_rows():
    rule = transform("projection: \\*, __data_event_type__ AS kind", "converter-after-transform: SOFT_DELETE")
    found = pipeline(more=rule).run(debezium("d", {"id": 1}, None))
    assert found.rows == [("shop.orders", "+I", {"id": 1, "kind": "-D"})]


def test_the_sink_may_leave_out_kinds_of_changes():
    sink = "  exclude.schema.changes: [add.column]\n"
    found = pipeline("value.format: json", sink=sink).run({"id": 1}).run({"id": 2, "n": 1}).run({"id": "x"})
    assert found.columns("orders") == "id STRING"
    assert found.table("orders") == [{"id": 1}, {"id": 2}, {"id": "x"}]
    with pytest.raises(PipelineError, match=r"add\.colum"):
        pipeline("value.format: json", sink="  include.schema.changes: add.colum\n")


# --- records that cannot be read -----------------------------------------------------------------------------


def test_so_many_records_may_be_left_out(caplog):
    lines = "value.format: json", "ingestion.ignore-errors: true", "ingestion.error-tolerance.max-count: 2"
    found = pipeline(*lines).run({"id": 1}, b"{").run(b"nothing", {"id": 2})
    assert (found.refused, [row["id"] for row in found.table("orders")]) == (2, [1, 2])
    assert "table 'orders': partition 0, offset 1: " in caplog.text
    assert caplog.text.count("record left out") == 2
    with pytest.raises(ExecutionError, match=r"3 records could not be read, and .*max-count' is 2.*offset 4"):
        found.run(b"[")


def test_records_that_are_left_out_are_kept_in_files(tmp_path):
    collector = f"pipeline:\n  dirty-data.collector:\n    type: file\n    path: {tmp_path}\n"
    found = pipeline("ingestion.ignore-errors: true", more=collector)
    found.run(debezium("c", None, {"id": 1}), debezium("x", None, {"id": 2}), b"\xff", {"op": "c"})
    (file,) = tmp_path.iterdir()
    kept = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(each["table"], each["place"]) for each in kept] == [
        ("shop.orders", "partition 0, offset 1"),
        ("", "partition 0, offset 2"),
        ("", "partition 0, offset 3"),
    ]
    assert "unknown operation 'x'" in kept[0]["reason"]
    assert json.loads(kept[0]["value"])["op"] == "x"
    assert (kept[1]["value-base64"], kept[2]["field"]) == ("/w==", "source.table")
    assert found.table("shop.orders") == [{"id": 1}]


def test_a_collector_without_tolerance_is_warned_of():
    found = pipeline(more="pipeline:\n  dirty-data.collector:\n    type: logger\n")
    assert "the collector keeps nothing" in found.warnings[0]


def test_a_value_that_does_not_fit_a_fixed_schema_is_an_error():
    lines = "value.format: json", "json.decode.parser-table-id.fields: t", "schema.inference.strategy: static"
    ddl = "scan.value.initial-schemas.ddls: CREATE TABLE a (t STRING, id INT); CREATE TABLE b (t STRING, id INT)"
    good = [{"t": "a", "id": at} for at in range(5)]
    bad = [{"t": "a", "id": 1.5}, {"t": "a", "id": "7"}, {"t": "a", "id": 2**40}]
    with pytest.raises(RecordError, match=r"field 'id'.*INT"):
        pipeline(*lines, ddl).run(*good, bad[0])
    found = pipeline(*lines, ddl, "ingestion.ignore-errors: true").run(*bad[:1], *good, *bad[1:], {"t": "a", "n": 1})
    assert found.refused == 3
    assert [row["id"] for row in found.table("a")] == [0, 1, 2, 3, 4, None]


def test_a_value_that_does_not_fit_the_table_of_the_sink_is_an_error():
    options = "pipeline:\n  schema.change.behavior: ignore\n"
    found = pipeline("value.format: json", "ingestion.ignore-errors: true", more=options).run({"id": 1})
    found.run({"id": "two"}, {"id": 3}, {"id": "4"})
    assert (found.refused, found.table("orders")) == (1, [{"id": 1}, {"id": 3}, {"id": 4}])


@pytest.mark.parametrize(
    ("first", "other", "kind"),
    [
        (1, "two", "BIGINT"),
        (1.5, "", "DOUBLE"),
        (True, "maybe", "BOOLEAN"),
        ("2026-11-30", "soon", "DATE"),
        ("2026-11-30 12:00:00", "soon", "TIMESTAMP(0)"),
    ],
)
def test_an_error_names_the_field_whose_value_cannot_be_cast(first, other, kind):
    options = "pipeline:\n  schema.change.behavior: ignore\n"
    found = pipeline("value.format: json", more=options).run({"id": 1, "n": first})
    with pytest.raises(RecordError) as error:
        found.run({"id": 2, "n": other})
    assert f"field 'n': the value {other} does not fit its column in the sink, which is {kind}" in str(error.value)
    assert "TRY_CAST" not in str(error.value)


@pytest.mark.parametrize(
    ("first", "other", "kind"),
    [
        (1, True, "BIGINT"),
        (1, "2026-11-30", "BIGINT"),
        (True, 1, "BOOLEAN"),
        (True, "2026-11-30", "BOOLEAN"),
        ("2026-11-30", 1, "DATE"),
        ("2026-11-30", False, "DATE"),
        ("12:00:00", "2026-11-30 12:00:00", "TIME(0)"),
        ("2026-11-30 12:00:00", "12:00:00", "TIMESTAMP(0)"),
        ("2026-11-30 12:00:00", 1.5, "TIMESTAMP(0)"),
    ],
)
def test_values_of_another_table_do_not_become_others_in_a_table_that_stays_as_it_is(first, other, kind):
    """Not TRUE from 1, and not today's date from a time; those of one table in several types are texts."""
    more = "route:\n  - source-table: shop.(a|b)\n    sink-table: both\npipeline:\n  schema.change.behavior: ignore\n"
    found = pipeline("ingestion.ignore-errors: true", more=more).run(debezium("c", None, {"id": 1, "n": first}, "a"))
    assert f"n {kind}" in found.columns("both")
    found.run(*(debezium("c", None, {"id": at, "n": n}, "b") for at, n in ((2, other), (3, None))))
    assert (found.refused, [row["id"] for row in found.table("both")]) == (1, [1, 3])
    again = pipeline(more=more)
    again.schemas = found.schemas
    with pytest.raises(RecordError, match=f"field 'n': the value .* does not fit its column .*, which is {kind[:4]}"):
        again.run(debezium("c", None, {"id": 2, "n": other}, "b"))


@pytest.mark.parametrize("kind", ["lenient", "try_evolve"])
def test_a_table_that_cannot_be_altered_takes_the_values_that_fit(kind):
    options = f"pipeline:\n  schema.change.behavior: {kind}\n"
    found = pipeline("value.format: json", "ingestion.ignore-errors: true", more=options).run({"id": 1})
    found.refuses = True
    found.run({"id": 2, "name": None}, {"id": 3, "name": "x"}, {"id": "4"}, {"id": "five"})
    assert found.columns("orders") == "id BIGINT"
    assert found.schemas.sinks["orders"].outcome == "no right to alter it"
    assert (found.refused, [row["id"] for row in found.table("orders")]) == (2, [1, 2, 4])
    found.restart().run({"id": "six"})
    assert found.refused == 3


def test_a_table_that_can_be_altered_again_catches_up_at_the_next_start():
    found = pipeline("value.format: json").run({"id": 1})
    found.refuses = True
    with pytest.raises(RecordError, match="the value x has no column in the sink, whose table could not be altered"):
        found.run({"id": 2, "name": "x"})
    found.refuses = False
    found.restart().run({"id": 2, "name": "x"}, {"id": "three", "name": "y"})
    assert found.columns("orders") == "id STRING, name STRING"
    assert found.changes()[1:] == [
        "orders: new columns `name` STRING", "orders: new columns `name` STRING", "orders: other types: `id` STRING",
    ]  # fmt: skip
    assert found.table("orders")[1:] == [{"id": "2", "name": "x"}, {"id": "three", "name": "y"}]


def test_a_table_catches_up_with_its_next_change():
    found = pipeline("value.format: json").run({"id": 1})
    found.refuses = True
    with pytest.raises(RecordError, match="has no column in the sink"):
        found.run({"id": 2, "n": 1})
    found.refuses = False
    found.run({"id": 4, "name": "x"})
    assert found.columns("orders") == "id BIGINT, n BIGINT, name STRING"


def test_updates_of_which_a_row_does_not_fit_are_left_out_whole():
    options = "pipeline:\n  schema.change.behavior: ignore\n"
    found = pipeline("ingestion.ignore-errors: true", more=options).run(debezium("c", None, {"id": 0}))
    found.run(debezium("u", {"id": 0}, {"id": "one"}), debezium("u", {"id": 0}, {"id": "2"}))
    assert found.refused == 1
    assert found.rows[1:] == [("shop.orders", "-U", {"id": 0}), ("shop.orders", "+U", {"id": 2})]


@pytest.mark.parametrize("bad", [range(7, 8), range(0, 1000, 2), range(1000)])
def test_records_that_do_not_fit_are_searched_for_by_halves(monkeypatch, bad):
    options = "pipeline:\n  schema.change.behavior: ignore\n"
    found = pipeline("value.format: json", "ingestion.ignore-errors: true", more=options).run({"id": -1})
    tried: list[int] = []
    fit = RowFitter.fit
    monkeypatch.setattr(RowFitter, "fit", lambda self, rows: tried.append(rows.num_rows) or fit(self, rows))
    found.run(*({"id": "x" if at in bad else str(at)} for at in range(1000)))

    assert [row["id"] for row in found.table("orders")[1:]] == [at for at in range(1000) if at not in bad]
    assert found.refused == len(bad)
    assert sum(tried) < 15 * 1000  # about once for each halving


def test_rules_that_match_no_table_are_told():
    rules = "transform:\n"
    rules += "".join(f"  - source-table: {each}\n    filter: id > 0\n" for each in ("shop.order", r"shop.\.*"))
    rules += "route:\n"
    rules += "".join(f"  - source-table: {each}\n    sink-table: a\n" for each in ("shop.orders,x.y", "Shop.orders"))
    found = pipeline(more=rules).run(debezium("c", None, {"id": 1}))
    end = "matches none of the tables that were found so far: "
    assert found.work.explain_unused(found.schemas.sources) == [
        f"p.yaml, line 12, column 5: the transform for 'shop.order' {end}shop.orders",
        f"p.yaml, line 19, column 5: the route for 'Shop.orders' {end}shop.orders",
    ]
    found.run(*(debezium("c", None, {"id": 1}, f"t{at}") for at in range(7)))
    assert found.work.explain_unused(found.schemas.sources)[0].endswith(
        f"{end}shop.orders, shop.t0, shop.t1, shop.t2, shop.t3 and 3 others"
    )


# --- looking ahead -------------------------------------------------------------------------------------------


def test_tables_begin_with_the_columns_of_the_newest_messages():
    found = pipeline("value.format: json").look_ahead({"id": 1, "late": 1.5}, {"id": "x"})
    assert found.changes() == ["orders: new table with `id` STRING, `late` DOUBLE"]
    found.run({"id": 1}, {"id": 2, "n": 1})
    assert found.changes()[1:] == ["orders: new columns `n` BIGINT"]
    assert found.table("orders")[0] == {"id": "1", "late": None, "n": None}


def test_fixed_schemas_are_those_of_the_newest_messages():
    lines = "value.format: json", "schema.inference.strategy: static"
    found = pipeline(*lines).look_ahead({"id": 1}, {"id": 2, "late": True}).run({"id": 1, "early": 1}, {"id": 2})
    assert found.table("orders") == [{"id": 1, "late": None}, {"id": 2, "late": None}]
    found = pipeline(*lines).run({"id": 1}, {"id": 2, "late": True})
    assert found.table("orders") == [{"id": 1}, {"id": 2}]
    assert pipeline(*lines).work.looks_ahead == 50
    assert pipeline(*lines, "json.infer-schema.fixed-types: id INT").work.looks_ahead == 0


# --- keys ----------------------------------------------------------------------------------------------------


def test_columns_of_keys_and_values_have_their_prefixes():
    lines = "value.format: json", "key.format: json", "key.fields-prefix: k_", "value.fields-prefix: v_"
    found = pipeline(*lines).run(Message({"id": 1, "n": 2}, key={"id": "x"}), Message({"id": 2}))
    assert found.columns("orders") == "k_id STRING, v_id BIGINT, v_n BIGINT"
    assert found.table("orders") == [{"k_id": "x", "v_id": 1, "v_n": 2}, {"k_id": None, "v_id": 2, "v_n": None}]
    found.run(Message({"id": 1.5}, key={"id": "y", "more": True}))
    assert found.columns("orders") == "k_id STRING, v_id DOUBLE, v_n BIGINT, k_more BOOLEAN"


def test_without_prefixes_the_value_counts():
    lines = "value.format: json", "key.format: json", "ingestion.ignore-errors: true"
    found = pipeline(*lines).run(
        Message({"id": 1}, key={"id": 7, "k": 1}), Message({}, key={"id": 8}), Message({"id": 3})
    )
    assert found.columns("orders") == "id BIGINT, k BIGINT"
    assert [row["id"] for row in found.table("orders")] == [1, 8, 3]
    found.run(Message({"id": 4}, key=b"{"), Message({"id": 5}, key={"k": "x"}))
    assert found.refused == 1
    assert found.table("orders")[-1] == {"id": 5, "k": "x"}


def test_keys_of_changes():
    found = pipeline("key.format: json", "key.fields-prefix: key_")
    found.run(Message(debezium("u", {"a": 1}, {"a": 2}), key={"id": 1}))
    assert found.rows == [
        ("shop.orders", "-U", {"a": 1, "key_id": 1}),
        ("shop.orders", "+U", {"a": 2, "key_id": 1}),
    ]
    with pytest.raises(PipelineError, match=r"keys of 'debezium-json'"):
        pipeline("key.format: debezium-json")


def change(op: str, table: str, before: Any = None, after: Any = None) -> Message:
    """A message of debezium-json."""
    return Message({"op": op, "before": before, "after": after, "source": {"db": "db", "table": table}})


def test_tables_of_equal_columns_are_worked_on_together_and_each_row_keeps_its_place():
    """They come in turns in one batch, which holds nothing else; then one of them is read by itself."""
    text = SOURCE.replace("value.format: json", "value.format: debezium-json") + "  metadata.list: offset\n" + SINK
    text += "transform:\n  - source-table: db.\\.*\n    projection: \\*, UPPER(a) AS b\n    filter: id > 1\n"
    found = Pipeline(text)
    tables = [f"t{at % 3}" for at in range(12)]
    first = [change("c", table, after={"id": at, "a": f"{table}-{at}"}) for at, table in enumerate(tables)]
    found.run(*first)
    last = [
        change("u", table, {"id": at - 5, "a": "x"}, {"id": at, "a": table}) for at, table in enumerate(tables, start=2)
    ]
    found.run(*last, change("c", "t1", after={"id": 99, "a": None, "c": 1.5}))

    for number in range(3):
        early = [each for each in found.table(f"db.t{number}") if each["offset"] < 12]
        assert [each["id"] for each in early] == [at for at in range(2, 12) if at % 3 == number]
        assert all(each["offset"] == each["id"] for each in early)
        assert all(each["a"] == f"t{number}-{each['id']}" and each["b"] == each["a"].upper() for each in early)
        later = {each["offset"] for each in found.table(f"db.t{number}") if each["offset"] >= 12 and each["id"] != 99}
        assert later == {12 + at for at in range(12) if at % 3 == number}
    assert found.table("db.t1")[-1]["c"] == 1.5
    assert "c" not in found.columns("db.t0")
