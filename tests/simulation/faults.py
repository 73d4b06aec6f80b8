"""What goes wrong in a walk: rules that say which requests meet what, and a healthy end."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.simulation.brokers import kind_of

__all__ = ["APIS", "Fault", "Plan", "Rule", "TaskFault", "name_of", "random_plan"]


class Fault(Enum):
    """What a request may meet."""

    LOST = "the request is lost"
    LATE = "the request comes late"
    CUT = "the connection is cut before the request"
    UNANSWERED = "the answer is lost"
    LATE_ANSWER = "the answer comes late"
    CUT_AFTER = "the connection is cut before the answer"
    ERROR = "the broker refuses for the moment"
    ERROR_AFTER = "the broker does it and answers an error"
    CRASH = "the driver crashes before it"
    CRASH_AFTER = "the driver crashes once it is sent"
    BROKER_CRASH = "the broker crashes"
    BROKER_PAUSE = "the broker pauses"
    CUT_OFF = "the broker is cut off from the others"
    SLOW_MARKERS = "markers are written slowly"
    EXPIRY = "the time of open transactions is up"
    FOREIGN_ROW = "somebody writes to the progress topic"
    SECOND_DRIVER = "a second driver starts on the checkpoint"
    OTHER_VERSION = "transaction.version is changed"
    FORGOTTEN = "brokers forget ids that are idle"
    ENLARGED = "the progress topic gets more partitions"
    PROGRESS_LOST = "the progress topic loses its records"
    PROGRESS_RECREATED = "the progress topic is deleted and created again"


class TaskFault(Enum):
    """What may go wrong in Spark."""

    LOST_OUTPUT = "what a task has encoded is lost on the way"
    TWICE = "a task runs twice"
    DIES = "a task dies"
    ROW_IN_PROGRESS = "a row goes to the partition of the progress record"


APIS = (
    "EndTxn commit", "EndTxn abort", "InitProducerId", "DescribeTransactions", "ListOffsets", "Fetch", "Produce",
    "Produce progress", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Metadata", "FindCoordinator",
    "ApiVersions",
)  # fmt: skip

_TRANSIENT = {
    "InitProducerId": (14, 15, 16, 51), "EndTxn": (14, 15, 16, 51), "AddPartitionsToTxn": (14, 16, 51),
    "AddOffsetsToTxn": (14, 16, 51), "TxnOffsetCommit": (14, 15, 16), "Produce": (6, 7, 19, 20),
}  # fmt: skip
_AFTER = {"InitProducerId": (15, 16), "EndTxn": (15, 16), "TxnOffsetCommit": (7, 15), "Produce": (7, 20)}


def error_of(request: Any, fault: Fault, rng: random.Random) -> int | None:
    """An error that goes away by itself, as this request may be answered; None where there is none."""
    codes = (_TRANSIENT if fault is Fault.ERROR else _AFTER).get(kind_of(request))
    return rng.choice(codes) if codes else None


def name_of(request: Any, progress_topic: str) -> str:
    """A request's name in rules and traces: its API, and what tells its uses apart."""
    kind = kind_of(request)
    if kind == "EndTxn":
        return f"{kind} {'commit' if request.committed else 'abort'}"
    if kind == "Produce" and any(topic.name == progress_topic for topic in request.topic_data):
        return f"{kind} progress"
    return kind


@dataclass
class Rule:
    """``fault`` for ``times`` requests of an API ("": of any), after the first ``skip`` of them.

    ``after``: those count only that follow a request which another rule, of this number, has met.
    """

    fault: Fault
    api: str = ""
    skip: int = 0
    times: int = 1
    after: int | None = None
    hits: int = field(default=0, init=False)
    _seen: int = field(default=0, init=False)

    def meets(self, name: str, rules: Sequence[Rule]) -> bool:
        """Whether the next request, of this name, meets the fault."""
        if not name.startswith(self.api) or self.hits >= self.times:
            return False
        if self.after is not None and rules[self.after].hits < rules[self.after].times:
            return False
        self._seen += 1
        if self._seen <= self.skip:
            return False
        self.hits += 1
        return True


class Plan:
    """Rules, noise, and what tasks meet: all that goes wrong in one walk."""

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        *,
        noise: float = 0.0,
        tasks: Sequence[tuple[int, TaskFault]] = (),
        rng: random.Random | None = None,
    ):
        self.rules = list(rules)
        self.hits: Counter[str] = Counter()
        self.healed = False
        self._noise = noise
        self._tasks = dict(tasks)
        self._rng = rng or random.Random(0)
        self._jobs = 0

    def verdict(self, name: str) -> Fault | None:
        """What the next request, of this name, meets."""
        if self.healed:
            return None
        found = next((rule.fault for rule in self.rules if rule.meets(name, self.rules)), None)
        if found is None and self._rng.random() < self._noise:
            found = self._rng.choice(_NOISE)
        if found is not None:
            self.hits[found.value] += 1
        return found

    def task_fault(self) -> TaskFault | None:
        """What the next job meets."""
        self._jobs += 1
        found = None if self.healed else self._tasks.get(self._jobs - 1)
        if found is not None:
            self.hits[found.value] += 1
        return found

    def heal(self) -> None:
        """From now on nothing goes wrong."""
        self.healed = True

    def __str__(self) -> str:
        rules = [
            f"{each.fault.value}: {each.api or 'any request'}, after {each.skip}, {each.times} times"
            + (f", once rule {each.after} is through" if each.after is not None else "")
            for each in self.rules
        ]
        tasks = [f"job {number}: {fault.value}" for number, fault in self._tasks.items()]
        return "; ".join([*rules, *tasks, f"noise {self._noise:g}"])


def _copies(rng: random.Random) -> Plan:
    """A commit that is asked for in vain, a second driver, trouble on the way of both, and perhaps a death: what two
    copies of a job can do to one another is seldom met otherwise."""
    lost = rng.choice((Fault.LOST, Fault.UNANSWERED, Fault.LATE, Fault.LATE_ANSWER, Fault.CUT_AFTER))
    rules = [Rule(lost, "EndTxn commit", rng.choice((1, 2, 2, 3, 4)), rng.choice((1, 2, 2, 2, 3)))]
    rules.append(Rule(Fault.SECOND_DRIVER, rng.choice(_DRAWN), rng.randint(0, 2), 1, 0))
    for _ in range(rng.randint(1, 3)):
        api, after = rng.choice((*_SETTLING, *_DRAWN)), rng.choice((0, 0, 1))
        rules.append(Rule(rng.choice(_TROUBLE), api, rng.randint(0, 3), rng.choice((1, 1, 2, 3)), after))
    if rng.random() < 0.2:  # so that a copy may write where nobody looks, or what a former leader does not have
        rules.append(Rule(Fault.ENLARGED, after=0))
        rules.append(Rule(Fault.CUT_OFF, rng.choice(_DRAWN), rng.randint(0, 4), 1, rng.choice((0, 1))))
    if rng.random() < 0.7:
        fault = rng.choice((Fault.CRASH_AFTER, Fault.CRASH_AFTER, Fault.CRASH))
        api = rng.choice(("EndTxn commit", "EndTxn commit", "InitProducerId", "Produce progress", ""))
        rules.append(Rule(fault, api, rng.randint(0, 4), 1, rng.randrange(len(rules))))
    if rng.random() < 0.3:
        rules.append(Rule(Fault.SECOND_DRIVER, rng.choice(_DRAWN), rng.randint(0, 4), 1, rng.randrange(len(rules))))
    return Plan(rules, noise=rng.choice((0.0, 0.0, 0.0, 0.02)), rng=rng)


_NOISE = (
    Fault.LOST, Fault.LATE, Fault.CUT, Fault.UNANSWERED, Fault.LATE_ANSWER, Fault.CUT_AFTER, Fault.ERROR,
    Fault.ERROR_AFTER,
)  # fmt: skip
_RARE = (
    Fault.CRASH, Fault.CRASH, Fault.CRASH_AFTER, Fault.CRASH_AFTER, Fault.BROKER_CRASH, Fault.BROKER_PAUSE,
    Fault.SLOW_MARKERS, Fault.EXPIRY, Fault.FOREIGN_ROW, Fault.SECOND_DRIVER, Fault.SECOND_DRIVER, Fault.OTHER_VERSION,
    Fault.FORGOTTEN, Fault.CUT_OFF, Fault.CUT_OFF, Fault.ENLARGED, Fault.PROGRESS_RECREATED,
)  # fmt: skip
#: What keeps a driver from learning how it stands.
_TROUBLE = (
    Fault.LOST, Fault.UNANSWERED, Fault.UNANSWERED, Fault.LATE, Fault.LATE_ANSWER, Fault.CUT, Fault.BROKER_PAUSE,
    Fault.SLOW_MARKERS, Fault.OTHER_VERSION, Fault.FORGOTTEN, Fault.EXPIRY,
    Fault.CUT_OFF, Fault.ENLARGED,
)  # fmt: skip
#: What matters most to the protocol is drawn more often.
_DRAWN = (*APIS, "EndTxn commit", "EndTxn commit", "InitProducerId", "Produce", "ListOffsets", "Fetch", "", "")
#: What is asked on the way from an unknown outcome to a known one.
_SETTLING = ("DescribeTransactions", "InitProducerId", "InitProducerId", "ListOffsets", "Fetch", "ApiVersions")
#: Where a death leaves most to find out.
_DEADLY = (
    "EndTxn commit", "EndTxn commit", "EndTxn commit", "Produce", "Produce progress", "InitProducerId", "ApiVersions",
)  # fmt: skip
_SPANS = (1, 1, 1, 2, 3, 5, 40)


def random_plan(rng: random.Random, *, interrupted: bool = False) -> Plan:
    """A plan as a seed has it. ``interrupted``: with deaths, so that there is something to do for the next start."""
    plan = _copies(rng) if rng.random() < 0.25 else _mixture(rng)
    if interrupted:
        plan.rules += _interruptions(rng, len(plan.rules))
    return plan


def _interruptions(rng: random.Random, first: int) -> list[Rule]:
    """Deaths, one after the other, and what may happen between them."""
    rules: list[Rule] = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3))):
        after = first + len(rules) - 1 if rules else None
        fault = rng.choice((Fault.CRASH, Fault.CRASH_AFTER, Fault.CRASH_AFTER))
        rules.append(Rule(fault, rng.choice(_DEADLY), rng.randint(0, 5), 1, after))
        if rng.random() < 0.5:
            between = rng.choice((Fault.SECOND_DRIVER, Fault.SECOND_DRIVER, Fault.ENLARGED, Fault.CUT_OFF))
            rules.append(Rule(between, rng.choice(_DRAWN), rng.randint(0, 4), 1, first + len(rules) - 1))
    return rules


def _mixture(rng: random.Random) -> Plan:
    rules: list[Rule] = []
    if rng.random() < 0.3:  # a commit that is asked for in vain, and then the way to its outcome
        rules.append(Rule(rng.choice(_NOISE), "EndTxn commit", rng.randint(0, 2), rng.choice((1, 2, 2, 3))))
        rules.append(Rule(rng.choice(_NOISE), rng.choice(_SETTLING), rng.randint(0, 4), rng.choice((1, 2, 60)), 0))
    for _ in range(rng.randint(0, 3)):
        api = rng.choice(_DRAWN)
        rules.append(Rule(rng.choice(_NOISE), api, rng.randint(0, 4 if api else 120), rng.choice(_SPANS)))
        if rng.random() < 0.5:  # and what follows it: the way out of trouble is where the next trouble is
            following = rng.choice(_DRAWN)
            after = len(rules) - 1
            rules.append(Rule(rng.choice(_NOISE), following, rng.randint(0, 6), rng.choice(_SPANS), after))
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        api = rng.choice(("", "", *_DRAWN))
        behind = len(rules) - 1 if rules and rng.random() < 0.3 else None
        rules.append(Rule(rng.choice(_RARE), api, rng.randint(0, 3 if api else 80), 1, behind))
    tasks = [(rng.randint(0, 3), rng.choice(list(TaskFault)))] if rng.random() < 0.15 else []
    return Plan(rules, noise=rng.choice((0.0, 0.0, 0.01, 0.04)), tasks=tasks, rng=rng)
