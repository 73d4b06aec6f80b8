"""ROW_NUMBER() and other rankings as expressions, while a query is bound."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import Expression, walk
from penstock.plan.nodes import Ranking


@dataclass(frozen=True)
class RowNumber(Expression):
    """The number of a row among those with equal values of ``partition``, in this ``order``, and by this ``ranking``.
    Each expression of the order may be ``descending``, and has its nulls first or last. Exists while a query is bound;
    the plan has a node instead."""

    partition: tuple[Expression, ...]
    order: tuple[Expression, ...]
    descending: tuple[bool, ...]
    nulls_first: tuple[bool, ...]
    ranking: Ranking = Ranking.ROW_NUMBER
    #: Whether all rows exist at once.
    batch: bool = False

    @property
    def function(self) -> str:
        """The function, as errors show it."""
        return f"{self.ranking.name}()"

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*self.partition, *self.order)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        count = len(self.partition)
        return replace(self, partition=operands[:count], order=operands[count:])


def has_row_number(expression: Expression) -> bool:
    """Whether an expression contains a row number."""
    return any(isinstance(each, RowNumber) for each in walk(expression))
