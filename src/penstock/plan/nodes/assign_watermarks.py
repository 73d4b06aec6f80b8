"""The event time of rows, and their watermark."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression
from penstock.plan.flink_sql import flink_sql
from penstock.plan.node import Attributes, Calculation, Names
from penstock.plan.reading import names_read
from penstock.plan.row_traits import Traits
from penstock.types import quote_name


@dataclass(frozen=True)
class AssignWatermarks(Calculation):
    """Names the ``column`` with the event time of the rows, and the ``watermark`` (a TIMESTAMP) after a row, for
    sources that do not measure it. The schema is the input's."""

    column: str
    watermark: Expression

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.watermark,)

    @property
    def flink_name(self) -> str:
        return "WatermarkAssigner"

    @property
    def logical_name(self) -> str:
        return "WatermarkAssigner"

    def explain_step(self) -> list[str]:
        return [f"event time {quote_name(self.column)}, watermark {flink_sql(self.watermark)}"]

    def flink_attributes(self) -> Attributes:
        return ("rowtime", self.column), ("watermark", flink_sql(self.watermark))

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        return (wanted | {self.column} | names_read(self.watermark),)

    @property
    def assigned_watermark(self) -> Expression:
        return self.watermark

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        return replace(below, rowtimes=(self.column,))
