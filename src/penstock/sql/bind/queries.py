"""Queries to nodes: SELECT with joins and groups, UNION, and WITH."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.errors import DefinitionError
from penstock.plan.expressions import Call, Expression, Literal, cast, coerce, conjuncts, fields_of, walk
from penstock.plan.nodes import Item, Node, Union, project, row_of
from penstock.spi import Connector, Registry
from penstock.sql.bind.aggregates import Grouping, aggregates_in
from penstock.sql.bind.grouping import Groups, distinct
from penstock.sql.bind.joins import join
from penstock.sql.bind.scope import UNTYPED_NULL, Scope
from penstock.sql.bind.selection import Selected, projected, select
from penstock.sql.bind.sources import NodeSource, Source, TableSource, filtered
from penstock.sql.bind.tables import DeclaredTable, typed
from penstock.sql.parse.source import Errors, SourceText
from penstock.sql.parse.syntax import (
    Name,
    TableName,
    Unbound,
    UnboundDerived,
    UnboundJoin,
    UnboundQuery,
    UnboundSelect,
    UnboundSource,
    UnboundTable,
    UnboundUnion,
    UnboundWith,
)
from penstock.types import DataType, MapType, NullType, RowType
from penstock.types.casts import common_type


@dataclass(frozen=True)
class Result:
    """The result of a query: ``columns`` of the rows of ``node``. After a problem, which was added to the errors,
    ``node`` or a column is None; all ``columns`` are None if not even their number is known."""

    node: Node | None
    columns: tuple[Selected | None, ...] | None


_BROKEN = Result(None, None)


@dataclass(frozen=True)
class Queries:
    """Binds the queries of ``source`` to ``tables`` by name: those of CREATE TABLE, and the rows of other queries; None
    stands for a table with problems. ``unknown`` makes the error for another name. Problems are added to ``errors``."""

    source: SourceText
    connectors: Registry[Connector]
    errors: Errors
    tables: Mapping[str, DeclaredTable | Node | None]
    unknown: Callable[[TableName], DefinitionError]

    def result(self, given: UnboundQuery) -> Result:
        """The result of a query."""
        match given:
            case UnboundSelect():
                return self._select(given)
            case UnboundUnion():
                return self._union(given)
            case UnboundWith():
                return self._with(given)
        raise TypeError(f"unknown query {type(given).__name__}")

    def rows(self, given: UnboundQuery, columns: Sequence[Name] = ()) -> Node | None:
        """The rows of a query whose columns are called ``columns``, if these are given; None after a problem."""
        node = self._rows(self.result(given))
        names = None if node is None else self._names(columns, node.schema)
        if node is None or names is None:
            return None
        return project(node, tuple(Item(name, each) for name, each in zip(names, fields_of(node.schema), strict=True)))

    def _names(self, given: Sequence[Name], schema: RowType) -> tuple[str, ...] | None:
        """The names of columns: those ``given``, if there are any; None after a problem with them."""
        names = tuple(each.text for each in given)
        again = next((each for index, each in enumerate(given) if each.text in names[:index]), None)
        if again is not None:
            reason, hint, at = f"column '{again.text}' is named twice", "give each a name of its own", again.at
        elif given and len(given) != len(schema.fields):
            reason, at = f"there are {len(given)} names for {len(schema.fields)} columns", given[0].at
            hint = f"the columns are {', '.join(schema.names)}"
        else:
            return names or schema.names
        self.errors.append(self.source.schema_error(at, reason, hint))
        return None

    def _rows(self, result: Result) -> Node | None:
        """The rows with just the columns of the result; None after a problem."""
        columns = _complete(result)
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
            tables[each.name.text] = replace(self, tables=tables).rows(each.query, each.columns)
        return replace(self, tables=tables).result(given.body)

    def _union(self, given: UnboundUnion) -> Result:
        members = [self.result(each) for each in self._members(given)]
        found = [(each.node, _complete(each)) for each in members]
        rows = [(node, columns) for node, columns in found if node is not None and columns is not None]
        if len(rows) < len(members):
            return _BROKEN
        first = rows[0][1]
        for _, columns in rows[1:]:
            if len(columns) != len(first):
                reason = f"a UNION of {len(first)} and of {len(columns)} columns"
                self.errors.append(self.source.schema_error(columns[0].at, reason, "select as many columns"))
                return _BROKEN
        types = [self._common(each) for each in zip(*(columns for _, columns in rows), strict=True)]
        known = [each for each in types if each is not None]
        if len(known) < len(types):
            return _BROKEN
        nodes = tuple(project(node, projected(_fitted(columns, known))) for node, columns in rows)
        schema = row_of(
            projected([replace(each, value=Literal(None, type=to)) for each, to in zip(first, known, strict=True)])
        )
        node: Node = Union(schema, nodes)
        if not given.all:
            node = distinct(node)
        refs = zip(first, fields_of(schema), strict=True)
        return Result(node, tuple(replace(each, value=ref) for each, ref in refs))

    def _common(self, columns: tuple[Selected, ...]) -> DataType | None:
        """The type of a column of a UNION; None after a problem."""
        types = tuple(each.value.type for each in columns)
        common = common_type(types)
        if common is None:
            names = ", ".join(dict.fromkeys(each.text() for each in types))
            reason = f"column '{columns[0].name}' of the UNION has no type in common: {names}"
            self.errors.append(self.source.schema_error(columns[-1].at, reason, "CAST the columns"))
        elif isinstance(common, NullType):
            self.errors.append(self.source.error(columns[0].at, *UNTYPED_NULL))
            return None
        return common

    def _members(self, given: UnboundUnion) -> list[UnboundQuery]:
        """The queries that a UNION consists of: those of a UNION ALL in it become its own."""
        left, right = given.left, given.right
        flat = isinstance(left, UnboundUnion) and (left.all or not given.all)
        return [*(self._members(left) if flat and isinstance(left, UnboundUnion) else [left]), right]

    # --- FROM ---------------------------------------------------------------------------------------------------

    def _read(self, given: UnboundSource) -> Source | None:
        """What a query reads; None after a problem, which was added to the errors."""
        match given:
            case UnboundTable():
                return self._table(given)
            case UnboundDerived(query=query, alias=alias, columns=columns):
                node = self.rows(query, columns)
                return None if node is None else NodeSource(node, alias.text if alias else "", node.schema.names)
            case UnboundJoin():
                left, right = self._read(given.left), self._read(given.right)
                return join(given, left, right, self.source, self.errors) if left and right else None
        raise TypeError(f"unknown source {type(given).__name__}")

    def _table(self, given: UnboundTable) -> Source | None:
        name = given.table.name
        if name not in self.tables:
            self.errors.append(self.unknown(given.table))
        found = self.tables.get(name)
        qualifier = given.alias.text if given.alias else name
        if found is None:
            return None
        names = self._names(given.columns, found.schema)
        if names is None:
            return None
        if isinstance(found, Node):
            return NodeSource(found, qualifier, names)
        return TableSource(found, qualifier, names, self.connectors, self.errors)

    # --- SELECT -------------------------------------------------------------------------------------------------

    def _select(self, given: UnboundSelect) -> Result:
        read = self._read(given.source)
        if read is None:
            return _BROKEN
        grouping = Grouping.KEYS if given.grouping else Grouping.WHOLE
        scope = Scope(read.schema, self.source, "", read.event_time, read.tables, grouping)
        columns = select(given.items, scope, self.errors)
        where = self._condition(given.condition, scope.within("in WHERE"), "the condition of WHERE")
        having = self._condition(given.having, scope, "the condition of HAVING")
        values = [each.value for each in columns if each is not None]
        watermarked = _watermarked((*values, *where))
        node = read.rows(where, with_watermark=watermarked)
        result = Result(node, tuple(columns))
        if given.grouping is not None or having or any(aggregates_in(each) for each in values):
            result = self._grouped(result, given.grouping or (), scope.within("in GROUP BY"), having)
        return self._distinct(result) if given.distinct else result

    def _condition(self, given: Unbound | None, scope: Scope, role: str) -> tuple[Expression, ...]:
        found = self.errors.attempt(partial(scope.condition, given, role)) if given is not None else None
        return () if found is None else conjuncts(found)

    def _grouped(
        self, result: Result, grouping: Sequence[Unbound], scope: Scope, having: tuple[Expression, ...]
    ) -> Result:
        keys = [self.errors.attempt(partial(self._key, each, scope)) for each in grouping]
        known = tuple(each for each in keys if each is not None)
        if len(known) < len(keys) or result.columns is None:
            return Result(None, result.columns)
        groups = Groups(known, self.source)
        columns: list[Selected | None] = []
        for each in result.columns:
            value = None if each is None else self.errors.attempt(partial(groups.of, each.value))
            columns.append(replace(each, value=value) if each is not None and value is not None else None)
        conditions = [self.errors.attempt(partial(groups.of, each)) for each in having]
        node = None if result.node is None else groups.rows(result.node)
        wanted = [each for each in conditions if each is not None]
        return Result(None if node is None else filtered(node, wanted), tuple(columns))

    def _key(self, given: Unbound, scope: Scope) -> Expression:
        found = typed(scope.value(given), scope, given.at)
        if isinstance(found.type, MapType):
            raise self.source.error(given.at, "a MAP cannot be grouped by", "group by its elements")
        return found

    def _distinct(self, result: Result) -> Result:
        node = self._rows(result)
        if node is None or result.columns is None:
            return Result(None, result.columns)
        refs = fields_of(node.schema)
        found = zip(result.columns, refs, strict=True)
        return Result(distinct(node), tuple(replace(each, value=ref) for each, ref in found if each is not None))


def _watermarked(values: Sequence[Expression]) -> bool:
    """Whether the present watermark is asked for."""
    parts = (part for value in values for part in walk(value))
    return any(isinstance(part, Call) and part.function == "CURRENT_WATERMARK" for part in parts)


def _complete(result: Result) -> list[Selected] | None:
    """The columns of a result, if all are known."""
    found = [each for each in result.columns or () if each is not None]
    return found if result.columns is not None and len(found) == len(result.columns) else None


def _fitted(columns: Sequence[Selected], types: Sequence[DataType]) -> list[Selected]:
    """Columns of these types."""

    def value(given: Expression, to: DataType) -> Expression:
        return cast(given, to) if isinstance(given.type, NullType) else coerce(given, to)

    return [replace(each, value=value(each.value, to)) for each, to in zip(columns, types, strict=True)]
