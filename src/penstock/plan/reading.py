"""What expressions read."""

from __future__ import annotations

from penstock.plan.expressions import Call, Expression, columns_of, walk
from penstock.spi import WATERMARK


def names_read(expression: Expression) -> frozenset[str]:
    """The columns that an expression reads, the present watermark too."""
    calls = (each.function for each in walk(expression) if isinstance(each, Call))
    return columns_of(expression) | ({WATERMARK} if "CURRENT_WATERMARK" in calls else frozenset())
