"""Queries to nodes: SELECT, WITH and ORDER BY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from penstock.errors import DefinitionError
from penstock.plan.expressions import Call, ColumnRef, Expression, call, conjuncts, fields_of, substitute, walk
from penstock.plan.nodes import Item, Node, project
from penstock.spi import Connector, Registry
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Dependent, find_equal_pair, make_outer_tables, reads_outer
from penstock.sql.bind.expressions.aggregates import Grouping, has_aggregate
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.bind.expressions.group_windows import check_windows
from penstock.sql.bind.expressions.over_functions import has_over, number_rows
from penstock.sql.bind.expressions.resolution import NamedTable
from penstock.sql.bind.expressions.row_numbers import RowNumber, has_row_number
from penstock.sql.bind.expressions.scope import Scope
from penstock.sql.bind.expressions.selection import Selected, number_names, select
from penstock.sql.bind.expressions.visible_functions import NO_FUNCTIONS, UserFunctions
from penstock.sql.bind.groups.grouping import keep_distinct
from penstock.sql.bind.joins.conditions import JoinSource
from penstock.sql.bind.overs import OverPlan
from penstock.sql.bind.queries.from_clause import FromClause, Tables
from penstock.sql.bind.queries.group_by import GroupBy
from penstock.sql.bind.queries.set_operations import bind_set_operation, bind_union, bind_values, flatten_union
from penstock.sql.bind.queries.sorting import Sorting
from penstock.sql.bind.ranking import Ranked
from penstock.sql.bind.results import BROKEN, Relation, Result
from penstock.sql.bind.subqueries.binder import SubqueryBinder, SubqueryCondition, keep_matching, split_condition
from penstock.sql.bind.subqueries.outer_rows import complete_groups, place_beside_outer
from penstock.sql.bind.subqueries.values import has_subquery, with_subquery_values
from penstock.sql.bind.tables.constants import OneRow
from penstock.sql.bind.tables.found_columns import FoundTables
from penstock.sql.bind.tables.hints import QueryHints
from penstock.sql.bind.tables.sources import Source
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import (
    Name,
    TableName,
    Unbound,
    UnboundQuery,
    UnboundSelect,
    UnboundSetOperation,
    UnboundSorted,
    UnboundUnion,
    UnboundValues,
    UnboundWith,
)


@dataclass(frozen=True)
class Queries:
    """Binds the queries of ``source`` to ``tables``. ``unknown_error`` makes the error for another name. Problems are
    added to ``errors``, and warnings of what has no effect to ``warnings``."""

    source: SourceText
    connectors: Registry[Connector]
    errors: Errors
    tables: Tables
    unknown_error: Callable[[TableName], DefinitionError]
    warnings: list[str]
    #: The current database.
    database: str
    #: Whether all rows exist before the first result is given.
    batch: bool = False
    #: The tables of the outer queries whose columns can be used, those of the nearest query first.
    outer: tuple[tuple[NamedTable, ...], ...] = ()
    #: The tables of further outer queries, whose columns cannot be used.
    beyond: tuple[NamedTable, ...] = ()
    user_functions: UserFunctions = NO_FUNCTIONS
    #: Tables whose columns are found; None if there are none.
    found: FoundTables | None = None

    @property
    def enclosing(self) -> tuple[NamedTable, ...]:
        """The tables of all outer queries, flattened, for errors about columns that cannot be used here."""
        return (*(table for level in self.outer for table in level), *self.beyond)

    @property
    def _context(self) -> Context:
        return Context(self.source, self.errors, self.database, self.enclosing, self.user_functions)

    def result(self, given: UnboundQuery) -> Result:
        """The result of a query, whose columns can be computed."""
        found = self._bind_query(given)
        ranked = found.as_ranked(self.source)
        if ranked is None:
            return found
        rows = self.errors.attempt(lambda: ranked.keep_rows(()))
        if rows is None or found.columns is None:
            return Result(None, found.columns)
        refs = zip(found.columns, fields_of(rows.schema), strict=False)
        return Result(rows, tuple(each if each is None else replace(each, value=ref) for each, ref in refs))

    def plan_query(self, given: UnboundQuery) -> Node | None:
        """The rows of a query; None after a problem."""
        return self._bind_query(given).plan_rows(self._context)

    def relation(self, given: UnboundQuery, columns: Sequence[Name] = ()) -> Relation | None:
        """The rows of a query that others read, with columns called ``columns``, if these are given; None after a
        problem. They have no order, as in Flink."""
        result, context = self._bind_query(_drop_order(given)), self._context
        outer = result.outer
        if outer is not None:
            if result.as_ranked(self.source) is not None:
                return self._rank_rows(result, columns)
            if result.empty is not None:
                result = complete_groups(result, context)
            elif not result.keeps_columns:
                result = place_beside_outer(result, (), context)
            return result.make_dependent(context, columns)
        found = result.as_ranked(self.source) or result.plan_rows(context)
        names = None if found is None else context.column_names(columns, found.schema)
        if found is None or names is None:
            return None
        if isinstance(found, Ranked):
            return found.rename_columns(names)
        return project(
            found, tuple(Item(name, each) for name, each in zip(names, fields_of(found.schema), strict=True))
        )

    def _rank_rows(self, result: Result, columns: Sequence[Name]) -> Ranked | None:
        """The numbered rows of a query that reads columns of an outer query; None after a problem."""
        if not result.compares:
            result = place_beside_outer(result, (), self._context)
        found = result.as_ranked(self.source)
        names = None if found is None else self._context.column_names(columns, found.schema)
        if found is None or names is None:
            return None
        pairs = [pair for each in result.conditions if (pair := find_equal_pair(each)) is not None]
        return found.rename_columns(names).correlate(pairs, result.domain.union(result.below))

    def _bind_query(self, given: UnboundQuery) -> Result:
        match given:
            case UnboundSelect():
                return self._bind_select(given)
            case UnboundValues():
                return bind_values(given, self._context)
            case UnboundUnion(all=keeps_duplicates):
                members = [self._bind_query(_drop_order(each)) for each in flatten_union(given)]
                return bind_union(members, self._context, keeps_duplicates=keeps_duplicates)
            case UnboundSetOperation(kind=kind):
                left, right = (self._bind_query(_drop_order(each)) for each in (given.left, given.right))
                return bind_set_operation(kind, left, right, self._context)
            case UnboundSorted():
                return self._bind_sorted(given)
            case UnboundWith():
                return self._bind_with(given)
        raise TypeError(f"unknown query {type(given).__name__}")

    def _bind_nested(self, given: UnboundQuery, scope: Scope) -> Result:
        """The result of a query in an expression, which may read the columns of the ``scope``."""
        return self._nest(scope)._bind_query(_drop_order(given))

    def _nest(self, scope: Scope) -> Queries:
        outer = tuple(map(make_outer_tables, (scope.named_tables, *scope.outer)))
        return replace(self, outer=outer, beyond=scope.enclosing)

    def _bind_lateral(self, given: UnboundQuery, columns: Sequence[Name], left: Source) -> Relation | None:
        """The rows of a query that may read the columns of the ``left`` source."""
        scope = Scope(
            left.schema,
            self.source,
            tables=left.tables,
            outer=self.outer,
            enclosing=self.beyond,
            database=self.database,
            user_functions=self.user_functions,
        )
        return self._nest(scope).relation(given, columns)

    def _bind_with(self, given: UnboundWith) -> Result:
        tables = dict(self.tables)
        for each in given.tables:
            tables[(each.name.text,)] = replace(self, tables=tables).relation(each.query, each.columns)
        return replace(self, tables=tables)._bind_query(given.body)

    def _bind_sorted(self, given: UnboundSorted) -> Result:
        sorting = Sorting(given, self.source, self.batch)
        result = self._bind_query(sorting.select_hidden())
        if result.outer is not None and result.as_ranked(self.source) is None:
            return self._sort_by_outer(sorting, result)
        found = self.errors.attempt(lambda: sorting.result(result, lambda each: each.plan_rows(self._context)))
        return BROKEN if found is None else found

    def _sort_by_outer(self, sorting: Sorting, result: Result) -> Result:
        """The first rows of a correlated subquery, for each value that is compared with the outer rows."""
        if result.empty is not None:
            result = complete_groups(result, self._context)
        elif not result.compares:
            result = place_beside_outer(result, (), self._context)
        columns = result.check_column_types(self._context)
        if result.node is None or columns is None:
            return BROKEN
        items, pairs = list(number_names(columns)), [find_equal_pair(each) for each in result.conditions]
        keys: list[tuple[Expression, ColumnRef]] = []
        for outer, inner in filter(None, pairs):
            name = find_free_name(generate_name(inner), [each.name for each in items])
            items.append(Item(name, inner))
            keys.append((outer, ColumnRef(name, type=inner.type)))
        rows = project(result.node, tuple(items))
        found = self.errors.attempt(lambda: sorting.result(result, lambda _: rows, [key.name for _, key in keys]))
        if found is None:
            return BROKEN
        conditions = tuple(call("=", outer, key, place=outer.place) for outer, key in keys)
        return replace(found, conditions=conditions, below=result.domain.union(result.below))

    # --- SELECT -------------------------------------------------------------------------------------------------

    def _bind_select(self, given: UnboundSelect) -> Result:
        hints, context = self._read_hints(given), self._context
        subqueries = SubqueryBinder(context, self._bind_nested)
        clause = FromClause(
            context,
            self.tables,
            self.unknown_error,
            self.connectors,
            self.relation,
            self._bind_lateral,
            subqueries=subqueries,
            hints=hints,
            warnings=self.warnings,
            found_tables=self.found,
        )
        read = clause.read(given.source) if given.source is not None else OneRow()
        if read is None:
            return BROKEN
        scope = self._make_scope(given, read, subqueries)
        columns = self._number_rows(select(given.items, scope, self.errors))
        plain, with_query = split_condition(given.condition)
        where = self._bind_condition(plain, scope.for_clause("in WHERE"), "the condition of WHERE")
        having = self._bind_condition(
            given.having, replace(scope, ranking=False, clause="in HAVING"), "the condition of HAVING"
        )
        if not context.independent(*(each for each in having if not has_subquery(each))):
            return BROKEN
        conditions = [subqueries.condition(each, scope.for_clause("in WHERE")) for each in with_query]
        result, having = self._filter_rows(read, tuple(columns), where, conditions, having)
        found = [each.value for each in columns if each is not None]
        grouped = given.grouping is not None or bool(having) or any(map(has_aggregate, found))
        stateful = grouped or given.distinct or isinstance(read, JoinSource) or any(map(has_over, found))
        self.errors.attempt(lambda: self.warnings.extend(hints.check(read, self.source, stateful=stateful)))
        lifetime = hints.find_ttl(read)
        sets = given.grouping or ()
        self.errors.attempt(lambda: check_windows(found, [key for keys in sets for key in keys], self.source))
        result, having = with_subquery_values(result, having, self.errors, in_aggregates=grouped)
        if grouped:
            keys = replace(scope.for_clause("in GROUP BY"), query=None)
            result = GroupBy(sets or ((),), having, lifetime, keys, context).groups(result)
        result = self._plan_over(result)
        return self._plan_distinct(result, lifetime) if given.distinct else result

    def _make_scope(self, given: UnboundSelect, read: Source, subqueries: SubqueryBinder) -> Scope:
        """Binds the expressions of SELECT."""
        return Scope(
            read.schema,
            self.source,
            tables=read.tables,
            event_times=read.event_times,
            grouping=Grouping.KEYS if any(given.grouping or ()) else Grouping.WHOLE,
            ranking=True,
            windows={name.text: window for name, window in given.windows},
            batch=self.batch,
            outer=self.outer,
            enclosing=self.beyond,
            database=self.database,
            user_functions=self.user_functions,
            query=subqueries.value,
        )

    def _filter_rows(
        self,
        read: Source,
        columns: tuple[Selected | None, ...],
        where: Sequence[Expression],
        bound: Sequence[SubqueryCondition | None],
        having: tuple[Expression, ...],
    ) -> tuple[Result, tuple[Expression, ...]]:
        """The rows of FROM for which WHERE is true, which consists of ``where`` and of the conditions that are
        ``bound``; and HAVING in terms of them."""
        found = [each.value for each in columns if each is not None]
        with_queries = [each for each in where if has_subquery(each)]
        plain = [each for each in where if not has_subquery(each)]
        own = [each for each in plain if not reads_outer(each)]
        correlated = filter(reads_outer, plain)
        conditions = [each for each in bound if each is not None]
        node = read.plan_rows(own, with_watermark=_reads_watermark((*found, *own)))
        rows = node if len(conditions) == len(bound) else None
        result = Result(rows, columns, (*read.correlated_conditions, *correlated), below=read.domain)
        parts = [*with_queries, *having, *filter(has_subquery, found)]
        parts += [part for each in conditions for part in each.operands]
        if any(map(reads_outer, parts)):
            result = place_beside_outer(result, parts, self._context)
        there = result.domain.values
        if result.node is not None:
            conditions = [each.with_columns(there) for each in conditions]
            with_queries = [substitute(each, there) for each in with_queries]
            result = replace(result, node=keep_matching(conditions, with_queries, result.node, self.errors))
        return result, tuple(substitute(each, there) for each in having)

    def _read_hints(self, given: UnboundSelect) -> QueryHints:
        hints = self.errors.attempt(partial(QueryHints.from_hints, given.hints, self.source)) or QueryHints()
        self.warnings.extend(hints.warnings)
        return hints

    def _number_rows(self, columns: list[Selected | None]) -> list[Selected | None]:
        """The columns with row numbers replaced by ordinary functions with OVER, unless a row number is a whole column
        and the only such function: then an outer query may keep the first rows by it."""
        values = [each.value for each in columns if each is not None]
        numbers = [each for each in values if has_row_number(each)]
        alone = len(numbers) == 1 and isinstance(numbers[0], RowNumber)
        if not numbers or (alone and not any(map(has_over, values))):
            return columns
        return [None if each is None else replace(each, value=number_rows(each.value)) for each in columns]

    def _plan_over(self, result: Result) -> Result:
        """The result, whose functions with OVER are columns of its rows."""
        columns = result.complete
        if result.node is None or columns is None or not any(has_over(each.value) for each in columns):
            return result
        plan = OverPlan(result.node, self.batch, self.source)
        found = tuple(replace(each, value=plan.rewrite(each.value)) for each in columns)
        rows = self.errors.attempt(plan.plan_rows)
        return replace(result, node=rows, columns=found) if rows is not None else Result(None, found)

    def _bind_condition(self, given: Unbound | None, scope: Scope, role: str) -> tuple[Expression, ...]:
        found = self.errors.attempt(partial(scope.condition, given, role)) if given is not None else None
        return () if found is None else conjuncts(found)

    def _plan_distinct(self, result: Result, lifetime: timedelta | None) -> Result:
        if any(each is not None and reads_outer(each.value) for each in result.columns or ()):
            result = place_beside_outer(result, (), self._context)
        rows = result.make_dependent(self._context) if result.conditions else result.plan_rows(self._context)
        if rows is None or result.columns is None:
            return Result(None, result.columns)
        node = rows.node if isinstance(rows, Dependent) else rows
        found = zip(result.columns, fields_of(rows.schema), strict=True)
        columns = tuple(replace(each, value=ref) for each, ref in found if each is not None)
        conditions = rows.conditions if isinstance(rows, Dependent) else ()
        return Result(keep_distinct(node, lifetime), columns, conditions, result.empty, result.domain, result.below)


def _drop_order(query: UnboundQuery) -> UnboundQuery:
    """The query without an ORDER BY that has no LIMIT: it has no effect where other queries read the rows, as in
    Flink."""
    if isinstance(query, UnboundSorted) and query.limit is None and not query.offset:
        return query.query
    return query


def _reads_watermark(values: Sequence[Expression]) -> bool:
    """Whether CURRENT_WATERMARK is called."""
    parts = (part for value in values for part in walk(value))
    return any(isinstance(part, Call) and part.function == "CURRENT_WATERMARK" for part in parts)
