"""GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from penstock.plan.nodes.aggregate_call import AggregateCall
from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class GroupAggregate(Step):
    """Groups rows by the columns ``keys``. ``schema`` has the keys, then the ``calls``. Without keys there is one
    group. ``ttl`` is the time to live of its state; None for that of the job, zero for rows that are kept forever."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    ttl: timedelta | None = field(default=None, kw_only=True)
