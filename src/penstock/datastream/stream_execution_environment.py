"""The environment that a streaming program is written in."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from datetime import timedelta
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
from penstock.plan import Filter, Job, Node, Project, Scan, Sink, fold
from penstock.plan.text import flink_sql
from penstock.settings import Settings
from penstock.settings.declared import KEYS, Given, unknown_hint
from penstock.settings.ignored import WITHOUT_EFFECT
from penstock.spi import TableDefinition, connectors, scan_spec

DEFAULT_JOB_NAME = "penstock job"


class SourceDefinition(Protocol):
    """What ``from_source`` takes: something that says which table is read, and what its values are."""

    type_info: TypeInformation

    def table(self, name: str) -> TableDefinition:
        """The table named ``name``."""
        ...


class StreamExecutionEnvironment:
    """Where streams begin, and where their program is executed."""

    def __init__(self) -> None:
        self._checkpoints = CheckpointConfig()
        self._parallelism: int | None = None
        self._name = DEFAULT_JOB_NAME
        self._settings: dict[str, Any] = {}
        self._given = Given()
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
        """Take over settings by Flink's keys, those of SET in SQL. Warns of keys that are not known.

        Raises OptionsError with every value that cannot be read.
        """
        before, problems = len(self._given.warnings), list[Problem]()
        names = set()
        for key, text in configuration.to_dict().items():
            if key not in KEYS and key not in WITHOUT_EFFECT:
                hint = unknown_hint(key)
                warnings.warn(f"unknown setting '{key}'" + (f" ({hint})" if hint else ""), stacklevel=2)
                continue
            try:
                self._given.put(key, text, "Configuration")
            except OptionsError as error:
                problems += error.problems
            else:
                names |= {KEYS[key][0]} if key in KEYS else set()
        if problems:
            raise OptionsError(tuple(problems))
        settings = self._given.settings()
        for warning in self._given.warnings[before:]:
            warnings.warn(warning, stacklevel=2)
        for name in names:
            self._take(name, settings)

    def _take(self, name: str, settings: Settings) -> None:
        """Set what ``configure`` was given of this name, as if by its own method."""
        match name:
            case "":
                self._name = self._given.name
            case "checkpoint_interval" if settings.checkpoint_interval is not None:
                self._checkpoints.set_checkpoint_interval(settings.checkpoint_interval // timedelta(milliseconds=1))
            case "checkpoint_dir" if settings.checkpoint_dir is not None:
                self._checkpoints.set_checkpoint_storage_dir(settings.checkpoint_dir)
            case "parallelism" if settings.parallelism is not None:
                self.set_parallelism(settings.parallelism)
            case "restart" if self._given.names_a_strategy:
                self._restart = RestartStrategies.of(settings.restart)
            case "restart":
                pass
            case _:
                self._settings[name] = getattr(settings, name)

    def from_source(
        self,
        source: SourceDefinition,
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """The stream that ``source`` gives. Raises DefinitionError with every problem of the source.

        ``watermark_strategy``: how far event time has come, which is the timestamp that each record has in Kafka.
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
        """The stream that a source of the former API gives: a ``FlinkKafkaConsumer``. Raises DefinitionError."""
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
        """What follows a failure; without it, a failure ends the job."""
        self._restart = restart_strategy_configuration

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The strategy that was set."""
        return self._restart

    def set_parallelism(self, parallelism: int) -> StreamExecutionEnvironment:
        """How many tasks run at a time."""
        if parallelism < 1:
            raise OptionsError((Problem(f"expected 1 or more, not {parallelism}", "parallelism"),))
        self._parallelism = parallelism
        return self

    def get_parallelism(self) -> int:
        """How many tasks run at a time, -1 when that is left to Spark."""
        return self._parallelism or -1

    def add_jars(self, *jars_path: str) -> None:
        """Not needed: nothing here is a jar. Warns."""
        warnings.warn(f"add_jars has no effect: penstock needs no jar ({', '.join(jars_path)})", stacklevel=2)

    def to_job(self, job_name: str | None = None) -> Job:
        """The program so far as a plan. Raises DefinitionError with every problem of every sink."""
        name = job_name or self._name
        if not self._sinks:
            hint = "end a stream with sink_to(...) or print()"
            raise DefinitionError((Problem("the program writes nothing", where=f"job '{name}'", hint=hint),))
        sinks, problems = [], []
        for position, sink in enumerate(self._sinks, start=1):
            try:
                sinks.append(sink.lower(position, name))
            except DefinitionError as error:
                problems.append(error)
        if len(problems) == 1:
            raise problems[0]
        if problems:
            raise DefinitionError(tuple(problem for error in problems for problem in error.problems))
        restart = self._restart.strategy
        settings = replace(self._checkpoints.settings(self._parallelism), **self._settings, restart=restart)
        return Job(name, tuple(sinks), settings)

    def get_execution_plan(self) -> str:
        """The program so far as JSON: ``nodes`` with id, type, contents and predecessors, as in Flink."""
        nodes: list[dict[str, Any]] = []

        def add(node: Node, inputs: tuple[int, ...]) -> int:
            kind, before = type(node).__name__, [{"id": each} for each in inputs]
            nodes.append({"id": len(nodes) + 1, "type": kind, "contents": _contents(node), "predecessors": before})
            return len(nodes)

        fold(self.to_job().sinks, add)
        return json.dumps({"nodes": nodes}, indent=2)

    def execute(self, job_name: str | None = None) -> Any:
        """Run the program, until all its sources are bounded and read; what became of it (``engine.JobResult``).
        Raises a PenstockError.

        The sinks are taken: what is added afterwards is the next job.
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


def _contents(node: Node) -> str:
    match node:
        case Scan() | Sink():
            return node.spec.describe()
        case Filter(condition=condition):
            return flink_sql(condition)
        case Project(items=items):
            return ", ".join(f"{flink_sql(item.expression)} AS {item.name}" for item in items)
    return str(node.schema)
