"""Rows in an order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.kept_state import KeptState
from penstock.plan.node import Attributes, KeyOrder, Names, Node
from penstock.plan.nodes.keeps_columns import KeepsColumns
from penstock.plan.row_traits import Traits
from penstock.plan.sort_column import SortColumn
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import StepIdentity
from penstock.types import quote_name


@dataclass(frozen=True)
class TemporalSort(KeepsColumns):
    """Gives rows that are only added in the order of the event time in ``time``, when the watermark reaches them, and
    rows of the same time in the order of the columns ``order``; without ``time`` the rows of each batch in the order of
    ``order``. Rows that are equal there stay in the order of arrival. The schema is the input's."""

    time: str
    order: tuple[SortColumn, ...]

    @property
    def step_name(self) -> str:
        return "sort"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return ((),)

    @property
    def forgets_by_watermark(self) -> bool:
        return True

    def describe_state(self) -> str:
        return "the rows that the watermark has not reached" if self.time else "nothing between batches"

    def explain_step(self) -> list[str]:
        by = ", ".join([*([quote_name(self.time)] if self.time else []), *(each.describe() for each in self.order)])
        return [f"rows in the order of {by}" if self.time else f"rows of a batch in the order of {by}"]

    def flink_attributes(self) -> Attributes:
        by = [f"{self.time} ASC"] if self.time else ["PROCTIME"]
        return (("orderBy", ", ".join([*by, *(each.flink_text() for each in self.order)])),)

    @property
    def own_columns(self) -> Names:
        return frozenset((*([self.time] if self.time else []), *(each.name for each in self.order)))

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        first = [identifier.fact(self.input, self.time)] if self.time else []
        facts = {"order": identifier.order(self.input, self.order, first)}
        return identifier.identify_rows("ORDER BY", self.input, (), facts)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return self

    @property
    def needs_event_time(self) -> bool:
        return bool(self.time)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, stateful=True)


@dataclass(frozen=True)
class Sort(KeepsColumns):
    """Gives the rows of the only batch in the order of the columns ``order``, equal ones in the order of arrival. The
    schema is the input's."""

    order: tuple[SortColumn, ...]

    @property
    def step_name(self) -> str:
        return "sort"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return ((),)

    @property
    def forgets_by_watermark(self) -> bool:
        return True

    def describe_state(self) -> str:
        return "nothing between batches"

    def explain_step(self) -> list[str]:
        return [f"rows in the order of {', '.join(each.describe() for each in self.order)}"]

    def flink_attributes(self) -> Attributes:
        return (("orderBy", ", ".join(each.flink_text() for each in self.order)),)

    @property
    def own_columns(self) -> Names:
        return frozenset(each.name for each in self.order)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        return StepIdentity(step="ORDER BY", facts={"order": identifier.order(self.input, self.order)})

    def arrange_keys(self, order: KeyOrder) -> Node:
        return self

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, stateful=True)
