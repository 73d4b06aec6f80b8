"""FROM: tables, queries, windows, joins and UNNEST become the sources of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from penstock.errors import DefinitionError
from penstock.plan.expressions import Expression
from penstock.plan.nodes import Item, JoinKind
from penstock.spi import Connector, Registry
from penstock.sql.bind.context import Context
from penstock.sql.bind.correlation import Dependent, offset_of_outer, reads_outer, strip_outer, with_rows
from penstock.sql.bind.expressions.resolution import CORRELATED
from penstock.sql.bind.joins.conditions import join
from penstock.sql.bind.queries.windows import make_window_table
from penstock.sql.bind.ranking import Ranked, RankedSource
from penstock.sql.bind.results import Relation
from penstock.sql.bind.subqueries.binder import SubqueryBinder, keep_matching, split_condition
from penstock.sql.bind.subqueries.subquery import repeatable_values
from penstock.sql.bind.subqueries.values import has_subquery
from penstock.sql.bind.tables.constants import make_one_row
from penstock.sql.bind.tables.definitions import DeclaredTable
from penstock.sql.bind.tables.found_columns import FoundTables
from penstock.sql.bind.tables.hints import QueryHints, collect_remarks, with_options
from penstock.sql.bind.tables.sources import NodeSource, RowsSource, Source, TableSource
from penstock.sql.bind.tables.unnest import join_unnest, unnest
from penstock.sql.parse.syntax import (
    Name,
    TableName,
    UnboundDerived,
    UnboundJoin,
    UnboundQuery,
    UnboundSource,
    UnboundTable,
    UnboundUnnest,
    UnboundWindow,
)

#: Tables by the parts of their names: those of CREATE TABLE, and the rows of other queries; None means a table with
#: problems.
Tables = Mapping[tuple[str, ...], DeclaredTable | Relation | None]


@dataclass(frozen=True)
class FromClause:
    """Binds the FROM clause of a query with these ``hints`` to ``tables``. ``unknown_error`` makes the error for
    another name, ``relation`` gives the rows of a query in it, with these names of columns, ``lateral`` the rows of a
    query that may read columns of another source, and ``subqueries`` binds queries in the conditions of joins."""

    context: Context
    tables: Tables
    unknown_error: Callable[[TableName], DefinitionError]
    connectors: Registry[Connector]
    relation: Callable[[UnboundQuery, Sequence[Name]], Relation | None]
    lateral: Callable[[UnboundQuery, Sequence[Name], Source], Relation | None]
    subqueries: SubqueryBinder
    hints: QueryHints
    #: Gets warnings about what has no effect.
    warnings: list[str]
    #: Tables whose columns are found; None if there are none.
    found_tables: FoundTables | None = None

    def read(self, given: UnboundSource) -> Source | None:
        """What the query reads; None after a problem, which was added to the errors."""
        context, errors = self.context, self.context.errors
        match given:
            case UnboundTable():
                return self._bind_table(given)
            case UnboundDerived(query=query, alias=alias, columns=columns):
                found = self.relation(query, columns)
                return (
                    None if found is None else self._make_source(found, alias.text if alias else "", found.schema.names)
                )
            case UnboundWindow(table=table, alias=alias, columns=columns):
                inner = self.read(table)
                below = (
                    None
                    if inner is None or not context.independent(*inner.correlated_conditions)
                    else inner.plan_rows(())
                )
                node = (
                    None if below is None else errors.attempt(partial(make_window_table, given, below, context.source))
                )
                names = None if node is None else context.column_names(columns, node.schema)
                return None if node is None or names is None else NodeSource(node, alias.text if alias else "", names)
            case UnboundUnnest():
                return unnest(given, NodeSource(make_one_row(), "", ()), context)
            case UnboundJoin(right=UnboundUnnest()):
                left = self.read(given.left)
                return None if left is None else join_unnest(given, left, context)
            case UnboundJoin(right=UnboundDerived(lateral=True)):
                left = self.read(given.left)
                return None if left is None else errors.attempt(partial(self._join_lateral, given, left))
            case UnboundJoin():
                left, right = self.read(given.left), self.read(given.right)
                return None if left is None or right is None else self._join(given, left, right)
        raise TypeError(f"unknown source {type(given).__name__}")

    def _join_lateral(self, given: UnboundJoin, left: Source) -> Source | None:
        """The join of a source with a query that may read its columns. Raises UnsupportedError for joins that keep rows
        of the query without a match, and for columns of a further outer query."""
        source, query = self.context.source, given.right
        assert isinstance(query, UnboundDerived)  # noqa: S101
        found = self.lateral(query.query, query.columns, left)
        if found is None:
            return None
        alias = query.alias.text if query.alias else ""
        if isinstance(found, Ranked) and found.correlated:
            hint = "compare it with its limit in LATERAL: (SELECT .. FROM (SELECT .. ROW_NUMBER() ..) WHERE n <= 10)"
            raise found.error(
                f"{found.number.function} in LATERAL that is compared outside of it is not supported", hint
            )
        if not isinstance(found, Dependent):
            return self._join(given, left, self._make_source(found, alias, found.schema.names))
        if given.kind not in (JoinKind.INNER, JoinKind.LEFT):
            reason = f"a {given.kind.name} JOIN with LATERAL that reads columns of the other table is not supported"
            raise source.unsupported_feature(given.at, reason, "use CROSS JOIN or LEFT JOIN")
        node = found.node
        if found.domain.columns:
            columns = tuple(map(strip_outer, found.domain.columns))
            further = next(filter(reads_outer, columns), None)
            if further is not None:
                raise source.unsupported_feature(offset_of_outer(further), *CORRELATED)
            rows = left.plan_rows(())
            if rows is None:
                return None
            left = RowsSource(rows, left.tables, left.correlated_conditions, left.domain)
            values = tuple(map(Item, found.domain.names, columns))
            node = with_rows(node, repeatable_values(rows, values, source.at(query.at)))
        right = NodeSource(node, alias, found.schema.names)
        return self._join(given, left, right, found.conditions)

    def _join(
        self, given: UnboundJoin, left: Source, right: Source, lateral: Sequence[Expression] = ()
    ) -> Source | None:
        """The join of two sources, of rows for which the conditions ``lateral`` are true, too, which read the left one
        as an outer query. Queries in the condition of an inner join filter its rows, as if they were in WHERE."""
        if given.kind is not JoinKind.INNER:
            return join(given, left, right, self.hints, self.context, lateral=lateral)
        query = self.subqueries.value
        plain, subqueries = split_condition(given.condition)
        made = join(replace(given, condition=plain), left, right, self.hints, self.context, query, lateral)
        if made is None:
            return None
        scope = replace(self.context.scope(made.schema, made.tables, "in ON"), query=query)
        bound = [self.subqueries.condition(each, scope) for each in subqueries]
        conditions = [each for each in bound if each is not None]
        if len(conditions) < len(bound):
            return None
        with_queries = tuple(each for each in made.conditions if has_subquery(each))
        if not conditions and not with_queries:
            return made
        others = tuple(each for each in made.conditions if each not in with_queries)
        keeping = partial(keep_matching, conditions, with_queries, errors=self.context.errors)
        return replace(made, conditions=others, keeping=keeping)

    def _bind_table(self, given: UnboundTable) -> Source | None:
        """A table or a view."""
        source, errors = self.context.source, self.context.errors
        path = given.table.path
        found = self.tables.get(path)
        if path not in self.tables:
            found = None if self.found_tables is None else self.found_tables.of_catalog(given.table)
            if found is None:
                errors.append(self.unknown_error(given.table))
        qualifier = given.alias.text if given.alias else given.table.name
        if found is None:
            return None
        if isinstance(found, DeclaredTable):
            found = errors.attempt(partial(self._complete_table, found, given))
            self.warnings.extend(each for each in collect_remarks(given.hints, source) if each not in self.warnings)
        names = None if found is None else self.context.column_names(given.columns, found.schema)
        if found is None or names is None:
            return None
        if isinstance(found, DeclaredTable):
            return TableSource(found, qualifier, names, self.connectors, errors)
        if given.hints:
            at = given.hints[0].name.at
            errors.append(
                source.unsupported_feature(at, "a hint for a query or a view is not supported", "give it to the table")
            )
        return self._make_source(found, qualifier, names)

    def _complete_table(self, table: DeclaredTable, given: UnboundTable) -> DeclaredTable:
        """The table with the options of hints, and with the columns that its records have, if it declares none. Raises
        DefinitionError."""
        table = with_options(table, given.hints, self.context.source)
        return table if self.found_tables is None else self.found_tables.complete(table, given.table)

    def _make_source(self, found: Relation, qualifier: str, names: tuple[str, ...]) -> Source:
        if isinstance(found, Ranked):
            return RankedSource(found, qualifier, names, self.context.errors)
        if isinstance(found, Dependent):
            return NodeSource(found.node, qualifier, names, correlated_conditions=found.conditions, domain=found.domain)
        return NodeSource(found, qualifier, names)
