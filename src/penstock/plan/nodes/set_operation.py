"""Rows compared with those of another table."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import KeyOrder, Node, Stateful, TwoInputs
from penstock.plan.nodes.project import items_of, project
from penstock.plan.row_traits import DELETIONS, Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import SIDES, Fact, StepIdentity
from penstock.spi import INSERTIONS


class SetKind(enum.Enum):
    """Which rows of the left side are in a result, by the equal rows of the right side; NULL is equal to NULL.
    INTERSECT and EXCEPT give each row once, SEMI and ANTI as often as it is on the left side."""

    INTERSECT = "intersect"
    INTERSECT_ALL = "intersect all"
    EXCEPT = "except"
    EXCEPT_ALL = "except all"
    SEMI = "semi"
    ANTI = "anti"


_COMPARISONS = {
    SetKind.INTERSECT: "different rows of both",
    SetKind.INTERSECT_ALL: "rows of both",
    SetKind.EXCEPT: "different rows of the first without those of the second",
    SetKind.EXCEPT_ALL: "rows of the first minus those of the second",
    SetKind.SEMI: "rows of the first that are in the second",
    SetKind.ANTI: "rows of the first that are not in the second",
}


@dataclass(frozen=True)
class SetOperation(Stateful, TwoInputs):
    """Rows of ``left`` that are, or are not, rows of ``right`` too, whose columns correspond by position and have the
    same types. The schema is that of ``left``."""

    kind: SetKind

    @property
    def step_name(self) -> str:
        return "compare"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return self.left.schema.names, self.right.schema.names

    def describe_state(self) -> str:
        return "how often each row is on either side"

    def explain_step(self) -> list[str]:
        return [_COMPARISONS[self.kind]]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.left, self.left.schema.names[self.schema.names.index(name)])

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        sides = zip(SIDES, self.inputs, strict=True)
        keys = {side: identifier.columns(each, each.schema.names) for side, each in sides}
        facts = {"comparison": Fact.from_text(self.kind.value)}
        return StepIdentity(step="a comparison", facts=facts, keys=keys)

    def arrange_keys(self, order: KeyOrder) -> Node:
        places = order(self.left, self.left.schema.names, SIDES[0])
        items = (items_of(each.schema) for each in self.inputs)
        sides = zip(self.inputs, items, strict=True)
        left, right = (project(each, tuple(own[at] for at in places)) for each, own in sides)
        return project(replace(self, left=left, right=right, schema=left.schema), items_of(self.schema))

    @property
    def title(self) -> str:
        return "comparison of two queries"

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """Rows are added and removed, and never updated."""
        left, right = inputs
        keeps = self.kind in (SetKind.INTERSECT, SetKind.INTERSECT_ALL, SetKind.SEMI)
        grows = keeps and not left.changing and not right.changing
        once = self.kind in (SetKind.INTERSECT, SetKind.EXCEPT)
        return Traits(
            kinds=INSERTIONS if grows else INSERTIONS | DELETIONS,
            bounded=left.bounded and right.bounded,
            upsert_keys=(self.schema.names,) if once else (),
            stateful=True,
        )
