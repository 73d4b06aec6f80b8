"""Queries to nodes: SELECT with joins and groups, UNION, and WITH."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from penstock.errors import DefinitionError
from penstock.plan.expressions import (
    Call,
    Expression,
    Literal,
    call,
    coerce,
    columns_of,
    conjuncts,
    fields_of,
    substituted,
    walk,
)
from penstock.plan.nodes import GroupAggregate, Item, JoinKind, Node, SetOperation, Union, items_of, project, row_of
from penstock.plan.windowing import WindowKind
from penstock.spi import Connector, Registry
from penstock.sql.bind.aggregates import GroupId, Grouping, GroupingBits, aggregates_in
from penstock.sql.bind.constants import OneRow, one_row, or_nothing, rows_of
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Dependent, equal_pair, outer_tables, place_of_outer, reads_outer
from penstock.sql.bind.group_windows import GroupWindow, check_key, check_windows
from penstock.sql.bind.grouping import Groups, distinct
from penstock.sql.bind.grouping_sets import GroupingSets
from penstock.sql.bind.hints import QueryHints, with_options
from penstock.sql.bind.joins import JoinSource, join
from penstock.sql.bind.names import CORRELATED, NamedTable
from penstock.sql.bind.outer_rows import beside_outer, groups_around
from penstock.sql.bind.over import RowNumber, numbered
from penstock.sql.bind.query_values import Asking, QueryKind, QueryValue, asks_queries
from penstock.sql.bind.ranking import Ranked, RankedSource
from penstock.sql.bind.results import Relation, Result, fitted
from penstock.sql.bind.scope import UNTYPED_NULL, Scope
from penstock.sql.bind.selection import Selected, projected, select
from penstock.sql.bind.sorting import Sorting
from penstock.sql.bind.sources import NodeSource, Source, TableSource
from penstock.sql.bind.subqueries import Subquery
from penstock.sql.bind.tables import DeclaredTable, typed
from penstock.sql.bind.unnest import join_unnest, unnest
from penstock.sql.bind.windows import grouped_by_window, window_table
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import (
    Name,
    TableName,
    Unbound,
    UnboundCall,
    UnboundDerived,
    UnboundJoin,
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
class _Asked:
    """A condition of WHERE that is a ``query``, with the values that are ``wanted`` of it."""

    subquery: UnboundSubquery
    query: Subquery
    wanted: tuple[Expression, ...]

    def with_columns(self, values: Mapping[str, Expression]) -> _Asked:
        """The condition with other ``values`` in place of columns."""
        query = self.query.with_operands([substituted(each, values) for each in self.query.operands])
        return _Asked(self.subquery, query, tuple(substituted(each, values) for each in self.wanted))


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
    #: The tables of the queries around these, the nearest first.
    outer: tuple[tuple[NamedTable, ...], ...] = ()
    #: Those further around, whose columns may not be used.
    beyond: tuple[NamedTable, ...] = ()

    @property
    def around(self) -> tuple[NamedTable, ...]:
        """All tables of the queries around these, where their columns may not be used."""
        return (*(table for level in self.outer for table in level), *self.beyond)

    @property
    def _context(self) -> Context:
        return Context(self.source, self.errors, self.database, self.around)

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
        result = self._result(_unordered(given))
        if result.conditions:
            if not self._compares_rows(result):
                return None
            plain = not result.domain.columns or self._independent(*result.conditions)
            return self._dependent(result, columns) if plain else None
        found = result.ranked(self.source) or self._rows(result)
        names = None if found is None else self._names(columns, found.schema)
        if found is None or names is None:
            return None
        if isinstance(found, Ranked):
            return found.renamed(names)
        return project(
            found, tuple(Item(name, each) for name, each in zip(names, fields_of(found.schema), strict=True))
        )

    def _compares_rows(self, result: Result) -> bool:
        """Whether the rows of a query in FROM are there before those of the query around are known; if not, that is
        added to the errors."""
        if result.ranked(self.source) is not None:
            reason, hint = "ROW_NUMBER()", "compare the rows in a query around this one, which keeps the first ones"
        elif result.empty is not None:
            reason = "an aggregate of all rows"
            hint = "aggregate in the query that is the value, and not in its FROM"
        else:
            return True
        at = place_of_outer(next(filter(reads_outer, result.conditions)))
        reason += " in a query in FROM that reads columns of the query around is not supported"
        self.errors.append(self.source.unsupported(at, reason, hint))
        return False

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
        columns = self._computed(result)
        ranked = result.ranked(self.source)
        if ranked is not None:
            return self.errors.attempt(lambda: ranked.kept(()))
        if result.node is None or columns is None or not self._independent(result.outer):
            return None
        return project(result.node, projected(columns))

    def _dependent(self, result: Result, columns: Sequence[Name] = ()) -> Dependent | None:
        """The rows of a result whose conditions read columns of the query around; None after a problem."""
        found = self._computed(result)
        if result.node is None or found is None or not self._independent(*(each.value for each in found)):
            return None
        items = projected(found)
        names = self._names(columns, row_of(items))
        if names is None:
            return None
        named = [replace(each, name=name) for each, name in zip(items, names, strict=True)]
        return Dependent.of(result.node, named, result.conditions)

    def _computed(self, result: Result) -> list[Selected] | None:
        """The columns of a result, each of a type; None after a problem."""
        columns = result.complete
        untyped = next((each for each in columns or () if isinstance(each.value.type, NullType)), None)
        if untyped is None:
            return columns
        self.errors.append(self.source.error(untyped.at, *UNTYPED_NULL))
        return None

    def _independent(self, *expressions: Expression | None) -> bool:
        """Whether no expression reads columns of the query around; if one does, that is added to the errors."""
        found = next((each for each in expressions if each is not None and reads_outer(each)), None)
        if found is None:
            return True
        self.errors.append(self.source.unsupported(place_of_outer(found), *CORRELATED))
        return False

    def _beside_outer(self, result: Result, others: Sequence[Expression] = ()) -> Result:
        """The rows of a result beside those of the query around; the errors tell what stands in the way."""
        return self.errors.attempt(partial(beside_outer, result, others, self._context)) or _BROKEN

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
        members = [self._result(_unordered(each)) for each in queries]
        for ranked in filter(None, (each.ranked(self.source) for each in members)):
            self.errors.attempt(partial(ranked.kept, ()))
            return None
        if not self._independent(*(each.outer for each in members)):
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
        scope = self._context.scope(RowType((), nullable=False), OneRow().tables, "in VALUES")
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
                below = None if inner is None or not self._independent(*inner.correlated) else inner.rows(())
                node = None if below is None else self.errors.attempt(partial(window_table, given, below, self.source))
                names = None if node is None else self._names(columns, node.schema)
                return None if node is None or names is None else NodeSource(node, alias.text if alias else "", names)
            case UnboundUnnest():
                return unnest(given, NodeSource(one_row(), "", ()), self._context)
            case UnboundJoin(right=UnboundUnnest()):
                left = self._read(given.left, hints)
                return None if left is None else join_unnest(given, left, self._context)
            case UnboundJoin():
                left, right = self._read(given.left, hints), self._read(given.right, hints)
                if left is None or right is None:
                    return None
                return self._join(given, left, right, hints)
        raise TypeError(f"unknown source {type(given).__name__}")

    def _join(self, given: UnboundJoin, left: Source, right: Source, hints: QueryHints) -> Source | None:
        """The join of two sources. The queries in the condition of an inner one are asked about its rows, as if they
        stood in WHERE."""
        if given.kind is not JoinKind.INNER:
            return join(given, left, right, hints, self._context)
        plain, subqueries = _split(given.condition)
        made = join(replace(given, condition=plain), left, right, hints, self._context, self._query_value)
        if made is None:
            return None
        scope = replace(self._context.scope(made.schema, made.tables, "in ON"), query=self._query_value)
        bound = [self._condition_with_query(each, scope) for each in subqueries]
        asked = [each for each in bound if each is not None]
        asking = tuple(each for each in made.conditions if asks_queries(each))
        if len(asked) < len(bound):
            return None
        if not asked and not asking:
            return made
        conditions = tuple(each for each in made.conditions if each not in asking)
        return replace(made, conditions=conditions, keeping=partial(self._kept_of, asked, asking))

    def _kept_of(self, asked: Sequence[_Asked], asking: Sequence[Expression], node: Node) -> Node | None:
        """The rows of ``node`` for which all conditions with queries are true, perhaps with more columns; None after a
        problem."""
        found: Node | None = node
        for each in asked:
            found = None if found is None else self._kept(found, each)
        return Asking(found, self.errors).filtered(asking)

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
        if isinstance(found, Dependent):
            return NodeSource(found.node, qualifier, names, correlated=found.conditions)
        return NodeSource(found, qualifier, names)

    # --- queries in expressions -----------------------------------------------------------------------------------

    def _query_value(self, given: UnboundSubquery, scope: Scope) -> Expression:
        """A query in an expression. Raises SqlError or SchemaError for one with a problem."""
        query = self._subquery(given, scope)
        if query is None:
            raise self.errors[-1]
        return self._value(given, query, self._wanted(given, query, scope))

    def _value(self, given: UnboundSubquery, query: Subquery, wanted: tuple[Expression, ...]) -> Expression:
        """The value of a query in an expression."""
        place = self.source.at(given.at)
        if given.only:
            type_ = query.values[0].type.with_nullability(query.empty is None or query.empty[0].type.nullable)
            return QueryValue(query, QueryKind.ONLY, type=type_, place=place)
        kind = QueryKind.EXISTS if given.operand is None else QueryKind.IN
        null = bool(wanted) and any(each.type.nullable for each in (*wanted, *query.values))
        found = QueryValue(query, kind, wanted, type=BOOLEAN.with_nullability(null), place=place)
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
        having = tuple(of(each) for each in having)
        return replace(result, node=asking.node, columns=columns), having

    def _condition_with_query(self, given: UnboundSubquery, scope: Scope) -> _Asked | None:
        """A condition of WHERE that is a query; None after a problem."""
        query = self._subquery(given, scope)
        wanted = None if query is None else self.errors.attempt(partial(self._wanted, given, query, scope))
        return None if query is None or wanted is None else _Asked(given, query, wanted)

    def _kept(self, node: Node, given: _Asked) -> Node | None:
        """The rows of ``node`` for which a condition with a query is true; None after a problem."""
        asking = Asking(node, self.errors)
        if given.query.empty is not None:
            found = asking.filtered((self._value(given.subquery, given.query, given.wanted),))
        else:
            wanted = tuple(asking.of(each) for each in given.wanted)
            found = asking.node and given.query.keeping(asking.node, wanted, given.subquery.negated, self.errors)
        return None if found is None else project(found, items_of(node.schema))

    def _subquery(self, given: UnboundSubquery, scope: Scope) -> Subquery | None:
        """The rows of a query in an expression; None after a problem."""
        outer = tuple(map(outer_tables, (scope.named, *scope.outer)))
        result = replace(self, outer=outer, beyond=scope.around)._result(_unordered(given.query))
        if result.ranked(self.source) is not None:
            self._rows(result)
            return None
        if given.only and not result.compares:
            result = self._beside_outer(result)
        exists = given.operand is None and not given.only
        columns = result.complete if exists else self._computed(result)
        if result.node is None or columns is None:
            return None
        if given.only and len(columns) != 1:
            reason = f"the query gives {len(columns)} columns, not one value"
            self.errors.append(self.source.schema_error(given.query.at, reason, "select one value"))
            return None
        values = [] if exists else [each.value for each in columns]
        return Subquery.of(result.node, values, result)

    def _wanted(self, given: UnboundSubquery, query: Subquery, scope: Scope) -> tuple[Expression, ...]:
        """The values that are compared with those of the ``query`` of IN. Raises SqlError and SchemaError."""
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
            raise self.source.schema_error(given.query.at, reason, hint + ("s" if len(parts) > 1 else ""))
        found = tuple(scope.value(each) for each in parts)
        for each, value in zip(found, query.values, strict=True):
            if comparable(each.type, value.type, False) is None:
                reason = f"{each.type.text()} cannot be compared with {value.type.text()}"
                raise self.source.error(given.at, reason, "CAST one of them")
        pairs = zip(found, query.values, strict=True)
        return tuple(coerce(each, value.type) if isinstance(each.type, NullType) else each for each, value in pairs)

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
            windows={name.text: window for name, window in given.windows},
            batch=self.batch,
            outer=self.outer,
            around=self.beyond,
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
        if not self._independent(*(each for each in having if not asks_queries(each))):
            return _BROKEN
        bound = [self._condition_with_query(each, scope.within("in WHERE")) for each in subqueries]
        asked = [each for each in bound if each is not None]
        asking_where = tuple(each for each in where if asks_queries(each))
        others = [each for each in where if not asks_queries(each)]
        here = tuple(each for each in others if not reads_outer(each))
        correlated = (*read.correlated, *(each for each in others if reads_outer(each)))
        node = read.rows(here, with_watermark=_watermarked((*values, *here)))
        result = Result(node if len(asked) == len(bound) else None, tuple(columns), correlated)
        asking = [*asking_where, *having, *(each for each in values if asks_queries(each))]
        asking += [part for each in asked for part in (*each.wanted, *each.query.operands)]
        if any(map(reads_outer, asking)):
            result = self._beside_outer(result, asking)
        there = result.domain.values
        having = tuple(substituted(each, there) for each in having)
        node = result.node
        if node is not None:
            own = [each.with_columns(there) for each in asked]
            node = self._kept_of(own, [substituted(each, there) for each in asking_where], node)
        result = replace(result, node=node)
        grouped = given.grouping is not None or bool(having) or any(aggregates_in(each) for each in values)
        stateful = grouped or given.distinct or isinstance(read, JoinSource)
        self.errors.attempt(lambda: self.warnings.extend(hints.check(read, self.source, stateful=stateful)))
        lifetime = hints.of_side(read)
        self.errors.attempt(
            lambda: check_windows(values, [key for keys in given.grouping or () for key in keys], self.source)
        )
        result, having = self._asked(result, having, grouped=grouped)
        if grouped:
            keys = replace(scope.within("in GROUP BY"), query=None, outer=(), around=self.around)
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
            first = next(part for part in walk(each.value) if isinstance(part, RowNumber))
            reason = f"{'a second' if again else 'an expression of'} {first.function}"
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
        around = partial(groups_around, result, having, self._context, whole=not any(grouping))
        ready = self.errors.attempt(around)
        if ready is None or ready.columns is None:
            return _BROKEN
        result = ready
        compared = [pair for pair in map(equal_pair, result.conditions) if pair is not None]
        if any(isinstance(each, GroupWindow) for keys in sets for each in keys):
            before = result
            in_windows = self.errors.attempt(partial(_by_window, result, sets, having, self.source))
            if in_windows is None:
                return Result(None, result.columns)
            result, sets, having = in_windows
            result = replace(result, conditions=before.conditions, empty=before.empty, domain=before.domain)
        named = result.domain.values.values()
        own = [key for _, key in compared if columns_of(key) - set(result.domain.names)]
        sets = [(*keys, *own, *named) for keys in sets]
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
        correlated = tuple(call("=", outer, of(key), place=outer.place) for outer, key in compared)
        found = Result(below, tuple(columns), correlated, result.empty, result.domain)
        return self._asked(found, (), grouped=False)[0]

    def _key(self, given: Unbound, scope: Scope) -> Expression:
        found = typed(scope.value(given), scope, given.at)
        if isinstance(found.type, MapType):
            raise self.source.error(given.at, "a MAP cannot be grouped by", "group by its elements")
        check_key(found, given.at, self.source)
        return found

    def _distinct(self, result: Result, lifetime: timedelta | None) -> Result:
        if any(each is not None and reads_outer(each.value) for each in result.columns or ()):
            result = self._beside_outer(result)
        rows = self._dependent(result) if result.conditions else self._rows(result)
        if rows is None or result.columns is None:
            return Result(None, result.columns)
        node = rows.node if isinstance(rows, Dependent) else rows
        found = zip(result.columns, fields_of(rows.schema), strict=True)
        columns = tuple(replace(each, value=ref) for each, ref in found if each is not None)
        conditions = rows.conditions if isinstance(rows, Dependent) else ()
        return Result(distinct(node, lifetime), columns, conditions, result.empty, result.domain)


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
    """Whether GROUPING or GROUP_ID is asked for."""
    values = [each.value for each in result.columns or () if each is not None]
    return any(isinstance(part, GroupingBits | GroupId) for value in (*values, *having) for part in walk(value))


def _unordered(query: UnboundQuery) -> UnboundQuery:
    """A query that others take rows from: ORDER BY without LIMIT has no effect there, as in Flink."""
    if isinstance(query, UnboundSorted) and query.limit is None and not query.offset:
        return query.query
    return query


def _split(condition: Unbound | None) -> tuple[Unbound | None, list[UnboundSubquery]]:
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


def _watermarked(values: Sequence[Expression]) -> bool:
    """Whether the present watermark is asked for."""
    parts = (part for value in values for part in walk(value))
    return any(isinstance(part, Call) and part.function == "CURRENT_WATERMARK" for part in parts)
