"""From a pipeline's definition to the plan."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.connectors.kafka.table.options import StartupMode
from penstock.errors import FunctionError, PipelineError, UnsupportedError
from penstock.flow.rows.calc import Calc, calc_of
from penstock.ingest import lower, parse_pipeline
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import Filter, Job, Node, Project, Scan
from penstock.plan.planning import plan_job
from penstock.settings import FailureRate
from penstock.spi import formats
from penstock.types import BYTES, arrow_schema

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
SINK = """\
sink:
  type: kafka
  properties.bootstrap.servers: localhost:9092
  value.format: json
"""
PRINT = "sink:\n  type: print\n"


def job(text: str, **variables: str) -> Job:
    return lower(parse_pipeline(text, file="p.yaml", variables=variables), "p")


def node(text: str) -> Node:
    return job(text).sinks[0].input


def spec(text: str):
    return job(text).sinks[0].spec


def test_a_pipeline_without_rules_copies_a_table():
    found = job(SOURCE + SINK)
    (sink,) = found.sinks

    assert found.name == "p"
    assert isinstance(sink.input, Scan)
    assert (sink.input.table, sink.table) == ("db.orders", "db.orders")
    assert sink.schema == sink.input.schema
    assert sink.spec.topics == ("db.orders",)
    assert sink.spec.partitioner == "all-to-zero"
    assert sink.spec.guarantee.value == "at-least-once"
    assert sink.input.spec.group_id == ""


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
    lines = [f"    {key.replace('_', '-')}: {value}" for key, value in ({"source_table": "db.orders"} | rule).items()]
    return "transform:\n  -" + "\n".join(lines)[3:] + "\n"


def test_the_first_rule_that_matches_filters_and_projects():
    other = transform(source_table="db.others", projection="note")
    found = node(
        SOURCE + PRINT + other + transform(projection="id, amount * 2 AS twice", filter="amount > 1").split("\n", 1)[1]
    )

    assert isinstance(found, Project)
    assert found.schema.names == ("id", "twice")
    assert isinstance(found.input, Filter)


def test_a_star_keeps_the_columns():
    assert node(SOURCE + PRINT + transform(projection=r"\*, id + 1 AS next")).schema.names == (
        "id",
        "amount",
        "note",
        "next",
    )
    assert isinstance(node(SOURCE + PRINT + transform(projection=r"\*")), Scan)


def test_a_filter_sees_columns_that_are_projected_away():
    found = node(SOURCE + PRINT + transform(projection="id", filter="note IS NOT NULL"))

    assert found.schema.names == ("id",)


def test_a_filter_sees_computed_columns():
    found = node(SOURCE + PRINT + transform(projection="id, amount * 2 AS twice", filter="twice > 10 AND note = 'x'"))

    assert isinstance(found, Project)
    assert found.schema.names == ("id", "twice")
    assert isinstance(found.input, Filter)
    assert found.input.schema.names == ("id", "amount", "note", "twice")
    assert isinstance(found.input.input, Project)


def test_primary_keys_are_not_null():
    found = job(SOURCE + PRINT + transform(primary_keys="id")).sinks[0]

    assert [field.type.nullable for field in found.schema.fields] == [False, True, True]


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
def test_a_rule_that_does_not_fit_is_refused_at_its_place(rule, expected):
    with pytest.raises(PipelineError) as error:
        job(SOURCE + PRINT + transform(**rule))
    assert expected in str(error.value)


# --- route and topic ---------------------------------------------------------------------------------------------


def route(*rules: tuple[str, str], **more: str) -> str:
    items = "".join(f"  - source-table: {source}\n    sink-table: {sink}\n" for source, sink in rules)
    return "route:\n" + items + "".join(f"    {key}: {value}\n" for key, value in more.items())


def test_every_route_that_matches_is_taken():
    rules = route(("db.orders", "a.one"), (r"db.\.*", "a.two"), ("db.none", "a.three"))

    assert [sink.table for sink in job(SOURCE + SINK + rules).sinks] == ["a.one", "a.two"]
    first = "pipeline:\n  route-mode: FIRST_MATCH\n"
    assert [sink.table for sink in job(SOURCE + SINK + rules + first).sinks] == ["a.one"]


def test_a_route_may_keep_the_tables_name():
    rules = route((r"db.\.*", "ods.<>_raw"), **{"replace-symbol": "<>"})

    assert job(SOURCE + SINK + rules).sinks[0].table == "ods.orders_raw"


def test_a_route_may_use_groups():
    assert job(SOURCE + SINK + route((r"(\.*).(\w+)", "$2_of_$1"))).sinks[0].table == "orders_of_db"


def test_the_topic_is_the_option_else_the_mapping_else_the_table():
    rules = route(("db.orders", "ods.orders"))
    mapping = "  sink.tableId-to-topic.mapping: ods.orders:mapped\n"

    assert spec(SOURCE + SINK + rules).topics == ("ods.orders",)
    assert spec(SOURCE + SINK + mapping + rules).topics == ("mapped",)
    assert spec(SOURCE + SINK + mapping + "  topic: said\n" + rules).topics == ("said",)


def test_hash_by_key_needs_and_uses_the_primary_key():
    by_key = SOURCE + SINK + "  partition.strategy: hash-by-key\n"
    found = spec(by_key + transform(primary_keys="id"))

    assert (found.partitioner, found.key_columns, found.key.identifier) == ("default", ("id",), "json")
    with pytest.raises(PipelineError, match=r"'hash-by-key' needs a primary key.*primary-keys"):
        job(by_key)


def test_a_key_format_writes_the_primary_key():
    keyed = SOURCE.replace("note STRING", "note STRING, PRIMARY KEY (note) NOT ENFORCED")
    found = spec(keyed + SINK + "  key.format: json\n")

    assert (found.partitioner, found.key_columns) == ("all-to-zero", ("note",))


def test_sinks_take_the_options_of_tables_too():
    more = "  sink.delivery-guarantee: exactly-once\n  sink.transactional-id-prefix: p\n  properties.acks: all\n"
    found = spec(SOURCE + SINK + more)

    assert (found.guarantee.value, found.transactional_id_prefix) == ("exactly-once", "p")
    assert dict(found.client)["acks"] == "all"


# --- source ------------------------------------------------------------------------------------------------------


def test_metadata_becomes_columns():
    found = node(SOURCE + "  metadata.list: topic, offset\n" + PRINT)

    assert found.schema.names == ("id", "amount", "note", "topic", "offset")
    assert isinstance(found, Scan)
    assert [each.key for each in found.spec.metadata] == ["topic", "offset"]


def test_raw_keys_and_values_are_text():
    found = node(SOURCE + "  metadata.list: __raw_key__,__raw_value__\n" + PRINT)

    assert [str(field.type) for field in found.schema.fields[3:]] == ["STRING", "STRING"]
    assert found.spec.capabilities.native == (("__raw_key__", BYTES), ("__raw_value__", BYTES))


def test_metadata_that_there_is_not_is_refused():
    with pytest.raises(
        PipelineError, match=r"line 9, column 3: 'metadata.list': there is no metadata 'ofset' .*offset"
    ):
        job(SOURCE + "  metadata.list: ofset\n" + PRINT)
    with pytest.raises(PipelineError, match=r"there are two columns 'topic' .*leave it out of 'metadata.list'"):
        job(SOURCE.replace("note STRING", "topic STRING") + "  metadata.list: topic\n" + PRINT)


def test_errors_are_ignored_by_leaving_the_record_out():
    found = node(SOURCE + "  ingestion.ignore-errors: true\n" + PRINT)

    assert isinstance(found, Scan)
    assert found.spec.options.ignore_errors
    assert found.spec.value.options.to_text() == {}


def test_a_source_without_a_group_starts_at_the_earliest_offset():
    text = SOURCE.replace("  scan.startup.mode: earliest-offset\n", "")
    warnings: list[str] = []

    lower(parse_pipeline(text + PRINT, file="p.yaml"), "p", warn=warnings.append)
    assert node(text + PRINT).spec.options.startup_mode is StartupMode.EARLIEST
    assert warnings == [
        "p.yaml, line 1, column 1: 'scan.startup.mode' and 'properties.group.id' are missing, so it starts at the "
        "earliest offset"
    ]
    latest = node(text + "  properties.auto.offset.reset: latest\n" + PRINT)
    assert latest.spec.options.startup_mode is StartupMode.LATEST
    assert node(text + "  properties.group.id: g\n" + PRINT).spec.group_id == "g"


DDL = "CREATE TABLE db.orders (id BIGINT, amount DOUBLE, note STRING)"


def test_computed_columns_and_metadata_stand_in_the_schema():
    ddl = "CREATE TABLE db.orders (id BIGINT, at TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', next AS id + 1)"
    found = node(SOURCE.replace(DDL, ddl) + PRINT)

    assert isinstance(found, Project)
    assert found.schema.names == ("id", "at", "next")
    assert found.input.schema.names == ("id", "at")


PREFIXED = "  key.format: json\n  key.fields: id\n  key.fields-prefix: k_\n  value.fields-prefix: v_\n"


@pytest.mark.parametrize(
    "columns",
    ["id BIGINT, amount DOUBLE", "k_id BIGINT, v_amount DOUBLE", "k_id BIGINT, amount DOUBLE"],
)
def test_keys_and_values_have_prefixes_of_their_own(columns):
    found = node(
        SOURCE.replace(DDL, f"CREATE TABLE t ({columns}, PRIMARY KEY ({columns.split()[0]}) NOT ENFORCED)")
        + PREFIXED
        + PRINT
    )

    assert found.schema.names == ("k_id", "v_amount")
    assert (found.spec.key_schema.names, found.spec.value_schema.names) == (("id",), ("amount",))
    assert [field.type.nullable for field in found.schema.fields] == [False, True]


def test_a_key_and_a_value_may_have_the_same_name_before_their_prefixes():
    found = node(SOURCE.replace(DDL, "CREATE TABLE t (k_id BIGINT, id STRING, next AS id || 'x')") + PREFIXED + PRINT)

    assert found.schema.names == ("k_id", "v_id", "next")
    assert (found.input.spec.key_schema.names, found.input.spec.value_schema.names) == (("id",), ("id",))
    assert flink_sql(found.items[2].expression) == "CONCAT(`v_id`, 'x')"


def test_no_prefix_may_begin_with_the_other():
    with pytest.raises(PipelineError, match=r"'k_' and the 'value.fields-prefix' 'k_v_' begin with the same text"):
        job(SOURCE + PREFIXED.replace(": v_", ": k_v_") + PRINT)


@pytest.mark.parametrize("name", ["debezium-json", "canal-json"])
def test_messages_name_their_table(name):
    text = SOURCE.replace("value.format: json", f"value.format: {name}")
    sink = job(text + SINK.replace("value.format: json", f"value.format: {name}") + transform(primary_keys="id")).sinks[
        0
    ]
    encoder = formats.get(name).encoder(sink.spec.value_schema, sink.spec.value.options)
    row = pa.RecordBatch.from_pylist([{"id": 1, "amount": None, "note": "x"}], arrow_schema(sink.spec.value_schema))
    (message,) = (json.loads(each.as_py()) for each in encoder.encode(row))

    if name == "debezium-json":
        assert message["source"] == {"db": "db", "table": "orders"}
    else:
        assert (message["database"], message["table"], message["pkNames"]) == ("db", "orders", ["id"])
    assert sink.input.spec.table_id == ("db", "orders")


@pytest.mark.parametrize("key", ["debezium-json.distributed-tables", "canal-json.distributed-tables"])
def test_tables_may_be_in_several_partitions(key):
    name = key.partition(".")[0]
    text = SOURCE.replace("value.format: json", f"value.format: {name}")

    assert node(text + f"  {key}: true\n" + PRINT).schema.names == ("id", "amount", "note")


def test_what_comes_later_says_what_to_do():
    with pytest.raises(UnsupportedError, match="the columns of a key are not inferred yet"):
        job(SOURCE.replace("topic: orders", "topic: orders\n  key.format: json") + PRINT)


def test_a_table_of_metadata_alone_would_lose_its_records():
    text = SOURCE.replace(DDL, "CREATE TABLE t (o BIGINT METADATA FROM 'offset')")

    with pytest.raises(PipelineError, match=r"the table has metadata columns only, .*would be lost .*__raw_value__"):
        job(text + PRINT)
    assert node(text + "  metadata.list: __raw_value__\n" + PRINT).schema.names == ("o", "__raw_value__")


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


def test_the_format_of_yaml_is_debezium_json_unless_it_is_said():
    source = node(SOURCE.replace("  value.format: json\n", "") + PRINT)
    assert source.spec.value.identifier == "debezium-json"


UPSERTS = """\
sink:
  type: upsert-kafka
  topic: copies
  properties.bootstrap.servers: localhost:9092
  key.format: json
  value.format: csv
  value.csv.field-delimiter: '|'
"""


def test_a_sink_that_upserts_has_the_primary_key_of_its_table():
    found = spec(SOURCE + UPSERTS + transform(primary_keys="id"))
    assert (found.topics, found.upsert_keys, found.value.options.field_delimiter) == (("copies",), ("id",), "|")
    with pytest.raises(PipelineError, match=r"'PRIMARY KEY': is required.*'primary-keys: id'"):
        job(SOURCE + UPSERTS)


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


def test_a_schema_that_cannot_be_read_is_refused_at_its_place():
    with pytest.raises(
        PipelineError, match=r"p.yaml, line 7, column 3, line 1, column .*unknown type BIGIT.*did you mean 'BIGINT'"
    ):
        job(SOURCE.replace("BIGINT", "BIGIT") + PRINT)


def test_a_variables_value_is_not_quoted():
    text = SOURCE + "  scan.bounded.mode: ${secret}\n" + PRINT

    with pytest.raises(PipelineError) as error:
        job(text, secret="hunter2")
    assert "hunter2" not in str(error.value)
    assert "not '${secret}'" in str(error.value)


# --- what is not done as it is written -----------------------------------------------------------------------


def warned(text: str) -> list[str]:
    told: list[str] = []
    definition = parse_pipeline(text, file="p.yaml")
    lower(definition, "p", told.append)
    return [*definition.warnings, *told]


def of_format(name: str) -> str:
    return SOURCE.replace("value.format: json", f"value.format: {name}")


@pytest.mark.parametrize("name", ["json", "debezium-json", "canal-json", "csv"])
@pytest.mark.parametrize("prefix", ["", "value."])
def test_ignore_parse_errors_leaves_the_record_out(name, prefix):
    """In SQL a value that does not fit is NULL; Realtime Compute's page about YAML says that the row is skipped."""
    found = node(of_format(name) + f"  {prefix}{name}.ignore-parse-errors: true\n" + PRINT).spec
    assert found.options.ignore_errors
    assert not found.value.options.ignore_parse_errors
    kept = node(of_format(name) + f"  {prefix}{name}.ignore-parse-errors: false\n" + PRINT).spec
    assert not kept.options.ignore_errors


def test_a_wrong_value_of_ignore_parse_errors_is_refused():
    with pytest.raises(PipelineError, match=r"json\.ignore-parse-errors': expected true or false"):
        job(SOURCE + "  json.ignore-parse-errors: maybe\n" + PRINT)


@pytest.mark.parametrize("declared", ["orders", "db.orders"])
def test_a_declaration_of_the_topic_s_name_keeps_its_database(declared):
    text = SOURCE.replace("db.orders", declared) + PRINT
    assert (node(text).table, warned(text)) == (declared, [])


def test_a_table_of_json_is_named_after_its_topic():
    text = SOURCE.replace("db.orders", "db1.t1") + SINK.replace("localhost", "elsewhere")
    assert (node(text).table, spec(text).topics) == ("orders", ("orders",))
    (warning,) = warned(text)
    assert "p.yaml, line 7" in warning
    assert "named after its topic, 'orders', and has the columns of 'db1.t1'" in warning


def test_a_table_of_messages_that_name_it_keeps_its_declared_name():
    text = of_format("debezium-json").replace("db.orders", "db1.t1") + PRINT
    assert (node(text).table, warned(text)) == ("db1.t1", [])


@pytest.mark.parametrize("pattern", ["db1.t1", "orders"])
def test_rules_may_use_the_topic_s_name_or_the_declared_one(pattern):
    rules = f"transform:\n  - source-table: {pattern}\n    filter: id > 5\n"
    rules += f"route:\n  - source-table: {pattern}\n    sink-table: ods.all\n"
    found = job(SOURCE.replace("db.orders", "db1.t1") + rules + PRINT).sinks[0]
    assert (found.table, type(found.input)) == ("ods.all", Filter)


def test_a_rule_that_fits_no_table_is_a_warning():
    rules = (
        "transform:\n  - source-table: \\.*.x\n    filter: id > 5\n  - source-table: db.orders\n    filter: id > 6\n"
    )
    rules += "route:\n  - source-table: DB.orders\n    sink-table: ods.all\n"
    first, second = warned(SOURCE + rules + PRINT)
    assert "p.yaml, line 10" in first
    assert "the transform for '\\.*.x' has no effect: the only table is 'db.orders'" in first
    assert "the route for 'DB.orders' has no effect" in second


def test_a_sink_that_writes_what_the_source_reads_is_a_warning():
    circle = SOURCE.replace("db.orders", "orders") + SINK
    (warning,) = warned(circle)
    assert "the sink writes to 'orders', by its table's name, and the source reads that topic" in warning
    assert warned(circle + "  topic: copies\n") == []


def test_options_of_inference_without_effect_are_warned_of():
    (prefetch,) = warned(SOURCE + "  scan.max.pre.fetch.records: 7\n" + PRINT)
    assert "p.yaml, line 9, column 3: 'scan.max.pre.fetch.records' has no effect" in prefetch


# --- functions -------------------------------------------------------------------------------------------------

FUNCTION = """\
transform:
  - source-table: db.orders
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
    found = calc_of(node(SOURCE + SINK + FUNCTION))
    assert isinstance(found, Calc)
    sent = pickle.loads(cloudpickle.dumps(found))  # type: ignore[attr-defined]
    ids: list[int] = [1, 2, 3, 9]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(ids), pa.nulls(4, pa.float64()), pa.nulls(4, pa.string())], sent.columns
    )
    assert [list(each.values()) for each in sent.batch(rows).to_pylist()] == [[2, 4], [3, 6]]

    with pytest.raises(
        FunctionError, match=r"TWICE: the function raised ValueError \(python-code of twice, line 5\): 4 is"
    ):
        sent.batch(pa.RecordBatch.from_arrays([pa.array([4]), pa.array([0.0]), pa.array([""])], sent.columns))


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
