"""Correlated subqueries that compute with outer columns: once for each of their distinct values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from penstock.plan.expressions import (
    TRUE,
    ColumnRef,
    Expression,
    Literal,
    is_not_null,
    offset_of,
    rewrite,
    substitute,
)
from penstock.plan.nodes import Item, JoinKind
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Dependent, Domain, offset_of_outer
from penstock.sql.bind.expressions.aggregates import Aggregate, GroupId
from penstock.sql.bind.expressions.generated_names import find_free_name
from penstock.sql.bind.expressions.selection import number_names
from penstock.sql.bind.joins.conditions import join_nodes
from penstock.sql.bind.results import BROKEN, Result
from penstock.sql.bind.subqueries.subquery import choose
from penstock.sql.bind.subqueries.values import has_subquery


def place_beside_outer(result: Result, others: Sequence[Expression], context: Context) -> Result:
    """The rows of a result once for each of the distinct values of the outer columns that it and the ``others`` read.
    If that is impossible, the reason is added to the errors."""
    return context.errors.attempt(partial(_place_beside_outer, result, others, context)) or BROKEN


def _place_beside_outer(result: Result, others: Sequence[Expression], context: Context) -> Result:
    """Raises UnsupportedError for a column of a type that cannot be compared."""
    if result.node is None or result.columns is None:
        return result
    values = [each.value for each in result.columns if each is not None]
    domain = Domain.from_expressions(
        (*result.conditions, *values, *others), (*result.node.schema.names, *result.below.names)
    )
    check_matched(domain, result.conditions, context)
    rows, there = domain.placeholder(), domain.values
    conditions = [substitute(each, there) for each in result.conditions]
    node, _ = join_nodes(JoinKind.INNER, result.node, rows, lambda _: conditions, context.errors)
    columns = tuple(
        None if each is None else replace(each, value=substitute(each.value, there)) for each in result.columns
    )
    return Result(node, columns, tuple(domain.match_conditions(result.conditions)), result.empty, domain, result.below)


def check_matched(domain: Domain, conditions: Sequence[Expression], context: Context) -> None:
    """Raises UnsupportedError for a column that may be NULL and cannot be compared as such."""
    column = domain.find_unmatchable(conditions)
    if column is not None:
        reason = f"computing with a column of an outer query, of type {column.type.text()}, is not supported"
        raise context.source.unsupported_feature(offset_of_outer(column), reason, "compare it with '='")


def complete_groups(result: Result, context: Context) -> Result:
    """An aggregate of all rows with its row for each of the distinct values of the outer columns, also for values
    without rows. If that is impossible, the reason is added to the errors."""
    return context.errors.attempt(partial(_complete_groups, result, context)) or BROKEN


def _complete_groups(result: Result, context: Context) -> Result:
    """Raises UnsupportedError for a column of a type that cannot be compared."""
    columns = result.complete
    if result.node is None or columns is None or result.empty is None:
        return Result(None, result.columns)
    below = result.domain.union(result.below)
    domain = Domain.from_expressions((*result.conditions, *result.empty), (*result.node.schema.names, *below.names))
    check_matched(domain, (), context)
    items, there = number_names(columns), domain.values
    flag = find_free_name("$TRUE", [each.name for each in items])
    groups = Dependent.from_rows(result.node, (*items, Item(flag, TRUE)), result.conditions)

    def conditions(rights: Mapping[str, ColumnRef]) -> Sequence[Expression]:
        return [substitute(each, {**there, **rights}) for each in groups.conditions]

    node, rights = join_nodes(JoinKind.LEFT, domain.placeholder(), groups.node, conditions, context.errors)
    found = is_not_null(replace(rights[flag], type=TRUE.type.with_nullability(True)))
    pairs = zip(items, result.empty, strict=True)
    values = [choose(found, rights[each.name], substitute(none, there)) for each, none in pairs]
    named = tuple(replace(each, value=value) for each, value in zip(columns, values, strict=True))
    return Result(node, named, tuple(domain.match_conditions(())), domain=domain, below=below)


def group_beside_outer(result: Result, context: Context, *, whole: bool) -> Result:
    """The rows that a correlated subquery groups, or aggregates as a ``whole``: what is compared with outer columns by
    '=' becomes a key. Raises UnsupportedError for what is unknown where no row matches."""
    if result.outer is None:
        return result
    if whole:
        empty = _find_empty_values(result)
        refused = next((each for each in empty if has_subquery(each)), None)
        if refused is not None:
            reason = "a query in SELECT or HAVING without GROUP BY, in a query that reads columns of an outer query,"
            raise context.source.unsupported_feature(
                offset_of(refused),
                f"{reason} is not supported",
                "write GROUP BY with the columns that are compared, if there need not be a value where no row matches",
            )
        result = replace(result, empty=empty)
    return result if result.compares else place_beside_outer(result, (), context)


def _find_empty_values(result: Result) -> tuple[Expression, ...]:
    """The values of the columns of a query that aggregates all of its rows, where it has none."""

    def replace_aggregate(each: Expression) -> Expression:
        if isinstance(each, GroupId):
            return Literal(0, type=each.type)
        if not isinstance(each, Aggregate):
            return each
        if each.function == "COUNT":
            return Literal(0, type=each.type)
        return Literal(None, type=each.type.with_nullability(True))

    return tuple(rewrite(each.value, replace_aggregate) for each in result.columns or () if each is not None)
