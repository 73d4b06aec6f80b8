"""Programs with PyFlink's names on Spark and Kafka."""

from __future__ import annotations

import gc
import os
import re
import warnings

import pytest

from penstock.cli.main import main
from penstock.common import (
    Configuration,
    JobStatus,
    RestartStrategies,
    Row,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
    call_arrow,
)
from penstock.common.time import Duration
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkGenerator
from penstock.datastream import (
    CoMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    JSONKeyValueDeserializationSchema,
    KafkaDeserializationSchema,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSerializationSchema,
    KafkaSink,
    KafkaSource,
    ProducerRecord,
    Semantic,
)
from penstock.datastream.formats.json import JsonRowSerializationSchema
from penstock.errors import FunctionError, PenstockError
from tests.waiting import eventually


@pytest.fixture
def env(tmp_path):
    """An environment whose checkpoints are the test's own; it restarts nothing."""
    configuration = Configuration().set_string("execution.checkpointing.dir", str(tmp_path))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(100)
    env.set_restart_strategy(RestartStrategies.no_restart())
    return env


@pytest.fixture
def reads(env, kafka):
    """Streams of the strings in topics, as far as there are any now."""

    def read(*topics, strategy=None, bounded=True):
        source = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(*topics)
        source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_value_only_deserializer(
            SimpleStringSchema()
        )
        if bounded:
            source.set_bounded(KafkaOffsetsInitializer.latest())
        name = "-".join(("source", *(each[-8:] for each in topics)))
        return env.from_source(source.build(), strategy or WatermarkStrategy.no_watermarks(), name)

    return read


@pytest.fixture
def sink(kafka):
    """Sinks of strings."""

    def make(topic, guarantee=DeliveryGuarantee.AT_LEAST_ONCE):
        serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
        serializer = serializer.set_value_serialization_schema(SimpleStringSchema()).build()
        sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(serializer)
        return sink.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"tx-{topic}").build()

    return make


def produce(kafka, topic, values, start=1_700_000_000_000, partition=-1):
    """Strings, each with a timestamp a second after the one before."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=partition, timestamp=start + 1000 * number)
    assert producer.flush(60) == 0


def texts(topics, topic):
    return sorted((message.value.decode(), message.timestamp) for message in topics.read(topic))


class Shout(MapFunction):
    def open(self, runtime_context):
        self.mark = runtime_context.get_job_parameter("mark", "!")

    def map(self, value):
        return value + self.mark


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_functions_change_records_that_keep_their_timestamps(env, reads, sink, kafka, topics, topic, guarantee):
    given, taken = topic(2), topic(2)
    produce(kafka, given, ["a", "b c", "x"])
    env.get_config().set_global_job_parameters({"mark": "?"})
    words = reads(given).filter(lambda text: text != "x").flat_map(str.split, Types.STRING())
    words.map(Shout(), Types.STRING()).sink_to(sink(taken, guarantee)).name("out")
    result = env.execute("shout")
    assert texts(topics, taken) == [("a?", 1_700_000_000_000), ("b?", 1_700_000_001_000), ("c?", 1_700_000_001_000)]
    assert (result.progress.records_in, result.progress.records_out) == (3, 3)
    assert len(str(result.get_job_id())) == 32


def test_the_former_producer_writes_timestamps_when_it_is_told_to(env, reads, kafka, topics, topic):
    given, kept, lost = topic(), topic(), topic()
    produce(kafka, given, ["a"])
    stream = reads(given)
    for name, each, keeps in (("kept", kept, True), ("lost", lost, False)):
        producer = FlinkKafkaProducer(
            each, SimpleStringSchema(), {"bootstrap.servers": kafka.bootstrap}, semantic=Semantic.AT_LEAST_ONCE
        )
        stream.add_sink(producer.set_write_timestamp_to_kafka(keeps)).name(name)
    env.execute("copies")
    assert texts(topics, kept) == [("a", 1_700_000_000_000)]
    ((value, at),) = texts(topics, lost)
    assert value == "a"
    assert at > 1_750_000_000_000


@pytest.mark.filterwarnings("ignore:set_auto_watermark_interval")
@pytest.mark.parametrize("times", [TimeCharacteristic.ProcessingTime, TimeCharacteristic.IngestionTime])
def test_other_times_than_that_of_events(env, reads, sink, kafka, topics, topic, times):
    given, taken = topic(), topic()
    produce(kafka, given, ["a"])
    env.set_stream_time_characteristic(times)

    class Timed(ProcessFunction):
        def process_element(self, value, ctx):
            yield "none" if ctx.timestamp() is None else "now" if ctx.timestamp() > 1_750_000_000_000 else "then"

    reads(given).process(Timed(), Types.STRING()).sink_to(sink(taken))
    env.execute("times")
    ((value, at),) = texts(topics, taken)
    assert value == ("none" if times is TimeCharacteristic.ProcessingTime else "now")
    assert at > 1_750_000_000_000


class Field(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value) * 1000 + record_timestamp % 1000


def test_an_assigner_s_timestamps_are_seen_and_written(env, reads, sink, kafka, topics, topic):
    given, taken = topic(), topic()
    produce(kafka, given, ["5", "7"], start=1_700_000_000_123)

    class Timed(ProcessFunction):
        def process_element(self, value, ctx):
            yield f"{value} at {ctx.timestamp()}"

    stream = reads(given, strategy=WatermarkStrategy.no_watermarks().with_timestamp_assigner(Field()))
    stream.process(Timed(), Types.STRING()).sink_to(sink(taken))
    env.execute("assigned")
    assert texts(topics, taken) == [("5 at 5123", 5123), ("7 at 7123", 7123)]


class Marks(WatermarkGenerator):
    """The watermark is the last value that ends with "!"."""

    def on_event(self, event, event_timestamp, output):
        if event.endswith("!"):
            output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output):
        """Nothing: values tell the watermark."""


class Lagging(WatermarkGenerator):
    def __init__(self):
        self.newest = -(2**63)

    def on_event(self, event, event_timestamp, output):
        self.newest = max(self.newest, event_timestamp)

    def on_periodic_emit(self, output):
        output.emit_watermark(self.newest - 2000)


class Number(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value.rstrip("!")) * 1000


class Custom(WatermarkStrategy):
    def create_watermark_generator(self):
        return Lagging()

    def create_timestamp_assigner(self):
        return Number()


class Seen(ProcessFunction):
    def process_element(self, value, ctx):
        yield f"{value} after {ctx.timer_service().current_watermark()}"


BEFORE = -(2**63)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (WatermarkStrategy.no_watermarks().with_timestamp_assigner(Number()), BEFORE),
        (WatermarkStrategy.for_monotonous_timestamps(), 1_700_000_000_999),
        (WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Number()), 6_999),
        (
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2)).with_timestamp_assigner(Number()),
            4_999,
        ),
        (WatermarkStrategy.for_generator(Marks).with_timestamp_assigner(Number()), 5_000),
        (WatermarkStrategy.for_generator(Lagging), 1_699_999_999_000),
        (Custom(), 5_000),
    ],
    ids=["none", "record's", "assigned", "lagging", "punctuated", "periodic", "own class"],
)
@pytest.mark.parametrize("at_source", [True, False])
def test_process_functions_see_the_watermarks_of_a_strategy(
    env, reads, sink, kafka, topics, topic, strategy, expected, at_source
):
    """The smallest of the partitions', when a batch is planned."""
    given, taken = topic(2), topic()
    for partition, values in enumerate([["5!", "7"], ["8!", "9"]]):
        produce(kafka, given, values, partition=partition)
    stream = reads(given, strategy=strategy if at_source else None, bounded=False)
    if not at_source:
        stream = stream.map(lambda value: value, Types.STRING()).assign_timestamps_and_watermarks(strategy)
    stream.process(Seen(), Types.STRING()).sink_to(sink(taken))
    client = env.execute_async("watermarks")

    def await_records(count):
        eventually(lambda: client.wait(0) or len(texts(topics, taken)) == count)

    await_records(4)
    assert {value.partition(" after ")[2] for value, _ in texts(topics, taken)} == {str(BEFORE)}
    produce(kafka, given, ["1"], partition=0)
    await_records(5)
    client.cancel().result()
    (last,) = (value for value, _ in texts(topics, taken) if value.startswith("1 "))
    assert last == f"1 after {expected}"


LATE = OutputTag("late", Types.STRING())


class Route(ProcessFunction):
    def process_element(self, value, ctx):
        if value.startswith("late"):
            yield LATE, f"{value} {ctx.timestamp()}"
        else:
            yield value


def test_side_outputs_and_unions_go_to_their_topics(env, reads, sink, kafka, topics, topic):
    first, second, main, late, all_of_them = topic(), topic(), topic(), topic(), topic()
    produce(kafka, first, ["a", "late b"])
    produce(kafka, second, ["c"], start=1_600_000_000_000)
    stream = reads(first)
    routed = stream.union(reads(second)).process(Route(), Types.STRING())
    routed.sink_to(sink(main)).name("main")
    routed.get_side_output(LATE).sink_to(sink(late)).name("late")
    env.from_collection(["z"], Types.STRING()).union(stream).map(str.upper, Types.STRING()).sink_to(sink(all_of_them))
    env.execute("routes")
    assert texts(topics, main) == [("a", 1_700_000_000_000), ("c", 1_600_000_000_000)]
    assert texts(topics, late) == [("late b 1700000001000", 1_700_000_001_000)]
    assert [value for value, _ in texts(topics, all_of_them)] == ["A", "LATE B", "Z"]


class Both(CoMapFunction):
    def map1(self, value):
        return f"1{value}"

    def map2(self, value):
        return f"2{value}"


def test_a_stream_is_collected(env):
    numbers = env.from_collection([1, 2, 3], Types.LONG())
    pairs = numbers.connect(env.from_collection(["a"], Types.STRING())).map(Both(), Types.STRING())
    with pairs.execute_and_collect("collected") as found:
        assert sorted(found) == ["11", "12", "13", "2a"]
    assert sorted(numbers.map(lambda number: {number}).execute_and_collect("sets", limit=2), key=str) == [{1}, {2}]
    kind = Types.ROW_NAMED(["n", "m"], [Types.LONG(), Types.MAP(Types.STRING(), Types.INT())])
    rows = numbers.map(lambda number: Row(number, {"a": number}), kind)
    assert [(row.n, row.m) for row in rows.execute_and_collect("rows")] == [(n, {"a": n}) for n in (1, 2, 3)]
    made = numbers.map(call_arrow(lambda array: array.cast("string")), Types.STRING())
    assert list(made.execute_and_collect("arrays")) == ["1", "2", "3"]
    frozen = numbers.map(lambda _: gc.get_freeze_count(), Types.LONG())
    assert min(frozen.execute_and_collect("frozen")) > 100_000  # collections leave out what all workers share


def test_a_job_is_watched_and_ended_by_its_handle(env, reads, sink, kafka, topics, topic):
    given, taken = topic(), topic()
    produce(kafka, given, ["a"])
    reads(given, bounded=False).map(str.upper, Types.STRING()).sink_to(sink(taken)).name("out")
    client = env.execute_async("watched")
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert not client.wait(0)
    eventually(lambda: [value for value, _ in texts(topics, taken)] == ["A"])
    eventually(lambda: client.metrics.get("operator.out.numRecordsOut") == 1)
    location = client.stop_with_savepoint(False).result()
    assert location.endswith("/watched")
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert client.get_job_execution_result().result().stopped

    reads(given, bounded=False).map(str.upper, Types.STRING()).sink_to(sink(taken)).name("out")
    produce(kafka, given, ["b"])
    again = env.execute_async("watched")
    assert again.get_job_id() == client.get_job_id()
    eventually(lambda: [value for value, _ in texts(topics, taken)] == ["A", "B"])
    again.cancel().result()
    assert again.get_job_status().result() is JobStatus.CANCELED


def fails_for_b(text):
    if text == "b":
        raise LookupError("no such letter")
    return text


def test_a_function_that_fails_names_topic_partition_and_offset(env, reads, sink, kafka, topic):
    given = topic()
    produce(kafka, given, ["a", "b"])
    reads(given).map(fails_for_b, Types.STRING()).sink_to(sink(topic())).name("out")
    client = env.execute_async("failing")
    with pytest.raises(FunctionError, match=r"the function raised LookupError .*: no such letter") as error:
        client.get_job_execution_result().result()
    assert (error.value.topic, error.value.partition, error.value.offset) == (given, 0, 1)
    assert client.get_job_status().result() is JobStatus.FAILED


def test_a_function_that_fails_once_is_called_again_after_a_restart(env, reads, sink, kafka, topics, topic, tmp_path):
    given, taken, marker = topic(), topic(), tmp_path / "failed"
    produce(kafka, given, ["a"])

    def fails_once(text):
        if not marker.exists():
            marker.touch()
            raise OSError("the service is away")
        return text

    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 10))
    reads(given).map(fails_once, Types.STRING()).sink_to(sink(taken, DeliveryGuarantee.EXACTLY_ONCE)).name("out")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="job 'recovering': restart 1")
        result = env.execute("recovering")
    assert texts(topics, taken) == [("a", 1_700_000_000_000)]
    assert result.progress.restarts == 1


class Described(KafkaDeserializationSchema):
    def deserialize(self, record):
        if record.value == b"skipped":
            return None
        return f"{record.topic} {record.key} {record.value} {record.headers} {record.timestamp}"

    def get_produced_type(self):
        return Types.STRING()


class Whole(KafkaSerializationSchema):
    """Records with a key, a header and a time of their own, in partition 1, in a topic that the value names."""

    def serialize(self, element, timestamp):
        topic, _, text = element.partition(" ")
        return ProducerRecord(
            f"{topic}-out", text.encode(), b"k", partition=1, timestamp=timestamp + 1, headers={"h": b"x"}
        )


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.EXACTLY_ONCE])
def test_whole_records_are_read_and_made_in_python(env, kafka, kafka_admin, topics, topic, guarantee):
    from confluent_kafka import Producer

    given = topic()
    taken = f"{given}-out"
    kafka_admin.create_topics({taken: {"num_partitions": 2, "replication_factor": 1}})
    kafka_admin.wait_for_topics([taken], 60_000)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in (b"a", b"skipped", None):
        producer.produce(given, value, key=b"k", headers=[("n", b"1")], timestamp=1_700_000_000_000)
    assert producer.flush(60) == 0
    source = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap).set_topics(given)
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
    source.set_deserializer(KafkaRecordDeserializationSchema.of(Described()))
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(Whole())
    sink.set_delivery_guarantee(guarantee).set_transactional_id_prefix(f"tx-{taken}")
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "records")
    stream.sink_to(sink.build()).name("out")
    env.execute("whole")
    found = topics.read(taken)
    assert [(each.partition, each.key, each.headers, each.timestamp) for each in found] == [
        (1, b"k", (("h", b"x"),), 1_700_000_000_001)
    ] * 2
    assert [each.value.decode() for each in found] == [
        f"b'k' {value} (('n', b'1'),) 1700000000000" for value in ("b'a'", "None")
    ]


def test_topics_keys_headers_and_partitions_are_chosen_by_value(env, kafka, topics, topic):
    first, second = topic(3), topic(3)
    kind = Types.ROW_NAMED(["id", "topic"], [Types.LONG(), Types.STRING()])
    rows = JsonRowSerializationSchema.builder().with_type_info(kind).build()
    serializer = KafkaRecordSerializationSchema.builder().set_topic_selector(lambda row: row.topic)
    serializer.set_value_serialization_schema(rows).set_header_provider(lambda row: {"id": str(row.id).encode()})
    serializer.set_partitioner(lambda row, key, value, topic, partitions: partitions[row.id % 3])
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap).set_record_serializer(serializer.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(f"tx-{first}")
    env.from_collection([(n, first if n < 3 else second) for n in range(6)], kind).sink_to(sink.build()).name("out")
    env.execute("chosen")
    for each, numbers in ((first, range(3)), (second, range(3, 6))):
        found = [(message.partition, message.json["id"], message.headers) for message in topics.read(each)]
        assert found == [(n % 3, n, (("id", str(n).encode()),)) for n in numbers]


def test_the_former_classes_copy_a_topic_and_commit(env, kafka, topics, topic):
    given, taken = topic(), topic()
    topics.write(given, [b'{"a": 1}', b'{"a": 2}'])
    properties = {"bootstrap.servers": kafka.bootstrap, "group.id": f"group-{given}", "auto.offset.reset": "earliest"}
    consumer = FlinkKafkaConsumer(re.compile(re.escape(given)), JSONKeyValueDeserializationSchema(True), properties)
    producer = FlinkKafkaProducer(taken, SimpleStringSchema(), {"bootstrap.servers": kafka.bootstrap})
    stream = env.add_source(consumer, "in").map(
        lambda found: f"{found['value']['a']} at {found['metadata']['offset']}", Types.STRING()
    )
    stream.add_sink(producer).name("out")
    client = env.execute_async("former")
    eventually(lambda: [each.value for each in topics.read(taken)] == [b"1 at 0", b"2 at 1"])
    eventually(lambda: committed(kafka, f"group-{given}", given) == 2)
    client.cancel().result()


def committed(kafka, group, topic):
    """The offset that a group has committed for the first partition of a topic."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], 60)
        return found.offset
    finally:
        consumer.close()


def example(name, monkeypatch, kafka, prefix):
    """The program of an example, as a module."""
    import runpy
    from pathlib import Path

    monkeypatch.setenv("BOOTSTRAP", kafka.bootstrap)
    monkeypatch.setenv("TOPIC_PREFIX", prefix)
    monkeypatch.setenv("CHECKPOINTS", os.environ["XDG_STATE_HOME"])
    return runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))


@pytest.fixture
def prefix(topic, kafka_admin, tmp_path, monkeypatch):
    """Makes topics with a prefix that no other test has, and returns it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    name = f"{topic()}-"

    def make(*names, partitions=1):
        wanted = {f"{name}{each}": {"num_partitions": partitions, "replication_factor": 1} for each in names}
        kafka_admin.create_topics(wanted)
        kafka_admin.wait_for_topics(list(wanted), 60_000)
        return name

    return make


@pytest.mark.filterwarnings("ignore:checkpointing is off")
def test_the_example_of_sources(prefix, monkeypatch, kafka, topics):
    name = prefix("input-topic", "other-topic", "topic-a", "read")
    prefix("topic-b", partitions=6)
    for each, value in (("input-topic", "one"), ("other-topic", "four"), ("topic-a", "two")):
        produce(kafka, f"{name}{each}", [value])
    produce(kafka, f"{name}topic-b", ["other"], partition=0)
    produce(kafka, f"{name}topic-b", ["three"], partition=5)
    example("pyflink_source", monkeypatch, kafka, name)["main"]()
    assert texts(topics, f"{name}read") == [
        ("four", 1_700_000_000_000),
        ("offset 0, 0 headers: three", 1_700_000_000_000),
        ("offset 0, 0 headers: two", 1_700_000_000_000),
        ("one", 1_700_000_000_000),
        ("other", 1_700_000_005_000),
        ("three", 1_700_000_005_000),
        ("two", 1_700_000_003_000),
    ]


def test_the_example_s_sources_begin_where_they_are_told(env, prefix, monkeypatch, kafka, topics):
    name = prefix("input-topic")
    produce(kafka, f"{name}input-topic", ["then"], start=1_500_000_000_000)
    produce(kafka, f"{name}input-topic", ["later"])
    module = example("pyflink_source", monkeypatch, kafka, name)

    def values(start):
        source = module["source"]().set_topics(f"{name}input-topic").set_starting_offsets(module["starts"]()[start])
        built = source.set_value_only_deserializer(SimpleStringSchema()).build()
        stream = env.from_source(built, WatermarkStrategy.no_watermarks(), start.replace(" ", "-"))
        return list(stream.execute_and_collect(f"{name}{start.replace(' ', '-')}"))

    with pytest.raises(PenstockError, match="offset"):
        values("group")
    assert values("latest") == []
    assert values("time") == ["later"]
    assert values("earliest") == ["then", "later"]
    assert values("group") == []
    produce(kafka, f"{name}input-topic", ["new"])
    assert values("group or earliest") == ["new"]


def until_stopped(module, made):
    """Runs the program of an example until ``made`` is true."""
    from penstock.datastream import execution

    collected = []
    with execution.runner(collected.append):
        module["main"]()
    running = execution.start(collected[0])
    try:
        eventually(made)
    finally:
        running.stop()


def test_the_example_of_the_former_classes(prefix, monkeypatch, kafka, topics):
    name = prefix("test-topic-1", "other-topic-1", "my-topic")
    prefix("topic", partitions=3)
    for partition, values in enumerate((["skipped", "one"], ["skipped", "skipped", "four"], ["five"])):
        produce(kafka, f"{name}topic", values, partition=partition)
    produce(kafka, f"{name}test-topic-1", ["two"])
    produce(kafka, f"{name}other-topic-1", ["three"])
    first = 1_700_000_000_000
    wanted = [("five", first), ("four", first + 2000), ("one", first + 1000), ("two", first)]
    module = example("pyflink_consumer", monkeypatch, kafka, name)
    until_stopped(module, lambda: texts(topics, f"{name}my-topic") == wanted)


@pytest.mark.parametrize(
    ("start", "wanted"), [("earliest", ["a", "b"]), ("time", ["b"]), ("latest", []), ("group", [])]
)
def test_the_example_s_former_consumers_begin_where_they_are_told(
    env, prefix, monkeypatch, kafka, topics, start, wanted
):
    name = prefix("topic", "read")
    produce(kafka, f"{name}topic", ["a", "b"])
    module = example("pyflink_consumer", monkeypatch, kafka, name)
    producer = FlinkKafkaProducer(f"{name}read", SimpleStringSchema(), {"bootstrap.servers": kafka.bootstrap})
    env.add_source(module["starting"](start), "in").add_sink(producer).name("out")
    client = env.execute_async(f"{name}{start}")
    eventually(lambda: client.metrics.get("operator.in.pendingRecords") == 0)
    produce(kafka, f"{name}topic", ["new"], start=1_700_000_005_000)
    eventually(lambda: [value for value, _ in texts(topics, f"{name}read")] == [*wanted, "new"])
    client.cancel().result()


def test_the_example_of_a_sink_finds_new_topics(prefix, monkeypatch, kafka, topics):
    name = prefix("input-1", "my-topic")
    produce(kafka, f"{name}input-1", ["one"])
    given = ["ONE"]

    def made():
        if [value for value, _ in texts(topics, f"{name}my-topic")] != given:
            return False
        if len(given) == 1:
            produce(kafka, f"{name}input-2", ["two"])
            given.append("TWO")
            return False
        return True

    until_stopped(example("pyflink_sink", monkeypatch, kafka, name), made)


def test_the_example_of_a_sink_logs_in(monkeypatch, tmp_path):
    from penstock_testing.services import KafkaCluster, Security
    from tests.spark.conftest import Topics

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("USERNAME", "anna")
    monkeypatch.setenv("PASSWORD", "hush")
    with KafkaCluster(security=Security("SASL_PLAINTEXT", "PLAIN", {"anna": "hush"})) as cluster:
        topics = Topics(cluster.plain_bootstrap)
        topics.write("input-1", [b"one"])
        module = example("pyflink_sink", monkeypatch, cluster, "")
        until_stopped(module, lambda: [value for value, _ in texts(topics, "my-topic")] == ["ONE"])


@pytest.mark.filterwarnings("ignore:source 'present-source' continues:UserWarning")
@pytest.mark.filterwarnings("ignore:the state of .* is left out:UserWarning")
@pytest.mark.parametrize("way", ["same name", "other name", "savepoint"])
def test_a_job_is_upgraded_to_todays_source(prefix, monkeypatch, kafka, topics, tmp_path, way):
    """The recipe of docs/upgrading.md."""
    name = prefix("in", "out")
    module = example("pyflink_upgrade", monkeypatch, kafka, name)

    def run(upgraded, job_name, savepoint, wanted):
        program = {"main": lambda: module["main"](upgraded, job_name, savepoint)}
        until_stopped(program, lambda: [value for value, _ in texts(topics, f"{name}out")] == wanted)

    produce(kafka, f"{name}in", ["a", "b"])
    run(False, f"{name}job", "", ["A", "B"])
    savepoint = str(tmp_path / "savepoint") if way == "savepoint" else ""
    if savepoint:
        assert main(["savepoint", f"{name}job", savepoint]) == 0
    produce(kafka, f"{name}in", ["c"])
    run(True, f"{name}job" if way == "same name" else f"{name}other", savepoint, ["A", "B", "C"])


@pytest.mark.filterwarnings("ignore:.* has no effect here:UserWarning")
def test_the_example_of_an_environment(prefix, monkeypatch, kafka, topics):
    name = prefix("words")
    example("pyflink_environment", monkeypatch, kafka, name)["main"]()
    assert [text for text, _ in texts(topics, f"{name}words")] == ["be", "not", "or", "to"]
