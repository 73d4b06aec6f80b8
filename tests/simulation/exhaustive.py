"""Not by chance: one job, and every single fault at every one of its requests; and every second fault on the way out of
a commit whose answers were lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.driver import Pipeline
from tests.simulation.faults import Fault, Plan, Rule
from tests.simulation.setting import PROGRESS_TOPIC, Setting
from tests.simulation.walk import walk

__all__ = ["UNTIL_UNKNOWN", "pairs", "setting", "singles"]

_SINGLE = (Fault.LOST, Fault.UNANSWERED, Fault.LATE, Fault.CRASH, Fault.CRASH_AFTER)
#: What is asked for to settle a transaction, and how often.
_SETTLING = {
    "DescribeTransactions": 1, "ListOffsets": 4, "Fetch": 2, "ApiVersions": 1, "InitProducerId": 2,
    "FindCoordinator": 1, "Metadata": 1,
}  # fmt: skip
#: With the time-outs of this setting a commit is asked for twice before its outcome is unknown.
UNTIL_UNKNOWN = 2
_FOR_GOOD = 60


def setting(version: int, published_before: int | None = None, *, stateful: bool = False) -> Setting:
    """Two batches of two records, by two tasks, with a group's offsets."""
    properties = {
        "bootstrap.servers": "simulated:9092",
        "request.timeout.ms": "5000",
        "default.api.timeout.ms": "10000",
        "delivery.timeout.ms": "10000",
    }
    pipeline = Pipeline(4, 2, 2, 2, ("out",), True, "group", PROGRESS_TOPIC, tuple(properties.items()), stateful)
    return Setting(pipeline, 1, 1, 1, version, published_before=published_before)


def singles(version: int, *, stateful: bool = False) -> Iterator[Plan]:
    """One fault, at each request."""
    requests = walk(0, setting=setting(version, stateful=stateful), plan=Plan()).requests
    for index in range(requests):
        for fault in _SINGLE:
            yield Plan([Rule(fault, "", index)])


def pairs(version: int) -> Iterator[Plan]:
    """All answers to a commit are lost, or all requests, or the transaction has expired when it is asked for; and then
    another fault at each step of settling: of one request, or of all from then on."""
    lost = Rule(Fault.LOST, "EndTxn commit", 1, UNTIL_UNKNOWN)  # the first commit is the claim's
    for first in (lost, replace(lost, fault=Fault.UNANSWERED), replace(lost, fault=Fault.LATE, times=1)):
        for api, times in _SETTLING.items():
            for skip in range(times):
                for fault in (Fault.LOST, Fault.UNANSWERED):
                    yield Plan([replace(first), Rule(fault, api, skip, _FOR_GOOD, after=0)])
                yield Plan([replace(first), Rule(Fault.UNANSWERED, api, skip, after=0)])
                yield Plan([replace(first), Rule(Fault.CRASH, api, skip, after=0)])
