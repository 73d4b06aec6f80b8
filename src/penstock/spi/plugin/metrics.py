"""Metrics: counters, meters and gauges in a tree of groups, under Flink's names and with PyFlink's methods."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

_SPAN_SECONDS = 60.0

_Metric = TypeVar("_Metric", bound="Counter | Gauge | Meter")


class Counter:
    """Counts up, from any thread."""

    def __init__(self) -> None:
        self._count = 0
        self._lock = threading.Lock()

    def inc(self, n: int = 1) -> None:
        """Count ``n``."""
        with self._lock:
            self._count += n

    def get_count(self) -> int:
        """The count."""
        return self._count


class Gauge:
    """Computes its value on each call; None while there is none."""

    def __init__(self, value: Callable[[], float | None]):
        self._value = value

    def get_value(self) -> float | None:
        """The value now."""
        return self._value()


class Meter:
    """The number of events per second in the last ``span`` seconds, by default a minute as in Flink."""

    def __init__(self, span: float = _SPAN_SECONDS, clock: Callable[[], float] = time.monotonic):
        self._span, self._clock = span, clock
        self._count = 0
        self._marks: deque[tuple[float, int]] = deque([(clock(), 0)])
        self._lock = threading.Lock()

    def mark_event(self, value: int = 1) -> None:
        """Note ``value`` events now."""
        with self._lock:
            self._count += value
            self._marks.append((self._clock(), self._count))
            self._forget()

    def get_count(self) -> int:
        """The number of all events."""
        return self._count

    def get_rate(self) -> float:
        """Events per second."""
        with self._lock:
            self._forget()
            since, before = self._marks[0]
            seconds = min(self._span, self._clock() - since)
            return (self._count - before) / seconds if seconds > 0 else 0.0

    def _forget(self) -> None:
        """Keep the marks of the span and the last one before it, from which its events are counted."""
        oldest = self._clock() - self._span
        while len(self._marks) > 1 and self._marks[1][0] <= oldest:
            self._marks.popleft()


@dataclass(frozen=True)
class Metric:
    """A metric with its ``scope``, the groups above it. A group with a value (of the groups ``partition``, number 0) is
    a pair of both."""

    scope: tuple[str | tuple[str, str], ...]
    name: str
    source: Counter | Gauge | Meter

    @property
    def value(self) -> float | None:
        """The count, the rate or the value now; None when there is none."""
        match self.source:
            case Counter():
                return self.source.get_count()
            case Meter():
                return self.source.get_rate()
        return self.source.get_value()

    @property
    def identifier(self) -> str:
        """``orders.KafkaSourceReader.topic.orders.partition.0.currentOffset``"""
        parts = (part if isinstance(part, tuple) else (part,) for part in self.scope)
        return ".".join([*(name for part in parts for name in part), self.name])


@dataclass(eq=False)  # a mapping's
class MetricGroup(Mapping[str, float]):
    """A group of metrics and of groups. A second call for a group, a counter or a meter returns the same one, so that
    it continues to count when a job is restarted; a gauge is replaced.

    The group is also a mapping from the dotted identifiers, below this group, of all metrics with a value to the
    values.
    """

    scope: tuple[str | tuple[str, str], ...] = ()
    _groups: dict[str | tuple[str, str], MetricGroup] = field(default_factory=dict, repr=False)
    _metrics: dict[str, Counter | Gauge | Meter] = field(default_factory=dict, repr=False)

    def add_group(self, name: str, value: str | None = None) -> MetricGroup:
        """The group of that name below this one; with ``value``, the one of that value among the groups ``name``."""
        key = name if value is None else (name, value)
        return self._groups.setdefault(key, MetricGroup((*self.scope, key)))

    def counter(self, name: str) -> Counter:
        """The counter of that name."""
        return self._find_or_make(name, Counter, Counter)

    def meter(self, name: str, span: float = _SPAN_SECONDS) -> Meter:
        """The meter of that name. ``span`` is in seconds."""
        return self._find_or_make(name, Meter, lambda: Meter(span))

    def count(self, total: str, rate: str, n: int) -> None:
        """Count ``n`` in the counter ``total`` and in the meter ``rate``."""
        self.counter(total).inc(n)
        self.meter(rate).mark_event(n)

    def gauge(self, name: str, value: Callable[[], float | None]) -> Gauge:
        """Set the gauge of that name to the results of ``value``, which may be None."""
        self._metrics[name] = made = Gauge(value)
        return made

    def metrics(self) -> Iterator[Metric]:
        """All metrics in and below this group."""
        for name, source in list(self._metrics.items()):
            yield Metric(self.scope, name, source)
        for group in list(self._groups.values()):
            yield from group.metrics()

    def _find_or_make(self, name: str, wanted: type[_Metric], make: Callable[[], _Metric]) -> _Metric:
        found = self._metrics.setdefault(name, make())
        if not isinstance(found, wanted):
            raise TypeError(f"metric '{Metric(self.scope, name, found).identifier}' is a {type(found).__name__}")
        return found

    # --- as a mapping ----------------------------------------------------------------------------------------

    def _collect_values(self) -> dict[str, float]:
        above = len(self.scope)
        found = ((replace(metric, scope=metric.scope[above:]), metric.value) for metric in self.metrics())
        return {metric.identifier: value for metric, value in found if value is not None}

    def __getitem__(self, name: str) -> float:
        return self._collect_values()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._collect_values())

    def __len__(self) -> int:
        return len(self._collect_values())
