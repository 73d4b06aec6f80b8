"""UNION, INTERSECT, EXCEPT and VALUES: rows side by side, whose columns get the types that they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.plan.expressions import Literal, fields_of
from penstock.plan.nodes import Node, SetKind, SetOperation, Union, project, row_of
from penstock.sql.bind.context import Context
from penstock.sql.bind.expressions.scope import UNTYPED_NULL
from penstock.sql.bind.expressions.selection import Selected, number_names
from penstock.sql.bind.groups.grouping import keep_distinct
from penstock.sql.bind.results import BROKEN, Result, cast_columns
from penstock.sql.bind.tables.constants import OneRow, make_values
from penstock.sql.parse.syntax import UnboundQuery, UnboundUnion, UnboundValues
from penstock.types import DataType, NullType, RowType
from penstock.types.casts import find_common_type


@dataclass(frozen=True)
class _Aligned:
    """The rows of several queries, whose columns correspond by position; their common schema, and the columns of a
    result with that schema."""

    nodes: tuple[Node, ...]
    schema: RowType
    columns: tuple[Selected, ...]


def flatten_union(given: UnboundUnion) -> list[UnboundQuery]:
    """The queries that a UNION consists of, including the queries of a UNION ALL in it."""
    left, right = given.left, given.right
    flat = isinstance(left, UnboundUnion) and (left.all or not given.all)
    return [*(flatten_union(left) if flat and isinstance(left, UnboundUnion) else [left]), right]


def bind_union(members: Sequence[Result], context: Context, *, keeps_duplicates: bool) -> Result:
    """The rows of all ``members``."""
    aligned = _align_types(members, "UNION", context)
    if aligned is None:
        return BROKEN
    node = Union(aligned.schema, aligned.nodes)
    return Result(node if keeps_duplicates else keep_distinct(node), aligned.columns)


def bind_set_operation(kind: SetKind, left: Result, right: Result, context: Context) -> Result:
    """The rows of ``left`` that are, or are not, among those of ``right``."""
    aligned = _align_types([left, right], kind.name.replace("_", " "), context)
    if aligned is None:
        return BROKEN
    kept, compared = aligned.nodes
    return Result(SetOperation(aligned.schema, kept, compared, kind), aligned.columns)


def bind_values(given: UnboundValues, context: Context) -> Result:
    """The rows of VALUES."""
    scope = context.scope(RowType((), nullable=False), OneRow().tables, "in VALUES")
    rows: list[list[Selected]] = []
    for row in given.rows:
        values = [context.errors.attempt(partial(scope.value, each)) for each in row]
        found = zip(row, values, strict=True)
        rows.append([Selected(f"EXPR${n}", to, each.at) for n, (each, to) in enumerate(found) if to is not None])
        if len(rows[-1]) < len(row):
            return BROKEN
        if len(row) != len(given.rows[0]):
            reason = f"the rows of VALUES have different lengths: {len(given.rows[0])} and {len(row)}"
            context.errors.append(context.source.error(row[0].at, reason, "write as many values in each row"))
            return BROKEN
    types = [_find_common_type(each, "VALUES", context) for each in zip(*rows, strict=True)]
    known = [each for each in types if each is not None]
    if len(known) < len(types):
        return BROKEN
    node = make_values([[each.value for each in row] for row in rows], [each.name for each in rows[0]], known)
    refs = {each.name: each for each in fields_of(node.schema)}
    return Result(node, tuple(replace(each, value=refs.get(each.name, each.value)) for each in rows[0]))


def _align_types(members: Sequence[Result], of: str, context: Context) -> _Aligned | None:
    """The rows of queries in columns of the types that they have in common; None after a problem."""
    for ranked in filter(None, (each.as_ranked(context.source) for each in members)):
        context.errors.attempt(partial(ranked.keep_rows, ()))
        return None
    if not context.independent(*(each.outer for each in members)):
        return None
    found = [(each.node, each.complete) for each in members]
    rows = [(node, columns) for node, columns in found if node is not None and columns is not None]
    if len(rows) < len(members):
        return None
    first = rows[0][1]
    for _, columns in rows[1:]:
        if len(columns) != len(first):
            article = "an" if of[0] in "IE" else "a"
            reason = f"{article} {of} of {len(first)} and of {len(columns)} columns"
            context.errors.append(context.source.schema_error(columns[0].at, reason, "select as many columns"))
            return None
    types = [_find_common_type(each, of, context) for each in zip(*(columns for _, columns in rows), strict=True)]
    known = [each for each in types if each is not None]
    if len(known) < len(types):
        return None
    nodes = tuple(project(node, number_names(cast_columns(columns, known))) for node, columns in rows)
    schema = row_of(
        number_names([replace(each, value=Literal(None, type=to)) for each, to in zip(first, known, strict=True)])
    )
    refs = zip(first, fields_of(schema), strict=True)
    return _Aligned(nodes, schema, tuple(replace(each, value=ref) for each, ref in refs))


def _find_common_type(columns: tuple[Selected, ...], of: str, context: Context) -> DataType | None:
    """The type of a column of UNION or VALUES; None after a problem."""
    types = tuple(each.value.type for each in columns)
    common = find_common_type(types)
    if common is None:
        names = ", ".join(dict.fromkeys(each.text() for each in types))
        reason = f"column '{columns[0].name}' of {of} has no type in common: {names}"
        context.errors.append(context.source.schema_error(columns[-1].at, reason, "CAST the columns"))
    elif isinstance(common, NullType) and of != "VALUES":
        context.errors.append(context.source.error(columns[0].at, *UNTYPED_NULL))
        return None
    return common
