"""User-defined functions, by PyFlink's names.

Functions get the values of a stream of single values, and each row of a stream of rows as
:class:`penstock.common.Row`. An instance lives for one task of one batch: it is opened before the first row and closed
after the last.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.datastream.refusals import lookup, refused
from penstock.datastream.timerservice import TimerService
from penstock.errors import Problem, UnsupportedError
from penstock.java_gateway import without_java
from penstock.spi import Task

__getattr__ = lookup("functions")

_NO_STATE = "state belongs to keyed streams, which penstock does not have yet"


@dataclass(frozen=True)
class Surroundings:
    """Information about the job for functions: its steps' parallelism, and its parameters."""

    parallelism: int = 1
    max_parallelism: int = -1
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)


class RuntimeContext:
    """A function's view of its task."""

    def __init__(self, name: str, task: Task, surroundings: Surroundings):
        self._name, self._task, self._surroundings = name, task, surroundings

    def get_task_name(self) -> str:
        """The name of the step."""
        return self._name

    def get_number_of_parallel_subtasks(self) -> int:
        """How many tasks run at a time."""
        return self._surroundings.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """What ``set_max_parallelism`` was given, -1 if nothing was."""
        return self._surroundings.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """The number of the task in its batch, from 0. A large batch has more tasks than run at a time."""
        return self._task.number

    def get_attempt_number(self) -> int:
        """How often Spark has tried the task before."""
        return self._task.attempt

    def get_task_name_with_subtasks(self) -> str:
        """The name of the step, the task's number from 1, and how many run at a time: ``Map (1/2)``."""
        return f"{self._name} ({self._task.number + 1}/{self._surroundings.parallelism})"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A parameter of ``set_global_job_parameters``."""
        return self._surroundings.parameters.get(key, default_value)

    def get_metrics_group(self) -> Any:
        """Counters and the like, which count within the task; warns that they are not reported."""
        from penstock.spi import MetricGroup

        warnings.warn("metrics of functions are not reported yet", stacklevel=2)
        return MetricGroup()

    def get_state(self, state_descriptor: Any) -> Any:
        """Raises UnsupportedError."""
        refused("get_state", _NO_STATE)

    def get_list_state(self, state_descriptor: Any) -> Any:
        """Raises UnsupportedError."""
        refused("get_list_state", _NO_STATE)

    def get_map_state(self, state_descriptor: Any) -> Any:
        """Raises UnsupportedError."""
        refused("get_map_state", _NO_STATE)

    def get_reducing_state(self, state_descriptor: Any) -> Any:
        """Raises UnsupportedError."""
        refused("get_reducing_state", _NO_STATE)

    def get_aggregating_state(self, state_descriptor: Any) -> Any:
        """Raises UnsupportedError."""
        refused("get_aggregating_state", _NO_STATE)


class Function(ABC):  # noqa: B024 - its methods are optional
    """The root of functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027
        """Called before the first row of a task: the place for connections and models."""

    def close(self) -> None:  # noqa: B027
        """Called after the last row of a task, and after an error."""


class MapFunction(Function):
    """Turns one value into another."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The new value."""


class CoMapFunction(Function):
    """Turns the values of two streams into those of one."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The new value for one of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The new value for one of the second stream."""


class FlatMapFunction(Function):
    """Turns one value into any number of values."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """The new values."""


class CoFlatMapFunction(Function):
    """Turns each value of two streams into any number of values of one."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any]:
        """The new values for one of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any]:
        """The new values for one of the second stream."""


class FilterFunction(Function):
    """Chooses values."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether ``value`` is kept."""


class KeySelector(Function):
    """Finds the key of a value."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key."""


class Partitioner(Function):
    """Chooses a parallel instance by a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The number of the instance, from 0."""


class ProcessFunction(Function):
    """Turns one value into any number of values, and into values of side outputs."""

    class Context(ABC):
        """The function's view of a value."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The timestamp of the value, in ms since 1970, or None."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The time."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """The new values; ``(tag, value)`` with an OutputTag is a value of a side output."""


class CoProcessFunction(Function):
    """Turns each value of two streams into any number of values of one, and into values of side outputs."""

    class Context(ABC):
        """The function's view of a value."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The timestamp of the value, in ms since 1970, or None."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The time."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The new values for one of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """The new values for one of the second stream."""


class SourceFunction:
    """The root of PyFlink's former sources. Raises UnsupportedError when it is made of a Java class."""

    def __init__(self, source_func: Any) -> None:
        raise without_java("SourceFunction", "use a source of penstock.datastream.connectors")


class SinkFunction:
    """The root of PyFlink's former sinks. Raises UnsupportedError when it is made of a Java class."""

    def __init__(self, sink_func: Any) -> None:
        raise without_java("SinkFunction", "use a sink of penstock.datastream.connectors")


def function_of(given: Any, method: str) -> Callable[..., Any] | Function:
    """``given``, which is a function, or has the ``method``. Raises UnsupportedError for anything else."""
    if callable(getattr(given, method, None)) or callable(given):
        return given  # type: ignore[no-any-return]
    hint = "give a function, or SQL as call_sql('...')"
    raise UnsupportedError((Problem(f"{type(given).__name__} cannot be called by {method}", hint=hint),))
