"""Schemas of the user's: from records to values, and from values to records, without a broker."""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from datetime import datetime, time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.common import (
    DeserializationSchema,
    Row,
    SerializationSchema,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
    call_arrow,
)
from penstock.connectors.kafka.sink.encoding import RowEncoder
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaPartitioner,
    FlinkKafkaProducer,
    HeaderProvider,
    JsonDeserializationSchema,
    JSONKeyValueDeserializationSchema,
    KafkaDeserializationSchema,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicSelector,
    ProducerRecord,
)
from penstock.datastream.connectors.kafka.deserialization import read_info
from penstock.datastream.connectors.values import ValuesSink
from penstock.datastream.formats.csv import CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.errors import FunctionError, OptionsError, RecordError, UnsupportedError
from penstock.kafka.record_batches import scan
from penstock.plan.nodes import Scan, scans
from penstock.spi import HIDDEN, Task
from penstock.types import STRING, arrow_schema
from tests.computed import batch_of, results

SERVERS = {"bootstrap.servers": "localhost:9092", "group.id": "g"}


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


def source(deserializer):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("in")
        .set_deserializer(deserializer)
        .build()
    )


RECORDS = [
    {
        "topic": "in",
        "partition": 3,
        "offset": 7 + number,
        "timestamp": 1_700_000_000_000 + number,
        "timestamp_type": "CreateTime",
        "key": key,
        "value": value,
        "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
        "leader_epoch": None if number else 4,
    }
    for number, (key, value) in enumerate([(b"k", b"one"), (None, b"two"), (b"k", None)])
]


def batch(node: Scan, records=RECORDS):
    """The rows that a scan's tasks would make of records."""
    wanted = arrow_schema(node.schema)
    columns = {}
    for field in wanted:
        name = {"f0": "value", "__timestamp": "timestamp"}.get(field.name, field.name)
        values = [record[name] for record in records]
        if pa.types.is_string(field.type) and field.name == "f0":
            values = [each and each.decode() for each in values]
        columns[field.name] = (
            pa.array(values, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(field.type)
            if (pa.types.is_timestamp(field.type))
            else pa.array(values, field.type)
        )
    columns[HIDDEN.names[0]] = pa.array([record["partition"] for record in records], pa.int32())
    columns[HIDDEN.names[1]] = pa.array([record["offset"] for record in records], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def values(env, built, records=RECORDS):
    """The values of a stream of a source."""
    add = env.add_source if isinstance(built, FlinkKafkaConsumer) else None
    stream = add(built, "in") if add else env.from_source(built, WatermarkStrategy.no_watermarks(), "in")
    stream.sink_to(ValuesSink())
    job = env._job("test")
    (scanned,) = scans(*job.sinks)
    found = results(job, {"in": batch(scanned, records)})[0]
    unpickles = stream.get_type() == Types.PICKLED_BYTE_ARRAY()
    single = stream.get_type().single
    return [pickle.loads(row[0]) if unpickles else row[0] if single else row for row in found]


# --- reading -------------------------------------------------------------------------------------------------


def described(record):
    if record.value == b"two":
        return None
    return f"{record.topic}-{record.partition}-{record.offset}@{record.timestamp}"


class Described(KafkaDeserializationSchema):
    def deserialize(self, record):
        return described(record)

    def get_produced_type(self):
        return Types.STRING()


class DescribedToo(KafkaRecordDeserializationSchema):
    def deserialize(self, record):
        return described(record)

    def get_produced_type(self):
        return Types.STRING()


@pytest.mark.parametrize(
    "make",
    [
        lambda: source(KafkaRecordDeserializationSchema.of(Described())),
        lambda: source(KafkaRecordDeserializationSchema.of(described, Types.STRING())),
        lambda: source(KafkaRecordDeserializationSchema.of(DescribedToo())),
        lambda: source(DescribedToo()),
        lambda: FlinkKafkaConsumer("in", Described(), SERVERS),
    ],
)
def test_a_whole_record_is_read_in_python_and_none_is_left_out(env, make):
    assert values(env, make()) == ["in-3-7@1700000000000", "in-3-9@1700000000002"]


def test_a_record_has_all_its_parts(env):
    found = values(env, source(KafkaRecordDeserializationSchema.of(lambda record: record)))
    assert [(record.key, record.value, record.leader_epoch) for record in found] == [
        (b"k", b"one", 4),
        (None, b"two", None),
        (b"k", None, None),
    ]
    assert found[0].headers == (("h", b"x"), ("h", None))
    assert (found[0].timestamp_type, found[0].topic, found[0].partition, found[0].offset) == ("CreateTime", "in", 3, 7)


def test_records_are_read_as_arrays(env):
    def read(batch):
        return pa.RecordBatch.from_arrays(
            [pc.cast(batch.column("key"), pa.string()), batch.column("offset")], names=["k", "o"]
        )

    kind = Types.ROW_NAMED(["k", "o"], [Types.STRING(), Types.LONG()])
    built = source(KafkaRecordDeserializationSchema.of(call_arrow(read), kind))
    assert values(env, built) == [("k", 7), (None, 8), ("k", 9)]


class Reversed(DeserializationSchema):
    def open(self, context):
        self.suffix = context.get_task_name()

    def deserialize(self, message):
        return None if message is None else message.decode()[::-1] + self.suffix

    def get_produced_type(self):
        return Types.STRING()


def test_values_are_read_by_a_schema_of_ones_own(env):
    for built in (
        source(KafkaRecordDeserializationSchema.value_only(Reversed())),
        FlinkKafkaConsumer("in", Reversed(), SERVERS),
        KafkaSource.builder()
        .set_bootstrap_servers("b:9092")
        .set_topics("in")
        .set_value_only_deserializer(Reversed())
        .build(),
    ):
        assert values(env, built) == ["enoDeserialize", "owtDeserialize"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.kafka.common.serialization.StringDeserializer", Types.STRING()),
        ("StringDeserializer", Types.STRING()),
        ("ByteArrayDeserializer", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        ("IntegerDeserializer", Types.INT()),
        ("LongDeserializer", Types.LONG()),
        ("ShortDeserializer", Types.SHORT()),
        ("FloatDeserializer", Types.FLOAT()),
        ("DoubleDeserializer", Types.DOUBLE()),
        ("BooleanDeserializer", Types.BOOLEAN()),
    ],
)
def test_kafka_s_own_deserializers_are_the_raw_format(env, name, kind):
    built = source(KafkaRecordDeserializationSchema.value_only(name))
    assert built.type_info == kind
    stream = env.from_source(built, WatermarkStrategy.no_watermarks(), "in")
    assert isinstance(stream._node, Scan)
    assert stream._node.spec.value.identifier == "raw"


def test_other_deserializers_are_refused_by_name():
    for wrong in ("com.acme.OrderDeserializer", "StringSerializer", 5):
        with pytest.raises(UnsupportedError, match="there is no deserializer"):
            KafkaRecordDeserializationSchema.value_only(wrong)
    with pytest.raises(UnsupportedError, match="int reads no records"):
        KafkaRecordDeserializationSchema.of(5)
    with pytest.raises(UnsupportedError, match="SimpleStringSchema reads no records"):
        KafkaSource.builder().set_deserializer(SimpleStringSchema())


def test_json_of_key_and_value(env):
    records = [{**RECORDS[0], "key": b'{"id": 1}', "value": b'{"a": [1, 2]}'}, {**RECORDS[1], "value": b"5"}]
    with_metadata = FlinkKafkaConsumer("in", JSONKeyValueDeserializationSchema(True), SERVERS)
    assert values(env, with_metadata, records) == [
        {"key": {"id": 1}, "value": {"a": [1, 2]}, "metadata": {"offset": 7, "topic": "in", "partition": 3}},
        {"value": 5, "metadata": {"offset": 8, "topic": "in", "partition": 3}},
    ]
    without = FlinkKafkaConsumer("in", JSONKeyValueDeserializationSchema(False), SERVERS)
    assert values(env, without, records[1:]) == [{"value": 5}]
    assert values(env, FlinkKafkaConsumer("in", JsonDeserializationSchema(), SERVERS), records) == [{"a": [1, 2]}, 5]
    with pytest.raises(RecordError, match="the value is not JSON") as error:
        values(env, with_metadata, RECORDS[1:2])
    assert (error.value.partition, error.value.offset) == (3, 8)


class Ending(Reversed):
    def is_end_of_stream(self, next_element):
        return next_element.startswith("owt")


def test_an_exception_and_an_end_in_the_midst_name_the_record(env):
    def fails(record):
        raise KeyError(record.offset)

    with pytest.raises(FunctionError, match="raised KeyError") as error:
        values(env, source(KafkaRecordDeserializationSchema.of(fails)))
    assert (error.value.partition, error.value.offset) == (3, 7)
    with pytest.raises(RecordError, match=r"Ending.is_end_of_stream says .* \(give the source an end by set_bounded"):
        values(env, FlinkKafkaConsumer("in", Ending(), SERVERS))


# --- writing -------------------------------------------------------------------------------------------------


def records(env, stream, built, partitions=4):
    """The records that a stream's sink makes: (topic, partition), key, value, headers and timestamp."""
    stream.sink_to(built).name("out")
    (sink,) = env._job("test").sinks
    (scanned,) = scans(sink)
    given = batch(scanned) if scanned.connector == "kafka" else None
    rows = batch_of(sink.input, {"in": given}) if given else None
    if rows is None:
        from tests.computed import values_of

        rows = batch_of(sink.input, {scanned.table: values_of(scanned)})
    schema = arrow_schema(sink.spec.schema)
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=False)]
    table = pa.RecordBatch.from_arrays(arrays, schema=schema)
    encoder = RowEncoder(sink.spec, sink.spec.client_config, lambda _: partitions, {}, Task(0, 1))
    found = defaultdict(list)
    for topic, encoded in encoder.encode(table, rows.select(list(HIDDEN.names))):
        read = scan(encoded.data, start_offset=0, end_offset=encoded.count, headers=True)
        headers = [[(each["key"], each["value"]) for each in one or ()] for one in read.headers.to_pylist()]
        parts = (read.keys.to_pylist(), read.values.to_pylist(), headers, read.timestamps.tolist())
        found[topic, encoded.partition] += list(zip(*parts, strict=True))
    return dict(found)


def sink(serializer):
    return KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(serializer).build()


def builder():
    return KafkaRecordSerializationSchema.builder()


class Lengths(KafkaTopicSelector):
    def apply(self, data):
        return f"out-{len(data)}"


class Marked(SerializationSchema):
    def serialize(self, element):
        return f"<{element}>".encode()


class Named(HeaderProvider):
    def get_headers(self, data):
        return {"of": data.encode(), "none": None}


class ByLength(FlinkKafkaPartitioner):
    def open(self, parallel_instance_id, parallel_instances):
        self.offset = parallel_instance_id

    def partition(self, record, key, value, target_topic, partitions):
        assert value == record.encode()
        return partitions[len(record) + self.offset]


def plain(found):
    return {place: [each[:3] for each in records] for place, records in found.items()}


def test_topics_are_chosen_by_value(env):
    stream = env.from_collection(["a", "bb", "c"], Types.STRING())
    for selector in (Lengths(), lambda text: f"out-{len(text)}"):
        built = builder().set_topic_selector(selector).set_value_serialization_schema(SimpleStringSchema()).build()
        found = records(env, stream, sink(built), partitions=1)
        assert plain(found) == {
            ("out-1", 0): [(None, b"a", []), (None, b"c", [])],
            ("out-2", 0): [(None, b"bb", [])],
        }


def test_schemas_of_ones_own_make_keys_and_values(env):
    stream = env.from_collection(["a"], Types.STRING())
    built = builder().set_topic("out").set_value_serialization_schema(Marked())
    built.set_key_serialization_schema(Marked()).set_header_provider(Named())
    found = records(env, stream, sink(built.build()), partitions=1)
    assert plain(found) == {("out", 0): [(b"<a>", b"<a>", [("of", b"a"), ("none", None)])]}


def test_formats_and_functions_stand_together(env):
    kind = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
    stream = env.from_collection([Row(1, "a")], kind)
    rows = JsonRowSerializationSchema.builder().with_type_info(kind).build()
    key = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
    built = builder().set_topic_selector(lambda row: row.name).set_value_serialization_schema(rows)
    built.set_key_serialization_schema(key).set_header_provider(lambda row: [("id", str(row.id).encode())])
    found = records(env, stream, sink(built.build()), partitions=1)
    assert plain(found) == {("a", 0): [(b'{"id":1}', b'{"id":1,"name":"a"}', [("id", b"1")])]}


TIMES = Types.ROW_NAMED(
    ["at", "times", "inner"],
    [
        Types.SQL_TIMESTAMP(),
        Types.OBJECT_ARRAY(Types.SQL_TIME()),
        Types.ROW_NAMED(["ats"], [Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP())]),
    ],
)
TIMED = Row(
    at=datetime(2026, 1, 2, 3, 4, 5, 678_000),
    times=[time(3, 4, 5), None, time(3, 4, 5, 10)],
    inner=Row(ats={"a": datetime(2026, 1, 2)}),
)
WRITTEN = (
    b'{"at":"2026-01-02T03:04:05.678Z","times":["03:04:05Z",null,"03:04:05.00001Z"],'
    b'"inner":{"ats":{"a":"2026-01-02T00:00:00Z"}}}'
)
NOTHING = b'{"at":null,"times":null,"inner":null}'


@pytest.mark.parametrize("selects", [False, True])
def test_times_in_rows_of_json_are_written_by_rfc_3339(env, selects):
    """As Flink's JsonRowSerializationSchema does, and other than the format of its SQL."""
    stream = env.from_collection([TIMED, (None, None, None)], TIMES)
    schema = JsonRowSerializationSchema.builder().with_type_info(TIMES).build()
    built = builder().set_value_serialization_schema(schema)
    built = (
        built.set_topic_selector(lambda row: f"t{row.at.year if row.at else 0}") if selects else built.set_topic("t")
    )
    found = records(env, stream, sink(built.build()), partitions=1)
    assert [each[1] for place in sorted(found, reverse=True) for each in found[place]] == [WRITTEN, NOTHING]


def test_times_in_rows_of_json_are_read_by_rfc_3339():
    schema = JsonRowDeserializationSchema.builder().type_info(TIMES).build()
    convert = schema.converts
    convert.open(None)
    texts = Row(
        at="2026-01-02T03:04:05.678Z",
        times=["03:04:05Z", None, "03:04:05.000Z"],
        inner=Row(ats={"a": "2026-01-02T00:00:00Z"}),
    )
    found = convert.map(texts)
    assert (found.at, found.times, found.inner) == (TIMED.at, [time(3, 4, 5), None, time(3, 4, 5)], TIMED.inner)
    assert convert.map(Row(at=None, times=None, inner=None)).as_dict() == dict.fromkeys(("at", "times", "inner"))
    assert read_info(KafkaRecordDeserializationSchema.value_only(schema)).row.fields[0].type == STRING


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Types.SQL_TIMESTAMP(), "2026-01-02T03:04:05"),
        (Types.SQL_TIMESTAMP(), "2026-01-02 03:04:05Z"),
        (Types.SQL_TIME(), "03:04:05"),
        (Types.SQL_TIME(), "03:04:05.1Z"),
    ],
)
def test_a_text_that_is_no_time_by_rfc_3339_is_refused(kind, text):
    convert = JsonRowDeserializationSchema.builder().type_info(Types.ROW_NAMED(["at"], [kind])).build().converts
    convert.open(None)
    with pytest.raises(RecordError, match="expected a time"):
        convert.map(Row(at=text))


def test_lines_of_csv_end_with_a_line_feed_unless_they_are_told_not_to(env):
    kind = Types.ROW([Types.INT(), Types.STRING()])
    for end, wanted in ((None, b"1,a\n"), ("\r\n", b"1,a\r\n"), ("", b"1,a")):
        schema = CsvRowSerializationSchema.Builder(kind)
        schema = schema if end is None else schema.set_line_delimiter(end)
        built = builder().set_topic("t").set_value_serialization_schema(schema.build()).build()
        found = records(env, env.from_collection([Row(1, "a")], kind), sink(built), partitions=1)
        assert plain(found) == {("t", 0): [(None, wanted, [])]}


def test_values_of_any_kind_are_written_by_a_schema_of_ones_own(env):
    class AsJson(SerializationSchema):
        def serialize(self, element):
            return json.dumps(sorted(element)).encode()

    stream = env.from_collection([{2, 1}])
    built = builder().set_topic("out").set_value_serialization_schema(AsJson()).build()
    assert plain(records(env, stream, sink(built), partitions=1)) == {("out", 0): [(None, b"[1, 2]", [])]}


def test_partitions_are_chosen_by_value(env):
    stream = env.from_collection(["", "a", "bb"], Types.STRING())
    for partitioner in (ByLength(), lambda record, key, value, topic, partitions: partitions[len(record)]):
        built = builder().set_topic("out").set_value_serialization_schema(SimpleStringSchema())
        found = records(env, stream, sink(built.set_partitioner(partitioner).build()))
        assert plain(found) == {("out", number): [(None, text, [])] for number, text in enumerate((b"", b"a", b"bb"))}


def test_a_partitioner_that_chooses_no_partition_names_the_record(env):
    stream = env.from_source(
        source(KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())),
        WatermarkStrategy.no_watermarks(),
        "in",
    )
    built = builder().set_topic("out").set_value_serialization_schema(SimpleStringSchema())
    built.set_partitioner(lambda record, key, value, topic, partitions: 9)
    with pytest.raises(RecordError, match="chose 9, and topic 'out' has the partitions 0 to 3") as error:
        records(env, stream, sink(built.build()))
    assert (error.value.partition, error.value.offset) == (3, 7)


@pytest.mark.parametrize(
    ("name", "kind", "value", "written"),
    [
        ("org.apache.kafka.common.serialization.StringSerializer", Types.STRING(), "é", "é".encode()),
        ("IntegerSerializer", Types.INT(), 258, b"\0\0\1\2"),
        ("LongSerializer", Types.LONG(), 1, b"\0" * 7 + b"\1"),
        ("DoubleSerializer", Types.DOUBLE(), 1.0, b"\x3f\xf0" + b"\0" * 6),
    ],
)
def test_kafka_s_own_serializers_are_the_raw_format(env, name, kind, value, written):
    built = builder().set_topic("out").set_kafka_value_serializer(name).set_kafka_key_serializer(name).build()
    stream = env.from_collection([value], kind)
    assert plain(records(env, stream, sink(built), partitions=1)) == {("out", 0): [(written, written, [])]}
    with pytest.raises(UnsupportedError, match=r"there is no serializer 'com.acme.AcmeSerializer'"):
        builder().set_kafka_key_serializer("com.acme.AcmeSerializer")


class Whole(KafkaSerializationSchema):
    def open(self, context):
        self.task = context.get_index_of_this_subtask()

    def serialize(self, element, timestamp):
        if element is None:
            return None
        return ProducerRecord(
            f"to-{element}",
            value=b"v",
            key=None if element == "two" else b"k",
            partition=2 if element == "one" else None,
            timestamp=None if timestamp is None else timestamp + 1,
            headers=[("t", str(self.task).encode())],
        )


def test_whole_records_are_made_in_python(env):
    stream = env.from_source(
        source(KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())),
        WatermarkStrategy.no_watermarks(),
        "in",
    )
    producer = FlinkKafkaProducer("unused", Whole(), SERVERS)
    for built in (sink(Whole()), producer):
        found = records(env, stream, built, partitions=3)
        assert found["to-one", 2] == [(b"k", b"v", [("t", b"0")], 1_700_000_000_001)]
        ((place, (two,)),) = ((place, each) for place, each in found.items() if place[0] == "to-two")
        assert two == (None, b"v", [("t", b"0")], 1_700_000_000_002)
        assert place[1] in range(3)


def test_a_record_for_a_partition_that_is_not_there_names_its_origin(env):
    stream = env.from_source(
        source(KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())),
        WatermarkStrategy.no_watermarks(),
        "in",
    )
    with pytest.raises(RecordError, match="partition is 2, and topic 'to-one' has the partitions 0 to 1") as error:
        records(env, stream, sink(Whole()), partitions=2)
    assert error.value.offset == 7

    class Text(KafkaSerializationSchema):
        def serialize(self, element, timestamp):
            return element

    with pytest.raises(RecordError, match=r"Text.serialize returned str \(return a ProducerRecord, or None\)"):
        records(env, stream, sink(Text()))


def test_sinks_with_functions_are_keyed_where_a_row_decides_about_its_partition(env):
    stream = env.from_collection(["a"], Types.STRING())
    string = SimpleStringSchema()
    for serializer, keyed in (
        (builder().set_topic("out").set_value_serialization_schema(string).build(), False),
        (builder().set_topic("out").set_value_serialization_schema(Marked()).build(), False),
        (builder().set_topic("o").set_value_serialization_schema(string).set_partitioner(ByLength()).build(), True),
        (
            builder()
            .set_topic("o")
            .set_value_serialization_schema(string)
            .set_key_serialization_schema(Marked())
            .build(),
            True,
        ),
        (Whole(), True),
    ):
        stream.sink_to(sink(serializer)).name("out")
        (planned,) = env._job("test").sinks
        assert planned.spec.keyed is keyed


def test_builders_say_what_is_missing():
    with pytest.raises(OptionsError) as error:
        builder().build()
    assert [problem.key for problem in error.value.problems] == ["set_topic", "set_value_serialization_schema"]
    twice = builder().set_topic("a").set_topic_selector(len).set_value_serialization_schema(SimpleStringSchema())
    with pytest.raises(OptionsError, match="cannot be combined with set_topic"):
        twice.build()
    for call in (
        lambda: builder().set_topic_selector("out"),
        lambda: builder().set_partitioner(1),
        lambda: builder().set_header_provider({}),
        lambda: KafkaSink.builder().set_record_serializer(SimpleStringSchema()),
    ):
        with pytest.raises(UnsupportedError):
            call()


def test_a_program_with_schemas_compares(env):
    schema, target = Described(), sink(builder().set_topic("o").set_value_serialization_schema(Marked()).build())

    def job():
        read = source(KafkaRecordDeserializationSchema.of(schema))
        env.from_source(read, WatermarkStrategy.no_watermarks(), "in").sink_to(target).name("out")
        return env._job("test")

    assert job() == job()


def test_schemas_of_java_and_without_methods_are_refused():
    with pytest.raises(UnsupportedError, match="j_deserialization_schema"):
        DeserializationSchema(object())
    with pytest.raises(UnsupportedError, match="j_serialization_schema"):
        SerializationSchema(object())
    for call in (
        lambda: DeserializationSchema().deserialize(b""),
        lambda: SerializationSchema().serialize(1),
        lambda: KafkaDeserializationSchema().deserialize(None),
        lambda: KafkaSerializationSchema().serialize(1, None),
    ):
        with pytest.raises(NotImplementedError, match="has no method"):
            call()
