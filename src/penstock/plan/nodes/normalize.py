"""Upserts as changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.node import Attributes, KeyOrder, Names, Node
from penstock.plan.nodes.keeps_columns import KeepsColumns
from penstock.plan.row_traits import Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import StepIdentity
from penstock.spi import CHANGES


@dataclass(frozen=True)
class Normalize(KeepsColumns):
    """Makes a full changelog of upserts and deletions by the primary key ``keys``, or of a changelog with repeated
    changes. The schema is the input's."""

    keys: tuple[str, ...]

    @property
    def step_name(self) -> str:
        return "changes"

    @property
    def named_by_sink(self) -> bool:
        return False

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    def describe_state(self) -> str:
        return "the last row of each key"

    @property
    def flink_name(self) -> str:
        return "ChangelogNormalize"

    def explain_step(self) -> list[str]:
        return [f"changes of the table with the key {quote_names(self.keys)}"]

    def flink_attributes(self) -> Attributes:
        return (("key", ", ".join(self.keys)),)

    @property
    def own_columns(self) -> Names:
        return frozenset(self.keys)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        return identifier.identify_rows("the changes of a table", self.input, self.keys)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return replace(self, keys=tuple(self.keys[at] for at in order(self.input, self.keys, "")))

    @property
    def title(self) -> str:
        return "source of upserts"

    @property
    def passes_rows(self) -> bool:
        return True

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, kinds=CHANGES, upsert_keys=(self.keys,), stateful=True)
