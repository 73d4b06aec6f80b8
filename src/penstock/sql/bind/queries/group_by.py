"""GROUP BY and HAVING: keys, sets of keys and windows; and the result of a query over its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from penstock.plan.expressions import TRUE, Expression, call, columns_of, offset_of, substitute, walk
from penstock.plan.nodes import GroupAggregate
from penstock.plan.windowing import WindowKind
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import find_equal_pair, reads_inner, reads_outer
from penstock.sql.bind.expressions.aggregates import GroupId, GroupingBits
from penstock.sql.bind.expressions.group_windows import GroupWindow, check_key
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.selection import Selected
from penstock.sql.bind.groups.grouping import Groups
from penstock.sql.bind.groups.grouping_sets import GroupingSets
from penstock.sql.bind.queries.windows import group_by_window
from penstock.sql.bind.results import BROKEN, Result
from penstock.sql.bind.subqueries.outer_rows import complete_groups, group_beside_outer, place_beside_outer
from penstock.sql.bind.subqueries.values import SubqueryJoins, with_subquery_values
from penstock.sql.bind.tables.constants import fill_empty_group
from penstock.sql.bind.tables.definitions import check_typed
from penstock.sql.bind.tables.sources import filter_rows
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound
from penstock.types import MapType


@dataclass(frozen=True)
class GroupBy:
    """GROUP BY with these ``sets`` of keys, which ``scope`` binds, and HAVING. A group is kept for its ``lifetime``;
    None where no hint says so."""

    sets: Sequence[Sequence[Unbound]]
    having: tuple[Expression, ...]
    lifetime: timedelta | None
    scope: Scope
    context: Context

    def groups(self, result: Result) -> Result:
        """The ``result`` of a query over rows, with one row for each group of them."""
        having, errors, source = self.having, self.context.errors, self.context.source
        bound = [[errors.attempt(partial(self._bind_key, each)) for each in keys] for keys in self.sets]
        sets = [tuple(each for each in keys if each is not None) for keys in bound]
        if list(map(len, sets)) != list(map(len, bound)) or result.columns is None:
            return Result(None, result.columns)
        result, sets = self._drop_outer_keys(result, sets)
        if result.columns is None:
            return BROKEN
        whole, hidden = not any(self.sets), 0
        if whole and having and Result(None, result.columns, (*result.conditions, *having)).outer is not None:
            hidden, having = len(having), ()  # it applies to the group without rows, too
            conditions_of = (Selected("$HAVING", each, offset_of(each)) for each in self.having)
            result = replace(result, columns=(*result.columns, *conditions_of))
        rows = errors.attempt(partial(group_beside_outer, result, self.context, whole=whole))
        if rows is None or rows.columns is None:
            return BROKEN
        compared = [pair for pair in map(find_equal_pair, rows.conditions) if pair is not None]
        if any(isinstance(each, GroupWindow) for keys in sets for each in keys):
            in_windows = errors.attempt(partial(_group_by_window, rows, sets, having, source))
            if in_windows is None:
                return Result(None, rows.columns)
            windowed, sets, having = in_windows
            rows = replace(rows, node=windowed.node, columns=windowed.columns)
        own = [key for _, key in compared if columns_of(key) - set(rows.domain.names)]
        sets = [(*keys, *own, *rows.domain.values.values()) for keys in sets]
        expanded = None
        if rows.node is not None and (len(sets) > 1 or _reads_set(rows, having)):
            expanded = GroupingSets(rows.node, sets, source)
        groups = Groups(sets[0] if expanded is None else expanded.keys, source, self.lifetime)

        def rewrite_value(value: Expression) -> Expression:
            return groups.rewrite(value if expanded is None else expanded.rewrite(value))

        columns: list[Selected | None] = []
        for each in rows.columns or ():
            value = None if each is None else errors.attempt(partial(rewrite_value, each.value))
            columns.append(replace(each, value=value) if each is not None and value is not None else None)
        conditions = [errors.attempt(partial(rewrite_value, each)) for each in having]
        below = rows.node if expanded is None else expanded.plan_rows()
        node = None if below is None else groups.group_rows(below)
        if self.scope.batch and isinstance(node, GroupAggregate) and not node.keys:
            node = fill_empty_group(node)
        node = SubqueryJoins(node, errors).filter_rows([each for each in conditions if each is not None])
        correlated = tuple(call("=", outer, rewrite_value(key), place=outer.place) for outer, key in compared)
        found = Result(node, tuple(columns), correlated, rows.empty, rows.domain, rows.below)
        found = with_subquery_values(found, (), errors)[0]
        return self._keep_only_group(found, hidden) if hidden or any(map(reads_outer, found.empty or ())) else found

    def _drop_outer_keys(
        self, result: Result, sets: list[tuple[Expression, ...]]
    ) -> tuple[Result, list[tuple[Expression, ...]]]:
        """The result, and sets of keys that read no columns of the outer query: an expression of outer columns alone is
        the same for all rows of an outer row."""
        both = [key for keys in sets for key in keys if reads_outer(key) and reads_inner(key)]
        found = place_beside_outer(result, both, self.context) if both else result
        there = found.domain.values

        def rewrite_key(key: Expression) -> Expression:
            return TRUE if reads_outer(key) and not reads_inner(key) else substitute(key, there)

        return found, [tuple(map(rewrite_key, keys)) for keys in sets]

    def _keep_only_group(self, result: Result, hidden: int) -> Result:
        """The only group of each outer row, for which the last columns, which are ``hidden``, are true."""
        found = complete_groups(result, self.context)
        if found.node is None or found.columns is None:
            return found
        count = len(found.columns) - hidden
        conditions = [each.value for each in found.columns[count:] if each is not None]
        return replace(found, node=filter_rows(found.node, conditions), columns=found.columns[:count])

    def _bind_key(self, given: Unbound) -> Expression:
        found = check_typed(self.scope.bind(given), self.scope, given.at)
        if isinstance(found.type, MapType):
            raise self.context.source.error(given.at, "a MAP cannot be grouped by", "group by its elements")
        check_key(found, given.at, self.context.source)
        return found


def _group_by_window(
    result: Result, sets: Sequence[tuple[Expression, ...]], having: tuple[Expression, ...], source: SourceText
) -> tuple[Result, list[tuple[Expression, ...]], tuple[Expression, ...]]:
    """The result, sets of keys and conditions in terms of the columns of the window, which is in each set."""
    every = tuple(dict.fromkeys(key for keys in sets for key in keys))
    window = next(each for each in every if isinstance(each, GroupWindow))
    at = offset_of(window)
    if not all(window in keys for keys in sets):
        raise source.unsupported_feature(
            at, "a window in some of the grouping sets is not supported", "add it to each set"
        )
    if len(sets) > 1 and window.kind is WindowKind.SESSION:
        reason = "SESSION in several grouping sets is not supported: each of them has its own sessions"
        raise source.unsupported_feature(at, reason, "write a query for each set, and UNION ALL between them")
    result, keys, having = group_by_window(result, every, having, source)
    bounds = keys[len(every) - 1 :]
    return result, [(*(key for key in own if key != window), *bounds) for own in sets], having


def _reads_set(result: Result, having: Sequence[Expression]) -> bool:
    """Whether GROUPING or GROUP_ID is called."""
    values = [each.value for each in result.columns or () if each is not None]
    return any(isinstance(part, GroupingBits | GroupId) for value in (*values, *having) for part in walk(value))
