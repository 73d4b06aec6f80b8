"""Functions in Python for SQL, by PyFlink's names."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, get_type_hints

from penstock.table.types import expect_type, find_hinted_type
from penstock.types import DataType

__all__ = ["FunctionContext", "ScalarFunction", "udf"]

#: How a function gets its arguments: the values of a row; those of many rows as ``pandas.Series`` or as Arrow arrays.
GENERAL, PANDAS, ARROW = "general", "pandas", "arrow"
_KINDS = (GENERAL, PANDAS, ARROW)


class FunctionContext:
    """A function's view of its job."""

    def __init__(self, parameters: Mapping[str, str]):
        self._parameters = parameters

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """A parameter of the job. SQL jobs have none."""
        return self._parameters.get(key, default_value)


class ScalarFunction(ABC):
    """A function with ``eval`` that is opened before its first row and closed after its last one in a task."""

    def open(self, function_context: FunctionContext) -> None:  # noqa: B027
        """Called before the first row of a task: the place for connections and models."""

    def close(self) -> None:  # noqa: B027
        """Called when the task no longer needs the function."""

    def is_deterministic(self) -> bool:
        """Whether equal arguments always give equal results."""
        return True

    @abstractmethod
    def eval(self, *args: Any) -> Any:
        """The value for the arguments of a row."""


@dataclass(frozen=True, eq=False)
class UserDefinedFunction:
    """A function and its types. ``input_types`` is None if it takes arguments of any types, as many as it wants."""

    function: Callable[..., Any] | ScalarFunction
    result_type: DataType
    input_types: tuple[DataType, ...] | None = None
    deterministic: bool = True
    name: str = ""
    func_type: str = GENERAL
    #: The names of the modules that go to the tasks with the function.
    modules: tuple[str, ...] = field(default=(), repr=False)

    def __call__(self, *args: Any) -> Any:
        """The value for arguments of Python, as in tests."""
        return self.function.eval(*args) if isinstance(self.function, ScalarFunction) else self.function(*args)


def udf(
    f: Callable[..., Any] | ScalarFunction | type[ScalarFunction] | None = None,
    input_types: DataType | str | Sequence[DataType | str] | None = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = GENERAL,
) -> Any:
    """A function for SQL, as ``udf(f, ..)`` or as the decorator ``@udf(..)``.

    The types are Flink's (``DataTypes.BIGINT()``, ``'BIGINT'``), or follow from the hints of ``f``. With ``func_type``
    ``pandas`` it gets a Series for each argument and returns one, with ``arrow`` an Arrow array. Raises TypeError for
    an object that is not a function or has no result type, and ValueError for another ``func_type``.
    """
    if func_type not in _KINDS:
        raise ValueError(f"func_type must be one of {', '.join(_KINDS)}, not {func_type!r}")
    given = partial(
        _declare_function,
        input_types=input_types,
        result_type=result_type,
        deterministic=deterministic,
        name=name,
        func_type=func_type,
    )
    return given if f is None else given(f)


def _declare_function(
    f: Callable[..., Any] | ScalarFunction | type[ScalarFunction],
    *,
    input_types: DataType | str | Sequence[DataType | str] | None,
    result_type: DataType | str | None,
    deterministic: bool | None,
    name: str | None,
    func_type: str,
) -> UserDefinedFunction:
    function = f() if isinstance(f, type) and issubclass(f, ScalarFunction) else f
    own = isinstance(function, ScalarFunction)
    if not callable(function) and not own:
        raise TypeError(f"udf takes a function or a ScalarFunction, not {function!r}")
    called = function.eval if isinstance(function, ScalarFunction) else function
    shown = name or str(getattr(function, "__name__", type(function).__name__))
    hints = {} if func_type != GENERAL else _read_hints(called)
    result = (
        expect_type(result_type, "result_type") if result_type is not None else find_hinted_type(hints.get("return"))
    )
    if result is None:
        raise TypeError(f"the type of the result of {shown} is not known: give result_type, or a hint such as '-> int'")
    if input_types is None:
        inputs = _find_hinted_inputs(called, hints)
    else:
        several = [input_types] if isinstance(input_types, DataType | str) else input_types
        inputs = tuple(expect_type(each, "input_types") for each in several)
    certain = function.is_deterministic() if isinstance(function, ScalarFunction) else True
    if deterministic is not None and own and deterministic != certain:
        raise ValueError(f"deterministic={deterministic} of {shown} contradicts its is_deterministic()")
    return UserDefinedFunction(
        function, result, inputs, certain if deterministic is None else deterministic, shown, func_type
    )


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # noqa: BLE001 - hints may name what is not there, and none are needed
        return {}


def _find_hinted_inputs(function: Callable[..., Any], hints: Mapping[str, Any]) -> tuple[DataType, ...] | None:
    """The types of the arguments, if all of them have hints and none is optional."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is not each.POSITIONAL_OR_KEYWORD or each.default is not each.empty for each in parameters):
        return None
    found = [find_hinted_type(hints.get(each.name)) for each in parameters]
    known = [each for each in found if each is not None]
    return tuple(known) if len(known) == len(found) else None
