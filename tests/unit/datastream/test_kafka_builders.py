"""Kafka builders say what tables say."""

from __future__ import annotations

import pickle
import re
from datetime import timedelta

import pytest

from penstock.common import (
    Configuration,
    Duration,
    RestartStrategies,
    Row,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
    call_sql,
)
from penstock.datastream import CheckpointingMode, StreamExecutionEnvironment, execution
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
    OffsetsInitializer,
    Semantic,
)
from penstock.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from penstock.errors import DefinitionError, OptionsError, SchemaError, UnsupportedError
from penstock.plan.guarantees import check_guarantees
from penstock.plan.nodes import Filter, Job, MapRows, Project, Scan
from penstock.settings import FailureRate, FixedDelay
from penstock.spi import Watermark, connectors

ORDER = Types.ROW_NAMED(["id", "item"], [Types.LONG(), Types.STRING()])


def source():
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("localhost:9092")
        .set_topics("orders", "returns")
        .set_value_only_deserializer(SimpleStringSchema())
    )


def sink(schema=None, key=None):
    serializer = KafkaRecordSerializationSchema.builder().set_topic("out")
    serializer.set_value_serialization_schema(schema or SimpleStringSchema())
    if key is not None:
        serializer.set_key_serialization_schema(key)
    return KafkaSink.builder().set_bootstrap_servers("localhost:9092").set_record_serializer(serializer.build())


def spec(builder):
    return connectors.get("kafka").scan(builder.build().table("orders"))


def stream(env: StreamExecutionEnvironment, built=None):
    return env.from_source((built or source()).build(), WatermarkStrategy.no_watermarks(), "orders")


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def test_a_string_source_is_the_raw_format_with_one_column():
    found = spec(source().set_group_id("billing"))

    assert found.value.identifier == "raw"
    assert found.produced.names == ("f0",)
    assert found.options.topic == ("orders", "returns")
    assert (found.group_id, found.commits) == ("billing", True)


@pytest.mark.parametrize(
    ("initializer", "mode", "reset"),
    [
        (KafkaOffsetsInitializer.earliest(), "earliest-offset", "none"),
        (KafkaOffsetsInitializer.latest(), "latest-offset", "none"),
        (KafkaOffsetsInitializer.timestamp(1592323200000), "timestamp", "none"),
        (KafkaOffsetsInitializer.committed_offsets(), "group-offsets", "none"),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), "group-offsets", "latest"),
        (OffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 42}), "specific-offsets", "earliest"),
    ],
)
def test_every_start_is_a_startup_mode(initializer, mode, reset):
    found = spec(source().set_group_id("g").set_starting_offsets(initializer))

    assert found.options.startup_mode.value == mode
    assert found.reset.value == reset


def test_offsets_of_several_topics_keep_their_topics():
    offsets = {KafkaTopicPartition("returns", 1): 7, KafkaTopicPartition("orders", 0): 42}
    found = spec(source().set_starting_offsets(KafkaOffsetsInitializer.offsets(offsets)))

    assert found.options.startup_offsets == ((("orders", 0), 42), (("returns", 1), 7))


def test_an_initializer_overrides_the_reset_property():
    given = source().set_group_id("g").set_property("auto.offset.reset", "latest")

    assert spec(given).reset.value == "latest"
    with pytest.warns(UserWarning, match="'auto.offset.reset' is overridden, as in Flink: .* says none"):
        assert spec(given.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())).reset.value == "none"
    strategy = KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST)
    assert spec(given.set_starting_offsets(strategy)).reset.value == "latest"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
        ("value.deserializer", "x"),
        ("auto.offset.reset.strategy", "latest"),
        ("partition.discovery.interval.ms", "1000"),
    ],
)
def test_what_flink_overrides_is_overridden_with_a_warning(key, value):
    given = source().set_property(key, value).set_bounded(KafkaOffsetsInitializer.latest())
    with pytest.warns(UserWarning, match=f"the property '{key}' is overridden, as in Flink"):
        assert spec(given).discovery is None


@pytest.mark.parametrize("key", ["key.serializer", "value.serializer"])
def test_serializers_of_a_sink_are_overridden_with_a_warning(key):
    with pytest.warns(UserWarning, match=f"the property '{key}' is overridden, as in Flink"):
        built = sink().set_property(key, "x").build()
    connectors.get("kafka").sink(built.table("out", Types.STRING(), "job"))


def test_what_cannot_be_read_goes_to_a_topic_of_its_own():
    assert spec(source()).dead_letters is None
    kept = spec(source().set_dead_letter_topic("orders-dead"))
    assert kept.dead_letters.topics == ("orders-dead",)


def test_a_stopping_offset_bounds_the_source_either_way():
    bounded = spec(source().set_bounded(KafkaOffsetsInitializer.latest()))
    unbounded = spec(source().set_unbounded(KafkaOffsetsInitializer.timestamp(5)))

    assert (bounded.bounded, bounded.discovery, bounded.options.bounded_streaming) == (True, None, False)
    assert (unbounded.bounded, unbounded.options.bounded_timestamp) == (True, 5)
    assert unbounded.options.bounded_streaming
    again = spec(source().set_unbounded(KafkaOffsetsInitializer.timestamp(5)).set_bounded(OffsetsInitializer.latest()))
    assert (again.options.bounded_streaming, again.options.bounded_timestamp) == (False, None)
    with pytest.raises(UnsupportedError, match="reads nothing"):
        source().set_bounded(KafkaOffsetsInitializer.earliest())
    to_the_end = KafkaOffsetsInitializer.offsets({KafkaTopicPartition("in", 0): 5}, KafkaOffsetResetStrategy.LATEST)
    with pytest.raises(UnsupportedError, match="stopping offsets take no reset strategy"):
        source().set_unbounded(to_the_end)


@pytest.mark.parametrize(
    ("start", "initializer"),
    [
        (lambda given: given, KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST)),
        (
            lambda given: given.set_start_from_latest().set_start_from_group_offsets(),
            KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST),
        ),
        (lambda given: given.set_start_from_earliest(), KafkaOffsetsInitializer.earliest()),
        (lambda given: given.set_start_from_latest(), KafkaOffsetsInitializer.latest()),
        (lambda given: given.set_start_from_timestamp(5), KafkaOffsetsInitializer.timestamp(5)),
        (
            lambda given: given.set_start_from_specific_offsets({KafkaTopicPartition("orders", 0): 42}),
            KafkaOffsetsInitializer.offsets({KafkaTopicPartition("orders", 0): 42}),
        ),
    ],
)
def test_the_former_consumer_says_what_the_source_says(env, start, initializer):
    properties = {"bootstrap.servers": "localhost:9092", "group.id": "g", "auto.offset.reset": "earliest"}
    former = start(FlinkKafkaConsumer(["orders", "returns"], SimpleStringSchema(), properties))
    built = source().set_properties({"enable.auto.commit": "true", **properties})
    built.set_starting_offsets(initializer)

    assert former.get_produced_type() == former.type_info == built.build().type_info
    env.add_source(former, "orders").sink_to(sink().build())
    assert env.to_job() == _copy(built)


def _copy(built):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream(env, built).sink_to(sink().build())
    return env.to_job()


def test_the_former_consumer_reads_topics_by_a_pattern_and_commits_unless_told_not_to():
    properties = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
    scan = connectors.get("kafka").scan
    former = FlinkKafkaConsumer(re.compile("test-topic-[0-9]"), SimpleStringSchema(), properties)
    found = scan(former.table("t"))

    assert (found.options.topic, found.options.topic_pattern) == ((), "test-topic-[0-9]")
    assert (found.commits, found.reset.value, found.discovery) == (True, "latest", None)
    assert not scan(former.set_commit_offsets_on_checkpoints(False).table("t")).commits
    assert scan(former.set_commit_offsets_on_checkpoints(True).table("t")).commits
    looking = {**properties, "flink.partition-discovery.interval-millis": "1000"}
    assert scan(FlinkKafkaConsumer("t", SimpleStringSchema(), looking).table("t")).discovery == timedelta(seconds=1)
    with pytest.raises(OptionsError, match="needs a consumer group"):
        scan(FlinkKafkaConsumer("t", SimpleStringSchema(), {"bootstrap.servers": "localhost:9092"}).table("t"))


def test_the_discovery_property_of_flink_is_understood():
    found = spec(source().set_property("partition.discovery.interval.ms", "10000"))

    assert found.discovery == timedelta(seconds=10)


class Tomorrow:
    """An initializer of one's own, as Flink's Java interface has it."""

    def __init__(self, strategy=KafkaOffsetResetStrategy.NONE):
        self.strategy = strategy

    def get_partition_offsets(self, partitions, partition_offsets_retriever):
        return partition_offsets_retriever.end_offsets(partitions)

    def get_auto_offset_reset_strategy(self):
        return self.strategy


def test_an_initializer_of_ones_own_goes_to_the_driver_and_not_to_tasks():
    found = spec(source().set_starting_offsets(Tomorrow(KafkaOffsetResetStrategy.LATEST)).set_unbounded(Tomorrow()))

    assert found.reset.value == "latest"
    assert (found.bounded, found.discovery) == (True, None)
    assert "start: by Tomorrow\n  end: by Tomorrow" in found.describe()
    told = found.for_tasks()
    assert (told.start_by, told.stop_by) == (None, None)
    assert pickle.loads(pickle.dumps(told)) == told
    assert spec(source().set_starting_offsets(Tomorrow())).reset.value == "none"


def test_a_set_of_partitions_names_its_topics():
    given = KafkaSource.builder().set_bootstrap_servers("localhost:9092")
    given.set_value_only_deserializer(SimpleStringSchema()).set_property("partition.discovery.interval.ms", "10")
    found = spec(given.set_partitions({KafkaTopicPartition("b", 5), KafkaTopicPartition("a", 0)}))

    assert found.options.topic == ("a", "b")
    assert found.partitions == {("a", 0), ("b", 5)}
    assert found.discovery is None
    assert "partitions: topic:a,partition:0;topic:b,partition:5" in found.describe()
    for also in (given.set_topics, given.set_topic_pattern):
        also("a")
        with pytest.raises(OptionsError, match="'set_partitions': cannot be combined with set_topics"):
            given.build()


def test_what_comes_later_says_so():
    with pytest.raises(UnsupportedError, match="KafkaOffsetsInitializer"):
        source().set_starting_offsets(object())


def test_builders_ask_for_what_no_table_option_could_say():
    with pytest.raises(OptionsError, match="deserializer"):
        KafkaSource.builder().build()
    with pytest.raises(OptionsError, match="record serializer"):
        KafkaSink.builder().build()
    with pytest.raises(OptionsError) as error:
        KafkaRecordSerializationSchema.builder().build()
    assert len(error.value.problems) == 2


def test_the_connector_judges_what_a_builder_was_told(env):
    given = KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema()).set_property("grup.id", "x")

    with pytest.raises(OptionsError) as error:
        stream(env, given)
    assert "source 'orders': 'properties.bootstrap.servers': is required" in str(error.value)
    assert "one of 'topic' and 'topic-pattern' is required" in str(error.value)


def test_passwords_are_not_in_a_builders_repr():
    built = source().set_property("ssl.keystore.password", "hunter2").build()

    assert "hunter2" not in repr(built)


def test_the_former_consumer_has_a_watermark_and_a_type(env):
    consumer = FlinkKafkaConsumer("orders", SimpleStringSchema(), {"bootstrap.servers": "b:9092", "group.id": "g"})
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))

    found = env.add_source(consumer.assign_timestamps_and_watermarks(strategy))

    assert found._node.spec.watermark == Watermark(lag=20_001)
    assert found.get_type() == Types.STRING()
    with pytest.raises(SchemaError, match="leave type_info out"):
        env.add_source(consumer, type_info=Types.LONG())


def test_a_job_has_the_environments_settings(env):
    with pytest.warns(UserWarning, match="'execution.checkpointing.mode' has no effect here. Every batch counts once"):
        env.enable_checkpointing(1500, CheckpointingMode.AT_LEAST_ONCE)
    env.set_parallelism(4)
    env.get_checkpoint_config().set_checkpoint_storage_dir("file:///state")
    stream(env).sink_to(sink().build()).name("out")
    job = env.to_job("copy")

    assert job.name == "copy"
    assert job.settings.checkpoint_interval == timedelta(milliseconds=1500)
    assert (job.settings.checkpoint_dir, job.settings.parallelism) == ("file:///state", 4)
    assert job.settings.checkpointing
    assert env.get_checkpoint_interval() == 1500
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_a_configuration_sets_what_set_does_in_sql():
    configuration = Configuration().set_string("pipeline.name", "nightly").set_integer("parallelism.default", 3)
    configuration.set_string("execution.checkpointing.interval", "2 s").set_string("restart-strategy", "none")
    configuration.set_boolean("penstock.adopt-progress", True)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream(env).print()
    job = env.to_job()

    assert (job.name, job.settings.parallelism, job.settings.adopt_progress) == ("nightly", 3, True)
    assert job.settings.checkpoint_interval == timedelta(seconds=2)


def test_a_configuration_is_checked(env):
    with pytest.warns(UserWarning, match=r"'parallelism.defualt': unknown key .did you mean 'parallelism.default'"):
        env.configure(Configuration().set_integer("parallelism.defualt", 3))
    wrong = (
        Configuration().set_string("parallelism.default", "many").set_string("execution.checkpointing.interval", "-")
    )
    with pytest.raises(OptionsError) as error:
        env.configure(wrong)
    assert len(error.value.problems) == 2


def test_a_restart_strategy_is_set_as_in_pyflink(env):
    stream(env).print()
    assert env.get_restart_strategy() == RestartStrategies.fall_back_restart()
    assert env.get_restart_strategy().get_description().startswith("exponential-delay with an interval")
    assert env.to_job().settings.restart is None

    env.set_restart_strategy(RestartStrategies.no_restart())
    assert env.get_restart_strategy() == RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()
    assert env.get_restart_strategy().get_description() == "no restarts"
    assert env.to_job().settings.restart is None

    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=10))
    env.set_restart_strategy(fixed)
    assert fixed == RestartStrategies.fixed_delay_restart(3, 10_000)
    assert (fixed.get_restart_attempts(), fixed.get_delay_between_attempts_interval()) == (3, timedelta(seconds=10))
    assert env.to_job().settings.restart == FixedDelay(attempts=3, delay=timedelta(seconds=10))

    rate = RestartStrategies.failure_rate_restart(3, 60_000, 500)
    env.set_restart_strategy(rate)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (3, timedelta(minutes=1))
    assert rate.get_delay_between_attempts_interval() == timedelta(milliseconds=500)
    assert env.to_job().settings.restart == FailureRate(
        max_failures_per_interval=3, failure_rate_interval=timedelta(minutes=1), delay=timedelta(milliseconds=500)
    )

    exponential = RestartStrategies.exponential_delay_restart(1, 1000, 1.1, 2000, 0.1)
    env.set_restart_strategy(exponential)
    assert (exponential.get_initial_backoff(), exponential.get_max_backoff()) == (
        timedelta(milliseconds=1),
        timedelta(seconds=1),
    )
    assert (exponential.get_backoff_multiplier(), exponential.get_jitter_factor()) == (1.1, 0.1)
    assert exponential.get_reset_backoff_threshold() == timedelta(seconds=2)
    assert env.to_job().settings.restart == exponential.strategy


def test_a_restart_strategy_that_means_nothing_is_refused():
    with pytest.raises(OptionsError, match=r"RestartStrategies: 'restart-strategy.fixed-delay.attempts': expected a"):
        RestartStrategies.fixed_delay_restart(-1, 1000)
    with pytest.raises(OptionsError, match="max-backoff"):
        RestartStrategies.exponential_delay_restart(2000, 1000, 1.1, 2000, 0.1)


def test_a_restart_strategy_by_keys(env):
    stream(env).print()
    env.configure(
        Configuration()
        .set_string("restart-strategy.type", "fixed-delay")
        .set_integer("restart-strategy.fixed-delay.attempts", 3)
    )
    assert env.get_restart_strategy() == RestartStrategies.fixed_delay_restart(3, 1000)
    assert env.to_job().settings.restart == FixedDelay(attempts=3)
    with pytest.warns(UserWarning, match="failure-rate.delay' has no effect: 'restart-strategy.type' is 'fixed-delay'"):
        env.configure(Configuration().set_string("restart-strategy.failure-rate.delay", "1 s"))
    with pytest.raises(OptionsError, match="expected one of 'fixed-delay'"):
        env.configure(Configuration().set_string("restart-strategy.type", "sometimes"))


@pytest.mark.rule("unsafe setups are refused")
def test_a_configuration_with_another_checkpointing_mode_is_warned_of_or_refused(env):
    with pytest.warns(UserWarning, match="'execution.checkpointing.mode' has no effect here"):
        env.configure(Configuration().set_string("execution.checkpointing.mode", "AT_LEAST_ONCE"))
    with pytest.raises(OptionsError, match="expected one of 'exactly_once', 'at_least_once'"):
        env.configure(Configuration().set_string("execution.checkpointing.mode", "AT_MOST_ONCE"))


def test_checkpointing_can_be_disabled(env):
    env.get_checkpoint_config().disable_checkpointing()
    stream(env).print()

    assert not env.to_job().settings.checkpointing


def test_exactly_once_derives_its_prefix_and_warns(env):
    exactly_once = sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).build()
    stream(env).sink_to(exactly_once).name("billing-out")
    env.enable_checkpointing(1000)

    with pytest.warns(UserWarning, match="using 'nightly-billing-out'"):
        job = env.to_job("nightly")
    assert job.sinks[0].spec.transactional_id_prefix == "nightly-billing-out"


def test_exactly_once_with_a_prefix_keeps_it(env):
    built = sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("billing").build()
    stream(env).sink_to(built)
    env.enable_checkpointing(1000)

    assert env.to_job("nightly").sinks[0].spec.transactional_id_prefix == "billing"


def test_exactly_once_keeps_a_checkpoint_without_an_interval_unless_it_may_not(env):
    built = sink().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("billing").build()
    stream(env).sink_to(built).name("out")
    with pytest.warns(UserWarning, match="sink 'out' writes exactly-once, so the job keeps a checkpoint"):
        assert env.to_job("nightly").settings.checkpointing
    env.get_checkpoint_config().disable_checkpointing()
    with pytest.raises(OptionsError, match="exactly-once needs checkpointing, which is off"):
        check_guarantees(env.to_job("nightly"))


def test_a_key_is_made_of_the_same_value(env):
    strings = sink(key=SimpleStringSchema()).build()
    stream(env).sink_to(strings)
    rows = JsonRowSerializationSchema.builder().with_type_info(ORDER).build()
    key = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["id"], [Types.LONG()])).build()
    stream(env).map(lambda text: Row(1, text), ORDER).sink_to(sink(rows, key).build())
    first, second = env.to_job().sinks

    assert (first.spec.key_columns, first.spec.value_columns) == (("f0",), ("f0",))
    assert first.spec.key.identifier == "raw"
    assert (second.spec.key_columns, second.spec.value_columns) == (("id",), ("id", "item"))


def test_a_key_of_columns_that_are_not_there_is_refused(env):
    key = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["user"], [Types.LONG()])).build()
    rows = JsonRowSerializationSchema.builder().with_type_info(ORDER).build()
    stream(env).map(lambda text: Row(1, text), ORDER).sink_to(sink(rows, key).build())

    with pytest.raises(SchemaError, match="key's serialization schema"):
        env.to_job()


def test_a_sink_takes_what_its_schema_takes(env):
    stream(env).map(len, Types.INT()).sink_to(sink().build()).name("out")

    with pytest.raises(SchemaError, match="sink 'out': the serialization schema takes STRING, and the stream has INT"):
        env.to_job()


def test_json_and_csv_schemas_are_formats_with_options(env):
    json = JsonRowDeserializationSchema.builder().type_info(ORDER).ignore_parse_errors().build()
    found = spec(source().set_value_only_deserializer(json))
    assert found.value.options.to_text() == {"ignore-parse-errors": "true"}
    assert found.produced.names == ("id", "item")

    csv = CsvRowDeserializationSchema.Builder(ORDER).set_field_delimiter("|").set_ignore_parse_errors(True).build()
    found = spec(source().set_value_only_deserializer(csv))
    assert found.value.options.to_text() == {"field-delimiter": "|", "ignore-parse-errors": "true"}

    out = CsvRowSerializationSchema.Builder(ORDER).set_null_literal("-").disable_quote_character().build()
    stream(env).map(lambda text: Row(1, text), ORDER).sink_to(sink(out).build())
    value = env.to_job().sinks[0].spec.value
    assert value.options.to_text() == {
        "null-literal": "-",
        "disable-quote-character": "true",
        "line-delimiter": "\n",
    }


@pytest.mark.parametrize("builder", [JsonRowDeserializationSchema.builder(), JsonRowSerializationSchema.builder()])
def test_a_json_schema_needs_a_row_type(builder):
    with pytest.raises(OptionsError, match="row type"):
        builder.build()
    with pytest.raises(OptionsError, match="row type"):
        CsvRowSerializationSchema.Builder(Types.STRING())


def test_every_sinks_problems_are_reported(env):
    broken = KafkaSink.builder().set_record_serializer(sink().build().serializer).build()
    stream(env).sink_to(broken).name("one")
    stream(env).sink_to(broken).name("two")

    with pytest.raises(DefinitionError) as error:
        env.to_job()
    assert "sink 'one'" in str(error.value)
    assert "sink 'two'" in str(error.value)


def test_a_program_without_a_sink_is_refused(env):
    stream(env)

    with pytest.raises(DefinitionError, match="writes nothing"):
        env.to_job("idle")


def test_execute_takes_the_sinks(env):
    stream(env).print("seen")
    jobs: list[Job] = []
    with execution.runner(jobs.append):
        assert env.execute("first") is None

    assert [job.name for job in jobs] == ["first"]
    assert jobs[0].sinks[0].spec.options.identifier == "seen"
    with pytest.raises(DefinitionError, match="writes nothing"):
        env.execute("second")


def test_a_program_survives_a_task_boundary_and_compares(env):
    stream(env).map(str.upper, Types.STRING()).sink_to(sink().build())
    job = env.to_job("copy")

    assert isinstance(job, Job)
    assert pickle.loads(pickle.dumps(job)) == job
    assert job == env.to_job("copy")


def test_sql_runs_without_python(env):
    orders = JsonRowDeserializationSchema.builder().type_info(ORDER).build()
    made = stream(env, source().set_value_only_deserializer(orders)).filter(call_sql("id > 5"))
    made = made.map(call_sql("id, UPPER(item) AS item"))

    assert isinstance(made._node, Project)
    assert isinstance(made._node.input, Filter)
    assert made.get_type().row.names == ("id", "item")


def test_sql_over_single_values_gives_single_values(env):
    made = stream(env).map(call_sql("UPPER(f0)"))

    assert made.get_type() == Types.STRING()
    made.map(len, Types.INT()).print()
    made.sink_to(sink().build())
    assert len(env.to_job().sinks) == 2


def test_sql_is_checked_where_it_is_written(env):
    with pytest.raises(DefinitionError, match="f1"):
        stream(env).filter(call_sql("f1 > 5"))
    with pytest.raises(SchemaError, match="leave output_type out"):
        stream(env).map(call_sql("CHAR_LENGTH(f0)"), Types.STRING())


def test_steps_of_one_stream_share_its_scan(env):
    node = stream(env).map(str.upper, Types.STRING())._node

    assert isinstance(node, MapRows)
    assert isinstance(node.input, Scan)


def test_jars_are_not_needed(env):
    with pytest.warns(UserWarning, match="add_jars has no effect here. Nothing is loaded from jars"):
        env.add_jars("file:///flink-sql-connector-kafka.jar")


def test_the_former_producer_says_what_the_sink_says(env):
    properties = {"bootstrap.servers": "localhost:9092"}
    producer = FlinkKafkaProducer("out", SimpleStringSchema(), properties)
    stream(env).sink_to(producer.set_write_timestamp_to_kafka(True))
    stream(env).sink_to(sink().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE).build())
    former, built = env.to_job().sinks
    assert (former.schema, former.spec.options) == (built.schema, built.spec.options)
    assert former.spec.guarantee.value == "at-least-once"


@pytest.mark.parametrize("semantic", Semantic)
def test_a_semantic_is_a_guarantee(env, semantic):
    producer = FlinkKafkaProducer("out", SimpleStringSchema(), {"bootstrap.servers": "b:9092"}, semantic=semantic)
    stream(env).sink_to(producer).name("out")
    env.enable_checkpointing(1000)
    if semantic is Semantic.EXACTLY_ONCE:
        with pytest.warns(UserWarning, match="using 'nightly-out'"):
            job = env.to_job("nightly")
    else:
        job = env.to_job("nightly")
    assert job.sinks[0].spec.guarantee.value == semantic.name.lower().replace("_", "-")


def test_what_the_former_producer_cannot_do_is_said():
    def make(pool=5):
        return FlinkKafkaProducer("out", SimpleStringSchema(), {"bootstrap.servers": "b:9092"}, pool)

    make().set_log_failures_only(False).set_flush_on_checkpoint(True).set_write_timestamp_to_kafka(True)
    for call, reason in (
        (lambda: make(3), "kafka_producer_pool_size has no effect here: a batch is one transaction"),
        (lambda: make().set_log_failures_only(True), "fails its batch"),
        (lambda: make().set_flush_on_checkpoint(False), "brokers have acknowledged"),
        (lambda: make().ignore_failures_after_transaction_timeout(), "is written again"),
    ):
        with pytest.warns(UserWarning, match=reason):
            call()
    with pytest.raises(OptionsError, match="1 or more"):
        make(0)
