"""Queries to nodes: SELECT with joins and groups, UNION, and WITH."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TypeGuard

from penstock.errors import DefinitionError
from penstock.plan.expressions import Call, Expression, Literal, call, conjuncts, fields_of, walk
from penstock.plan.nodes import GroupAggregate, Item, Node, SetOperation, Union, items_of, project, row_of
from penstock.plan.windowing import WindowKind
from penstock.spi import Connector, Registry
from penstock.sql.bind.aggregates import Grouping, GroupingBits, aggregates_in
from penstock.sql.bind.constants import OneRow, one_row, or_nothing, rows_of
from penstock.sql.bind.group_windows import GroupWindow, check_windows
from penstock.sql.bind.grouping import Groups, distinct
from penstock.sql.bind.grouping_sets import GroupingSets
from penstock.sql.bind.hints import QueryHints, with_options
from penstock.sql.bind.joins import JoinSource, join
from penstock.sql.bind.names import NamedTable
from penstock.sql.bind.over import RowNumber, numbered
from penstock.sql.bind.query_values import Asking, QueryKind, QueryValue, asks_queries
from penstock.sql.bind.ranking import Ranked, RankedSource
from penstock.sql.bind.results import Relation, Result, fitted
from penstock.sql.bind.scope import UNTYPED_NULL, Scope
from penstock.sql.bind.selection import Selected, projected, select
from penstock.sql.bind.sorting import Sorting
from penstock.sql.bind.sources import NodeSource, Source, TableSource
from penstock.sql.bind.subqueries import Subquery, outer_tables
from penstock.sql.bind.tables import DeclaredTable, typed
from penstock.sql.bind.unnest import join_unnest, unnest
from penstock.sql.bind.windows import grouped_by_window, window_table
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import (
    Name,
    TableName,
    Unbound,
    UnboundAggregate,
    UnboundCall,
    UnboundCast,
    UnboundDerived,
    UnboundField,
    UnboundJoin,
    UnboundOver,
    UnboundQuery,
    UnboundSelect,
    UnboundSetOperation,
    UnboundSorted,
    UnboundSource,
    UnboundSubquery,
    UnboundTable,
    UnboundUnion,
    UnboundUnnest,
    UnboundValues,
    UnboundWindow,
    UnboundWith,
)
from penstock.types import BOOLEAN, DataType, MapType, NullType, RowType
from penstock.types.casts import common_type, comparable

_BROKEN = Result(None, None)


@dataclass(frozen=True)
class _Aligned:
    """The rows of several queries, whose columns correspond by position; the schema that they have in common, and the
    columns of a result with it."""

    nodes: tuple[Node, ...]
    schema: RowType
    columns: tuple[Selected, ...]


@dataclass(frozen=True)
class Queries:
    """Binds the queries of ``source`` to ``tables`` by the parts of their names: those of CREATE TABLE, and the rows of
    other queries; None stands for a table with problems. ``unknown`` makes the error for another name. Problems are
    added to ``errors``, what has no effect to ``warnings``."""

    source: SourceText
    connectors: Registry[Connector]
    errors: Errors
    tables: Mapping[tuple[str, ...], DeclaredTable | Relation | None]
    unknown: Callable[[TableName], DefinitionError]
    warnings: list[str]
    #: The current database.
    database: str
    #: Whether all rows are there before the first result is given.
    batch: bool = False
    #: The tables of the query around these, whose columns they may not read.
    around: tuple[NamedTable, ...] = ()

    def result(self, given: UnboundQuery) -> Result:
        """The result of a query, whose columns can be computed."""
        found = self._result(given)
        ranked = found.ranked(self.source)
        if ranked is None:
            return found
        self.errors.attempt(lambda: ranked.kept(()))
        return Result(None, found.columns)

    def rows(self, given: UnboundQuery) -> Node | None:
        """The rows of a query; None after a problem."""
        return self._rows(self._result(given))

    def relation(self, given: UnboundQuery, columns: Sequence[Name] = ()) -> Relation | None:
        """What a query gives to others, with columns called ``columns``, if these are given; None after a problem. Its
        rows have no order there, as in Flink."""
        if isinstance(given, UnboundSorted) and given.limit is None and not given.offset:
            given = given.query
        result = self._result(given)
        found = result.ranked(self.source) or self._rows(result)
        names = None if found is None else self._names(columns, found.schema)
        if found is None or names is None:
            return None
        if isinstance(found, Ranked):
            return found.renamed(names)
        return project(
            found, tuple(Item(name, each) for name, each in zip(names, fields_of(found.schema), strict=True))
        )

    def _result(self, given: UnboundQuery) -> Result:
        match given:
            case UnboundSelect():
                return self._select(given)
            case UnboundValues():
                return self._values(given)
            case UnboundUnion():
                return self._union(given)
            case UnboundSetOperation():
                return self._compared(given)
            case UnboundSorted():
                return self._sorted(given)
            case UnboundWith():
                return self._with(given)
        raise TypeError(f"unknown query {type(given).__name__}")

    def _names(self, given: Sequence[Name], schema: RowType) -> tuple[str, ...] | None:
        """The names of columns: those ``given``, if there are any; None after a problem with them."""
        names = tuple(each.text for each in given)
        again = next((each for index, each in enumerate(given) if each.text in names[:index]), None)
        if again is not None:
            reason, hint, at = f"column '{again.text}' is named twice", "give each a name of its own", again.at
        elif given and len(given) != len(schema.fields):
            reason, at = f"the number of names is {len(given)}, that of columns {len(schema.fields)}", given[0].at
            hint = f"the columns are {', '.join(schema.names)}"
        else:
            return names or schema.names
        self.errors.append(self.source.schema_error(at, reason, hint))
        return None

    def _rows(self, result: Result) -> Node | None:
        """The rows with just the columns of the result; None after a problem."""
        columns = result.complete
        ranked = result.ranked(self.source)
        if ranked is not None:
            return self.errors.attempt(lambda: ranked.kept(()))
        if result.node is None or columns is None:
            return None
        for each in columns:
            if isinstance(each.value.type, NullType):
                self.errors.append(self.source.error(each.at, *UNTYPED_NULL))
                return None
        return project(result.node, projected(columns))

    # --- WITH and UNION -----------------------------------------------------------------------------------------

    def _with(self, given: UnboundWith) -> Result:
        tables = dict(self.tables)
        for each in given.tables:
            tables[(each.name.text,)] = replace(self, tables=tables).relation(each.query, each.columns)
        return replace(self, tables=tables)._result(given.body)

    def _union(self, given: UnboundUnion) -> Result:
        aligned = self._aligned(self._members(given), "UNION")
        if aligned is None:
            return _BROKEN
        nodes, schema = aligned.nodes, aligned.schema
        node: Node = Union(schema, nodes)
        return Result(node if given.all else distinct(node), aligned.columns)

    def _compared(self, given: UnboundSetOperation) -> Result:
        aligned = self._aligned([given.left, given.right], given.kind.name.replace("_", " "))
        if aligned is None:
            return _BROKEN
        left, right = aligned.nodes
        return Result(SetOperation(aligned.schema, left, right, given.kind), aligned.columns)

    def _aligned(self, queries: Sequence[UnboundQuery], of: str) -> _Aligned | None:
        """The rows of queries in columns of the types that they have in common; None after a problem."""
        members = [self._result(each) for each in queries]
        for ranked in filter(None, (each.ranked(self.source) for each in members)):
            self.errors.attempt(partial(ranked.kept, ()))
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
                self.errors.append(self.source.schema_error(columns[0].at, reason, "select as many columns"))
                return None
        types = [self._common(each, of) for each in zip(*(columns for _, columns in rows), strict=True)]
        known = [each for each in types if each is not None]
        if len(known) < len(types):
            return None
        nodes = tuple(project(node, projected(fitted(columns, known))) for node, columns in rows)
        schema = row_of(
            projected([replace(each, value=Literal(None, type=to)) for each, to in zip(first, known, strict=True)])
        )
        refs = zip(first, fields_of(schema), strict=True)
        return _Aligned(nodes, schema, tuple(replace(each, value=ref) for each, ref in refs))

    def _sorted(self, given: UnboundSorted) -> Result:
        sorting = Sorting(given, self.source, self.batch)
        result = self._result(sorting.selected())
        found = self.errors.attempt(lambda: sorting.result(result, self._rows))
        return _BROKEN if found is None else found

    def _common(self, columns: tuple[Selected, ...], of: str) -> DataType | None:
        """The type of a column of UNION or VALUES; None after a problem."""
        types = tuple(each.value.type for each in columns)
        common = common_type(types)
        if common is None:
            names = ", ".join(dict.fromkeys(each.text() for each in types))
            reason = f"column '{columns[0].name}' of {of} has no type in common: {names}"
            self.errors.append(self.source.schema_error(columns[-1].at, reason, "CAST the columns"))
        elif isinstance(common, NullType) and of != "VALUES":
            self.errors.append(self.source.error(columns[0].at, *UNTYPED_NULL))
            return None
        return common

    def _values(self, given: UnboundValues) -> Result:
        scope = Scope(
            RowType((), nullable=False),
            self.source,
            tables=OneRow().tables,
            clause="in VALUES",
            database=self.database,
        )
        rows: list[list[Selected]] = []
        for row in given.rows:
            values = [self.errors.attempt(partial(scope.value, each)) for each in row]
            found = zip(row, values, strict=True)
            rows.append([Selected(f"EXPR${n}", to, each.at) for n, (each, to) in enumerate(found) if to is not None])
            if len(rows[-1]) < len(row):
                return _BROKEN
            if len(row) != len(given.rows[0]):
                reason = f"the rows of VALUES have different lengths: {len(given.rows[0])} and {len(row)}"
                self.errors.append(self.source.error(row[0].at, reason, "write as many values in each row"))
                return _BROKEN
        types = [self._common(each, "VALUES") for each in zip(*rows, strict=True)]
        known = [each for each in types if each is not None]
        if len(known) < len(types):
            return _BROKEN
        node = rows_of([[each.value for each in row] for row in rows], [each.name for each in rows[0]], known)
        refs = {each.name: each for each in fields_of(node.schema)}
        return Result(node, tuple(replace(each, value=refs.get(each.name, each.value)) for each in rows[0]))

    def _members(self, given: UnboundUnion) -> list[UnboundQuery]:
        """The queries that a UNION consists of: those of a UNION ALL in it become its own."""
        left, right = given.left, given.right
        flat = isinstance(left, UnboundUnion) and (left.all or not given.all)
        return [*(self._members(left) if flat and isinstance(left, UnboundUnion) else [left]), right]

    # --- FROM ---------------------------------------------------------------------------------------------------

    def _read(self, given: UnboundSource, hints: QueryHints) -> Source | None:
        """What a query with these hints reads; None after a problem, which was added to the errors."""
        match given:
            case UnboundTable():
                return self._table(given)
            case UnboundDerived(query=query, alias=alias, columns=columns):
                found = self.relation(query, columns)
                return None if found is None else self._source(found, alias.text if alias else "", found.schema.names)
            case UnboundWindow(table=table, alias=alias, columns=columns):
                inner = self._read(table, hints)
                below = None if inner is None else inner.rows(())
                node = None if below is None else self.errors.attempt(partial(window_table, given, below, self.source))
                names = None if node is None else self._names(columns, node.schema)
                return None if node is None or names is None else NodeSource(node, alias.text if alias else "", names)
            case UnboundUnnest():
                return unnest(given, NodeSource(one_row(), "", ()), self.source, self.errors)
            case UnboundJoin(right=UnboundUnnest()):
                left = self._read(given.left, hints)
                return None if left is None else join_unnest(given, left, self.source, self.errors)
            case UnboundJoin():
                left, right = self._read(given.left, hints), self._read(given.right, hints)
                if left is None or right is None:
                    return None
                return join(given, left, right, hints, self.source, self.errors, self.database)
        raise TypeError(f"unknown source {type(given).__name__}")

    def _table(self, given: UnboundTable) -> Source | None:
        path = given.table.path
        if path not in self.tables:
            self.errors.append(self.unknown(given.table))
        found = self.tables.get(path)
        qualifier = given.alias.text if given.alias else given.table.name
        if found is None:
            return None
        names = self._names(given.columns, found.schema)
        if names is None:
            return None
        if isinstance(found, DeclaredTable):
            table = self.errors.attempt(partial(with_options, found, given.hints, self.source))
            return None if table is None else TableSource(table, qualifier, names, self.connectors, self.errors)
        if given.hints:
            at = given.hints[0].name.at
            self.errors.append(
                self.source.unsupported(at, "a hint for a query or a view is not supported", "give it to the table")
            )
        return self._source(found, qualifier, names)

    def _source(self, found: Relation, qualifier: str, names: tuple[str, ...]) -> Source:
        if isinstance(found, Ranked):
            return RankedSource(found, qualifier, names, self.errors)
        return NodeSource(found, qualifier, names)

    # --- queries as values ----------------------------------------------------------------------------------------

    def _query_value(self, given: UnboundSubquery, scope: Scope) -> Expression:
        """A query in an expression. Raises SqlError or SchemaError for one with a problem."""
        inner = replace(self, around=(*scope.named, *self.around))
        node = inner.rows(given.query)
        if node is None:
            raise self.errors[-1]
        place = self.source.at(given.at)
        if given.operand is None and not given.only:
            found: Expression = QueryValue(node, QueryKind.EXISTS, type=BOOLEAN.with_nullability(False), place=place)
        elif len(node.schema.fields) != 1:
            reason = f"the query gives {len(node.schema.fields)} columns, not one value"
            raise self.source.schema_error(given.query.at, reason, "select one value")
        elif given.operand is None:
            type_ = node.schema.fields[0].type.with_nullability(True)
            found = QueryValue(node, QueryKind.ONLY, type=type_, place=place)
        else:
            operand, value = scope.value(given.operand), node.schema.fields[0].type
            if comparable(operand.type, value, False) is None:
                reason = f"{operand.type.text()} cannot be compared with {value.text()}"
                raise self.source.error(given.at, reason, "CAST one of them")
            null = operand.type.nullable or value.nullable
            found = QueryValue(node, QueryKind.IN, operand, type=BOOLEAN.with_nullability(null), place=place)
        return call("NOT", found, type=found.type, place=place) if given.negated else found

    def _asked(
        self, result: Result, having: tuple[Expression, ...], *, grouped: bool
    ) -> tuple[Result, tuple[Expression, ...]]:
        """A result with the values of the queries in its columns; with ``grouped`` of those in aggregates only."""
        asking = Asking(result.node, self.errors)
        of = asking.in_aggregates if grouped else asking.of
        columns = result.columns
        if columns is not None:
            columns = tuple(None if each is None else replace(each, value=of(each.value)) for each in columns)
        return Result(asking.node, columns), tuple(of(each) for each in having)

    # --- IN and EXISTS ------------------------------------------------------------------------------------------

    def _kept(self, node: Node, given: UnboundSubquery, scope: Scope) -> Node | None:
        """The rows of ``node`` for which a condition with a query is true; None after a problem."""
        operand = None if given.operand is None else self.errors.attempt(partial(scope.value, given.operand))
        found = self._subquery(given, scope)
        if found is None or (given.operand is not None and operand is None):
            return None
        if operand is not None and asks_queries(operand):
            asking = Asking(node, self.errors)
            operand = asking.of(operand)
            wider = None if asking.node is None else self._matched(asking.node, given, found, operand)
            return None if wider is None else project(wider, items_of(node.schema))
        return self._matched(node, given, found, operand)

    def _matched(self, node: Node, given: UnboundSubquery, found: Subquery, operand: Expression | None) -> Node | None:
        if (
            operand is not None
            and found.value is not None
            and comparable(operand.type, found.value.type, False) is None
        ):
            reason = f"{operand.type.text()} cannot be compared with {found.value.type.text()}"
            self.errors.append(self.source.error(given.at, reason, "CAST one of them"))
            return None
        return found.keeping(node, operand, given.negated, self.errors)

    def _subquery(self, given: UnboundSubquery, scope: Scope) -> Subquery | None:
        query = given.query
        if not _is_plain(query):
            node = replace(self, around=(*scope.named, *self.around)).rows(query)
            if node is None:
                return None
            values: list[Expression] = list(fields_of(node.schema))
            return Subquery(node, self._value(given, values)) if self._fits(given, values) else None
        hints = self._hints(query)
        read = self._read(query.source, hints) if query.source is not None else OneRow()
        if read is None:
            return None
        inner = Scope(
            read.schema,
            self.source,
            tables=read.tables,
            outer=outer_tables(scope.named),
            clause="in a condition",
            database=self.database,
        )
        columns = select(query.items, inner, self.errors)
        where = self._condition(query.condition, inner.within("in WHERE"), "the condition of WHERE")
        node = read.rows(())
        values = [each.value for each in columns if each is not None]
        if node is None or len(values) < len(columns) or not self._fits(given, values):
            return None
        value = self._value(given, values)
        return self.errors.attempt(lambda: Subquery.of(node, where, value, self.source))

    def _fits(self, given: UnboundSubquery, values: Sequence[Expression]) -> bool:
        if given.operand is None or len(values) == 1:
            return True
        reason = f"the query of IN has {len(values)} columns, not one"
        self.errors.append(self.source.schema_error(given.query.at, reason, "select one value"))
        return False

    def _value(self, given: UnboundSubquery, values: Sequence[Expression]) -> Expression | None:
        return values[0] if given.operand is not None else None

    # --- SELECT -------------------------------------------------------------------------------------------------

    def _select(self, given: UnboundSelect) -> Result:
        hints = self._hints(given)
        read = self._read(given.source, hints) if given.source is not None else OneRow()
        if read is None:
            return _BROKEN
        grouping = Grouping.KEYS if given.grouping and any(given.grouping) else Grouping.WHOLE
        scope = Scope(
            read.schema,
            self.source,
            tables=read.tables,
            event_time=read.event_time,
            grouping=grouping,
            ranking=True,
            around=self.around,
            database=self.database,
            query=self._query_value,
        )
        columns = self._numbered(select(given.items, scope, self.errors))
        plain, subqueries = _split(given.condition)
        where = self._condition(plain, scope.within("in WHERE"), "the condition of WHERE")
        having = self._condition(
            given.having, replace(scope, ranking=False, clause="in HAVING"), "the condition of HAVING"
        )
        values = [each.value for each in columns if each is not None]
        asking_where = [each for each in where if asks_queries(each)]
        where = tuple(each for each in where if not asks_queries(each))
        watermarked = _watermarked((*values, *where))
        node = read.rows(where, with_watermark=watermarked)
        for each in subqueries:
            node = None if node is None else self._kept(node, each, scope.within("in WHERE"))
        result = Result(Asking(node, self.errors).filtered(asking_where), tuple(columns))
        grouped = given.grouping is not None or bool(having) or any(aggregates_in(each) for each in values)
        stateful = grouped or given.distinct or isinstance(read, JoinSource)
        self.errors.attempt(lambda: self.warnings.extend(hints.check(read, self.source, stateful=stateful)))
        lifetime = hints.of_side(read)
        self.errors.attempt(
            lambda: check_windows(values, [key for keys in given.grouping or () for key in keys], self.source)
        )
        result, having = self._asked(result, having, grouped=grouped)
        if grouped:
            keys = replace(scope.within("in GROUP BY"), query=None)
            result = self._grouped(result, given.grouping or ((),), keys, having, lifetime)
        return self._distinct(result, lifetime) if given.distinct else result

    def _hints(self, given: UnboundSelect) -> QueryHints:
        hints = self.errors.attempt(partial(QueryHints.of, given.hints, self.source)) or QueryHints()
        self.warnings.extend(hints.warnings)
        return hints

    def _numbered(self, columns: list[Selected | None]) -> list[Selected | None]:
        """The columns without those in which a row number is not the whole, and without a second row number."""
        found: list[Selected | None] = []
        for each in columns:
            if each is None or not numbered(each.value):
                found.append(each)
                continue
            again = any(before is not None and isinstance(before.value, RowNumber) for before in found)
            if isinstance(each.value, RowNumber) and not again:
                found.append(each)
                continue
            found.append(None)
            hint = "use it in the query around this one" if not again else "number the rows in a query of its own"
            reason = "a second ROW_NUMBER()" if again else "an expression of ROW_NUMBER()"
            self.errors.append(self.source.unsupported(each.at, f"{reason} is not supported", hint))
        return found

    def _condition(self, given: Unbound | None, scope: Scope, role: str) -> tuple[Expression, ...]:
        found = self.errors.attempt(partial(scope.condition, given, role)) if given is not None else None
        return () if found is None else conjuncts(found)

    def _grouped(
        self,
        result: Result,
        grouping: Sequence[Sequence[Unbound]],
        scope: Scope,
        having: tuple[Expression, ...],
        lifetime: timedelta | None,
    ) -> Result:
        bound = [[self.errors.attempt(partial(self._key, each, scope)) for each in keys] for keys in grouping]
        sets = [tuple(each for each in keys if each is not None) for keys in bound]
        if list(map(len, sets)) != list(map(len, bound)) or result.columns is None:
            return Result(None, result.columns)
        if any(isinstance(each, GroupWindow) for keys in sets for each in keys):
            in_windows = self.errors.attempt(partial(_by_window, result, sets, having, self.source))
            if in_windows is None:
                return Result(None, result.columns)
            result, sets, having = in_windows
        expanded = None
        if result.node is not None and (len(sets) > 1 or _asks_for_sets(result, having)):
            expanded = GroupingSets(result.node, sets, self.source)
        groups = Groups(sets[0] if expanded is None else expanded.keys, self.source, lifetime)

        def of(value: Expression) -> Expression:
            return groups.of(value if expanded is None else expanded.of(value))

        columns: list[Selected | None] = []
        for each in result.columns or ():
            value = None if each is None else self.errors.attempt(partial(of, each.value))
            columns.append(replace(each, value=value) if each is not None and value is not None else None)
        conditions = [self.errors.attempt(partial(of, each)) for each in having]
        below = result.node if expanded is None else expanded.rows()
        node = None if below is None else groups.rows(below)
        if self.batch and node is not None and isinstance(node, GroupAggregate) and not node.keys:
            node = or_nothing(node)
        wanted = [each for each in conditions if each is not None]
        asking = Asking(node, self.errors)
        below = asking.filtered(wanted)
        return self._asked(Result(below, tuple(columns)), (), grouped=False)[0]

    def _key(self, given: Unbound, scope: Scope) -> Expression:
        found = typed(scope.value(given), scope, given.at)
        if isinstance(found.type, MapType):
            raise self.source.error(given.at, "a MAP cannot be grouped by", "group by its elements")
        return found

    def _distinct(self, result: Result, lifetime: timedelta | None) -> Result:
        node = self._rows(result)
        if node is None or result.columns is None:
            return Result(None, result.columns)
        refs = fields_of(node.schema)
        found = zip(result.columns, refs, strict=True)
        columns = tuple(replace(each, value=ref) for each, ref in found if each is not None)
        return Result(distinct(node, lifetime), columns)


def _by_window(
    result: Result, sets: Sequence[tuple[Expression, ...]], having: tuple[Expression, ...], source: SourceText
) -> tuple[Result, list[tuple[Expression, ...]], tuple[Expression, ...]]:
    """The result, sets of keys and conditions in terms of the columns of the window, which is in each set."""
    every = tuple(dict.fromkeys(key for keys in sets for key in keys))
    window = next(each for each in every if isinstance(each, GroupWindow))
    at = window.place.offset if window.place else 0
    if not all(window in keys for keys in sets):
        raise source.unsupported(at, "a window in some of the grouping sets is not supported", "add it to each set")
    if len(sets) > 1 and window.kind is WindowKind.SESSION:
        reason = "SESSION in several grouping sets is not supported: each of them has sessions of its own"
        raise source.unsupported(at, reason, "write a query for each set, and UNION ALL between them")
    result, keys, having = grouped_by_window(result, every, having, source)
    bounds = keys[len(every) - 1 :]
    return result, [(*(key for key in own if key != window), *bounds) for own in sets], having


def _asks_for_sets(result: Result, having: Sequence[Expression]) -> bool:
    """Whether GROUPING is asked for."""
    values = [each.value for each in result.columns or () if each is not None]
    return any(isinstance(part, GroupingBits) for value in (*values, *having) for part in walk(value))


def _split(condition: Unbound | None) -> tuple[Unbound | None, list[UnboundSubquery]]:
    """A condition without the queries between its ANDs, and these."""
    plain: list[Unbound] = []
    queries: list[UnboundSubquery] = []
    if condition is None:
        return None, queries
    is_and = isinstance(condition, UnboundCall) and condition.name == "AND"
    for each in condition.args if is_and and isinstance(condition, UnboundCall) else (condition,):
        found, negated = each, False
        while isinstance(found, UnboundCall) and found.name == "NOT" and isinstance(found.args[0], UnboundSubquery):
            (found,), negated = found.args, not negated
        if isinstance(found, UnboundSubquery):
            queries.append(replace(found, negated=found.negated != negated))
        else:
            plain.append(each)
    if not queries:
        return condition, queries
    if len(plain) < 2:
        return plain[0] if plain else None, queries
    return UnboundCall(plain[0].at, "AND", tuple(plain)), queries


def _is_plain(query: UnboundQuery) -> TypeGuard[UnboundSelect]:
    """Whether each row of a query comes from one row that it reads, and each of these is judged alone."""
    if not isinstance(query, UnboundSelect) or query.grouping is not None or query.having is not None:
        return False
    expressions = [each.expression for each in query.items]
    if query.condition is not None:
        expressions.append(query.condition)
    return not any(map(_reads_others, expressions))


def _reads_others(given: Unbound) -> bool:
    """Whether an expression depends on other rows than its own."""
    match given:
        case UnboundCall(args=args):
            return any(map(_reads_others, args))
        case UnboundField(base=operand) | UnboundCast(operand=operand):
            return _reads_others(operand)
    return isinstance(given, UnboundAggregate | UnboundOver | UnboundSubquery)


def _watermarked(values: Sequence[Expression]) -> bool:
    """Whether the present watermark is asked for."""
    parts = (part for value in values for part in walk(value))
    return any(isinstance(part, Call) and part.function == "CURRENT_WATERMARK" for part in parts)
