"""What of PyFlink's streams comes later: keyed streams, windows, state, timers, broadcast state, asynchronous calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from penstock.errors import Problem, UnsupportedError

_KEYED = "compute it in SQL: GROUP BY, or PARTITION BY in a query"

#: Names of ``pyflink.datastream`` that penstock does not have yet, each with an alternative.
LATER = {
    "AggregateFunction": _KEYED,
    "AsyncDataStream": "call the service in a map function",
    "AsyncFunction": "call the service in a map function",
    "AsyncRetryPredicate": "try again in the function",
    "AsyncRetryStrategy": "try again in the function",
    "BroadcastConnectedStream": "read the rules in the open method of a function",
    "BroadcastProcessFunction": "read the rules in the open method of a function",
    "BroadcastStream": "read the rules in the open method of a function",
    "CountWindow": _KEYED,
    "GlobalWindow": _KEYED,
    "KeyedBroadcastProcessFunction": _KEYED,
    "KeyedCoProcessFunction": _KEYED,
    "KeyedProcessFunction": _KEYED,
    "KeyedStream": _KEYED,
    "MergingWindowAssigner": _KEYED,
    "ProcessWindowFunction": _KEYED,
    "ReduceFunction": _KEYED,
    "TimeWindow": _KEYED,
    "Trigger": _KEYED,
    "TriggerResult": _KEYED,
    "Window": _KEYED,
    "WindowAssigner": _KEYED,
    "WindowFunction": _KEYED,
    "WindowedStream": _KEYED,
}


def refused(name: str, hint: str = _KEYED) -> NoReturn:
    """Raises the UnsupportedError of something that comes later."""
    raise UnsupportedError((Problem("is not supported yet", name, hint=hint),))


def lookup(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module all of whose names come later."""

    def getattr_of_module(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refused(f"{module}.{name}")

    return getattr_of_module
