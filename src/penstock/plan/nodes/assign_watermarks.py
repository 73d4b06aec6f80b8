"""The event time of rows, and their watermark."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class AssignWatermarks(Step):
    """Names the ``column`` with the event time of the rows, and the ``watermark`` (a TIMESTAMP) after a row, for
    sources that do not measure it. The schema is the input's."""

    column: str
    watermark: Expression
