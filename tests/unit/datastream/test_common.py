"""The small classes of PyFlink's common package."""

from __future__ import annotations

import pytest

from penstock.common import (
    CompletableFuture,
    Configuration,
    Instant,
    JobID,
    JobStatus,
    Row,
    RowKind,
    RowTypeInfo,
    Time,
    Types,
    WatermarkStrategy,
)
from penstock.common.job_client import JobClient
from penstock.common.time import Duration
from penstock.datastream import MemorySize, SlotSharingGroup, StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import FlinkKafkaConsumerBase, FlinkKafkaProducerBase
from penstock.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.datastream.formats.csv import CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema
from penstock.errors import OptionsError, SchemaError, UnsupportedError


def test_a_configuration_has_values_of_all_kinds():
    found = Configuration().set_string("a", "x").set_integer("b", 7).set_boolean("c", True).set_float("d", 1.5)
    found.set_bytearray("e", bytearray(b"\0x"))
    assert found.key_set() == {"a", "b", "c", "d", "e"}
    assert (found.get_integer("b", 0), found.get_boolean("c", False), found.get_float("d", 0)) == (7, True, 1.5)
    assert found.get_bytearray("e", bytearray()) == bytearray(b"\0x")
    assert (found.get_integer("z", 3), found.get_boolean("z", True), found.get_float("z", 2.5)) == (3, True, 2.5)
    assert (found.get_string("z", "-"), found.get_bytearray("z", bytearray(b"y"))) == ("-", bytearray(b"y"))
    with pytest.raises(ValueError, match="not true or false"):
        found.get_boolean("a", False)
    copy = Configuration(found)
    assert copy == found
    assert (copy.remove_config("a"), copy.remove_config("a"), copy.contains_key("a")) == (True, False, False)
    assert copy != found
    target = {"a": "old", "z": "z"}
    found.add_all_to_dict(target)
    assert (target["a"], target["z"]) == ("x", "z")
    assert Configuration().add_all(Configuration().set_string("k", "v"), "p.").to_dict() == {"p.k": "v"}
    assert [Configuration.parse_list_value(each) for each in ("", "a;b", "[a, b]")] == [[], ["a", "b"], ["a", "b"]]


def test_times():
    assert Duration.of_nanos(1_500_000).to_millis() == 1
    assert Instant.of_epoch_milli(1_234) == Instant(1, 234_000_000)
    assert Instant(1, 234_999_999).to_epoch_milli() == 1_234
    assert Time.days(1) == Time.hours(24) == Time.minutes(1440) == Time.seconds(86400) == Time.milliseconds(86_400_000)
    assert Time(5).to_milliseconds() == 5


def test_rows_become_dictionaries():
    row = Row(key=1, value=Row(name="a", tags=[Row(t=1)]))
    assert row.as_dict()["value"] == Row(name="a", tags=[Row(t=1)])
    assert row.as_dict(True) == {"key": 1, "value": {"name": "a", "tags": [{"t": 1}]}}
    assert Row.of_kind(RowKind.DELETE, 1, 2).get_row_kind() is RowKind.DELETE
    assert Row(a=1, b=2).get_fields_by_names(["b", "a"]) == [2, 1]
    assert Row(1, 2).get_fields_by_names(["x", "y"]) == [1, 2]
    with pytest.raises(AttributeError):
        Row(1, 2).get_fields_by_names(["x"])
    with pytest.raises(AttributeError):
        Row(a=1).get_fields_by_names(["x"])


def test_types_of_rows():
    info = RowTypeInfo([Types.INT(), Types.STRING()], ["a", "b"])
    assert info == Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    assert (info.get_field_index("b"), info.get_field_types()) == (1, [Types.INT(), Types.STRING()])
    assert RowTypeInfo([Types.INT()]) == Types.ROW([Types.INT()])
    with pytest.raises(TypeError, match="1 names for 2 types"):
        RowTypeInfo([Types.INT(), Types.INT()], ["a"])
    with pytest.raises(ValueError, match="not in tuple"):
        info.get_field_index("c")


def test_futures_hold_a_result():
    future = CompletableFuture._from_result(5)
    seen = []
    future.add_done_callback(lambda each: seen.append(each.result()))
    assert (future.done(), future.cancelled(), future.cancel(), future.exception(), seen) == (
        True,
        False,
        False,
        None,
        [5],
    )


def test_states_of_jobs():
    ended = {each for each in JobStatus if each.is_terminal_state()}
    assert ended - {each for each in JobStatus if each.is_globally_terminal_state()} == {JobStatus.SUSPENDED}
    assert JobStatus.RUNNING not in ended
    assert JobID("a") == JobID("a") != JobID("b")


def test_slot_sharing_groups_keep_their_resources():
    group = SlotSharingGroup.builder("fast").set_cpu_cores(1.5).set_task_heap_memory_mb(2).set_managed_memory_mb(3)
    made = group.set_task_off_heap_memory_mb(1).set_external_resource("gpu", 2.0).build()
    assert (made.get_name(), made.get_cpu_cores(), made.get_external_resources()) == ("fast", 1.5, {"gpu": 2.0})
    assert made.get_task_heap_memory() == MemorySize.of_mebi_bytes(2)
    assert (made.get_managed_memory().get_kibi_bytes(), made.get_task_off_heap_memory().get_bytes()) == (3072, 1 << 20)
    size = MemorySize(bytes_size=5 << 40)
    assert (size.get_tebi_bytes(), size.get_gibi_bytes(), size.get_mebi_bytes()) == (5, 5 << 10, 5 << 20)
    assert MemorySize(bytes_size=1) < size


SCHEMA = """{"type": "record", "name": "Order", "fields": [
  {"name": "id", "type": "long"},
  {"name": "note", "type": ["null", "string"]},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"]}},
  {"name": "tags", "type": {"type": "map", "values": "int"}},
  {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "L", "fields": [
    {"name": "n", "type": "int"}]}}}
]}"""


def test_avro_schemas_are_types_of_rows():
    schema = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    assert str(schema.get_produced_type()) == (
        "ROW<`id` BIGINT NOT NULL, `note` STRING, `price` DECIMAL(9, 2) NOT NULL, `at` TIMESTAMP_LTZ(3) NOT NULL, "
        "`day` DATE NOT NULL, `kind` STRING NOT NULL, `tags` MAP<STRING NOT NULL, INT NOT NULL> NOT NULL, "
        "`lines` ARRAY<ROW<`n` INT NOT NULL> NOT NULL> NOT NULL>"
    )
    assert (schema.format, dict(schema.options)["schema"]) == ("avro", SCHEMA)
    assert AvroRowSerializationSchema(avro_schema_string=SCHEMA).type_info == schema.type_info
    read = ConfluentRegistryAvroDeserializationSchema.for_generic(SCHEMA, "http://registry:8081", {"x": "y"})
    assert (read.format, dict(read.options)["url"]) == ("avro-confluent", "http://registry:8081")
    written = ConfluentRegistryAvroSerializationSchema.for_generic("orders-value", SCHEMA, "http://registry:8081")
    assert dict(written.options)["subject"] == "orders-value"
    with pytest.raises(SchemaError, match="a union of 2 types"):
        AvroRowDeserializationSchema(
            avro_schema_string='{"type":"record","name":"R","fields":[{"name":"a","type":["int","string"]}]}'
        )
    with pytest.raises(SchemaError, match="expected the schema of a record"):
        AvroRowDeserializationSchema(avro_schema_string='"int"')
    with pytest.raises(UnsupportedError, match="record_class"):
        AvroRowSerializationSchema(record_class="com.acme.Order")
    with pytest.raises(TypeError):
        AvroRowSerializationSchema()


def test_avro_rows_go_there_and_back():
    from penstock.spi import formats

    schema = AvroRowDeserializationSchema(avro_schema_string=SCHEMA)
    avro = formats.get("avro")
    options = avro.options.from_text({f"avro.{key}": value for key, value in schema.options}, prefix="avro.")
    avro.decoder(schema.type_info.row, options)
    avro.encoder(schema.type_info.row, options)


def test_what_formats_do_not_have_is_refused():
    with pytest.raises(UnsupportedError, match="json_schema"):
        JsonRowDeserializationSchema.builder().json_schema("{}")
    builder = CsvRowSerializationSchema.Builder(Types.ROW([Types.INT()]))
    builder.set_line_delimiter("")
    with pytest.raises(OptionsError, match=r"set_line_delimiter.*';' ends no line"):
        builder.set_line_delimiter(";")


@pytest.mark.parametrize(
    "java",
    [
        lambda: Configuration(j_configuration=object()),
        lambda: CompletableFuture(object()),
        lambda: JobClient(object()),
        lambda: SlotSharingGroup(object()),
        lambda: MemorySize(object()),
        lambda: FlinkKafkaConsumerBase(object()),
        lambda: FlinkKafkaProducerBase(object()),
    ],
)
def test_what_is_java_is_refused_with_the_reason(java):
    with pytest.raises(UnsupportedError, match="penstock has no Java classes of Flink's"):
        java()


def test_alignment_of_watermarks_is_warned_of():
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.warns(UserWarning, match="with_watermark_alignment has no effect here"):
        assert strategy.with_watermark_alignment("g", Duration.of_seconds(1)) is strategy


def test_the_default_name_of_flink_is_none():
    from penstock.datastream import execution
    from penstock.plan.nodes import Job

    env = StreamExecutionEnvironment.get_execution_environment(Configuration().set_string("pipeline.name", "nightly"))
    jobs: list[Job] = []
    with execution.runner(jobs.append):
        env.from_collection([1], Types.INT()).print()
        env.execute_async().wait()
        env.from_collection([1], Types.INT()).print()
        env.execute_async("other").wait()
    assert [job.name for job in jobs] == ["nightly", "other"]
