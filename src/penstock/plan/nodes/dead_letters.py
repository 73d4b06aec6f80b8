"""Records that cannot be decoded."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.node import Step
from penstock.plan.row_traits import Traits
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class DeadLetters(Step):
    """The records that the scan below could not decode, instead of its rows."""

    @property
    def is_base(self) -> bool:
        return False

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return Traits(kinds=INSERTIONS, bounded=below.bounded)
