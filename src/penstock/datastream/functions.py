"""Functions of the user's, and how a plan calls them on rows.

Functions get the values of a stream of single values, and each row of a stream of rows as
:class:`penstock.common.Row`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penstock.common import Row, TypeInformation
from penstock.errors import Problem, RecordError, UnsupportedError
from penstock.types import ArrayType, DataType, MapType, RowType


class _Function:
    """The root of PyFlink's function classes."""

    def open(self, runtime_context: Any) -> None:
        """Not called: state and timers belong to keyed streams. Overriding it is refused."""

    def close(self) -> None:
        """Not called. Overriding it is refused."""


class MapFunction(_Function, ABC):
    """Turns one value into another."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The new value."""


class FlatMapFunction(_Function, ABC):
    """Turns one value into any number of values."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """The new values."""


class FilterFunction(_Function, ABC):
    """Chooses values."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether ``value`` is kept."""


def function_of(given: Any, method: str) -> Callable[[Any], Any]:
    """The plain function in ``given``: itself, or its ``method``. Raises UnsupportedError if it overrides open or
    close."""
    if isinstance(given, _Function):
        for name in ("open", "close"):
            if getattr(type(given), name) is not getattr(_Function, name):
                hint = "create what it needs in __init__ or on first use"
                raise UnsupportedError((Problem(f"{type(given).__name__}.{name} is not called", hint=hint),))
    found = getattr(given, method, None) or given
    if not callable(found):
        hint = "give a function, or SQL as call_sql('...')"
        raise UnsupportedError((Problem(f"{type(given).__name__} cannot be called by {method}", hint=hint),))
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RowCalls:
    """Calls ``function`` on each row; ``method`` is ``map``, ``flat_map`` or ``filter``. Pickled with the function."""

    function: Callable[[Any], Any]
    method: str
    given: TypeInformation
    made: TypeInformation

    def __call__(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Tuples of the input's columns to tuples of the output's."""
        for row in rows:
            value = _to_user(row[0] if self.given.single else row, self.given.logical)
            if self.method == "filter":
                if self.function(value):
                    yield row
            elif self.method == "map":
                yield self._tuple(self.function(value))
            else:
                for each in self.function(value) or ():
                    yield self._tuple(each)

    def _tuple(self, value: Any) -> tuple[Any, ...]:
        found = _from_user(value, self.made.logical)
        if self.made.single:
            return (found,)
        if found is None:
            raise RecordError("the function returned None for a row", hint="return a Row, or use flat_map to drop it")
        return tuple(found)


def _to_user(value: Any, logical: DataType) -> Any:
    """A column's value for a function: structs become rows, maps become dictionaries."""
    if value is None:
        return None
    match logical:
        case RowType(fields=fields):
            values = [value[field.name] for field in fields] if isinstance(value, dict) else value
            made = (_to_user(each, field.type) for each, field in zip(values, fields, strict=True))
            return Row.named(logical.names, made)
        case ArrayType(element=element):
            return [_to_user(each, element) for each in value]
        case MapType(key=key, value=item):
            pairs = value.items() if isinstance(value, dict) else value
            return {_to_user(k, key): _to_user(v, item) for k, v in pairs}
    return value


def _from_user(value: Any, logical: DataType) -> Any:
    """A function's result for a column: rows become tuples, in the order of the columns."""
    if value is None:
        return None
    match logical:
        case RowType(fields=fields):
            if isinstance(value, dict):
                value = [value.get(field.name) for field in fields]
            if not isinstance(value, Row | tuple | list):
                reason = f"expected a row of {len(fields)} columns, but the function returned {type(value).__name__}"
                raise RecordError(reason, hint="return a Row or a tuple, or give another output_type")
            if len(value) != len(fields):
                reason = f"the function returned {len(value)} values for {len(fields)} columns"
                raise RecordError(reason, hint=f"the output type is {logical}")
            return tuple(_from_user(each, field.type) for each, field in zip(value, fields, strict=True))
        case ArrayType(element=element):
            return [_from_user(each, element) for each in value]
        case MapType(key=key, value=item):
            return [(_from_user(k, key), _from_user(v, item)) for k, v in dict(value).items()]
    return value
