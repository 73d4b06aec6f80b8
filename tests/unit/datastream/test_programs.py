"""Programs as plans: their JSON, the parallelism of their ends, uids, timestamps, handles."""

from __future__ import annotations

import json
import threading

import pytest

from penstock.common import JobStatus, SimpleStringSchema, Types, WatermarkStrategy, call_sql
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import MapFunction, ProcessFunction, StreamExecutionEnvironment, TimeCharacteristic, execution
from penstock.datastream.connectors.kafka import (
    FlinkKafkaProducer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.connectors.values import ValuesSink
from penstock.errors import DefinitionError, OptionsError, UnsupportedError
from penstock.plan.nodes import Job, Project, Scan

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.fixture
def env():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    return env


@pytest.fixture
def orders(env):
    built = KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_topics("orders")
    source = built.set_value_only_deserializer(SimpleStringSchema()).build()
    return lambda strategy=None: env.from_source(source, strategy or WatermarkStrategy.no_watermarks(), "orders")


def kafka():
    serializer = KafkaRecordSerializationSchema.builder().set_topic("out")
    serializer.set_value_serialization_schema(SimpleStringSchema())
    return KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(serializer.build()).build()


class Shout(MapFunction):
    def map(self, value):
        return value + "!"


# --- the plan as JSON ----------------------------------------------------------------------------------------


def test_the_plan_has_flink_s_shape(env, orders):
    numbers = env.from_collection(["a"], Types.STRING())
    both = orders().map(Shout(), Types.STRING()).name("shout").union(numbers)
    both.rebalance().filter(bool).set_description("what is not empty").sink_to(kafka()).name("out")
    both.print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert nodes[:4] == [
        {"id": 1, "type": "Source: orders", "pact": "Data Source", "contents": "Source: orders", "parallelism": 2},
        {
            "id": 2,
            "type": "shout",
            "pact": "Operator",
            "contents": "shout",
            "parallelism": 2,
            "predecessors": [{"id": 1, "ship_strategy": "FORWARD", "side": "second"}],
        },
        {
            "id": 3,
            "type": "Source: Collection Source",
            "pact": "Data Source",
            "contents": "Source: Collection Source",
            "parallelism": 1,
        },
        {
            "id": 4,
            "type": "Filter",
            "pact": "Operator",
            "contents": "what is not empty",
            "parallelism": 2,
            "predecessors": [
                {"id": 2, "ship_strategy": "REBALANCE", "side": "second"},
                {"id": 3, "ship_strategy": "REBALANCE", "side": "second"},
            ],
        },
    ]
    assert [(node["type"], node["pact"]) for node in nodes[4:]] == [
        ("Sink: out", "Data Sink"),
        ("Sink: PrintTo", "Data Sink"),
    ]
    assert nodes[5]["predecessors"] == [
        {"id": 2, "ship_strategy": "FORWARD", "side": "second"},
        {"id": 3, "ship_strategy": "REBALANCE", "side": "second"},
    ]


def test_a_program_without_a_sink_has_no_plan(env, orders):
    orders()
    with pytest.raises(DefinitionError, match="writes nothing"):
        env.get_execution_plan()


# --- steps that are described --------------------------------------------------------------------------------


def test_the_parallelism_of_sources_and_sinks_bounds_their_tasks(env, orders):
    orders().set_parallelism(3).sink_to(kafka()).set_parallelism(4)
    (sink,) = env.to_job().sinks
    assert (sink.input.spec.options.parallelism, sink.spec.options.parallelism) == (3, 4)
    assert [node["parallelism"] for node in json.loads(env.get_execution_plan())["nodes"]] == [3, 4]
    with pytest.raises(OptionsError, match="1 or more"):
        orders().set_parallelism(0)


def test_names_and_uids_are_those_of_steps_that_were_made_before(env, orders):
    stream = orders()
    assert stream.uid("the-orders") is stream
    made = stream.map(Shout(), Types.STRING())
    made.name("shout").uid("the-shout")
    assert (made.get_name(), stream.get_name()) == ("shout", "orders")
    made.sink_to(kafka()).uid("the-sink").name("out")
    (sink,) = env.to_job().sinks
    assert (sink.uid, sink.input.uid, sink.input.input.uid) == ("the-sink", "the-shout", "the-orders")


def test_uids_may_be_demanded(env, orders):
    env.get_config().disable_auto_generated_uids()
    orders().map(Shout(), Types.STRING()).sink_to(kafka()).name("out").uid("sink")
    with pytest.raises(DefinitionError, match="step 'orders': has no uid") as error:
        env.to_job()
    assert len(error.value.problems) == 1
    env.get_config().enable_auto_generated_uids()
    env.to_job()


# --- timestamps ----------------------------------------------------------------------------------------------


def columns(env):
    """The columns of each sink's table, and of the scans that feed it."""
    found = []
    for sink in env._job("test").sinks:
        node = sink.input
        while not isinstance(node, Scan):
            node = node.input
        found.append((sink.schema.names, node.schema.names))
    return found


def test_timestamps_are_read_where_something_is_done_with_them(env, orders):
    orders().sink_to(ValuesSink())
    assert columns(env) == [(("f0",), ("f0",))]
    orders().sink_to(kafka())
    assert columns(env) == [(("f0", "__timestamp"), ("f0", "__timestamp"))]
    orders().add_sink(FlinkKafkaProducer("out", SimpleStringSchema(), SERVERS))
    assert columns(env) == [(("f0",), ("f0",))]
    orders().add_sink(FlinkKafkaProducer("out", SimpleStringSchema(), SERVERS).set_write_timestamp_to_kafka(True))
    assert columns(env) == [(("f0", "__timestamp"), ("f0", "__timestamp"))]
    both = orders()
    both.sink_to(kafka())
    both.sink_to(ValuesSink())
    assert columns(env) == [
        (("f0", "__timestamp"), ("f0", "__timestamp")),
        (("f0",), ("f0", "__timestamp")),
    ]


class Timed(ProcessFunction):
    def process_element(self, value, ctx):
        yield str(ctx.timestamp())


class Length(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return len(value)


@pytest.mark.filterwarnings("ignore:set_auto_watermark_interval")
def test_a_time_characteristic_decides_whose_timestamps_there_are(env, orders):
    orders().process(Timed(), Types.STRING()).sink_to(ValuesSink())
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert columns(env) == [(("f0",), ("f0",))]
    orders().sink_to(kafka())
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    ((sink,),) = (env.to_job().sinks,)
    assert isinstance(sink.input, Project)
    assert sink.schema.names == ("f0", "__timestamp")
    assert columns(env) == [(("f0", "__timestamp"), ("f0",))]


def test_sql_passes_timestamps_on(env, orders):
    orders().filter(call_sql("f0 <> ''")).map(call_sql("UPPER(f0)")).sink_to(kafka())
    assert columns(env) == [(("f0", "__timestamp"), ("f0", "__timestamp"))]


def test_an_assigner_takes_the_place_of_the_source_s_watermarks(env, orders):
    bounded = WatermarkStrategy.for_monotonous_timestamps()
    assert orders(bounded)._step.table.watermark is not None
    stream = orders(bounded.with_timestamp_assigner(Length()))
    assert stream._step.inputs[0].table.watermark is None
    stream.sink_to(kafka())
    assert columns(env) == [(("f0", "__timestamp"), ("f0", "__timestamp"))]
    env.from_collection(["a"], Types.STRING()).assign_timestamps_and_watermarks(
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(Length())
    ).sink_to(kafka())
    assert columns(env) == [(("f0", "__timestamp"), ("f0",))]


# --- handles -------------------------------------------------------------------------------------------------


def test_a_handle_of_a_job_that_another_runs(env):
    env.from_collection([1], Types.INT()).print()
    begin, jobs = threading.Event(), []

    def run(job: Job):
        begin.wait(60)
        jobs.append(job)

    with execution.runner(run):
        client = env.execute_async("handed")
    assert client.get_job_status().result() is JobStatus.RUNNING
    assert not client.wait(0)
    begin.set()
    assert client.wait()
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert [job.name for job in jobs] == ["handed"]
    assert client.get_accumulators().result() == {}
    client.cancel().result()
    for refused in (
        lambda: client.trigger_savepoint().result(),
        lambda: client.stop_with_savepoint(True),
        lambda: client.stop_with_savepoint(False, "/savepoints").result(),
    ):
        with pytest.raises(UnsupportedError):
            refused()


def test_a_handle_of_a_job_that_another_failed_to_run(env):
    env.from_collection([1], Types.INT()).print()

    def run(job: Job):
        raise OptionsError("no")

    with execution.runner(run):
        client = env.execute_async("handed")
    with pytest.raises(OptionsError, match="no"):
        client.get_job_execution_result().result()
    assert client.get_job_status().result() is JobStatus.FAILED


def test_what_the_environment_refuses(env):
    for call in (
        lambda: env.read_text_file("a"),
        lambda: env.create_input(object()),
        lambda: env.add_python_file("a"),
        lambda: env.add_python_archive("a"),
        lambda: env.set_python_requirements("a"),
        lambda: env.set_python_executable("a"),
        lambda: env.register_cached_file("a", "b"),
    ):
        with pytest.raises(UnsupportedError, match="is not supported yet"):
            call()
    env.close()
