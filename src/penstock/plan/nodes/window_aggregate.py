"""GROUP BY of windows of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import Expression
from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import KeyOrder, Names, Node, Stateful, Step
from penstock.plan.nodes.project import items_of, narrow, project
from penstock.plan.row_traits import Traits, Windowed
from penstock.plan.state_identifier import StateIdentifier, join_facts
from penstock.plan.step_identity import Fact, StepIdentity
from penstock.plan.windowing import Attached, WindowColumns, Windowing, WindowKind
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class WindowAggregate(Stateful, Step):
    """Groups the rows of each window by the columns ``keys``, and gives its groups when it closes. ``schema`` has the
    keys, then the ``calls``, then the ``columns`` of the window."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    windowing: Windowing | Attached
    columns: WindowColumns

    @property
    def step_name(self) -> str:
        return "window"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        windowing = self.windowing
        if isinstance(windowing, Windowing) and windowing.kind is WindowKind.SESSION:
            return (windowing.keys,)
        return (self.keys,)

    @property
    def forgets_by_watermark(self) -> bool:
        return True

    def describe_state(self) -> str:
        return "each group of the windows that are open"

    def explain_step(self) -> list[str]:
        head = f"group by {self.windowing.describe()}" + (f" and {quote_names(self.keys)}" if self.keys else "")
        return [head, *(f"  {each.describe()}" for each in self.calls), f"  {self.columns.describe()}"]

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        arguments = (name for each in self.calls if each.name in wanted for name in each.columns)
        return (frozenset((*self.keys, *arguments, *self.windowing.columns_read)),)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below = narrow(inputs[0], *self.columns_read(wanted))
        calls = tuple(each for each in self.calls if each.name in wanted)
        kept = (*self.keys, *(each.name for each in calls), *self.columns.names)
        return replace(self, schema=self.schema.select(kept), input=below, calls=calls)

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        part = self.columns.part(name)
        if part:
            return lineage.window(self.input, self.windowing, part)
        return lineage.group_column(self.input, name, self.keys, self.calls)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        windowing = self.windowing
        if kept.groups is None:  # the rows are kept: aggregates of what is in them may change
            return self._identify_sessions(identifier, kept)
        found = identifier.identify_groups("a window", self.input, self.keys, self.calls, kept.groups)
        facts = {**found.facts, "window": identifier.window(self.input, windowing)}
        if isinstance(windowing, Windowing) and windowing.kind is not WindowKind.TUMBLE:
            own = "in parts that windows share" if kept.shared else "of each window by itself"
            facts["way in which rows are kept"] = Fact.from_text(own)
        return replace(found, facts=facts)

    def _identify_sessions(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        (keys,) = self.shuffle_keys
        columns, rows = identifier.columns(self.input, keys), identifier.others(self.input, keys)
        groups = join_facts(Fact(each.meaning, each.shown) for each in identifier.columns(self.input, self.keys))
        facts = {"window": identifier.window(self.input, self.windowing), "key of groups": groups}
        if kept.ordered:
            facts["order of its rows"] = Fact("arrival", "that of arrival")
        return StepIdentity(step="a window", facts=facts, keys={"": columns}, rows={"": rows})

    def arrange_keys(self, order: KeyOrder) -> Node:
        keys = tuple(self.keys[at] for at in order(self.input, self.keys, ""))
        schema = self.schema.select((*keys, *self.schema.names[len(keys) :]))
        return project(replace(self, keys=keys, schema=schema), items_of(self.schema))

    @property
    def needs_event_time(self) -> bool:
        return isinstance(self.windowing, Windowing) and not self.windowing.processing

    @property
    def assigned_windows(self) -> Windowing | Attached:
        return self.windowing

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        columns, processing = self.columns, self.windowing.processing
        return Traits(
            kinds=INSERTIONS,
            bounded=below.bounded,
            rowtimes=() if processing else (columns.time,),
            proctimes=(columns.time,) if processing else (),
            window=Windowed(columns, self.windowing),
            upsert_keys=((*self.keys, columns.start, columns.end),),
            stateful=True,
        )
