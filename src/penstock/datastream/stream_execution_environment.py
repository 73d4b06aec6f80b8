"""The environment of a streaming program."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import Any, Protocol

from penstock.common import (
    Configuration,
    RestartStrategies,
    RestartStrategyConfiguration,
    TypeInformation,
    WatermarkStrategy,
)
from penstock.datastream import execution
from penstock.datastream.checkpoint_config import CheckpointConfig
from penstock.datastream.checkpointing_mode import CheckpointingMode
from penstock.datastream.data_stream import DataStream, DataStreamSink
from penstock.errors import DefinitionError, OptionsError, Problem, SchemaError
from penstock.plan.explain import step_lines
from penstock.plan.nodes import Job, Node, Scan
from penstock.plan.walk import fold
from penstock.settings.given import KEYS, GivenSettings
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.settings.restart import PREFIX
from penstock.spi import TableDefinition, connectors, scan_spec

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
    """Makes streams, and executes the program that they form."""

    def __init__(self) -> None:
        self._settings = GivenSettings()
        self._checkpoints = CheckpointConfig(self._settings)
        self._restart = RestartStrategies.fall_back_restart()
        self._sinks: list[DataStreamSink] = []

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """A new environment. Where it runs is Spark's own business: this machine, or the cluster of spark-submit."""
        environment = StreamExecutionEnvironment()
        if configuration is not None:
            environment.configure(configuration)
        return environment

    def configure(self, configuration: Configuration) -> None:
        """Take over settings by Flink's keys, as SET does in SQL. Warns of unknown keys.

        Raises OptionsError with every value that cannot be read.
        """
        before, problems = len(self._settings.warnings), list[Problem]()
        given = configuration.to_dict()
        for key, text in given.items():
            try:
                self._settings.put(key, text, "Configuration")
            except OptionsError as error:
                if key in KEYS or key in WITHOUT_EFFECT:
                    problems += error.problems
                else:
                    warnings.warn(str(error), stacklevel=2)
        if problems:
            raise OptionsError(tuple(problems))
        settings = self._settings.settings()
        for warning in self._settings.warnings[before:]:
            warnings.warn(warning, stacklevel=2)
        if self._settings.names_a_strategy and any(key.startswith(_RESTART) for key in given):
            self._restart = RestartStrategies.of(settings.restart)

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

    def enable_checkpointing(self, interval: int, mode: CheckpointingMode | None = None) -> StreamExecutionEnvironment:
        """Begin a batch, and with exactly-once commit it, every ``interval`` milliseconds."""
        self._checkpoints.set_checkpoint_interval(interval)
        if mode is not None:
            self._checkpoints.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint settings; change them in place."""
        return self._checkpoints

    def get_checkpoint_interval(self) -> int:
        """The interval in milliseconds, -1 when none was set."""
        return self._checkpoints.get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """The mode that was set."""
        return self._checkpoints.get_checkpointing_mode()

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> None:
        """When a failed job is restarted. Without a strategy, a failure ends the job."""
        self._restart = restart_strategy_configuration

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The strategy that was set."""
        return self._restart

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """How many tasks run at a time."""
        self._settings.put("parallelism.default", str(parallelism), "set_parallelism")
        return self

    def get_parallelism(self) -> int:
        """How many tasks run at a time, -1 if Spark decides."""
        return self._settings.value("parallelism") or -1

    def add_jars(self, *jars_path: str) -> None:
        """Not needed, since penstock has no jar. Warns."""
        warnings.warn(
            f"add_jars has no effect: penstock needs no jar; remove the call ({', '.join(jars_path)})", stacklevel=2
        )

    def to_job(self, job_name: str | None = None) -> Job:
        """The program so far as a plan. Raises DefinitionError with every problem of every sink."""
        name = job_name or self._settings.name or DEFAULT_JOB_NAME
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
        settings = replace(
            self._settings.settings(),
            checkpointing=self._checkpoints.is_checkpointing_enabled(),
            restart=self._restart.strategy,
        )
        return Job(name, tuple(sinks), settings)

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
