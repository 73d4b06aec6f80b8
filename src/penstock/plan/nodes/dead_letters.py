"""Records that cannot be decoded."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage
from penstock.plan.node import Step
from penstock.plan.row_traits import Traits
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class DeadLetters(Step):
    """The records that the scan below could not decode, instead of its rows."""

    @property
    def is_base(self) -> bool:
        return False

    def explain_step(self) -> list[str]:
        return ["records that cannot be decoded"]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        return lineage.column(self.input, name)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return Traits(kinds=INSERTIONS, bounded=below.bounded)
