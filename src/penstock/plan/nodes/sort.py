"""Rows in an order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import Traits
from penstock.plan.sort_column import SortColumn


@dataclass(frozen=True)
class TemporalSort(Stateful, Step):
    """Gives rows that are only added in the order of the event time in ``time``, when the watermark reaches them, and
    equal ones in the order of the columns ``order``; without ``time`` the rows of each batch in the order of ``order``.
    Rows that are equal there are in the order in which they came. The schema is the input's."""

    time: str
    order: tuple[SortColumn, ...]

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, stateful=True)


@dataclass(frozen=True)
class Sort(Stateful, Step):
    """Gives the rows of the only batch in the order of the columns ``order``, equal ones as they came. The schema is
    the input's."""

    order: tuple[SortColumn, ...]

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, stateful=True)
