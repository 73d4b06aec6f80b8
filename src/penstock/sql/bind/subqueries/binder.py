"""Queries in expressions and in the conditions of WHERE and ON: from syntax to the rows that are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.plan.expressions import Expression, Place, call, coerce, substitute
from penstock.plan.nodes import Node, items_of, project
from penstock.sql.bind.context import Context
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.results import Result
from penstock.sql.bind.subqueries.outer_rows import place_beside_outer
from penstock.sql.bind.subqueries.subquery import Subquery
from penstock.sql.bind.subqueries.values import QueryKind, QueryValue, SubqueryJoins
from penstock.sql.parse.source import Errors
from penstock.sql.parse.syntax import Unbound, UnboundCall, UnboundQuery, UnboundSubquery
from penstock.types import BOOLEAN, NullType, RowType
from penstock.types.casts import find_key_type


@dataclass(frozen=True)
class SubqueryCondition:
    """A condition of WHERE or ON that is ``given`` as EXISTS or IN with a ``query``; IN compares the values ``wanted``
    with those of the query."""

    given: UnboundSubquery
    query: Subquery
    wanted: tuple[Expression, ...]
    place: Place

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions of the row that the condition is about."""
        return (*self.wanted, *self.query.operands)

    def with_columns(self, values: Mapping[str, Expression]) -> SubqueryCondition:
        """The condition with other ``values`` in place of columns."""
        query = self.query.with_operands([substitute(each, values) for each in self.query.operands])
        return replace(self, query=query, wanted=tuple(substitute(each, values) for each in self.wanted))

    def keep_matching(self, node: Node, errors: Errors) -> Node | None:
        """The rows of ``node`` for which the condition is true; None after a problem."""
        joins = SubqueryJoins(node, errors)
        if self.query.empty is not None:
            found = joins.filter_rows((_value(self.given, self.query, self.wanted, self.place),))
        else:
            wanted = tuple(joins.rewrite(each) for each in self.wanted)
            found = joins.node and self.query.keep_rows(joins.node, wanted, self.given.negated, errors)
        return None if found is None else project(found, items_of(node.schema))


@dataclass(frozen=True)
class SubqueryBinder:
    """Binds the queries in the expressions of another one. ``result`` gives the result of a query that may read the
    columns of a scope."""

    context: Context
    result: Callable[[UnboundQuery, Scope], Result]

    def value(self, given: UnboundSubquery, scope: Scope) -> Expression:
        """A query in an expression. Raises SqlError or SchemaError for one with a problem."""
        query = self._subquery(given, scope)
        if query is None:
            raise self.context.errors[-1]
        return _value(given, query, self._bind_compared(given, query, scope), self.context.source.at(given.at))

    def condition(self, given: UnboundSubquery, scope: Scope) -> SubqueryCondition | None:
        """A query that is a condition; None after a problem."""
        query = self._subquery(given, scope)
        wanted = (
            None if query is None else self.context.errors.attempt(partial(self._bind_compared, given, query, scope))
        )
        if query is None or wanted is None:
            return None
        return SubqueryCondition(given, query, wanted, self.context.source.at(given.at))

    def _subquery(self, given: UnboundSubquery, scope: Scope) -> Subquery | None:
        """The rows of a query in an expression; None after a problem."""
        result, source = self.result(given.query, scope), self.context.source
        if result.as_ranked(source) is not None:
            result.plan_rows(self.context)
            return None
        if given.only and not result.compares:
            result = place_beside_outer(result, (), self.context)
        exists = given.operand is None and not given.only
        columns = result.complete if exists else result.check_column_types(self.context)
        if result.node is None or columns is None:
            return None
        if given.only and len(columns) != 1:
            reason = f"the query gives {len(columns)} columns, not one value"
            self.context.errors.append(source.schema_error(given.query.at, reason, "select one value"))
            return None
        values = [] if exists else [each.value for each in columns]
        return Subquery.from_result(result.node, values, result)

    def _bind_compared(self, given: UnboundSubquery, query: Subquery, scope: Scope) -> tuple[Expression, ...]:
        """The values that are compared with those of the ``query`` of IN. Raises SqlError and SchemaError."""
        source = self.context.source
        operand, count = given.operand, len(query.values)
        if operand is None:
            return ()
        rows = count == 1 and isinstance(query.values[0].type, RowType)
        row = isinstance(operand, UnboundCall) and operand.name == "ROW" and len(operand.args) > 1
        parts = operand.args if isinstance(operand, UnboundCall) and row and not rows else (operand,)
        if len(parts) != count:
            wanted = len(parts) if len(parts) > 1 else "one"
            columns = "1 column" if count == 1 else f"{count} columns"
            reason, hint = f"the query of IN has {columns}, not {wanted}", f"select {wanted} value"
            raise source.schema_error(given.query.at, reason, hint + ("s" if len(parts) > 1 else ""))
        found = tuple(scope.bind(each) for each in parts)
        for each, value in zip(found, query.values, strict=True):
            if find_key_type(each.type, value.type) is None:
                reason = f"{each.type.text()} cannot be compared with {value.type.text()}"
                raise source.error(given.at, reason, "CAST one of them")
        pairs = zip(found, query.values, strict=True)
        return tuple(coerce(each, value.type) if isinstance(each.type, NullType) else each for each, value in pairs)


def split_condition(condition: Unbound | None) -> tuple[Unbound | None, list[UnboundSubquery]]:
    """A condition without the queries of IN and EXISTS between its ANDs, and these."""
    plain: list[Unbound] = []
    queries: list[UnboundSubquery] = []
    if condition is None:
        return None, queries
    is_and = isinstance(condition, UnboundCall) and condition.name == "AND"
    for each in condition.args if is_and and isinstance(condition, UnboundCall) else (condition,):
        found, negated = each, False
        while isinstance(found, UnboundCall) and found.name == "NOT" and isinstance(found.args[0], UnboundSubquery):
            (found,), negated = found.args, not negated
        if isinstance(found, UnboundSubquery) and not found.only:
            queries.append(replace(found, negated=found.negated != negated))
        else:
            plain.append(each)
    if not queries:
        return condition, queries
    if len(plain) < 2:
        return plain[0] if plain else None, queries
    return UnboundCall(plain[0].at, "AND", tuple(plain)), queries


def keep_matching(
    conditions: Sequence[SubqueryCondition], others: Sequence[Expression], node: Node, errors: Errors
) -> Node | None:
    """The rows of ``node`` for which all ``conditions`` are true, and the ``others``, which have queries in them;
    perhaps with more columns. None after a problem."""
    found: Node | None = node
    for each in conditions:
        found = None if found is None else each.keep_matching(found, errors)
    return SubqueryJoins(found, errors).filter_rows(others)


def _value(given: UnboundSubquery, query: Subquery, wanted: tuple[Expression, ...], place: Place) -> Expression:
    """The value of a query in an expression."""
    if given.only:
        type_ = query.values[0].type.with_nullability(query.empty is None or query.empty[0].type.nullable)
        return QueryValue(query, QueryKind.ONLY, type=type_, place=place)
    kind = QueryKind.EXISTS if given.operand is None else QueryKind.IN
    null = bool(wanted) and any(each.type.nullable for each in (*wanted, *query.values))
    found = QueryValue(query, kind, wanted, type=BOOLEAN.with_nullability(null), place=place)
    return call("NOT", found, type=found.type, place=place) if given.negated else found
