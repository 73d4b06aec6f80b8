"""ROW_NUMBER(): a query that keeps the first rows of each key, as Flink writes it.

``SELECT .. FROM (SELECT .., ROW_NUMBER() OVER (PARTITION BY key ORDER BY columns) AS n FROM ..) WHERE n <= 3``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.errors import DefinitionError
from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, call, offset_of, substitute
from penstock.plan.nodes import (
    Deduplicate,
    Item,
    Node,
    Rank,
    Ranking,
    SortColumn,
    project,
    row_of,
)
from penstock.plan.traits import traits
from penstock.plan.windows import move_into_windows
from penstock.sql.bind.correlation import NOTHING, Domain
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name
from penstock.sql.bind.expressions.over_functions import number_rows
from penstock.sql.bind.expressions.resolution import NamedTable, make_named_table
from penstock.sql.bind.expressions.row_numbers import RowNumber
from penstock.sql.bind.expressions.selection import Selected, number_names
from penstock.sql.bind.overs import OverPlan, is_proctime
from penstock.sql.bind.tables.sources import filter_rows
from penstock.sql.parse.source import Errors, SourceText
from penstock.types import BIGINT, ArrayType, Field, MapType, RowType

#: Comparisons with their sides exchanged.
_EXCHANGED = {"=": "=", ">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_COUNT = BIGINT.with_nullability(False)


@dataclass(frozen=True)
class Ranked:
    """Rows of ``node`` with these ``columns``, one of which is a row number. It is computed only with a condition that
    gives it an upper bound.

    In a correlated subquery they belong to the rows of an outer query for which the ``correlated`` conditions are true;
    these read ``hidden`` columns after the others. ``domain`` has the outer columns that the rows are computed with."""

    node: Node
    columns: tuple[Selected, ...]
    source: SourceText
    hidden: tuple[Item, ...] = ()
    correlated: tuple[Expression, ...] = ()
    domain: Domain = NOTHING

    @property
    def schema(self) -> RowType:
        """The columns."""
        return row_of(number_names(list(self.columns)))

    @property
    def number(self) -> RowNumber:
        """The row number."""
        return next(each.value for each in self.columns if isinstance(each.value, RowNumber))

    def error(self, reason: str, hint: str) -> DefinitionError:
        """The error for an unsupported ROW_NUMBER(), at its place."""
        at = offset_of(self.number)
        return self.source.unsupported_feature(at, reason, hint)

    def rename_columns(self, names: Sequence[str]) -> Ranked:
        """The same rows, whose columns have other names."""
        return replace(
            self, columns=tuple(replace(each, name=name) for each, name in zip(self.columns, names, strict=True))
        )

    def correlate(self, pairs: Sequence[tuple[Expression, Expression]], domain: Domain) -> Ranked:
        """The rows that belong to the rows of an outer query: those where the expressions of each pair, of the outer
        query and of these rows, are equal. The rows of each outer row are numbered separately."""
        names, hidden, conditions = list(self.schema.names), list[Item](), list[Expression]()
        for outer, own in pairs:
            name = find_free_name(generate_name(own), names)
            names.append(name)
            hidden.append(Item(name, own))
            conditions.append(call("=", outer, ColumnRef(name, type=own.type), place=outer.place))
        number = replace(self.number, partition=(*self.number.partition, *(own for _, own in pairs)))
        columns = (replace(each, value=number) if each.value is self.number else each for each in self.columns)
        return replace(self, columns=tuple(columns), hidden=tuple(hidden), correlated=tuple(conditions), domain=domain)

    def keep_rows(self, conditions: Sequence[Expression]) -> Node:
        """The rows for which all ``conditions`` are true. Where these give the row number no upper bound, all rows are
        numbered. Raises UnsupportedError for a row number that streams do not have."""
        items = (*number_names(list(self.columns)), *self.hidden)
        name = next(each.name for each in items if isinstance(each.expression, RowNumber))
        spans = [_find_span(each, name) for each in conditions]
        first = max([1, *(span[0] for span in spans if span is not None and span[0] is not None)])
        ends = [span[1] for span in spans if span is not None and span[1] is not None]
        if not ends:
            return self._number_rows(items, conditions)
        if self.number.ranking is not Ranking.ROW_NUMBER and not self.number.batch:
            reason = f"streaming tables do not support the rank function {self.number.ranking.name}"
            raise self.error(reason, "use ROW_NUMBER(), or set 'execution.runtime-mode' to 'BATCH'")
        if min(ends) < first:
            raise self.error(
                f"no row can have this {self.number.function}: it starts at 1", f"write WHERE {name} <= 10"
            )
        others = [each for each, span in zip(conditions, spans, strict=True) if span is None]
        columns = tuple(each for each in items if each.name != name)
        node = _RankPlan(self).plan_rank(columns, name, first, min(ends))
        number: Expression = ColumnRef(name, type=_COUNT)
        if first == min(ends):
            number = Literal(first, type=_COUNT)
        values = {each.name: each.expression for each in items}
        whole = (Item(each, number if each == name else ColumnRef(each, type=values[each].type)) for each in values)
        return filter_rows(project(node, tuple(whole)), [substitute(each, {name: number}) for each in others])

    def _number_rows(self, items: Sequence[Item], conditions: Sequence[Expression]) -> Node:
        """The rows for which all conditions are true, of all rows with their numbers."""
        plan = OverPlan(self.node, self.number.batch, self.source)
        columns = tuple(Item(each.name, plan.rewrite(number_rows(each.expression))) for each in items)
        return filter_rows(project(plan.plan_rows(), columns), list(conditions))


@dataclass
class _RankPlan:
    """The plan of the first rows: the columns that the row number reads."""

    source: Ranked
    _items: list[Item] = field(default_factory=list, init=False)

    def plan_rank(self, items: tuple[Item, ...], name: str, first: int, last: int) -> Node:
        """The rows from ``first`` to ``last`` with the columns ``items``, among others, and the number as ``name``
        unless it is always the same."""
        self._items = [*items]
        number, changing = self.source.number, traits(self.source.node).changing
        keys = tuple(dict.fromkeys(self._add_column(each) for each in number.partition))
        plain = number.ranking is Ranking.ROW_NUMBER and len(number.order) == 1 and not changing
        if (first, last) == (1, 1) and plain and self._is_time(number.order[0]):
            of_arrival = is_proctime(number.order[0], self.source.node)
            order = "" if of_arrival else self._add_column(number.order[0])
            below = self._project_source()
            return move_into_windows(Deduplicate(below.schema, below, keys, order, number.descending[0]))
        columns, latest = self._make_order(changing)
        below = self._project_source()
        numbered = "" if first == last else find_free_name(name, below.schema.names)
        schema = below.schema
        if numbered:
            schema = replace(schema, fields=(*schema.fields, Field(numbered, _COUNT)))
        return move_into_windows(Rank(schema, below, keys, columns, first, last, numbered, latest, number.ranking))

    def _project_source(self) -> Node:
        return project(self.source.node, tuple(self._items))

    def _make_order(self, changing: bool) -> tuple[tuple[SortColumn, ...], bool]:
        """The columns of ORDER BY up to the processing time, and whether that is descending."""
        number, found = self.source.number, list[SortColumn]()
        for each, descending, nulls_first in zip(number.order, number.descending, number.nulls_first, strict=True):
            if is_proctime(each, self.source.node):
                if changing:
                    reason = "in the order of arrival of rows that are updated or deleted is not supported"
                    raise self.source.error(f"{number.function} {reason}", "order by a column of the rows")
                return tuple(found), descending
            if isinstance(each.type, ArrayType | MapType | RowType):
                raise self.source.error(f"{each.type.text()} has no order", "order by its elements")
            if not isinstance(each, Literal):
                found.append(SortColumn(self._add_column(each), descending, nulls_first))
        if not found:
            reason = f"{number.function} needs an ORDER BY with fields that are not constant"
            raise self.source.error(reason, "write OVER (PARTITION BY .. ORDER BY ..)")
        return tuple(found), False

    def _is_time(self, order: Expression) -> bool:
        """Whether ORDER BY is by a time attribute."""
        node = self.source.node
        event_time = isinstance(order, ColumnRef) and order.name in traits(node).rowtimes
        default = self.source.number.nulls_first[0] != self.source.number.descending[0]
        return (event_time and default) or is_proctime(order, node)

    def _add_column(self, value: Expression) -> str:
        """The name of the column with a value."""
        known = next((each.name for each in self._items if each.expression == value), None)
        if known is not None:
            return known
        name = find_free_name(generate_name(value), [each.name for each in self._items])
        self._items.append(Item(name, value))
        return name


def _find_span(condition: Expression, name: str) -> tuple[int | None, int | None] | None:
    """The least and the greatest row number ``name`` for which a condition is true, each None if it has no bound; None
    for a condition that is not such a span."""
    match condition:
        case Call(function="BETWEEN", args=(ColumnRef(name=found), Literal(value=int(low)), Literal(value=int(high)))):
            return (low, high) if found == name else None
        case Call(function=sign, args=(ColumnRef(name=found), Literal(value=int(limit)))) if sign in _EXCHANGED:
            return _find_bounds(sign, limit) if found == name else None
        case Call(function=sign, args=(Literal(value=int(limit)), ColumnRef(name=found))) if sign in _EXCHANGED:
            return _find_bounds(_EXCHANGED[sign], limit) if found == name else None
    return None


def _find_bounds(sign: str, limit: int) -> tuple[int | None, int | None]:
    match sign:
        case "=":
            return limit, limit
        case "<" | "<=":
            return None, limit - (sign == "<")
    return limit + (sign == ">"), None


@dataclass(frozen=True)
class RankedSource:
    """A query with a row number in FROM, called ``qualifier`` here, and its columns ``names``."""

    ranked: Ranked
    qualifier: str
    names: tuple[str, ...]
    errors: Errors
    event_times: tuple[str, ...] = ()

    @property
    def correlated_conditions(self) -> tuple[Expression, ...]:
        return self.ranked.correlated

    @property
    def domain(self) -> Domain:
        return self.ranked.domain

    @property
    def schema(self) -> RowType:
        return RowType((*self.ranked.schema.fields, *row_of(self.ranked.hidden).fields), nullable=False)

    @cached_property
    def tables(self) -> tuple[NamedTable, ...]:
        return (make_named_table(self.qualifier, self.ranked.schema, self.names),)

    def plan_rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        return self.errors.attempt(lambda: self.ranked.keep_rows(conditions))
