"""GROUP BY."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import DELETIONS, UPDATES, Traits
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class GroupAggregate(Stateful, Step):
    """Groups rows by the columns ``keys``. ``schema`` has the keys, then the ``calls``. Without keys there is one
    group. ``ttl`` is the time to live of its state; None for that of the job, zero for rows that are kept forever."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    ttl: timedelta | None = field(default=None, kw_only=True)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kinds = INSERTIONS | (UPDATES if self.calls else INSERTIONS) | (DELETIONS if below.changing else INSERTIONS)
        return Traits(kinds=kinds, bounded=below.bounded, upsert_keys=(self.keys,), stateful=True)
