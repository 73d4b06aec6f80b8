"""The last row of each key."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.node import KeyOrder, Names, Node
from penstock.plan.nodes.keeps_columns import KeepsColumns
from penstock.plan.row_traits import Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import Fact, StepIdentity
from penstock.spi import CHANGES


@dataclass(frozen=True)
class Materialize(KeepsColumns):
    """The last row of each key to arrive, of those that were not retracted. The schema is the input's. A retraction may
    have other values than its row in the columns ``decided``, which are random: those of the row are given again."""

    keys: tuple[str, ...]
    decided: tuple[str, ...] = ()

    @property
    def keeps_random_values(self) -> bool:
        return bool(self.decided)

    @property
    def step_name(self) -> str:
        return "last rows"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    def describe_state(self) -> str:
        return "all rows of each key, in their order"

    def explain_step(self) -> list[str]:
        row = f"the last row of each {quote_names(self.keys)}" if self.keys else "the last row"
        return [f"{row}, with the random values that it had first" if self.decided else row]

    @property
    def own_columns(self) -> Names:
        return frozenset(self.keys)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        facts = {"random values": Fact.from_text("kept")} if self.decided else {}
        return identifier.identify_rows("the last rows of a key", self.input, self.keys, facts, growing=False)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return replace(self, keys=tuple(self.keys[at] for at in order(self.input, self.keys, "")))

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, kinds=CHANGES, upsert_keys=(self.keys,), stateful=True)
