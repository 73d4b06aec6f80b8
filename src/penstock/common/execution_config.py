"""How a program is executed, by PyFlink's names. Most of it is about Java's serializers and has no effect here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from penstock.common.arguments import expect
from penstock.common.call_settings import CallSettings
from penstock.common.execution_mode import ExecutionMode
from penstock.common.input_dependency_constraint import InputDependencyConstraint
from penstock.common.restart_strategy import RestartStrategyConfiguration, expect_restart
from penstock.errors import OptionsError, Problem
from penstock.java_gateway import without_java

__all__ = ["ExecutionConfig"]

#: The largest value of ``set_max_parallelism``, as in Flink.
MOST_PARALLELISM = 32767


class ExecutionConfig:
    """The execution configuration of an environment, which ``get_config`` returns; change it in place.

    Raises UnsupportedError when it is made of a Java object. What each call does:
    :data:`penstock.common.calls.CALLS`.
    """

    PARALLELISM_DEFAULT = -1
    PARALLELISM_UNKNOWN = -2

    _settings: CallSettings

    def __init__(self, j_execution_config: Any) -> None:
        raise without_java("ExecutionConfig", "env.get_config() returns one")

    @classmethod
    def _from_settings(cls, settings: CallSettings) -> Self:
        made = cls.__new__(cls)
        made._settings = settings
        return made

    # --- with an effect --------------------------------------------------------------------------------------

    def set_parallelism(self, parallelism: int) -> ExecutionConfig:
        """The tasks of a batch that run at a time; -1 for one for each core."""
        if parallelism == self.PARALLELISM_DEFAULT:
            self._settings.given.remove("parallelism.default", "set_parallelism")
        else:
            self._settings.put("ExecutionConfig.set_parallelism", parallelism)
        return self

    def get_parallelism(self) -> int:
        """The tasks of a batch that run at a time."""
        return self._settings.parallelism

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> ExecutionConfig:
        """When a failed job restarts."""
        self._settings.restart = expect_restart(restart_strategy_configuration)
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """The strategy that was set."""
        return self._settings.restart

    def set_global_job_parameters(self, global_job_parameters_dict: Mapping[str, str]) -> ExecutionConfig:
        """Parameters that functions find by ``get_job_parameter`` of their runtime context."""
        parameters = expect(global_job_parameters_dict, Mapping, "set_global_job_parameters", "{'key': 'value'}")
        given = {str(key): str(value) for key, value in parameters.items()}
        self._settings.keep("ExecutionConfig.set_global_job_parameters", given)
        return self

    def get_global_job_parameters(self) -> dict[str, str]:
        """The parameters."""
        return dict(self._settings.get_kept("ExecutionConfig.set_global_job_parameters", {}))

    def enable_auto_generated_uids(self) -> ExecutionConfig:
        """Sources and sinks need no uid: the default."""
        return self._flag("auto_generated_uids", True)

    def disable_auto_generated_uids(self) -> ExecutionConfig:
        """Every source and every sink needs a uid."""
        return self._flag("auto_generated_uids", False)

    def has_auto_generated_uids_enabled(self) -> bool:
        """Whether sources and sinks need no uid."""
        return self._is("auto_generated_uids", True)

    # --- without an effect -----------------------------------------------------------------------------------

    def set_max_parallelism(self, max_parallelism: int) -> ExecutionConfig:
        """In Flink the largest parallelism that a job may have, 1 to 32767. Raises OptionsError for another value."""
        if not 0 < max_parallelism <= MOST_PARALLELISM:
            reason = f"expected 1 to {MOST_PARALLELISM}, not {max_parallelism}"
            raise OptionsError((Problem(reason, "set_max_parallelism"),))
        self._settings.put("ExecutionConfig.set_max_parallelism", max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """What was set, -1 if nothing was."""
        return int(self._settings.value("ExecutionConfig.set_max_parallelism"))

    def set_auto_watermark_interval(self, interval: int) -> ExecutionConfig:
        """In Flink the milliseconds between watermarks."""
        self._settings.put("ExecutionConfig.set_auto_watermark_interval", interval)
        return self

    def get_auto_watermark_interval(self) -> int:
        """The milliseconds between watermarks in Flink."""
        return int(self._settings.value("ExecutionConfig.set_auto_watermark_interval"))

    def set_latency_tracking_interval(self, interval: int) -> ExecutionConfig:
        """In Flink the milliseconds between measurements of latency."""
        self._settings.put("ExecutionConfig.set_latency_tracking_interval", interval)
        return self

    def get_latency_tracking_interval(self) -> int:
        """The milliseconds between measurements of latency in Flink."""
        return int(self._settings.value("ExecutionConfig.set_latency_tracking_interval"))

    def set_task_cancellation_interval(self, interval: int) -> ExecutionConfig:
        """In Flink the milliseconds between interruptions of a task."""
        self._settings.keep("ExecutionConfig.set_task_cancellation_interval", interval)
        return self

    def get_task_cancellation_interval(self) -> int:
        """The milliseconds between interruptions of a task in Flink."""
        return int(self._settings.get_kept("ExecutionConfig.set_task_cancellation_interval", 30_000))

    def set_task_cancellation_timeout(self, timeout: int) -> ExecutionConfig:
        """In Flink the milliseconds after which a task that does not end takes its process with it."""
        self._settings.keep("ExecutionConfig.set_task_cancellation_timeout", timeout)
        return self

    def get_task_cancellation_timeout(self) -> int:
        """The milliseconds after which a task that does not end takes its process with it in Flink."""
        return int(self._settings.get_kept("ExecutionConfig.set_task_cancellation_timeout", 180_000))

    def set_execution_mode(self, execution_mode: ExecutionMode) -> ExecutionConfig:
        """In Flink how the operators of a batch job exchange data."""
        self._settings.keep("ExecutionConfig.set_execution_mode", ExecutionMode(execution_mode))
        return self

    def get_execution_mode(self) -> ExecutionMode:
        """How the operators of a batch job exchange data in Flink."""
        found: ExecutionMode = self._settings.get_kept("ExecutionConfig.set_execution_mode", ExecutionMode.PIPELINED)
        return found

    def set_default_input_dependency_constraint(
        self, input_dependency_constraint: InputDependencyConstraint
    ) -> ExecutionConfig:
        """In Flink when the tasks of a batch job are scheduled."""
        given = InputDependencyConstraint(input_dependency_constraint)
        self._settings.keep("ExecutionConfig.set_default_input_dependency_constraint", given)
        return self

    def get_default_input_dependency_constraint(self) -> InputDependencyConstraint:
        """When the tasks of a batch job are scheduled in Flink."""
        found: InputDependencyConstraint = self._settings.get_kept(
            "ExecutionConfig.set_default_input_dependency_constraint", InputDependencyConstraint.ANY
        )
        return found

    def enable_object_reuse(self) -> ExecutionConfig:
        """In Flink operators pass objects on without a copy."""
        self._settings.put("ExecutionConfig.enable_object_reuse", True)
        return self

    def disable_object_reuse(self) -> ExecutionConfig:
        """In Flink operators copy objects before they pass them on: the default."""
        self._settings.put("ExecutionConfig.disable_object_reuse", False)
        return self

    def is_object_reuse_enabled(self) -> bool:
        """Whether operators pass objects on without a copy in Flink."""
        return bool(self._settings.value("ExecutionConfig.enable_object_reuse"))

    def enable_closure_cleaner(self) -> ExecutionConfig:
        """In Flink functions are searched for references: the default."""
        return self._flag("closure_cleaner", True)

    def disable_closure_cleaner(self) -> ExecutionConfig:
        """In Flink functions are not searched for references."""
        return self._flag("closure_cleaner", False)

    def is_closure_cleaner_enabled(self) -> bool:
        """Whether functions are searched for references in Flink."""
        return self._is("closure_cleaner", True)

    def enable_force_kryo(self) -> ExecutionConfig:
        """In Flink objects are always serialized by Kryo."""
        return self._flag("force_kryo", True)

    def disable_force_kryo(self) -> ExecutionConfig:
        """In Flink objects are not always serialized by Kryo: the default."""
        return self._flag("force_kryo", False)

    def is_force_kryo_enabled(self) -> bool:
        """Whether objects are always serialized by Kryo in Flink."""
        return self._is("force_kryo", False)

    def enable_generic_types(self) -> ExecutionConfig:
        """In Flink types that need Kryo are allowed: the default."""
        return self._flag("generic_types", True)

    def disable_generic_types(self) -> ExecutionConfig:
        """In Flink types that need Kryo are refused."""
        return self._flag("generic_types", False)

    def has_generic_types_disabled(self) -> bool:
        """Whether types that need Kryo are refused in Flink."""
        return not self._is("generic_types", True)

    def enable_force_avro(self) -> ExecutionConfig:
        """In Flink objects are always serialized by Avro."""
        return self._flag("force_avro", True)

    def disable_force_avro(self) -> ExecutionConfig:
        """In Flink objects are not always serialized by Avro: the default."""
        return self._flag("force_avro", False)

    def is_force_avro_enabled(self) -> bool:
        """Whether objects are always serialized by Avro in Flink."""
        return self._is("force_avro", False)

    def disable_auto_type_registration(self) -> ExecutionConfig:
        """In Flink classes are not registered with Kryo."""
        self._settings.keep("ExecutionConfig.disable_auto_type_registration", True)
        return self

    def is_auto_type_registration_disabled(self) -> bool:
        """Whether classes are not registered with Kryo in Flink."""
        return bool(self._settings.get_kept("ExecutionConfig.disable_auto_type_registration", False))

    def set_use_snapshot_compression(self, use_snapshot_compression: bool) -> ExecutionConfig:
        """In Flink the state in checkpoints is compressed."""
        self._settings.keep("ExecutionConfig.set_use_snapshot_compression", use_snapshot_compression)
        return self

    def is_use_snapshot_compression(self) -> bool:
        """Whether the state in checkpoints is compressed in Flink."""
        return bool(self._settings.get_kept("ExecutionConfig.set_use_snapshot_compression", False))

    def add_default_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> ExecutionConfig:
        """In Flink a serializer of Kryo for a class and its subclasses."""
        self._add("ExecutionConfig.add_default_kryo_serializer", type_class_name, serializer_class_name)
        return self

    def register_type_with_kryo_serializer(self, type_class_name: str, serializer_class_name: str) -> ExecutionConfig:
        """In Flink a serializer of Kryo for a class."""
        self._add("ExecutionConfig.register_type_with_kryo_serializer", type_class_name, serializer_class_name)
        return self

    def register_pojo_type(self, type_class_name: str) -> ExecutionConfig:
        """In Flink a class for the serializers."""
        self._add("ExecutionConfig.register_pojo_type", type_class_name)
        return self

    def register_kryo_type(self, type_class_name: str) -> ExecutionConfig:
        """In Flink a class for Kryo."""
        self._add("ExecutionConfig.register_kryo_type", type_class_name)
        return self

    def get_default_kryo_serializer_classes(self) -> dict[str, str]:
        """The serializers of Kryo by class, for classes and their subclasses."""
        return dict(self._settings.get_kept("ExecutionConfig.add_default_kryo_serializer", {}))

    def get_registered_types_with_kryo_serializer_classes(self) -> dict[str, str]:
        """The serializers of Kryo by class."""
        return dict(self._settings.get_kept("ExecutionConfig.register_type_with_kryo_serializer", {}))

    def get_registered_kryo_types(self) -> list[str]:
        """The classes for Kryo."""
        return list(self._settings.get_kept("ExecutionConfig.register_kryo_type", {}))

    def get_registered_pojo_types(self) -> list[str]:
        """The classes for the serializers."""
        return list(self._settings.get_kept("ExecutionConfig.register_pojo_type", {}))

    # --- keeping values --------------------------------------------------------------------------------------

    def _flag(self, name: str, value: bool) -> ExecutionConfig:
        call = f"ExecutionConfig.{'enable' if value else 'disable'}_{name}"
        self._settings.keep(call, value)
        self._settings.keep_flag(name, value)
        return self

    def _is(self, name: str, default: bool) -> bool:
        return self._settings.flag(name, default)

    def _add(self, call: str, name: str, value: str = "") -> None:
        self._settings.keep(call, {**self._settings.get_kept(call, {}), name: value})
