"""One row of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.node import Attributes, KeyOrder, Names, Node
from penstock.plan.nodes.keeps_columns import KeepsColumns
from penstock.plan.row_traits import UPDATES, Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import Fact, StepIdentity
from penstock.types import quote_name


@dataclass(frozen=True)
class Deduplicate(KeepsColumns):
    """Keeps the first or, with ``last``, the last row of each key by the event time in ``order`` (empty: by arrival).
    The schema is the input's."""

    keys: tuple[str, ...]
    order: str = ""
    last: bool = False

    @property
    def by_watermark(self) -> bool:
        """Whether rows are given when the watermark reaches them: first ones by event time, which are final then."""
        return bool(self.order) and not self.last

    @property
    def step_name(self) -> str:
        return "deduplicate"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    def describe_state(self) -> str:
        if self.by_watermark:
            return "the first row of each key until the watermark reaches it, then the key"
        return f"the {self._which} row of each key"

    def explain_step(self) -> list[str]:
        which = f"the {self._which} row {f'by {quote_name(self.order)}' if self.order else 'to arrive'}"
        return [f"{which} of each {quote_names(self.keys)}" if self.keys else which]

    def flink_attributes(self) -> Attributes:
        time = "ROWTIME" if self.order else "PROCTIME"
        return ("keep", "LastRow" if self.last else "FirstRow"), ("key", ", ".join(self.keys)), ("order", time)

    @property
    def _which(self) -> str:
        return "last" if self.last else "first"

    @property
    def own_columns(self) -> Names:
        return frozenset((*self.keys, *([self.order] if self.order else [])))

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        by = identifier.fact(self.input, self.order) if self.order else Fact.from_text("arrival")
        facts = {"row that stays": Fact(f"{self._which} by {by.meaning}", f"the {self._which} by {by.shown}")}
        if not (self.order or self.last):  # only the keys are kept
            keys = {"": identifier.columns(self.input, self.keys)}
            return StepIdentity(step="one row of each key", facts=facts, keys=keys)
        return identifier.identify_rows("one row of each key", self.input, self.keys, facts)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return replace(self, keys=tuple(self.keys[at] for at in order(self.input, self.keys, "")))

    @property
    def title(self) -> str:
        return "ROW_NUMBER()"

    @property
    def needs_event_time(self) -> bool:
        return self.by_watermark

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        kinds = below.kinds | UPDATES if self.last else below.kinds
        return replace(below, kinds=kinds, upsert_keys=(self.keys,), stateful=True)
