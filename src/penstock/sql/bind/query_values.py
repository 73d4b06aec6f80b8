"""Queries as values: ``(SELECT MAX(x) FROM t)``, and EXISTS and IN outside of the conditions of WHERE."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, Place, call, fields_of, rewrite, walk
from penstock.plan.nodes import AggregateCall, GroupAggregate, Item, JoinKind, Node, project
from penstock.plan.traits import traits
from penstock.sql.bind.aggregates import Aggregate
from penstock.sql.bind.grouping import distinct
from penstock.sql.bind.joins import JoinSource, as_compared
from penstock.sql.bind.naming import free_name, name_of
from penstock.sql.bind.sources import NodeSource, filtered
from penstock.sql.parse.source import Errors
from penstock.types import BOOLEAN, Field, RowType

_NOT_NULL = BOOLEAN.with_nullability(False)
_TRUE = Literal(True, type=_NOT_NULL)
_FALSE = Literal(False, type=_NOT_NULL)


class QueryKind(enum.Enum):
    """What of a query's rows is the value."""

    ONLY = "only"
    EXISTS = "exists"
    IN = "in"


@dataclass(frozen=True)
class QueryValue(Expression):
    """The only value of a query, NULL if it has no row; whether it has rows; or whether the ``operand`` is one of its
    values. ``node`` has its rows, of one column where that matters. Exists while a query is bound; the plan has joins.
    """

    node: Node
    kind: QueryKind
    operand: Expression | None = None

    @property
    def operands(self) -> tuple[Expression, ...]:
        return () if self.operand is None else (self.operand,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=operands[0] if operands else None)


def asks_queries(expression: Expression) -> bool:
    """Whether an expression has a query in it."""
    return any(isinstance(each, QueryValue) for each in walk(expression))


@dataclass
class Asking:
    """Rows beside which the values of queries are put, as more columns of ``node``; None after a problem."""

    node: Node | None
    errors: Errors

    def of(self, expression: Expression) -> Expression:
        """``expression``, with columns in place of its queries."""
        return rewrite(expression, self._value) if asks_queries(expression) else expression

    def in_aggregates(self, expression: Expression) -> Expression:
        """``expression``, with columns in place of the queries that stand in its aggregates."""
        if isinstance(expression, Aggregate):
            return self.of(expression)
        operands = tuple(self.in_aggregates(each) for each in expression.operands)
        return expression.with_operands(operands) if operands != expression.operands else expression

    def filtered(self, conditions: Sequence[Expression]) -> Node | None:
        """The rows for which all ``conditions`` are true, which may have queries in them."""
        found = [self.of(each) for each in conditions]
        return None if self.node is None else filtered(self.node, found)

    def _value(self, given: Expression) -> Expression:
        if not isinstance(given, QueryValue):
            return given
        match given.kind:
            case QueryKind.ONLY:
                return self._beside(_only(given.node, given.place))
            case QueryKind.EXISTS:
                return self._exists(given.node)
        assert given.operand is not None  # noqa: S101
        (value,) = fields_of(given.node.schema)
        found = self._matching(given, value)
        if not value.type.nullable and not given.operand.type.nullable:
            return found
        # Three-valued: NULL is in no list but an empty one, and a list with NULL has each value perhaps.
        unknown = [_is_null(given.operand)]
        if value.type.nullable:
            unknown.append(self._exists(filtered(given.node, (_is_null(value),))))
        null = Literal(None, type=BOOLEAN)
        none = call("NOT", self._exists(given.node), type=BOOLEAN)
        cases = (found, _TRUE, none, _FALSE, call("OR", *unknown), null, _FALSE)
        return Call("CASE", cases, type=BOOLEAN, place=given.place)

    def _exists(self, node: Node) -> Expression:
        """Whether a query has rows."""
        return call("NOT", _is_null(self._beside(distinct(project(node, (Item("$TRUE", _TRUE),))))))

    def _matching(self, given: QueryValue, value: Expression) -> Expression:
        """Whether a value of the query is equal to the operand."""
        assert given.operand is not None  # noqa: S101
        item = Item(name_of(value), as_compared(value, given.operand))
        return call("NOT", _is_null(self._beside(distinct(project(given.node, (item,))), given.operand)))

    def _beside(self, right: Node, equal: Expression | None = None) -> Expression:
        """The first column of ``right`` beside each row: of its only row, or of the row that is equal; else NULL."""
        first = fields_of(right.schema)[0]
        if self.node is None:
            return first
        names = {first.name: free_name(first.name, self.node.schema.names)}
        found = ColumnRef(names[first.name], type=first.type.with_nullability(True))
        source = JoinSource(
            JoinKind.LEFT,
            NodeSource(self.node, "", self.node.schema.names),
            NodeSource(right, "", right.schema.names),
            names,
            (),
            self.errors,
            () if equal is None else (call("=", equal, replace(found, type=first.type)),),
        )
        self.node = source.rows(())
        return found


def _only(node: Node, place: Place | None) -> Node:
    """One row with the only value of a query, which is at ``place``."""
    if () in traits(node).upsert_keys:
        return node
    (value,) = node.schema.fields
    type_ = value.type.with_nullability(True)
    name = f"$SINGLE_VALUE({value.name})"
    only = AggregateCall(name, "SINGLE_VALUE", type_, value.name, nulls=True, place=place)
    return GroupAggregate(RowType((Field(only.name, type_),), nullable=False), node, (), (only,))


def _is_null(value: Expression) -> Expression:
    return call("IS NULL", value, type=_NOT_NULL)
