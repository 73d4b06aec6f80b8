"""Queries as values: ``(SELECT MAX(x) FROM t)``, and EXISTS and IN that are not conditions of WHERE or ON by
themselves."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import (
    FALSE,
    TRUE,
    Call,
    Expression,
    Literal,
    call,
    conjunction,
    disjunction,
    rewrite,
    walk,
)
from penstock.plan.nodes import Node
from penstock.sql.bind.expressions.aggregates import Aggregate
from penstock.sql.bind.joins.conditions import cast_for_comparison
from penstock.sql.bind.results import Result
from penstock.sql.bind.subqueries.subquery import Subquery
from penstock.sql.bind.tables.sources import filter_rows
from penstock.sql.parse.source import Errors
from penstock.types import BOOLEAN


class QueryKind(enum.Enum):
    """How a query is used as a value: ``(query)``, ``EXISTS (query)`` or ``value IN (query)``."""

    ONLY = "only"
    EXISTS = "exists"
    IN = "in"


@dataclass(frozen=True)
class QueryValue(Expression):
    """A query as a value: its only value, NULL if it has no row; whether it has rows; or whether the values ``wanted``
    are those of one of its rows. Exists while a query is bound; the plan has joins."""

    query: Subquery
    kind: QueryKind
    wanted: tuple[Expression, ...] = ()

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*self.wanted, *self.query.operands)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        count = len(self.wanted)
        return replace(self, wanted=operands[:count], query=self.query.with_operands(operands[count:]))


def has_subquery(expression: Expression) -> bool:
    """Whether an expression contains a query."""
    return any(isinstance(each, QueryValue) for each in walk(expression))


@dataclass
class SubqueryJoins:
    """Joins rows with the queries in expressions: their values become more columns of ``node``, which is None after a
    problem."""

    node: Node | None
    errors: Errors

    def rewrite(self, expression: Expression) -> Expression:
        """``expression``, with columns in place of its queries."""
        return rewrite(expression, self._join_value) if has_subquery(expression) else expression

    def rewrite_aggregates(self, expression: Expression) -> Expression:
        """``expression``, with columns in place of the queries in its aggregates."""
        if isinstance(expression, Aggregate):
            return self.rewrite(expression)
        operands = tuple(self.rewrite_aggregates(each) for each in expression.operands)
        return expression.with_operands(operands) if operands != expression.operands else expression

    def filter_rows(self, conditions: Sequence[Expression]) -> Node | None:
        """The rows for which all ``conditions`` are true, which may have queries in them."""
        found = [self.rewrite(each) for each in conditions]
        return None if self.node is None else filter_rows(self.node, found)

    def _join_value(self, given: Expression) -> Expression:
        if not isinstance(given, QueryValue) or self.node is None:
            return given
        match given.kind:
            case QueryKind.ONLY:
                return self._join_only_row(given)[0]
            case QueryKind.EXISTS:
                return TRUE if given.query.empty is not None else self._join_exists(given.query)
        if given.query.empty is not None:  # the query has one row
            pairs = zip(given.wanted, self._join_only_row(given), strict=True)
            equal = [
                call("=", cast_for_comparison(a, b), cast_for_comparison(b, a), place=given.place) for a, b in pairs
            ]
            return conjunction(equal)
        found = self._join_exists(given.query.match_operands(given.wanted))
        if not given.type.nullable:
            return found
        # Three-valued logic: whether NULL is in a list is unknown unless the list is empty, and so is whether a list
        # with NULL has a value that is not found in it.
        unknown = [self._join_exists(each) for each in given.query.match_unknown(given.wanted)]
        return Call(
            "CASE",
            (found, TRUE, disjunction(unknown), Literal(None, type=BOOLEAN), FALSE),
            type=BOOLEAN,
            place=given.place,
        )

    def _join_only_row(self, given: QueryValue) -> tuple[Expression, ...]:
        """The values of the only row."""
        if self.node is None:
            return given.query.values
        self.node, found = given.query.join_only_row(self.node, given.place, self.errors)
        return found

    def _join_exists(self, query: Subquery) -> Expression:
        """Whether a query has rows."""
        if self.node is None:
            return TRUE
        self.node, found = query.join_exists(self.node, self.errors)
        return found


def with_subquery_values(
    result: Result, having: tuple[Expression, ...], errors: Errors, *, in_aggregates: bool = False
) -> tuple[Result, tuple[Expression, ...]]:
    """A result and its conditions on groups, with columns in place of their queries, or only of the queries
    ``in_aggregates``."""
    joins = SubqueryJoins(result.node, errors)
    of = joins.rewrite_aggregates if in_aggregates else joins.rewrite
    columns = result.columns
    if columns is not None:
        columns = tuple(None if each is None else replace(each, value=of(each.value)) for each in columns)
    having = tuple(of(each) for each in having)
    return replace(result, node=joins.node, columns=columns), having
