"""The environment of a streaming program."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from penstock.common import (
    Configuration,
    ExecutionConfig,
    RestartStrategies,
    RestartStrategyConfiguration,
    TypeInformation,
    WatermarkStrategy,
)
from penstock.common.call_settings import CallSettings, cores
from penstock.datastream import execution
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.data_stream import DataStream, DataStreamSink
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.state_backend import StateBackend
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError
from penstock.java_gateway import without_java
from penstock.plan.explain import step_lines
from penstock.plan.nodes import Job, Node, Scan, Sink
from penstock.plan.walk import fold
from penstock.settings import Settings
from penstock.settings.given import KEYS
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.restart import PREFIX
from penstock.spi import Guarantee, TableDefinition, connectors, scan_spec

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "penstock job"

#: The keys of restart strategies begin with this.
_RESTART = PREFIX.removesuffix(".")


class SourceDefinition(Protocol):
    """What ``from_source`` takes: the definition of a table that is read, and the type of its values."""

    type_info: TypeInformation

    def table(self, name: str) -> TableDefinition:
        """The table named ``name``."""
        ...


class StreamExecutionEnvironment:
    """Makes streams, and executes the program that they form. ``get_execution_environment`` makes environments; the
    constructor, whose argument is a Java object, raises UnsupportedError.

    What each call that sets something does: :data:`penstock.common.calls.CALLS`.
    """

    _settings: CallSettings
    _checkpoints: CheckpointConfig
    _config: ExecutionConfig
    _backend: StateBackend | None
    _sinks: list[DataStreamSink]

    def __init__(self, j_stream_execution_environment: Any) -> None:
        raise without_java("StreamExecutionEnvironment", "get_execution_environment() makes one")

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment. Where it runs is Spark's own business: this machine, or the cluster of spark-submit."""
        environment = StreamExecutionEnvironment.__new__(StreamExecutionEnvironment)
        environment._settings = settings = CallSettings()
        environment._checkpoints = CheckpointConfig._of(settings)
        environment._config = ExecutionConfig._of(settings)
        environment._backend = None
        environment._sinks = []
        if configuration is not None:
            environment.configure(configuration)
        return environment

    # --- settings --------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """Take over settings by Flink's keys, as SET does in SQL. Warns of unknown keys.

        Raises OptionsError with every value that cannot be read.
        """
        given, problems = self._settings.given, list[Problem]()
        keys = configuration.to_dict()
        for key, text in keys.items():
            try:
                given.put(key, text, "Configuration")
            except OptionsError as error:
                if key in KEYS or key in WITHOUT_EFFECT:
                    problems += error.problems
                else:
                    warnings.warn(str(error), stacklevel=2)
        if problems:
            raise OptionsError(tuple(problems))
        settings = given.settings()
        self._settings.say()
        if given.names_a_strategy and any(key.startswith(_RESTART) for key in keys):
            self._settings.restart = RestartStrategies.of(settings.restart)

    def get_config(self) -> ExecutionConfig:
        """The execution configuration; change it in place."""
        return self._config

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """How many tasks of a batch run at a time."""
        self._settings.put("StreamExecutionEnvironment.set_parallelism", parallelism)
        return self

    def get_parallelism(self) -> int:
        """How many tasks of a batch run at a time: as set, else one for each core."""
        return self._settings.parallelism

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """How many tasks of a batch run at a time if :meth:`set_parallelism` does not say. Raises OptionsError for
        less than 1."""
        if parallelism < 1:
            reason = f"expected 1 or more, not {parallelism}"
            raise OptionsError((Problem(reason, "set_default_local_parallelism"),))
        self._settings.local_parallelism = parallelism

    def get_default_local_parallelism(self) -> int:
        """How many tasks of a batch run at a time if nothing is set: by default one for each core."""
        return self._settings.local_parallelism

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """In Flink the largest parallelism that the job may have, 1 to 32767. Raises OptionsError for another value."""
        self._config.set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """What was set, -1 if nothing was."""
        return self._config.get_max_parallelism()

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> None:
        """In Flink whether the job is a stream or a batch. Here it is a stream, which may have an end."""
        self._settings.put("StreamExecutionEnvironment.set_runtime_mode", RuntimeExecutionMode(execution_mode).name)

    def set_buffer_timeout(self, timeout_millis: int) -> StreamExecutionEnvironment:
        """In Flink how many milliseconds records wait for a buffer to fill; -1: until it is full. Raises OptionsError
        for less."""
        if timeout_millis < -1:
            raise OptionsError((Problem(f"expected -1 or more, not {timeout_millis}", "set_buffer_timeout"),))
        call = "StreamExecutionEnvironment.set_buffer_timeout"
        self._settings.put(call, timeout_millis >= 0, "execution.buffer-timeout.enabled")
        if timeout_millis >= 0:
            self._settings.put(call, timeout_millis)
        return self

    def get_buffer_timeout(self) -> int:
        """How many milliseconds records wait for a buffer to fill in Flink."""
        if not self._settings.given.without_effect("execution.buffer-timeout.enabled"):
            return -1
        return int(self._settings.value("StreamExecutionEnvironment.set_buffer_timeout"))

    def disable_operator_chaining(self) -> StreamExecutionEnvironment:
        """In Flink operators do not share threads."""
        self._settings.put("StreamExecutionEnvironment.disable_operator_chaining", False)
        return self

    def is_chaining_enabled(self) -> bool:
        """Whether operators share threads in Flink."""
        return bool(self._settings.value("StreamExecutionEnvironment.disable_operator_chaining"))

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Begin a batch, and with exactly-once commit it, every ``interval`` milliseconds. A job that fails restarts
        from its checkpoint, unless another restart strategy is set."""
        self._checkpoints.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoints.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint settings; change them in place."""
        return self._checkpoints

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds, -1 if checkpointing is disabled."""
        return self._checkpoints.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set, by default EXACTLY_ONCE."""
        return self._checkpoints.get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints overtake records in Flink."""
        return self._checkpoints.is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Whether checkpoints overtake records in Flink even where Flink advises against it."""
        return self._checkpoints.is_force_unaligned_checkpoints()

    def set_state_backend(self, state_backend: StateBackend) -> StreamExecutionEnvironment:
        """Where operators keep their state in Flink. Its directory of checkpoints becomes the job's, unless a storage
        of checkpoints is set."""
        call = "StreamExecutionEnvironment.set_state_backend"
        self._backend = state_backend
        if state_backend._checkpoints is not None and self._checkpoints.get_checkpoint_storage() is None:
            self._settings.put(call, state_backend._checkpoints, "execution.checkpointing.dir")
        if state_backend._savepoints is not None:
            self._settings.put(call, state_backend._savepoints, "state.savepoints.dir")
        self._settings.put(call, state_backend._identifier)
        return self

    def get_state_backend(self) -> StateBackend | None:
        """The backend that was set, or None."""
        return self._backend

    def enable_changelog_state_backend(self, enabled: bool) -> StreamExecutionEnvironment:
        """In Flink whether changes of state are logged between checkpoints."""
        self._settings.put("StreamExecutionEnvironment.enable_changelog_state_backend", enabled)
        return self

    def is_changelog_state_backend_enabled(self) -> bool:
        """Whether changes of state are logged between checkpoints in Flink."""
        return bool(self._settings.value("StreamExecutionEnvironment.enable_changelog_state_backend"))

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """In Flink the directory of savepoints."""
        self._settings.put("StreamExecutionEnvironment.set_default_savepoint_directory", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory of savepoints, or None."""
        found: str | None = self._settings.value("StreamExecutionEnvironment.set_default_savepoint_directory")
        return found

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """When a failed job restarts. Without a strategy, a failure ends a job without checkpoints, and a job with an
        interval of checkpoints restarts after a delay that grows."""
        self._settings.restart = restart_strategy_configuration

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The strategy that was set."""
        return self._settings.restart

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Which timestamps records have. As in Flink, it also sets the interval of watermarks."""
        given = TimeCharacteristic(characteristic)
        self._settings.keep("StreamExecutionEnvironment.set_stream_time_characteristic", given)
        interval = 0 if given is TimeCharacteristic.ProcessingTime else 200
        if interval != self._config.get_auto_watermark_interval():
            self._config.set_auto_watermark_interval(interval)

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Which timestamps records have: by default their own."""
        found: TimeCharacteristic = self._settings.kept(
            "StreamExecutionEnvironment.set_stream_time_characteristic", TimeCharacteristic.EventTime
        )
        return found

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """In Flink a serialiser of Kryo for a class and its subclasses."""
        self._config.add_default_kryo_serializer(type_class_name, serializer_class_name)

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """In Flink a serialiser of Kryo for a class."""
        self._config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    def register_type(self, type_class_name: str) -> None:
        """In Flink a class for the serialisers."""
        self._config.register_pojo_type(type_class_name)

    def add_jars(self, *jars_path: str) -> None:
        """Not needed, since penstock has no jar. Warns."""
        self._settings.note("StreamExecutionEnvironment.add_jars")

    def add_classpaths(self, *classpaths: str) -> None:
        """Not needed, since penstock has no jar. Warns."""
        self._settings.note("StreamExecutionEnvironment.add_classpaths")

    # --- streams ---------------------------------------------------------------------------------------------

    def from_source(
        self,
        source: SourceDefinition,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The stream of ``source``. Raises DefinitionError with every problem of the source.

        ``watermark_strategy`` makes watermarks of event time, which is the timestamp of each record in Kafka.
        """
        _check_type(source, type_info, source_name)
        table = replace(source.table(source_name), watermark=watermark_strategy.watermark)
        return self._read(table, source.type_info)

    def add_source(
        self,
        source_func: SourceDefinition,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The stream of a source of the former API: a ``FlinkKafkaConsumer``. Raises DefinitionError."""
        _check_type(source_func, type_info, source_name)
        return self._read(source_func.table(source_name), source_func.type_info)

    def _read(self, table: TableDefinition, type_info: TypeInformation) -> DataStream:
        connector = table.options["connector"]
        spec = scan_spec(connectors.get(connector), table)
        return DataStream(self, Scan(table.produced, table.name, connector, spec), type_info)

    # --- execution -------------------------------------------------------------------------------------------

    def to_job(self, job_name: str | None = None) -> Job:
        """The program so far as a plan. Raises DefinitionError with every problem of every sink."""
        name = job_name or self._settings.given.name or DEFAULT_JOB_NAME
        if not self._sinks:
            hint = "end a stream with sink_to(...) or print()"
            raise DefinitionError((Problem("the program writes nothing", where=f"job '{name}'", hint=hint),))
        sinks, errors = [], []
        for position, sink in enumerate(self._sinks, start=1):
            try:
                sinks.append(sink.lower(position, name))
            except DefinitionError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise DefinitionError(tuple(problem for error in errors for problem in error.problems))
        return Job(name, tuple(sinks), self._job_settings(sinks))

    def _job_settings(self, sinks: Sequence[Sink]) -> Settings:
        """The settings of a job that writes ``sinks``. Without an interval it keeps a checkpoint only if it has to."""
        settings = self._settings.given.settings()
        self._settings.say()
        exact = [sink.table for sink in sinks if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
        kept = self._checkpoints.is_checkpointing_enabled()
        if exact and not kept and not self._checkpoints._off:
            kept = True
            warnings.warn(
                f"sink '{exact[0]}' writes exactly-once, so the job keeps a checkpoint, although enable_checkpointing "
                "was not called; call it to choose how often the job commits",
                stacklevel=3,
            )
        fallback = type(self._settings.restart) is RestartStrategies.FallbackRestartStrategyConfiguration
        return replace(
            settings,
            checkpointing=kept,
            restart=settings.restart if fallback else self._settings.restart.strategy,
            parallelism=settings.parallelism or (self._settings.local_parallelism if self._local else None),
        )

    @property
    def _local(self) -> bool:
        """Whether a parallelism was set for want of another one."""
        return self._settings.local_parallelism != cores()

    def get_execution_plan(self) -> str:
        """The program so far as JSON: ``nodes`` with id, type, contents and predecessors, as in Flink."""
        nodes: list[dict[str, Any]] = []

        def add(node: Node, inputs: tuple[int, ...]) -> int:
            contents = "; ".join(line.strip() for line in step_lines(node))
            found = {"id": len(nodes) + 1, "type": type(node).__name__, "contents": contents}
            nodes.append({**found, "predecessors": [{"id": each} for each in inputs]})
            return len(nodes)

        fold(self.to_job().sinks, add)
        return json.dumps({"nodes": nodes}, indent=2)

    def execute(self, job_name: str | None = None) -> Any:
        """Run the program until all its sources are bounded and read, and return its ``engine.JobResult``. Raises a
        PenstockError.

        Sinks that are added afterwards belong to the next job.
        """
        job = self.to_job(job_name)
        self._sinks.clear()
        return execution.run(job)

    def _add(self, sink: DataStreamSink) -> DataStreamSink:
        self._sinks.append(sink)
        return sink


def _check_type(source: SourceDefinition, type_info: TypeInformation | None, name: str) -> None:
    if type_info is not None and type_info.row != source.type_info.row:
        reason = f"the source gives {source.type_info}, not {type_info}"
        raise SchemaError((Problem(reason, where=f"source '{name}'", hint="leave type_info out"),))
