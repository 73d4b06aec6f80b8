"""GROUP BY."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import Expression
from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, KeyOrder, Names, Node, Stateful, Step
from penstock.plan.nodes.project import items_of, narrow, project
from penstock.plan.row_traits import DELETIONS, UPDATES, Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import StepIdentity
from penstock.spi import INSERTIONS
from penstock.types import Field, RowType


@dataclass(frozen=True)
class GroupAggregate(Stateful, Step):
    """Groups rows by the columns ``keys``. ``schema`` has the keys, then the ``calls``. Without keys there is one
    group. ``ttl`` is the time to live of its state; None for that of the job, zero for rows that are kept forever."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    ttl: timedelta | None = field(default=None, kw_only=True)

    @property
    def step_name(self) -> str:
        return "group"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    @property
    def ttls(self) -> tuple[timedelta | None, ...]:
        return (self.ttl,)

    def describe_state(self) -> str:
        return "each group"

    @property
    def logical_name(self) -> str:
        return "Aggregate"

    def explain_step(self) -> list[str]:
        head = f"group by {quote_names(self.keys)}" if self.keys else "group all rows"
        return [head, *(f"  {each.describe()}" for each in self.calls)]

    def flink_attributes(self) -> Attributes:
        select = ("select", ", ".join((*self.keys, *(each.flink_text() for each in self.calls))))
        return (("groupBy", ", ".join(self.keys)), select) if self.keys else (select,)

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        arguments = (name for each in self._wanted_calls(wanted) for name in each.columns)
        return (frozenset((*self.keys, *arguments)),)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below, calls = narrow(inputs[0], *self.columns_read(wanted)), self._wanted_calls(wanted)
        fields = (*below.schema.select(self.keys).fields, *(Field(each.name, each.type) for each in calls))
        return replace(self, schema=RowType(fields, nullable=False), input=below, calls=calls)

    def _wanted_calls(self, wanted: Names) -> tuple[AggregateCall, ...]:
        """The aggregates that are wanted; at least one if a row would have no column otherwise."""
        found = tuple(each for each in self.calls if each.name in wanted)
        return found if found or self.keys else self.calls[:1]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.group_column(self.input, name, self.keys, self.calls)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        assert kept.groups is not None, "its operator keeps groups"  # noqa: S101
        return identifier.identify_groups("GROUP BY", self.input, self.keys, self.calls, kept.groups)

    def arrange_keys(self, order: KeyOrder) -> Node:
        keys = tuple(self.keys[at] for at in order(self.input, self.keys, ""))
        schema = self.schema.select((*keys, *self.schema.names[len(keys) :]))
        return project(replace(self, keys=keys, schema=schema), items_of(self.schema))

    @property
    def title(self) -> str:
        return "aggregate"

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kinds = INSERTIONS | (UPDATES if self.calls else INSERTIONS) | (DELETIONS if below.changing else INSERTIONS)
        return Traits(kinds=kinds, bounded=below.bounded, upsert_keys=(self.keys,), stateful=True)
