"""Rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.node import Calculation
from penstock.plan.row_traits import Traits


@dataclass(frozen=True)
class Filter(Calculation):
    """Keeps the rows for which ``condition`` is true. The schema is the input's."""

    condition: Expression

    @property
    def kept_if(self) -> Expression:
        return self.condition

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.condition,)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return below.filtered(self.condition)
