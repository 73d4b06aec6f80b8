"""Queries that compute with columns of the query around them: once for each of its different rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.plan.expressions import Expression, Literal, rewrite, substituted
from penstock.plan.nodes import JoinKind
from penstock.sql.bind.aggregates import Aggregate, GroupId
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Domain, place_of_outer, reads_outer
from penstock.sql.bind.joins import beside
from penstock.sql.bind.names import CORRELATED
from penstock.sql.bind.query_values import asks_queries
from penstock.sql.bind.results import Result


def beside_outer(result: Result, others: Sequence[Expression], context: Context) -> Result:
    """The rows of a result once for each of the different rows of the query around, as far as it and the ``others``
    read them. Raises UnsupportedError for a column of a type that cannot be compared so."""
    if result.node is None or result.columns is None:
        return result
    values = [each.value for each in result.columns if each is not None]
    domain = Domain.of((*result.conditions, *values, *others), result.node.schema.names)
    column = domain.unmatched(result.conditions)
    if column is not None:
        reason = f"computing with a column of the query around that is {column.type.text()} is not supported"
        raise context.source.unsupported(place_of_outer(column), reason, "compare it with '='")
    rows, there = domain.rows(), domain.values
    conditions = [substituted(each, there) for each in result.conditions]
    node, _ = beside(JoinKind.INNER, result.node, rows, lambda _: conditions, context.errors)
    columns = tuple(
        None if each is None else replace(each, value=substituted(each.value, there)) for each in result.columns
    )
    return Result(node, columns, tuple(domain.equal(result.conditions)), result.empty, domain)


def groups_around(result: Result, having: Sequence[Expression], context: Context, *, whole: bool) -> Result:
    """The rows of a query with groups, or with the ``whole`` of its rows as one, which compares columns of the query
    around with '=': what is compared becomes a key. Raises UnsupportedError."""
    if result.outer is None:
        return result
    if whole:
        empty = _of_no_rows(result)
        read = next((each for each in empty if reads_outer(each)), None)
        if read is not None:
            raise context.source.unsupported(place_of_outer(read), *CORRELATED)
        asked = next((each for each in empty if asks_queries(each)), None)
        if having or asked is not None:
            found = having[0] if having else asked
            at = found.place.offset if found is not None and found.place else 0
            reason = "HAVING" if having else "a query in SELECT"
            reason += " without GROUP BY, in a query that reads columns of the query around, is not supported"
            raise context.source.unsupported(
                at,
                reason,
                "write GROUP BY with the columns that are compared, if there need not be a value where no row matches",
            )
        result = replace(result, empty=empty)
    return result if result.compares else beside_outer(result, (), context)


def _of_no_rows(result: Result) -> tuple[Expression, ...]:
    """The values of the columns of a query that aggregates all of its rows, where it has none."""

    def of_nothing(each: Expression) -> Expression:
        if isinstance(each, GroupId):
            return Literal(0, type=each.type)
        if not isinstance(each, Aggregate):
            return each
        if each.function == "COUNT":
            return Literal(0, type=each.type)
        return Literal(None, type=each.type.with_nullability(True))

    return tuple(rewrite(each.value, of_nothing) for each in result.columns or () if each is not None)
