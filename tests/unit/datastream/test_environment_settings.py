"""The settings of an environment: what a fresh one answers, and what each call that sets something does."""

from __future__ import annotations

import json
import os
import re
import warnings
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.common import (
    Configuration,
    ExecutionConfig,
    ExecutionMode,
    InputDependencyConstraint,
    RestartStrategies,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from penstock.common.calls import CALLS
from penstock.common.time import Duration
from penstock.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CustomCheckpointStorage,
    CustomStateBackend,
    DataStream,
    DataStreamSink,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
    RuntimeExecutionMode,
    SlotSharingGroup,
    StateBackend,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from penstock.errors import DefinitionError, OptionsError, UnsupportedError
from penstock.java_gateway import get_gateway
from penstock.plan.nodes import Scan
from penstock.settings import ExponentialDelay, FixedDelay


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def job(env):
    """The job of an environment that prints a stream of numbers."""
    env.from_collection([1, 2], Types.INT()).print()
    return env.to_job


def test_a_fresh_environment_answers_as_in_flink(env):
    config, checkpoints = env.get_config(), env.get_checkpoint_config()

    assert env.get_parallelism() == env.get_default_local_parallelism() == len(os.sched_getaffinity(0))
    assert (env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()) == (-1, 100, True)
    assert (env.get_checkpoint_interval(), env.get_state_backend(), env.get_default_savepoint_directory()) == (
        -1,
        None,
        None,
    )
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.get_restart_strategy() == RestartStrategies.fall_back_restart()
    assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
    assert not checkpoints.is_checkpointing_enabled()
    assert checkpoints.get_checkpoint_timeout() == CheckpointConfig.DEFAULT_TIMEOUT
    assert checkpoints.get_min_pause_between_checkpoints() == CheckpointConfig.DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS
    assert checkpoints.get_max_concurrent_checkpoints() == CheckpointConfig.DEFAULT_MAX_CONCURRENT_CHECKPOINTS
    assert checkpoints.get_checkpointing_mode() == CheckpointConfig.DEFAULT_MODE
    assert checkpoints.is_fail_on_checkpointing_errors()
    assert not checkpoints.is_prefer_checkpoint_for_recovery()
    assert not checkpoints.is_externalized_checkpoints_enabled()
    assert checkpoints.get_externalized_checkpoint_cleanup() is None
    assert not checkpoints.is_unaligned_checkpoints_enabled()
    assert checkpoints.get_checkpoint_storage() is None
    assert config.get_auto_watermark_interval() == 200
    assert config.has_auto_generated_uids_enabled()
    assert config.get_execution_mode() is ExecutionMode.PIPELINED
    assert config.get_default_input_dependency_constraint() is InputDependencyConstraint.ANY


#: What only looks like a setter, or is refused.
NO_SETTINGS = {
    "add_source",
    "add_sink",
    "add_python_file",
    "add_python_archive",
    "set_python_requirements",
    "set_python_executable",
    "register_cached_file",
}
SETTERS = re.compile(r"^(set|enable|disable|add|register)_")


def test_every_call_that_sets_something_is_in_the_table():
    there = {
        f"{cls.__name__}.{name}"
        for cls in (StreamExecutionEnvironment, CheckpointConfig, ExecutionConfig, DataStream, DataStreamSink)
        for name in vars(cls)
        if SETTERS.match(name) and name not in NO_SETTINGS
    }
    others = {
        "StreamExecutionEnvironment.configure",
        "DataStream.partition_custom",
        "DataStream.slot_sharing_group",
        "DataStreamSink.slot_sharing_group",
    }
    assert there | others == set(CALLS)


#: A value for each call that has no effect, which is not the one that applies anyway.
WITHOUT_EFFECT = {
    "StreamExecutionEnvironment.add_default_kryo_serializer": ("com.a.B", "com.a.C"),
    "StreamExecutionEnvironment.add_jars": ("file:///a.jar",),
    "StreamExecutionEnvironment.add_classpaths": ("file:///a",),
    "StreamExecutionEnvironment.disable_operator_chaining": (),
    "StreamExecutionEnvironment.enable_changelog_state_backend": (True,),
    "StreamExecutionEnvironment.register_type": ("com.a.B",),
    "StreamExecutionEnvironment.register_type_with_kryo_serializer": ("com.a.B", "com.a.C"),
    "StreamExecutionEnvironment.register_slot_sharing_group": (SlotSharingGroup.builder("fast").build(),),
    "StreamExecutionEnvironment.set_buffer_timeout": (50,),
    "StreamExecutionEnvironment.set_max_parallelism": (64,),
    "CheckpointConfig.enable_externalized_checkpoints": (ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,),
    "CheckpointConfig.set_externalized_checkpoint_cleanup": (ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION,),
    "CheckpointConfig.set_externalized_checkpoint_retention": (ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION,),
    "CheckpointConfig.enable_unaligned_checkpoints": (),
    "CheckpointConfig.set_force_unaligned_checkpoints": (),
    "CheckpointConfig.set_alignment_timeout": (Duration.of_seconds(1),),
    "CheckpointConfig.set_aligned_checkpoint_timeout": (Duration.of_seconds(1),),
    "CheckpointConfig.set_checkpoint_timeout": (1000,),
    "CheckpointConfig.set_checkpointing_mode": (CheckpointingMode.AT_LEAST_ONCE,),
    "CheckpointConfig.set_fail_on_checkpointing_errors": (False,),
    "CheckpointConfig.set_tolerable_checkpoint_failure_number": (3,),
    "CheckpointConfig.set_max_concurrent_checkpoints": (2,),
    "CheckpointConfig.set_min_pause_between_checkpoints": (500,),
    "CheckpointConfig.set_prefer_checkpoint_for_recovery": (True,),
    "ExecutionConfig.add_default_kryo_serializer": ("com.a.B", "com.a.C"),
    "ExecutionConfig.register_kryo_type": ("com.a.B",),
    "ExecutionConfig.register_pojo_type": ("com.a.B",),
    "ExecutionConfig.register_type_with_kryo_serializer": ("com.a.B", "com.a.C"),
    "ExecutionConfig.set_auto_watermark_interval": (100,),
    "ExecutionConfig.set_default_input_dependency_constraint": (InputDependencyConstraint.ALL,),
    "ExecutionConfig.set_execution_mode": (ExecutionMode.BATCH,),
    "ExecutionConfig.set_latency_tracking_interval": (10,),
    "ExecutionConfig.set_max_parallelism": (64,),
    "ExecutionConfig.set_task_cancellation_interval": (10,),
    "ExecutionConfig.set_task_cancellation_timeout": (10,),
    "ExecutionConfig.set_use_snapshot_compression": (True,),
    "ExecutionConfig.disable_auto_type_registration": (),
    "DataStream.partition_custom": (lambda key, count: 0, lambda value: value),
    "DataStream.set_buffer_timeout": (50,),
    "DataStream.set_max_parallelism": (50,),
    "DataStream.set_uid_hash": ("0f",),
    "DataStream.slot_sharing_group": ("fast",),
    "DataStreamSink.disable_chaining": (),
    "DataStreamSink.set_uid_hash": ("0f",),
    "DataStreamSink.slot_sharing_group": ("fast",),
    **{
        f"ExecutionConfig.{verb}_{name}": ()
        for verb in ("enable", "disable")
        for name in ("closure_cleaner", "force_avro", "force_kryo", "generic_types")
    },
}


def owner(env, call):
    """The object of an environment that has a call."""
    stream = env.from_collection([1], Types.INT()).map(abs, Types.INT())
    return {
        "DataStream": stream,
        "DataStreamSink": stream.print(),
        "StreamExecutionEnvironment": env,
        "CheckpointConfig": env.get_checkpoint_config(),
        "ExecutionConfig": env.get_config(),
    }[call.partition(".")[0]]


@pytest.mark.parametrize("call", WITHOUT_EFFECT)
def test_a_call_without_effect_is_warned_of_once(env, call):
    method = getattr(owner(env, call), call.partition(".")[2])
    with pytest.warns(UserWarning, match=re.escape(CALLS[call].here)) as caught:
        method(*WITHOUT_EFFECT[call])
    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method(*WITHOUT_EFFECT[call])


def test_every_call_without_effect_is_tried_above():
    harmless = {
        "CheckpointConfig.disable_unaligned_checkpoints",
        "ExecutionConfig.disable_object_reuse",
        "ExecutionConfig.enable_object_reuse",
    }
    assert set(WITHOUT_EFFECT) == {call for call, each in CALLS.items() if not each.acts} - harmless


@pytest.mark.filterwarnings("error")
def test_what_applies_anyway_needs_no_warning(env):
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_stream_time_characteristic(TimeCharacteristic.EventTime)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    checkpoints.set_max_concurrent_checkpoints(1).set_min_pause_between_checkpoints(0)
    checkpoints.set_fail_on_checkpointing_errors(True).disable_unaligned_checkpoints()
    checkpoints.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION)
    checkpoints.set_prefer_checkpoint_for_recovery(False)
    env.get_config().disable_object_reuse().enable_object_reuse().enable_auto_generated_uids()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_getters_return_what_was_set(env):
    checkpoints, config = env.get_checkpoint_config(), env.get_config()
    assert env.set_buffer_timeout(0) is env.set_max_parallelism(32767) is env.disable_operator_chaining() is env
    assert (env.get_buffer_timeout(), env.get_max_parallelism(), env.is_chaining_enabled()) == (0, 32767, False)
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    env.set_default_local_parallelism(3)
    assert (env.get_default_local_parallelism(), env.get_parallelism()) == (3, 3)
    assert env.set_parallelism(5).get_parallelism() == config.get_parallelism() == 5
    assert config.set_parallelism(-1).get_parallelism() == 3
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
    assert config.get_auto_watermark_interval() == 0
    env.set_stream_time_characteristic(1)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.IngestionTime
    assert config.get_auto_watermark_interval() == 200
    assert env.set_default_savepoint_directory("file:///s").get_default_savepoint_directory() == "file:///s"
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled()

    checkpoints.set_checkpoint_timeout(1000).set_min_pause_between_checkpoints(50).set_max_concurrent_checkpoints(2)
    assert (checkpoints.get_checkpoint_timeout(), checkpoints.get_min_pause_between_checkpoints()) == (1000, 50)
    assert checkpoints.get_max_concurrent_checkpoints() == 2
    assert not checkpoints.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    assert checkpoints.set_tolerable_checkpoint_failure_number(3).get_tolerable_checkpoint_failure_number() == 3
    checkpoints.set_prefer_checkpoint_for_recovery(True)
    assert checkpoints.is_prefer_checkpoint_for_recovery()
    checkpoints.set_prefer_checkpoint_for_recovery(False)
    assert not checkpoints.is_prefer_checkpoint_for_recovery()
    delete = ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
    assert checkpoints.enable_externalized_checkpoints(delete).get_externalized_checkpoint_cleanup() is delete
    assert checkpoints.is_externalized_checkpoints_enabled()
    retention = ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    checkpoints.set_externalized_checkpoint_retention(retention)
    assert checkpoints.get_externalized_checkpoint_retention() is retention
    checkpoints.enable_unaligned_checkpoints().set_force_unaligned_checkpoints()
    assert env.is_unaligned_checkpoints_enabled()
    assert env.is_force_unaligned_checkpoints()
    checkpoints.set_alignment_timeout(Duration.of_seconds(3))
    assert checkpoints.get_alignment_timeout() == Duration.of_seconds(3)

    config.set_latency_tracking_interval(5).set_task_cancellation_interval(6).set_task_cancellation_timeout(7)
    assert (config.get_latency_tracking_interval(), config.get_task_cancellation_interval()) == (5, 6)
    assert config.get_task_cancellation_timeout() == 7
    assert config.set_global_job_parameters({"a": "b"}).get_global_job_parameters() == {"a": "b"}
    assert config.enable_force_kryo().is_force_kryo_enabled()
    assert not config.disable_force_kryo().is_force_kryo_enabled()
    assert config.disable_generic_types().has_generic_types_disabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert config.enable_force_avro().is_force_avro_enabled()
    assert config.enable_object_reuse().is_object_reuse_enabled()
    assert config.disable_auto_type_registration().is_auto_type_registration_disabled()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
    env.add_default_kryo_serializer("A", "S")
    env.register_type_with_kryo_serializer("B", "S")
    env.register_type("C")
    config.register_kryo_type("D")
    assert config.get_default_kryo_serializer_classes() == {"A": "S"}
    assert config.get_registered_types_with_kryo_serializer_classes() == {"B": "S"}
    assert (config.get_registered_pojo_types(), config.get_registered_kryo_types()) == (["C"], ["D"])


def test_set_in_sql_and_calls_in_python_answer_alike(env):
    configuration = Configuration().set_string("execution.checkpointing.timeout", "5 s")
    configuration.set_string("execution.checkpointing.mode", "AT_LEAST_ONCE").set_string(
        "pipeline.max-parallelism", "7"
    )
    with pytest.warns(UserWarning, match=r".*") as caught:
        env.configure(configuration)
    assert [str(each.message).partition(". ")[0] for each in caught] == [
        f"Configuration: '{key}' has no effect here" for key in configuration.to_dict()
    ]
    assert env.get_checkpoint_config().get_checkpoint_timeout() == 5000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.get_max_parallelism() == 7


def test_wrong_values_are_refused(env):
    checkpoints = env.get_checkpoint_config()
    for wrong in (
        lambda: env.set_parallelism(0),
        lambda: env.set_default_local_parallelism(0),
        lambda: env.set_max_parallelism(32768),
        lambda: env.set_max_parallelism(0),
        lambda: env.set_buffer_timeout(-2),
        lambda: env.enable_checkpointing(0),
        lambda: checkpoints.set_checkpoint_timeout(0),
        lambda: checkpoints.set_max_concurrent_checkpoints(0),
        lambda: checkpoints.set_tolerable_checkpoint_failure_number(-1),
    ):
        with pytest.raises(OptionsError):
            wrong()
    with pytest.raises(ValueError, match="7"):
        checkpoints.set_checkpointing_mode(7)


# --- what acts -----------------------------------------------------------------------------------------------


@dataclass
class Program:
    """A program from Kafka to Kafka with two functions, which takes checkpoints every 100 ms."""

    env: StreamExecutionEnvironment

    def __post_init__(self):
        servers, strings = "localhost:9092", SimpleStringSchema()
        self.env.enable_checkpointing(100)
        source = KafkaSource.builder().set_bootstrap_servers(servers).set_topics("in")
        built = source.set_value_only_deserializer(strings).build()
        self.source = self.env.from_source(built, WatermarkStrategy.no_watermarks(), "in")
        self.mapped = self.source.map(str.upper, Types.STRING()).map(str.strip, Types.STRING())
        serializer = KafkaRecordSerializationSchema.builder().set_topic("out").set_value_serialization_schema(strings)
        sink = KafkaSink.builder().set_bootstrap_servers(servers).set_record_serializer(serializer.build())
        self.written = self.mapped.sink_to(sink.build()).name("out")

    def of(self, call):
        """The object that has a call."""
        return {
            "DataStream": self.source if call == "DataStream.set_parallelism" else self.mapped,
            "DataStreamSink": self.written,
            "StreamExecutionEnvironment": self.env,
            "CheckpointConfig": self.env.get_checkpoint_config(),
            "ExecutionConfig": self.env.get_config(),
        }[call.partition(".")[0]]

    @property
    def settings(self):
        return self.env.to_job().settings

    @property
    def calls(self):
        """The nodes that call functions, the last first."""
        (sink,) = self.env.to_job().sinks
        found, node = [], sink.input
        while not isinstance(node, Scan):
            found, node = [*found, node], node.input
        return found

    @property
    def ends(self):
        """The tables that are read and written."""
        (sink,) = self.env.to_job().sinks
        return self.calls[-1].input, sink

    @property
    def described(self):
        return [node["contents"] for node in json.loads(self.env.get_execution_plan())["nodes"]]

    @property
    def refused(self):
        try:
            self.env.to_job()
        except DefinitionError as error:
            return str(error)
        return ""


FIXED = RestartStrategies.fixed_delay_restart(2, 10)
MORE = len(os.sched_getaffinity(0)) + 1
#: For each call that acts: its arguments, where its effect is seen, and what that is then.
EFFECTS = {
    "StreamExecutionEnvironment.configure": (
        (Configuration().set_string("parallelism.default", "3"),),
        lambda program: program.settings.parallelism,
        3,
    ),
    "StreamExecutionEnvironment.enable_checkpointing": (
        (500,),
        lambda program: program.settings.checkpoint_interval,
        timedelta(milliseconds=500),
    ),
    "StreamExecutionEnvironment.set_default_local_parallelism": (
        (MORE,),
        lambda program: program.settings.parallelism,
        MORE,
    ),
    "StreamExecutionEnvironment.set_default_savepoint_directory": (
        ("file:///s",),
        lambda program: program.settings.savepoint_dir,
        "file:///s",
    ),
    "StreamExecutionEnvironment.set_parallelism": ((3,), lambda program: program.settings.parallelism, 3),
    "StreamExecutionEnvironment.set_runtime_mode": (
        (RuntimeExecutionMode.BATCH,),
        lambda program: program.settings.batch,
        True,
    ),
    "StreamExecutionEnvironment.set_restart_strategy": (
        (FIXED,),
        lambda program: program.settings.restart,
        FIXED.strategy,
    ),
    "StreamExecutionEnvironment.set_state_backend": (
        (FsStateBackend("file:///f"),),
        lambda program: program.settings.checkpoint_dir,
        "file:///f",
    ),
    "StreamExecutionEnvironment.set_stream_time_characteristic": (
        (TimeCharacteristic.ProcessingTime,),
        lambda program: program.ends[0].schema.names,
        ("f0",),
    ),
    "CheckpointConfig.set_checkpoint_interval": (
        (500,),
        lambda program: program.settings.checkpoint_interval,
        timedelta(milliseconds=500),
    ),
    "CheckpointConfig.set_checkpoint_storage": (
        (FileSystemCheckpointStorage("file:///s"),),
        lambda program: program.settings.checkpoint_dir,
        "file:///s",
    ),
    "CheckpointConfig.set_checkpoint_storage_dir": (
        ("file:///s",),
        lambda program: program.settings.checkpoint_dir,
        "file:///s",
    ),
    "CheckpointConfig.disable_checkpointing": ((), lambda program: program.settings.checkpointing, False),
    "ExecutionConfig.disable_auto_generated_uids": (
        (),
        lambda program: program.refused.partition(" (")[0],
        "step 'in': has no uid",
    ),
    "ExecutionConfig.enable_auto_generated_uids": ((), lambda program: program.refused, ""),
    "ExecutionConfig.set_global_job_parameters": (
        ({"a": "b"},),
        lambda program: program.calls[0].rows.surroundings.parameters,
        {"a": "b"},
    ),
    "ExecutionConfig.set_parallelism": ((3,), lambda program: program.settings.parallelism, 3),
    "ExecutionConfig.set_restart_strategy": ((FIXED,), lambda program: program.settings.restart, FIXED.strategy),
    "DataStream.disable_chaining": ((), lambda program: len(program.calls), 2),
    "DataStream.set_description": (("trimmed",), lambda program: program.described[2], "trimmed"),
    "DataStream.set_parallelism": ((3,), lambda program: program.ends[0].spec.options.parallelism, 3),
    "DataStreamSink.set_description": (("written",), lambda program: program.described[-1], "written"),
    "DataStreamSink.set_parallelism": ((3,), lambda program: program.ends[1].spec.options.parallelism, 3),
}


@pytest.mark.parametrize("call", EFFECTS)
@pytest.mark.filterwarnings("ignore:Configuration. 'state.backend.type'", "ignore:set_state_backend")
@pytest.mark.filterwarnings("ignore:set_auto_watermark_interval")
def test_a_call_that_acts_has_its_effect(env, call):
    arguments, seen, wanted = EFFECTS[call]
    program = Program(env)
    if call == "ExecutionConfig.enable_auto_generated_uids":
        env.get_config().disable_auto_generated_uids()
    assert seen(program) != wanted
    getattr(program.of(call), call.partition(".")[2])(*arguments)
    assert seen(program) == wanted


def test_every_call_that_acts_is_tried_above():
    assert set(EFFECTS) == {call for call, each in CALLS.items() if each.acts}


@pytest.mark.parametrize(
    "step",
    [
        lambda env: env.from_collection([1], Types.INT()),
        lambda env: env.from_collection([1], Types.INT()).map(abs, Types.INT()),
        lambda env: env.from_collection([1], Types.INT()).print(),
    ],
)
def test_a_parallelism_that_bounds_nothing_is_warned_of(env, step):
    made = step(env)
    with pytest.warns(UserWarning, match="set_parallelism has no effect here"):
        made.set_parallelism(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.set_parallelism(50)


def test_without_an_interval_there_are_no_checkpoints_and_no_restarts(env, job):
    assert not job().settings.checkpointing
    assert job().settings.restart is None
    assert job().settings.parallelism is None


def test_an_interval_brings_checkpoints_and_restarts(env, job):
    assert env.enable_checkpointing(500) is env
    assert env.get_checkpoint_config().is_checkpointing_enabled()
    settings = job().settings
    assert (settings.checkpointing, settings.checkpoint_interval) == (True, timedelta(milliseconds=500))
    assert settings.restart == ExponentialDelay()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(2, 10))
    assert env.get_config().get_restart_strategy() is env.get_restart_strategy()
    assert job().settings.restart == FixedDelay(attempts=2, delay=timedelta(milliseconds=10))
    env.get_config().set_restart_strategy(RestartStrategies.no_restart())
    assert job().settings.restart is None


def test_checkpointing_can_be_disabled_again(env, job):
    env.enable_checkpointing(500).get_checkpoint_config().disable_checkpointing()
    assert (env.get_checkpoint_interval(), job().settings.checkpointing) == (-1, False)
    env.enable_checkpointing(700)
    assert job().settings.checkpointing


def test_a_default_parallelism_that_was_set_is_that_of_the_job(env, job):
    env.set_default_local_parallelism(len(os.sched_getaffinity(0)) + 1)
    assert job().settings.parallelism == len(os.sched_getaffinity(0)) + 1
    env.set_parallelism(1)
    assert job().settings.parallelism == 1


@pytest.mark.parametrize(
    ("backend", "directory"),
    [
        (MemoryStateBackend(), None),
        (MemoryStateBackend("file:///m"), "file:///m"),
        (FsStateBackend("file:///f"), "file:///f"),
        (RocksDBStateBackend("file:///r"), "file:///r"),
        (RocksDBStateBackend(checkpoint_stream_backend=FsStateBackend("file:///b")), "file:///b"),
        (HashMapStateBackend(), None),
        (EmbeddedRocksDBStateBackend(True), None),
    ],
)
def test_a_state_backend_says_where_checkpoints_are(env, job, backend, directory):
    with pytest.warns(UserWarning, match=r"'state.backend.type' has no effect here. State is kept in files"):
        assert env.set_state_backend(backend) is env
    assert env.get_state_backend() is backend
    assert job().settings.checkpoint_dir == directory


def test_a_storage_of_checkpoints_comes_before_a_backend(env, job):
    env.get_checkpoint_config().set_checkpoint_storage_dir("file:///s")
    with pytest.warns(UserWarning, match=r".*") as caught:
        env.set_state_backend(FsStateBackend("file:///f", "file:///savepoints"))
    assert [str(each.message).split("'")[1] for each in caught] == ["state.backend.type"]
    assert job().settings.checkpoint_dir == "file:///s"
    assert env.get_default_savepoint_directory() == "file:///savepoints"
    storage = JobManagerCheckpointStorage("file:///j")
    env.get_checkpoint_config().set_checkpoint_storage(storage)
    assert env.get_checkpoint_config().get_checkpoint_storage() is storage
    assert job().settings.checkpoint_dir == "file:///j"


def test_state_backends_answer_as_in_flink():
    assert MemoryStateBackend().get_max_state_size() == MemoryStateBackend.DEFAULT_MAX_STATE_SIZE == 5 * 1024 * 1024
    assert MemoryStateBackend(max_state_size=7).get_max_state_size() == 7
    assert MemoryStateBackend().is_using_asynchronous_snapshots()
    assert not MemoryStateBackend(using_asynchronous_snapshots=False).is_using_asynchronous_snapshots()
    files = FsStateBackend("file:///f", file_state_size_threshold=7, write_buffer_size=9)
    assert (files.get_checkpoint_path(), files.get_min_file_size_threshold()) == ("file:///f", 7)
    assert (files.get_write_buffer_size(), FsStateBackend("f").get_write_buffer_size()) == (9, 4096)
    assert FsStateBackend("f").get_min_file_size_threshold() == 20480
    rocks = RocksDBStateBackend("file:///r", True)
    assert rocks.is_incremental_checkpoints_enabled()
    assert not RocksDBStateBackend("r").is_incremental_checkpoints_enabled()
    assert isinstance(rocks.get_checkpoint_backend(), FsStateBackend)
    assert rocks.get_db_storage_paths() is None
    rocks.set_db_storage_paths("/a", "/b")
    assert rocks.get_db_storage_paths() == ["/a", "/b"]
    rocks.set_db_storage_paths(None)
    assert rocks.get_db_storage_paths() is None
    assert rocks.get_number_of_transfering_threads() == 4
    rocks.set_number_of_transfering_threads(2)
    assert rocks.get_number_of_transfering_threads() == rocks.get_number_of_transfer_threads() == 2
    assert rocks.get_predefined_options() is PredefinedOptions.DEFAULT
    rocks.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert rocks.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert rocks.get_options() is None
    assert rocks.is_ttl_compaction_filter_enabled()
    rocks.disable_ttl_compaction_filter()
    assert not rocks.is_ttl_compaction_filter_enabled()
    rocks.enable_ttl_compaction_filter()
    assert rocks.is_ttl_compaction_filter_enabled()
    storage = FileSystemCheckpointStorage("file:///s")
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (20480, 4096)
    assert JobManagerCheckpointStorage().get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE


@pytest.mark.parametrize(
    "wrong",
    [
        FsStateBackend,
        RocksDBStateBackend,
        FileSystemCheckpointStorage,
        lambda: FsStateBackend("f", file_state_size_threshold=2**30),
        lambda: EmbeddedRocksDBStateBackend().set_number_of_transfer_threads(0),
        lambda: EmbeddedRocksDBStateBackend().set_db_storage_paths(),
    ],
)
def test_what_a_backend_cannot_be_made_of(wrong):
    with pytest.raises(ValueError, match=r"needs|expected"):
        wrong()


@pytest.mark.parametrize(
    "java",
    [
        lambda: StreamExecutionEnvironment(object()),
        lambda: CheckpointConfig(object()),
        lambda: ExecutionConfig(object()),
        lambda: StateBackend(object()),
        lambda: CustomStateBackend(object()),
        lambda: CustomCheckpointStorage(object()),
        lambda: MemoryStateBackend(j_memory_state_backend=object()),
        lambda: FsStateBackend(j_fs_state_backend=object()),
        lambda: HashMapStateBackend(object()),
        lambda: RocksDBStateBackend(j_rocks_db_state_backend=object()),
        lambda: RocksDBStateBackend("r").set_options("com.a.Factory"),
        lambda: CheckpointingMode._from_j_checkpointing_mode(object()),
        CheckpointingMode.EXACTLY_ONCE._to_j_checkpointing_mode,
        get_gateway,
    ],
)
def test_what_is_java_is_refused_with_the_reason(java):
    with pytest.raises(UnsupportedError, match="penstock has no Java classes of Flink's"):
        java()
