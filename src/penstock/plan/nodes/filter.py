"""Rows for which a condition is true."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class Filter(Step):
    """Keeps the rows for which ``condition`` is true. The schema is the input's."""

    condition: Expression
