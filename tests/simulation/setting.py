"""What a walk is about, apart from its faults: the job, the cluster, and how the job is started time after time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from tests.simulation.driver import Pipeline

__all__ = ["PROGRESS_TOPIC", "Company", "Setting", "at_start", "random_setting"]

PROGRESS_TOPIC = "__penstock_progress"

T = TypeVar("T")


class Company(Enum):
    """What there is beside a job and its checkpoint."""

    NONE = "nothing"
    COPY = "a copy of the checkpoint"
    QUERY = "another query with the job's name"


@dataclass(frozen=True)
class Setting:
    """What a walk is about, apart from its faults."""

    pipeline: Pipeline
    partitions: int
    progress_partitions: int | None
    brokers: int
    version: int
    #: The transactional id prefix of each start; of all that follow, the last one. A second driver may have another.
    prefixes: tuple[str, ...] = ("walk",)
    #: Whether a start has ``--adopt-progress``; those that follow have not.
    adopting: tuple[bool, ...] = ()
    #: What else there is: nothing, a copy of the checkpoint, or another query under the same transactional id.
    company: Company = Company.NONE
    #: Of which of the two each start is; of all that follow, the last one.
    starts: tuple[int, ...] = (0,)
    #: The last batch that another query has published under the id: its checkpoint was deleted.
    published_before: int | None = None
    #: From before which start the checkpoint is that another start, and those after it, find.
    restored: tuple[int, int] | None = None

    @property
    def wide(self) -> bool:
        """Whether there is more than one job on one checkpoint that only goes on."""
        return self.company is not Company.NONE or self.restored is not None or any(self.adopting)


def at_start(drawn: Sequence[T], number: int) -> T:
    """What is drawn for a start; of all that follow, the last."""
    return drawn[min(number, len(drawn) - 1)]


def random_setting(rng: random.Random) -> Setting:
    """A setting as a seed has it: small jobs, for small numbers hold every order of events."""
    timeout = rng.choice((1_000, 5_000, 30_000))
    properties = {
        "bootstrap.servers": "simulated:9092",
        "request.timeout.ms": str(timeout),
        "default.api.timeout.ms": str(2 * timeout),
        "delivery.timeout.ms": str(rng.choice((2, 4)) * timeout),
    }
    if rng.random() < 0.4:
        properties["transaction.timeout.ms"] = str(rng.choice((timeout, 3 * timeout, 10 * timeout)))
    per_batch = rng.choice((1, 3, 6))
    pipeline = Pipeline(
        records=per_batch * rng.randint(2, 3) - rng.randint(0, per_batch - 1),
        per_batch=per_batch,
        tasks=rng.choice((1, 1, 2, 3)),
        parallelism=rng.choice((1, 2)),
        topics=("out",),
        keyed=rng.random() < 0.5,
        group=rng.choice(("", "group")),
        progress_topic=PROGRESS_TOPIC,
        properties=tuple(properties.items()),
    )
    made = Setting(
        pipeline,
        partitions=rng.choice((1, 2, 3)),
        progress_partitions=rng.choice((None, 1, 2)),
        brokers=rng.choice((1, 2)),
        version=rng.choice((2, 2, 0)),
        prefixes=rng.choice(
            (*[("walk",)] * 5, ("walk", "run"), ("walk", "run", "walk"), ("walk", "run", "run", "walk"))
        ),
        published_before=rng.choice((None, None, None, None, 0, 7)),
    )
    made = _widened(made, rng) if rng.random() < 0.5 else made
    # Drawn apart, so that a seed is what it was before there were jobs with state.
    stateful = random.Random(str(made)).random() < 0.5
    return replace(made, pipeline=replace(pipeline, stateful=stateful))


def _widened(made: Setting, rng: random.Random) -> Setting:
    """With more than one job on one checkpoint, or with a checkpoint of former times."""
    company = rng.choice((Company.NONE, Company.COPY, Company.QUERY))
    restored = None
    if company is not Company.QUERY and rng.random() < 0.4:
        taken = rng.choice((1, 1, 2))
        restored = taken, taken + rng.choice((1, 1, 2))
    return replace(
        made,
        company=company,
        starts=(0,) if company is Company.NONE else (0, *rng.choice(((1,), (0, 1), (1, 0), (1, 0, 1)))),
        adopting=rng.choice(((), (False, True), (False, True, False, True), (False, False, True), (True,))),
        prefixes=rng.choice((made.prefixes, ("walk", "run"), ("walk", "run", "third"), ("walk", "run", "run", "walk"))),
        restored=restored,
    )
