"""From a pipeline's definition to the plan: what is known when the file is read."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from penstock.connectors.kafka.table.options import StartupMode
from penstock.errors import DefinitionError, FunctionError, PipelineError, RecordError, UnsupportedError
from penstock.ingest import lower, parse_pipeline
from penstock.plan.nodes import Job
from penstock.plan.planning import plan_job
from penstock.settings import FailureRate
from penstock.spi import formats
from penstock.types import arrow_schema
from tests.unit.ingest.pipelines import Message, Pipeline

SOURCE = """\
source:
  type: kafka
  topic: orders
  properties.bootstrap.servers: localhost:9092
  value.format: json
  schema.inference.strategy: static
  scan.value.initial-schemas.ddls: CREATE TABLE db.orders (id BIGINT, amount DOUBLE, note STRING)
  scan.startup.mode: earliest-offset
"""
DDL = "CREATE TABLE db.orders (id BIGINT, amount DOUBLE, note STRING)"
SINK = """\
sink:
  type: kafka
  properties.bootstrap.servers: elsewhere:9092
  value.format: json
"""
PRINT = "sink:\n  type: print\n"
ROW = {"id": 1, "amount": 2.0, "note": "x"}


def job(text: str, **variables: str) -> Job:
    return lower(parse_pipeline(text, file="p.yaml", variables=variables), "p")


def spec(text: str, table: str = "orders") -> Any:
    """How a table of the sink is written."""
    found = Pipeline(text).run(ROW)
    return found.work.output(found.schemas.sinks[table]).spec


def warned(text: str) -> list[str]:
    told: list[str] = []
    definition = parse_pipeline(text, file="p.yaml")
    lower(definition, "p", told.append)
    return [*definition.warnings, *told]


def test_a_pipeline_without_rules_copies_a_table():
    found = Pipeline(SOURCE + SINK).run(ROW, {"id": 2})
    (sink,) = found.job.sinks

    assert found.job.name == "p"
    assert found.table("orders") == [ROW, {"id": 2, "amount": None, "note": None}]
    assert found.columns("orders") == "id BIGINT, amount DOUBLE, note STRING"
    assert sink.spec.guarantee.value == "at-least-once"
    written = found.work.output(found.schemas.sinks["orders"]).spec
    assert (written.topics, written.partitioner) == (("orders",), "all-to-zero")


def test_the_pipelines_options_are_settings():
    found = job(
        SOURCE + SINK + "pipeline:\n  name: copy\n  parallelism: 3\n  local-time-zone: UTC\n"
        "  execution.checkpointing.interval: 10 s\n  state.checkpoints.dir: /state\n"
    )

    assert (found.name, found.settings.parallelism, found.settings.session_time_zone) == ("copy", 3, "UTC")
    assert (found.settings.checkpoint_interval, found.settings.checkpoint_dir) == (timedelta(seconds=10), "/state")


def test_a_restart_strategy_stands_in_the_pipeline_block():
    block = "pipeline:\n  restart-strategy.type: failurerate\n  restart-strategy.failure-rate.delay: 5 s\n"
    assert job(SOURCE + SINK + block).settings.restart == FailureRate(delay=timedelta(seconds=5))
    assert job(SOURCE + SINK).settings.restart is None


def test_a_pipeline_may_be_a_batch():
    block = "pipeline:\n  execution.runtime-mode: batch\n"
    assert job(SOURCE + SINK + block).settings.batch
    with pytest.raises(UnsupportedError, match="is unbounded, and a query in batch mode reads tables that end"):
        plan_job(job(SOURCE + SINK + block))
    ends = SOURCE.replace("  topic: orders\n", "  topic: orders\n  scan.bounded.mode: latest-offset\n")
    assert plan_job(job(ends + SINK + block)).settings.batch


def test_a_restart_strategy_that_means_nothing_is_refused_at_its_place():
    block = "pipeline:\n  restart-strategy.type: failure-rate\n  restart-strategy.failure-rate.delay: -5 s\n"
    with pytest.raises(PipelineError) as raised:
        job(SOURCE + SINK + block + "  parallelism: many\n")
    delay, parallelism = raised.value.problems
    assert parallelism.key == "parallelism"
    assert str(delay).endswith("expected a duration of 0 ms or more, not '-5 s'")
    assert delay.where.startswith("p.yaml, line ")
    warned = parse_pipeline(SOURCE + SINK + block.replace("-5 s", "5 s").replace("failure-rate\n", "none\n"))
    assert [text.partition(": ")[2] for text in warned.warnings] == [
        "'restart-strategy.failure-rate.delay' has no effect: restarts are switched off"
    ]


# --- transform ---------------------------------------------------------------------------------------------------


def transform(**rule: str) -> str:
    lines = [f"    {key.replace('_', '-')}: {value}" for key, value in ({"source_table": "orders"} | rule).items()]
    return "transform:\n  -" + "\n".join(lines)[3:] + "\n"


def test_the_first_rule_that_matches_filters_and_projects():
    other = transform(source_table="others", projection="note")
    rule = transform(projection="id, amount * 2 AS twice", filter="amount > 1").split("\n", 1)[1]
    found = Pipeline(SOURCE + PRINT + other + rule).run(ROW, {"id": 2, "amount": 1})
    assert found.table("orders") == [{"id": 1, "twice": 4.0}]


def test_transforms_of_a_declared_table_are_in_the_dialect_of_transforms():
    found = Pipeline(SOURCE + PRINT + transform(filter="note LIKE '^a.c'")).run({"note": "abcd"}, {"note": "^a.c"})
    assert [row["note"] for row in found.table("orders")] == ["abcd"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"projection": "id, amonut"}, "p.yaml, line 13, column 5, projection, line 1, column 5: "),
        ({"filter": "amount >"}, "p.yaml, line 13, column 5, filter, line 1, column "),
        (
            {"primary_keys": "nite"},
            "p.yaml, line 13, column 5: 'primary-keys': 'nite' is not a column (did you mean 'note'?)",
        ),
        ({"source_table": "db.("}, "p.yaml, line 12, column 5: 'source-table': 'db.(' is not a valid pattern"),
    ],
)
@pytest.mark.parametrize("format_", ["json", "debezium-json", "csv"])
def test_a_rule_that_does_not_fit_is_refused_at_its_place(rule, expected, format_):
    text = SOURCE.replace("value.format: json", f"value.format: {format_}")
    if format_ == "debezium-json":
        rule = {"source_table": "db.orders"} | rule
    with pytest.raises(PipelineError) as error:
        job(text + PRINT + transform(**rule))
    assert expected in str(error.value)


def test_a_rule_for_columns_that_messages_may_still_show_is_not_refused():
    text = SOURCE.replace("strategy: static", "strategy: continuous") + PRINT + transform(projection="id, more")
    assert Pipeline(text).run({"id": 1, "more": 2}).table("orders") == [{"id": 1, "more": 2}]


# --- route and topic ---------------------------------------------------------------------------------------------


def test_the_topic_is_the_option_else_the_mapping_else_the_table():
    rules = "route:\n  - source-table: orders\n    sink-table: ods.orders\n"
    mapping = "  sink.tableId-to-topic.mapping: ods.orders:mapped\n"

    assert spec(SOURCE + SINK + rules, "ods.orders").topics == ("ods.orders",)
    assert spec(SOURCE + SINK + mapping + rules, "ods.orders").topics == ("mapped",)
    assert spec(SOURCE + SINK + mapping + "  topic: said\n" + rules, "ods.orders").topics == ("said",)


def test_hash_by_key_needs_and_uses_the_primary_key():
    by_key = SOURCE + SINK + "  partition.strategy: hash-by-key\n"
    found = spec(by_key + transform(primary_keys="id"))

    assert (found.partitioner, found.key_columns, found.key.identifier) == ("default", ("id",), "json")
    with pytest.raises(PipelineError, match=r"line 13.*'hash-by-key' needs a primary key, and 'orders' .*primary-keys"):
        job(by_key)


def test_a_primary_key_that_messages_may_name_is_waited_for():
    by_key = SINK.replace("json", "debezium-json") + "  partition.strategy: hash-by-key\n"
    found = Pipeline(of_format("canal-json") + by_key)
    found.run({"data": [ROW], "type": "INSERT", "database": "db", "table": "orders", "pkNames": ["id"]})
    assert found.schemas.sinks["db.orders"].schema.primary_key == ("id",)
    with pytest.raises(PipelineError, match=r"'hash-by-key' needs a primary key, and 'db.orders' has none"):
        job(of_format("debezium-json") + by_key)


def test_a_key_format_writes_the_primary_key():
    keyed = SOURCE.replace("note STRING", "note STRING, PRIMARY KEY (note) NOT ENFORCED")
    found = spec(keyed + SINK + "  key.format: json\n")

    assert (found.partitioner, found.key_columns) == ("all-to-zero", ("note",))


def test_sinks_take_the_options_of_tables_too():
    more = "  sink.delivery-guarantee: exactly-once\n  sink.transactional-id-prefix: p\n  properties.acks: all\n"
    found = job(SOURCE + SINK + more).sinks[0].spec

    assert (found.guarantee.value, found.transactional_id_prefix) == ("exactly-once", "p")
    assert dict(found.client)["acks"] == "all"


# --- source ------------------------------------------------------------------------------------------------------


def of_format(name: str, columns: str = "") -> str:
    text = SOURCE.replace("value.format: json", f"value.format: {name}")
    return text.replace(DDL, f"CREATE TABLE orders ({columns})") if columns else text


def test_raw_keys_and_values_are_text():
    found = Pipeline(SOURCE + "  metadata.list: __raw_key__,__raw_value__\n" + PRINT).run(Message({"id": 1}, key="k"))
    assert found.columns("orders").endswith("note STRING, __raw_key__ STRING, __raw_value__ STRING")
    assert [*found.table("orders")[0].values()][3:] == ['"k"', '{"id": 1}']


def test_metadata_that_there_is_not_is_refused():
    with pytest.raises(
        PipelineError, match=r"line 9, column 3: 'metadata.list': there is no metadata 'ofset' .*offset"
    ):
        job(SOURCE + "  metadata.list: ofset\n" + PRINT)
    with pytest.raises(PipelineError, match=r"there are two columns 'topic' .*leave it out of 'metadata.list'"):
        job(SOURCE.replace("note STRING", "topic STRING") + "  metadata.list: topic\n" + PRINT)


def test_a_source_without_a_group_starts_at_the_earliest_offset():
    text = SOURCE.replace("  scan.startup.mode: earliest-offset\n", "")

    def scan(more: str) -> Any:
        return job(text + more + PRINT).sinks[0].input.input.spec

    assert scan("").options.startup_mode is StartupMode.EARLIEST
    assert warned(text + PRINT) == [
        "p.yaml, line 1, column 1: 'scan.startup.mode' and 'properties.group.id' are missing, so it starts at the "
        "earliest offset"
    ]
    assert scan("  properties.auto.offset.reset: latest\n").options.startup_mode is StartupMode.LATEST
    assert scan("  properties.group.id: g\n").group_id == "g"


@pytest.mark.parametrize(
    ("name", "columns", "message", "row"),
    [
        ("csv", "id BIGINT, note STRING", b"7,x", {"id": 7, "note": "x"}),
        ("raw", "note STRING", b"text", {"note": "text"}),
        ("maxwell-json", "id INT", {"data": {"id": 1}, "type": "insert"}, {"id": 1}),
        ("ogg-json", "id INT", {"before": None, "after": {"id": 1}, "op_type": "I"}, {"id": 1}),
        ("avro", "id BIGINT NOT NULL", b"\x0e", {"id": 7}),
    ],
)
def test_formats_that_show_no_columns_read_the_declared_ones(name, columns, message, row):
    found = Pipeline(of_format(name, columns) + PRINT).run(message)
    assert found.table("orders") == [row]
    with pytest.raises(PipelineError, match=rf"line 5.*schemas cannot be inferred from '{name}' .*strategy: static"):
        job(of_format(name, columns).replace("strategy: static", "strategy: continuous") + PRINT)


@pytest.mark.parametrize(("name", "rows"), [("raw", [{"a": "x"}, {"a": None}]), ("csv", [{"a": "x"}])])
def test_a_record_without_a_value_is_what_the_format_makes_of_it(name, rows):
    assert Pipeline(of_format(name, "a STRING") + PRINT).run(b"x", Message(None)).table("orders") == rows


def test_changes_of_a_format_that_shows_no_columns_have_their_kinds():
    text = of_format("maxwell-json", "id INT")
    found = Pipeline(text + PRINT).run({"data": {"id": 2}, "old": {"id": 1}, "type": "update"})
    assert found.rows == [("orders", "-U", {"id": 1}), ("orders", "+U", {"id": 2})]


def test_columns_that_a_format_cannot_hold_are_refused():
    with pytest.raises(DefinitionError, match=r"csv|MAP"):
        job(of_format("csv", "id MAP<STRING, INT>") + PRINT)


def test_a_record_that_a_declared_column_does_not_hold_is_left_out_if_such_are():
    text = of_format("csv", "id BIGINT, note STRING")
    with pytest.raises(RecordError, match=r"csv.*ignore-parse-errors") as raised:
        Pipeline(text + PRINT).run(b"1,a", b"x,b")
    assert (raised.value.partition, raised.value.offset) == (0, 1)
    for option in ("csv.ignore-parse-errors", "value.csv.ignore-parse-errors", "ingestion.ignore-errors"):
        found = Pipeline(text + f"  {option}: true\n" + PRINT).run(b"1,a", b"x,b", b"3,c")
        assert (found.refused, [row["id"] for row in found.table("orders")]) == (1, [1, 3])


@pytest.mark.parametrize(
    ("name", "good", "without"),
    [
        ("json", {"id": 1}, {"note": "x"}),
        ("csv", b"1,", b",x"),
        ("debezium-json", {"op": "c", "after": {"id": 1}}, {"op": "c", "after": {"note": "x"}}),
    ],
)
@pytest.mark.parametrize(
    "columns", ["id BIGINT NOT NULL, note STRING", "id BIGINT PRIMARY KEY NOT ENFORCED, note STRING"]
)
def test_a_record_without_a_value_that_its_table_needs_is_a_bad_record(name, good, without, columns):
    text = of_format(name, columns).replace("TABLE orders", "TABLE db.orders")
    source = {"source": {"db": "db", "table": "orders"}}
    messages = [each if isinstance(each, bytes) else each | source for each in (good, without)]
    with pytest.raises(RecordError, match=r"column 'id' is BIGINT NOT NULL, and the record has no value") as raised:
        Pipeline(text + PRINT).run(*messages)
    assert raised.value.offset == 1
    found = Pipeline(text + "  ingestion.ignore-errors: true\n" + PRINT).run(*messages)
    assert ([row["id"] for _, _, row in found.rows], found.refused) == ([1], 1)


def test_a_deletion_needs_the_values_of_the_key_alone():
    text = of_format("debezium-json", "id BIGINT PRIMARY KEY NOT ENFORCED, n BIGINT NOT NULL")
    found = Pipeline(text.replace("TABLE orders", "TABLE db.orders") + PRINT)
    found.run({"op": "d", "before": {"id": 1}, "source": {"db": "db", "table": "orders"}})
    assert found.rows == [("db.orders", "-D", {"id": 1, "n": None})]


def test_a_table_begins_with_its_declared_columns_whatever_the_newest_records_have():
    assert Pipeline(SOURCE + PRINT).work.looks_ahead == 0
    found = Pipeline(of_format("debezium-json") + PRINT)
    source = {"db": "db", "table": "orders"}
    found.look_ahead({"op": "c", "after": {"id": 1, "more": 1}, "source": source})
    assert found.columns("db.orders") == "id BIGINT, amount DOUBLE, note STRING"


# --- computed columns and metadata -------------------------------------------------------------------------------


def test_computed_columns_and_metadata_stand_in_the_schema():
    ddl = (
        "CREATE TABLE orders (at BIGINT METADATA FROM 'offset', id BIGINT, next AS id + 1, k STRING METADATA FROM "
        "'__raw_key__', later AS at + 1)"
    )
    found = Pipeline(SOURCE.replace(DDL, ddl) + "  metadata.list: topic\n" + PRINT)
    found.run(Message({"id": 1}, key=b"a"), Message({"id": 2}, key=b"b"))
    assert found.columns("orders") == "at BIGINT, id BIGINT, next BIGINT, k STRING, later BIGINT, topic STRING NOT NULL"
    assert found.table("orders")[1] == {"at": 1, "id": 2, "next": 3, "k": "b", "later": 2, "topic": "orders"}


def test_transforms_use_computed_columns_and_metadata():
    columns = "id BIGINT, next AS id + 1, at STRING METADATA FROM 'offset', PRIMARY KEY (at) NOT ENFORCED"
    ddl = f"CREATE TABLE orders ({columns})"
    text = SOURCE.replace(DDL, ddl) + PRINT
    found = Pipeline(text + transform(projection="next * 2 AS twice, at", filter="next > 2 AND at <> '3'"))
    found.run(*({"id": at} for at in range(5)))
    assert found.table("orders") == [{"twice": 6, "at": "2"}, {"twice": 10, "at": "4"}]
    assert found.schemas.sinks["orders"].schema.primary_key == ("at",)
    assert Pipeline(text + transform(projection=r"\*", filter="id > 0")).run({"id": 1}).table("orders") == [
        {"id": 1, "next": 2, "at": "0"}
    ]


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json"])
def test_metadata_of_changes_stands_in_the_schema(name):
    key = {"debezium-json": "source.table", "canal-json": "table", "maxwell-json": "table"}[name]
    ddl = f"CREATE TABLE db.orders (t STRING METADATA FROM 'value.{key}', id BIGINT)"
    found = Pipeline(of_format(name).replace(DDL, ddl) + PRINT)
    message = {
        "debezium-json": {"op": "c", "after": {"id": 1}, "source": {"db": "db", "table": "orders"}},
        "canal-json": {"data": [{"id": 1}], "type": "INSERT", "database": "db", "table": "orders"},
        "maxwell-json": {"data": {"id": 1}, "type": "insert", "database": "db", "table": "orders"},
    }[name]
    found.run(message)
    assert [row for _, _, row in found.rows] == [{"t": "orders", "id": 1}]


def test_a_computed_column_that_fails_is_a_record_that_cannot_be_read():
    ddl = "CREATE TABLE orders (id STRING, n AS CAST(id AS INT))"
    text = SOURCE.replace(DDL, ddl)
    with pytest.raises(RecordError) as raised:
        Pipeline(text + PRINT).run({"id": "1"}, {"id": "x"})
    assert raised.value.offset == 1
    found = Pipeline(text + "  ingestion.ignore-errors: true\n" + PRINT).run({"id": "1"}, {"id": "x"}, {"id": "3"})
    assert (found.refused, [row["n"] for row in found.table("orders")]) == (1, [1, 3])


def test_columns_beside_those_of_messages_are_refused_where_these_follow_the_messages():
    text = SOURCE.replace("strategy: static", "strategy: continuous").replace("note STRING", "next AS id + 1")
    with pytest.raises(
        PipelineError, match=r"line 7, .*neither computed nor metadata .*'schema.inference.strategy: st"
    ):
        job(text + PRINT)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("o BIGINT METADATA FROM 'ofset'", "column 'o': there is no metadata 'ofset' (did you mean 'offset'?)"),
        (
            "o DATE METADATA FROM 'offset'",
            "column 'o': metadata 'offset' is BIGINT NOT NULL and cannot be cast to DATE",
        ),
        ("o BIGIT", "unknown type BIGIT"),
    ],
)
def test_a_declared_column_that_cannot_be_is_refused_at_its_place(column, expected):
    with pytest.raises(PipelineError) as raised:
        job(SOURCE.replace("note STRING", column) + PRINT)
    assert "p.yaml, line 7, column 3" in str(raised.value)
    assert expected in str(raised.value)


# --- keys --------------------------------------------------------------------------------------------------------

PREFIXED = "  key.format: json\n  key.fields: id\n  key.fields-prefix: k_\n  value.fields-prefix: v_\n"


@pytest.mark.parametrize(
    "columns",
    ["id BIGINT, amount DOUBLE", "k_id BIGINT, v_amount DOUBLE", "k_id BIGINT, amount DOUBLE"],
)
def test_keys_and_values_have_prefixes_of_their_own(columns):
    ddl = f"CREATE TABLE t ({columns}, PRIMARY KEY ({columns.split()[0]}) NOT ENFORCED)"
    found = Pipeline(SOURCE.replace(DDL, ddl) + PREFIXED + PRINT).run(Message({"amount": 1.5, "id": 8}, key={"id": 7}))

    assert found.columns("orders") == "k_id BIGINT NOT NULL, v_amount DOUBLE"
    assert found.table("orders") == [{"k_id": 7, "v_amount": 1.5}]


def test_a_key_and_a_value_may_have_the_same_name_before_their_prefixes():
    text = SOURCE.replace(DDL, "CREATE TABLE t (k_id BIGINT, id STRING, next AS id || 'x')") + PREFIXED + PRINT
    found = Pipeline(text).run(Message({"id": "a"}, key={"id": 7}))
    assert found.table("orders") == [{"k_id": 7, "v_id": "a", "next": "ax"}]


@pytest.mark.parametrize(("include", "row"), [("ALL", {"id": 2, "n": 3}), ("EXCEPT_KEY", {"id": 7, "n": 3})])
def test_values_may_have_the_columns_of_keys(include, row):
    text = SOURCE.replace(DDL, "CREATE TABLE t (id BIGINT, n INT)")
    text += f"  key.format: csv\n  key.fields: id\n  value.fields-include: {include}\n"
    assert Pipeline(text + PRINT).run(Message({"id": 2, "n": 3}, key=b"7")).table("orders") == [row]


def test_a_key_that_cannot_be_read_is_a_bad_record():
    text = of_format("csv", "n INT, id BIGINT")
    text += "  key.format: csv\n  key.fields: id\n  value.fields-include: EXCEPT_KEY\n"
    with pytest.raises(RecordError) as raised:
        Pipeline(text + PRINT).run(Message(b"1", key=b"1"), Message(b"2", key=b"x"))
    assert raised.value.offset == 1
    found = Pipeline(text + "  ingestion.ignore-errors: true\n" + PRINT)
    found.run(Message(b"1", key=b"7"), Message(b"2", key=b"x"))
    assert (found.table("orders"), found.refused) == ([{"n": 1, "id": 7}], 1)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (PREFIXED.replace(": v_", ": k_v_"), "'k_' and the 'value.fields-prefix' 'k_v_' begin with the same text"),
        ("  key.format: json\n  key.fields: idd\n", "'key.fields': 'idd' is not a physical column of the table (did"),
        ("  key.fields: id\n", "'key.fields': needs 'key.format' (for example 'key.format' = 'json')"),
        ("  key.format: xml\n", "'key.format': there is no format 'xml'"),
        ("  key.format: csv\n", "'key.format': columns cannot be inferred from keys of 'csv' (use json, or name its"),
        ("  key.format: json\n  key.json.no: 1\n", "'key.json.no': unknown option"),
        (PREFIXED + "  value.fields-include: ALL\n", "needs 'value.fields-include' = 'EXCEPT_KEY'"),
    ],
)
def test_what_is_wrong_with_keys_is_said(lines, expected):
    with pytest.raises(PipelineError) as raised:
        job(SOURCE + lines + PRINT)
    assert expected in str(raised.value)


def test_keys_are_named_only_where_columns_are_declared():
    with pytest.raises(UnsupportedError, match=r"'key\.fields': is not supported with inferred schemas yet"):
        job(SOURCE.replace("strategy: static", "strategy: continuous") + PREFIXED + PRINT)


# --- tables of messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["debezium-json", "canal-json"])
def test_messages_name_their_table(name):
    text = of_format(name) + SINK.replace("value.format: json", f"value.format: {name}")
    found = Pipeline(text + transform(source_table="db.orders", primary_keys="id"))
    found.run(
        {"op": "c", "after": ROW, "source": {"db": "db", "table": "orders"}}
        if name == "debezium-json"
        else {"data": [ROW], "type": "INSERT", "database": "db", "table": "orders"}
    )
    written = found.work.output(found.schemas.sinks["db.orders"]).spec
    encoder = formats.get(name).encoder(written.value_schema, written.value.options)
    row = pa.RecordBatch.from_pylist(found.table("db.orders"), arrow_schema(written.value_schema))
    (message,) = (json.loads(each.as_py()) for each in encoder.encode(row))

    if name == "debezium-json":
        assert message["source"] == {"db": "db", "table": "orders"}
    else:
        assert (message["database"], message["table"], message["pkNames"]) == ("db", "orders", ["id"])


@pytest.mark.parametrize("key", ["debezium-json.distributed-tables", "canal-json.distributed-tables"])
def test_tables_may_be_in_several_partitions(key):
    assert job(of_format(key.partition(".")[0]) + f"  {key}: true\n" + PRINT)


def test_a_table_of_metadata_alone_would_lose_its_records():
    text = of_format("csv", "o BIGINT METADATA FROM 'offset'")
    with pytest.raises(PipelineError, match=r"line 7, .*no columns of messages, .*would be lost .declare the columns"):
        job(text + PRINT)


def test_problems_of_source_and_sink_are_reported_together_with_their_places():
    source = SOURCE.replace("topic: orders", "topik: orders").replace("value.format: json", "value.format: xml")
    sink = SINK + "  partition.strategy: round\n"

    with pytest.raises(PipelineError) as error:
        job(source + sink)
    text = str(error.value)
    assert "p.yaml, line 1, column 1: 'topic': one of 'topic' and 'topic-pattern' is required" in text
    assert "p.yaml, line 3, column 3: 'topik': unknown option (did you mean 'topic'?)" in text
    assert "p.yaml, line 5, column 3: 'value.format': there is no format 'xml'" in text
    assert "p.yaml, line 13, column 3: 'partition.strategy': expected one of all-to-zero, hash-by-key" in text


def test_problems_of_tables_routes_and_options_are_reported_together_and_once():
    source = SOURCE + "  metadata.list: ofset\n  ingestion.ignore-errors: maybe\n"
    sink = SINK + "  properties.request.timeout.ms: soon\n"
    with pytest.raises(PipelineError) as error:
        job(source + sink + transform(source_table="("))
    keys = [each.key for each in error.value.problems]
    assert sorted(keys) == [
        "ingestion.ignore-errors",
        "metadata.list",
        "properties.request.timeout.ms",
        "source-table",
    ]
    rules = transform(primary_keys="x") + "route:\n  - source-table: \\.*\n    sink-table: a\n"
    with pytest.raises(PipelineError) as error:
        job(SOURCE + sink + rules)
    assert sorted(each.key for each in error.value.problems) == ["primary-keys", "properties.request.timeout.ms"]


def test_the_format_of_yaml_is_debezium_json_unless_it_is_said():
    found = Pipeline(SOURCE.replace("  value.format: json\n", "") + PRINT)
    found.run({"op": "c", "after": {"id": 1}, "source": {"db": "db", "table": "orders"}})
    assert found.table("db.orders") == [{"id": 1, "amount": None, "note": None}]


# --- sinks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["upsert-kafka", "filesystem", "datagen"])
def test_a_connector_that_cannot_write_tables_that_are_found_says_what_to_use(name):
    expected = (
        rf"line 10, column 3: 'type': '{name}' cannot be the sink .*use blackhole, .*values, or write the job in SQL"
    )
    with pytest.raises(UnsupportedError, match=expected):
        job(SOURCE + PRINT.replace("print", name))


@pytest.mark.parametrize("name", ["doris", "mysql", "iceberg"])
def test_a_connector_of_flinks_is_not_taken_for_a_misspelling(name):
    with pytest.raises(PipelineError, match=rf"there is no connector '{name}' yet .there are blackhole, "):
        job(SOURCE + PRINT.replace("print", name))
    with pytest.raises(PipelineError, match=r"there is no connector 'kafak' .did you mean 'kafka'"):
        job(SOURCE + PRINT.replace("print", "kafak"))


@pytest.mark.parametrize("side", ["source", "sink"])
def test_a_connector_that_is_not_there_is_named(side):
    text = (SOURCE + PRINT).replace("type: kafka" if side == "source" else "type: print", "type: pulsar")

    with pytest.raises(PipelineError, match=r"p.yaml, line \d+, column 3: 'type': there is no connector 'pulsar'"):
        job(text)


@pytest.mark.parametrize("name", ["mysql", "postgres"])
def test_a_database_is_no_source_yet(name):
    with pytest.raises(UnsupportedError) as error:
        job(f"source:\n  type: {name}\n  hostname: h\n{PRINT}")
    assert str(error.value) == (
        f"p.yaml, line 2, column 3: 'type': '{name}' cannot be a source of a pipeline yet (let Debezium or Canal write "
        "the changes of the database to Kafka, and read them with 'type: kafka')"
    )


def test_a_variables_value_is_not_quoted():
    text = SOURCE + "  scan.bounded.mode: ${secret}\n" + PRINT

    with pytest.raises(PipelineError) as error:
        job(text, secret="hunter2")
    assert "hunter2" not in str(error.value)
    assert "not '${secret}'" in str(error.value)


# --- what is not done as it is written -----------------------------------------------------------------------


def test_a_wrong_value_of_ignore_parse_errors_is_refused():
    with pytest.raises(PipelineError, match=r"json\.ignore-parse-errors': expected true or false"):
        job(SOURCE + "  json.ignore-parse-errors: maybe\n" + PRINT)


def test_a_table_of_json_is_named_after_its_topic():
    text = SOURCE.replace("db.orders", "db1.t1") + PRINT
    assert [*Pipeline(text).run({"id": 1}).schemas.sinks] == ["orders"]
    (warning,) = warned(text)
    assert "p.yaml, line 7" in warning
    assert "named after its topic, 'orders', and has the columns of 'db1.t1'" in warning
    assert warned(SOURCE + PRINT) == []


def test_a_table_of_messages_that_name_it_keeps_its_declared_name():
    assert warned(of_format("debezium-json").replace("db.orders", "db1.t1") + PRINT) == []


@pytest.mark.parametrize("strategy", ["static", "continuous"])
def test_a_rule_that_fits_no_table_is_a_warning_once(strategy):
    rules = "transform:\n  - source-table: \\.*.x\n    filter: id > 5\n  - source-table: orders\n    filter: id > 6\n"
    rules += "route:\n  - source-table: db.orders\n    sink-table: ods.all\n"
    found = Pipeline(SOURCE.replace("strategy: static", f"strategy: {strategy}") + PRINT + rules)
    first, second = found.warnings
    assert "p.yaml, line 12" in first
    assert "the transform for '\\.*.x' matches none of the tables: orders (in a pattern a dot separates" in first
    assert "the route for 'db.orders' matches none of the tables: orders" in second
    found.run({"id": 7})
    assert found.work.explain_unused(found.schemas.sources) == []


@pytest.mark.parametrize("name", ["json", "debezium-json"])
def test_a_sink_that_writes_what_the_source_reads_is_a_warning(name):
    source = of_format(name).replace("db.orders", "orders")
    circle = source + SINK.replace("elsewhere", "localhost").replace("json", name)
    (warning,) = warned(circle)
    assert "p.yaml, line 9, column 1: the sink writes to 'orders', by its table's name, and the source reads" in warning
    assert warned(circle + "  topic: copies\n") == []
    assert warned(circle + "route:\n  - source-table: orders\n    sink-table: copies\n") == []


def test_options_of_inference_without_effect_are_warned_of():
    (prefetch,) = warned(SOURCE + "  scan.max.pre.fetch.records: 7\n" + PRINT)
    assert "p.yaml, line 9, column 3: 'scan.max.pre.fetch.records' has no effect" in prefetch


# --- functions -------------------------------------------------------------------------------------------------

FUNCTION = """\
transform:
  - source-table: orders
    projection: id, twice(id) AS double_id
    filter: twice(id) > 2 AND double_id < 10
pipeline:
  user-defined-function:
    - name: twice
      python-code: |
        import math

        def eval(x: int) -> int:
            if x == 4:
                raise ValueError(f"{math.floor(4.5)} is not welcome")
            return 2 * x
"""


def test_a_function_in_python_is_called():
    found = Pipeline(SOURCE + SINK + FUNCTION).run(*({"id": each} for each in (1, 2, 3, 9)))
    assert [list(each.values()) for each in found.table("orders")] == [[2, 4], [3, 6]]
    with pytest.raises(
        FunctionError, match=r"TWICE: the function raised ValueError \(python-code of twice, line 5\): 4 is"
    ):
        found.run({"id": 4})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "def eval(",
            "def other(",
            "line 20, column 7: 'python-code': the code of function 'twice' has no function 'eval'",
        ),
        ("-> int", "", "the type of the result of eval is not known"),
        ("import math", "1 / 0", "the code of function 'twice' raised ZeroDivisionError: division by zero"),
        ("- name: twice", "- name: thrice", "there is no function TWICE"),
        ("name: twice", "name: twice\n      python-files: a.py", "'python-files': is not supported yet (install the"),
        ("python-code: |", "classpath: a.B\n      x: |", "'classpath': is not supported yet (write the function in Py"),
    ],
)
def test_what_is_wrong_with_a_function_is_said(before, after, expected):
    with pytest.raises(PipelineError) as raised:
        job(SOURCE + SINK + FUNCTION.replace(before, after))
    assert expected in str(raised.value)
