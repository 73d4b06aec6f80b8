"""Rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.flink_sql import flink_sql
from penstock.plan.node import Attributes, Calculation, Names
from penstock.plan.reading import names_read
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

    @property
    def flink_name(self) -> str:
        return "Calc"

    def explain_step(self) -> list[str]:
        return [f"where {flink_sql(self.condition)}"]

    def logical_attributes(self) -> Attributes:
        return (("condition", flink_sql(self.condition)),)

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return (wanted | names_read(self.condition),)

    @property
    def passes_rows(self) -> bool:
        return False

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return below.filter_rows(self.condition)
