"""The environment of a streaming program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from penstock.common import (
    Configuration,
    ExecutionConfig,
    RestartStrategies,
    RestartStrategyConfiguration,
    TypeInformation,
    Types,
    WatermarkStrategy,
)
from penstock.common.arguments import expect
from penstock.common.call_settings import CallSettings, cores
from penstock.common.job_client import JobClient
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.program_lines import ProgramLine
from penstock.common.restart_strategy import expect_restart
from penstock.common.typeinfo import expect_type
from penstock.common.watermark_strategy import expect_strategy
from penstock.datastream import execution
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.connectors.base import Source
from penstock.datastream.connectors.values import ValuesSource
from penstock.datastream.data_stream import DataStream, DataStreamSink, assign_watermarks
from penstock.datastream.execution_mode import RuntimeExecutionMode
from penstock.datastream.execution_plan import plan_json
from penstock.datastream.functions import Surroundings
from penstock.datastream.lowering import lowered
from penstock.datastream.refusals import refused
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.datastream.state_backend import StateBackend
from penstock.datastream.time_characteristic import TimeCharacteristic
from penstock.datastream.transformations import SinkStep, SourceStep, Steps
from penstock.datastream.uncaught import show_messages
from penstock.errors import DefinitionError, OptionsError, Problem, RecordError, SchemaError
from penstock.java_gateway import without_java
from penstock.plan.nodes import Job, Sink
from penstock.settings import Settings
from penstock.settings.given import is_known
from penstock.settings.restart import PREFIX
from penstock.spi import Guarantee, TableDefinition, connectors, scan_spec

__all__ = ["StreamExecutionEnvironment"]

DEFAULT_JOB_NAME = "penstock job"

#: The keys of restart strategies begin with this.
_RESTART = PREFIX.removesuffix(".")


_SOURCES = "for example a KafkaSource, as KafkaSource.builder()..build() makes it"


class StreamExecutionEnvironment:
    """Makes streams, and executes the program that they form. ``get_execution_environment`` makes environments; the
    constructor, whose argument is a Java object, raises UnsupportedError.

    What each call that sets something does: :data:`penstock.common.calls.CALLS`.
    """

    _settings: CallSettings
    _checkpoints: CheckpointConfig
    _config: ExecutionConfig
    _backend: StateBackend | None
    _sinks: list[SinkStep]
    _collections: int

    def __init__(self, j_stream_execution_environment: Any) -> None:
        raise without_java("StreamExecutionEnvironment", "get_execution_environment() makes one")

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment. Spark decides where it runs: on this machine, or on the cluster of spark-submit."""
        show_messages()
        environment = StreamExecutionEnvironment.__new__(StreamExecutionEnvironment)
        environment._settings = settings = CallSettings()
        environment._checkpoints = CheckpointConfig._of(settings)
        environment._config = ExecutionConfig._from_settings(settings)
        environment._backend = None
        environment._sinks = []
        environment._collections = 0
        if configuration is not None:
            environment.configure(configuration)
        return environment

    # --- settings --------------------------------------------------------------------------------------------

    def configure(self, configuration: Configuration) -> None:
        """Take over settings by Flink's keys, as SET does in SQL. Warns of unknown keys.

        Raises OptionsError with every value that cannot be read.
        """
        given, problems = self._settings.given, list[Problem]()
        keys = expect(configuration, Configuration, "configure", "Configuration().set_string(key, value)").to_dict()
        for key, text in keys.items():
            try:
                given.put(key, text, "Configuration")
            except OptionsError as error:
                if is_known(key):
                    problems += error.problems
                else:
                    ProgramLine.current().warn(str(error))
        if problems:
            raise OptionsError(tuple(problems))
        settings = given.settings()
        self._settings.give_warnings()
        if given.names_a_strategy and any(key.startswith(_RESTART) for key in keys):
            self._settings.restart = RestartStrategies._from_plan(settings.restart)

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
        """Whether the job is a stream, or a batch of sources that end. AUTOMATIC is STREAMING."""
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

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """True, as in Flink."""
        return True

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
        expect(state_backend, StateBackend, call, "for example EmbeddedRocksDBStateBackend()")
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
        """The directory of savepoints that name none."""
        self._settings.put("StreamExecutionEnvironment.set_default_savepoint_directory", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """The directory of savepoints, or None."""
        found: str | None = self._settings.given.value("savepoint_dir")
        return found

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """When a failed job restarts. Without a strategy, a failure ends a job without checkpoints, and a job with an
        interval of checkpoints restarts after a delay that grows."""
        self._settings.restart = expect_restart(restart_strategy_configuration)

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
        found: TimeCharacteristic = self._settings.get_kept(
            "StreamExecutionEnvironment.set_stream_time_characteristic", TimeCharacteristic.EventTime
        )
        return found

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """In Flink a serializer of Kryo for a class and its subclasses."""
        self._config.add_default_kryo_serializer(type_class_name, serializer_class_name)

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> None:
        """In Flink a serializer of Kryo for a class."""
        self._config.register_type_with_kryo_serializer(type_class_name, serializer_class_name)

    def register_type(self, type_class_name: str) -> None:
        """In Flink a class for the serializers."""
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
        source: Source,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The stream of ``source``. Raises DefinitionError with every problem of the source.

        ``watermark_strategy`` makes watermarks of event time, which is the timestamp of each record in Kafka or the one
        that its assigner finds. Process functions see them.
        """
        expect(source, Source, "from_source", _SOURCES)
        strategy = expect_strategy(watermark_strategy, "from_source")
        _check_type(source, type_info, source_name)
        table = replace(source.table(source_name), watermark=strategy.watermark)
        return assign_watermarks(self._read(source, table, source_name), strategy)

    def add_source(
        self,
        source_func: Source,
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The stream of a source of the former API: a ``FlinkKafkaConsumer``. Raises DefinitionError."""
        expect(source_func, Source, "add_source", _SOURCES)
        _check_type(source_func, type_info, source_name)
        stream = self._read(source_func, source_func.table(source_name), source_name)
        return assign_watermarks(stream, source_func.strategy)

    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """A stream of these values, which ends with the last one. Without ``type_info`` they are pickled values of any
        kind. Raises SchemaError for a value that is not of the type."""
        info = expect_type(type_info, "from_collection") or Types.PICKLED_BYTE_ARRAY()
        try:
            source = ValuesSource(list(collection), info)
        except RecordError as error:
            raise SchemaError((Problem(error.reason, "from_collection", hint=error.hint),)) from error
        self._collections += 1
        name = "Collection Source" if self._collections == 1 else f"Collection Source {self._collections}"
        return self._read(source, source.table(name), name)

    def _read(self, source: Source, table: TableDefinition, name: str) -> DataStream:
        scan_spec(connectors.get(table.options["connector"]), table)  # raises errors where the values are written
        step = SourceStep(name=name, info=source.type_info, source=source, table=table, steps=source.steps())
        return DataStream(self, step)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> NoReturn:
        """Raises UnsupportedError: only SQL reads files."""
        refused("read_text_file", "use the connector filesystem in SQL, or give the file's lines to from_collection")

    def create_input(self, input_format: Any, type_info: TypeInformation | None = None) -> NoReturn:
        """Raises UnsupportedError: formats of files are Java's."""
        refused("create_input", "use the connector filesystem in SQL, or give the file's rows to from_collection")

    def add_python_file(self, file_path: str) -> NoReturn:
        """Raises UnsupportedError: Spark ships the files of a program."""
        refused("add_python_file", "install the module where Spark's workers are, or use spark-submit --py-files")

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> NoReturn:
        """Raises UnsupportedError: Spark ships the files of a program."""
        refused("add_python_archive", "use spark-submit --archives")

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> NoReturn:
        """Raises UnsupportedError: Spark's workers have the packages that are installed there."""
        refused("set_python_requirements", "install the packages where Spark's workers are")

    def set_python_executable(self, python_exec: str) -> NoReturn:
        """Raises UnsupportedError: Spark chooses the interpreter."""
        refused("set_python_executable", "set PYSPARK_PYTHON")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> NoReturn:
        """Raises UnsupportedError: Spark ships the files of a program."""
        refused("register_cached_file", "use spark-submit --files")

    def register_slot_sharing_group(self, slot_sharing_group: SlotSharingGroup) -> StreamExecutionEnvironment:
        """In Flink the resources of a group of operators. Warns."""
        self._settings.note("StreamExecutionEnvironment.register_slot_sharing_group")
        return self

    # --- execution -------------------------------------------------------------------------------------------

    def to_job(self, job_name: str | None = None) -> Job:
        """The program so far as a plan. Raises DefinitionError with every problem of every sink."""
        name = job_name or self._settings.given.name or DEFAULT_JOB_NAME
        if not self._sinks:
            hint = "end a stream with sink_to(...) or print()"
            raise DefinitionError((Problem("the program writes nothing", where=f"job '{name}'", hint=hint),))
        if not self._config.has_auto_generated_uids_enabled():
            self._check_uids()
        sinks = lowered(self._sinks, name, self.get_stream_time_characteristic(), self._surroundings)
        return Job(name, sinks, self._job_settings(sinks))

    def _check_uids(self) -> None:
        ends = (step for step in Steps(self._sinks).order if isinstance(step, SourceStep | SinkStep))
        hint = "call uid(...) on it, or do not call disable_auto_generated_uids"
        problems = tuple(Problem("has no uid", where=f"step '{step.name}'", hint=hint) for step in ends if not step.uid)
        if problems:
            raise DefinitionError(problems)

    @property
    def _surroundings(self) -> Surroundings:
        """Information about the job for functions."""
        parameters = self._config.get_global_job_parameters()
        return Surroundings(self.get_parallelism(), self.get_max_parallelism(), parameters)

    def _job_settings(self, sinks: Sequence[Sink]) -> Settings:
        """The settings of a job that writes ``sinks``. Without an interval it keeps a checkpoint only if it has to."""
        settings = self._settings.given.settings()
        self._settings.give_warnings()
        exact = [sink.table for sink in sinks if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
        kept = self._checkpoints.is_checkpointing_enabled()
        if exact and not kept and not self._checkpoints._off:
            kept = True
            ProgramLine.current().warn(
                f"sink '{exact[0]}' writes exactly-once, so the job keeps a checkpoint, although enable_checkpointing "
                "was not called; call it to choose how often the job commits"
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
        """Whether a default parallelism for local environments was set."""
        return self._settings.local_parallelism != cores()

    def get_execution_plan(self) -> str:
        """The program so far as JSON, in Flink's shape: ``nodes`` with id, type, pact, contents, parallelism and
        predecessors. Raises DefinitionError for a program without a sink."""
        if not self._sinks:
            hint = "end a stream with sink_to(...) or print()"
            raise DefinitionError((Problem("the program writes nothing", "get_execution_plan", hint=hint),))
        return plan_json(self._sinks, self.get_parallelism())

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program until all its sources are bounded and read. Raises a PenstockError.

        Sinks that are added afterwards belong to the next job.
        """
        result: JobExecutionResult = execution.run(self._job(job_name))
        return result

    def execute_async(self, job_name: str = "Flink Streaming Job") -> JobClient:
        """Start the program and return a handle on it. Raises a PenstockError if it cannot be started. Flink's default
        name is replaced by the settings' name, or by this project's."""
        return JobClient._from_running(
            execution.start(self._job(None if job_name == "Flink Streaming Job" else job_name))
        )

    def close(self) -> None:
        """Nothing to do: jobs end by themselves, or by their handles."""

    def _job(self, job_name: str | None) -> Job:
        """The job of the sinks so far, which belong to no other."""
        job = self.to_job(job_name)
        self._sinks.clear()
        return job

    def _add(self, sink: DataStreamSink) -> DataStreamSink:
        self._sinks.append(sink._step)
        return sink


def _check_type(source: Source, type_info: TypeInformation | None, name: str) -> None:
    expect_type(type_info, "type_info")
    if type_info is not None and type_info.row != source.type_info.row:
        reason = f"the source gives {source.type_info}, not {type_info}"
        raise SchemaError((Problem(reason, where=f"source '{name}'", hint="leave type_info out"),))
