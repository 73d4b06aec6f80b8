"""The event time of rows, and their watermark."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.plan.node import Calculation
from penstock.plan.row_traits import Traits


@dataclass(frozen=True)
class AssignWatermarks(Calculation):
    """Names the ``column`` with the event time of the rows, and the ``watermark`` (a TIMESTAMP) after a row, for
    sources that do not measure it. The schema is the input's."""

    column: str
    watermark: Expression

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.watermark,)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, rowtimes=(self.column,))
