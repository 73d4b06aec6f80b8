"""How long a record takes from being produced until the totals that count it are visible."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bench.gate.queries import groups, script
from bench.latency import latencies


@dataclass(frozen=True)
class Counts:
    """Records of some groups in turn, and their totals: a count tells how many records of its group are visible."""

    groups: int
    _visible: dict[int, int] = field(default_factory=dict)

    def statements(self, bootstrap: str, source: str, sink: str) -> str:
        """The job of the gate."""
        return script({}, groups("", source, "user_id", 0).statements(bootstrap, sink, {}, {}))

    def value(self, number: int) -> bytes:
        """A record of the gate."""
        return (
            f'{{"user_id":{number % self.groups},"item_id":{number},"category_id":{number % 1000},"behavior":"pv",'
            f'"amount":{number % 1000}.25,"ts":"2026-01-01 00:00:00","note":"{"x" * 20}"}}'
        ).encode()

    def find_answered(self, value: bytes) -> Iterable[int]:
        """The records that a group's totals count and did not count before. A group's records are in one partition,
        so they are counted in their order."""
        row = json.loads(value)
        group, count = row["user_id"], row["n"]
        before = self._visible.get(group, 0)
        self._visible[group] = count
        return range(group + before * self.groups, group + count * self.groups, self.groups)


def percentiles(bootstrap: str, keys: int, rate: int, seconds: float) -> dict[str, float]:
    """The median and the 99th percentile in milliseconds, at ``rate`` records a second over ``keys`` groups, a multiple
    of the partitions."""
    p50, p99 = np.percentile(latencies(bootstrap, rate, seconds, Counts(keys)), [50, 99])
    return {"p50 ms": float(p50), "p99 ms": float(p99)}
