"""ROW_NUMBER(): a query that keeps the first or the last row of each key, as Flink writes it.

``SELECT .. FROM (SELECT .., ROW_NUMBER() OVER (PARTITION BY key ORDER BY time) AS n FROM ..) WHERE n = 1``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from penstock.errors import DefinitionError
from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, substituted
from penstock.plan.nodes import AssignWatermarks, Deduplicate, Filter, Item, Node, Project, project, row_of
from penstock.plan.traits import traits
from penstock.plan.windows import in_windows
from penstock.sql.bind.names import NamedTable, named_table
from penstock.sql.bind.naming import free_name, name_of
from penstock.sql.bind.over import RowNumber
from penstock.sql.bind.selection import Selected, projected
from penstock.sql.bind.sources import filtered
from penstock.sql.parse.source import Errors, SourceText
from penstock.types import BIGINT, RowType

#: Comparisons of a row number with 1 or 2 that only the first row fulfils, and those with their sides exchanged.
_FIRST = {("=", 1), ("<=", 1), ("<", 2)}
_EXCHANGED = {"=": "=", ">=": "<=", ">": "<"}
_COUNT = BIGINT.with_nullability(False)


@dataclass(frozen=True)
class Ranked:
    """Rows of ``node`` with these ``columns``, one of which is a row number. It cannot be computed, but a condition on
    it says which rows are wanted."""

    node: Node
    columns: tuple[Selected, ...]
    source: SourceText

    @property
    def schema(self) -> RowType:
        """The columns."""
        return row_of(projected(list(self.columns)))

    @property
    def number(self) -> RowNumber:
        """The row number."""
        return next(each.value for each in self.columns if isinstance(each.value, RowNumber))

    def error(self, reason: str, hint: str) -> DefinitionError:
        """The error for what ROW_NUMBER() cannot do here, at its place."""
        at = self.number.place.offset if self.number.place else 0
        return self.source.unsupported(at, reason, hint)

    def renamed(self, names: Sequence[str]) -> Ranked:
        """The same rows, whose columns have other names."""
        return replace(
            self, columns=tuple(replace(each, name=name) for each, name in zip(self.columns, names, strict=True))
        )

    def first(self, conditions: Sequence[Expression]) -> Node:
        """The rows with the number 1 for which the other ``conditions`` are true too. Raises UnsupportedError unless
        one of the conditions asks for these rows."""
        items = projected(list(self.columns))
        name = next(each.name for each in items if isinstance(each.expression, RowNumber))
        asked = [each for each in conditions if _asks_for_first(each, name)]
        if not asked:
            reason = "ROW_NUMBER() is supported only for the first row of each key"
            raise self.error(reason, f"write WHERE {name} = 1 in the query around it")
        one = Literal(1, type=_COUNT)
        others = [substituted(each, {name: one}) for each in conditions if each not in asked]
        node = self._deduplicated(tuple(each for each in items if each.name != name))
        values = {each.name: each.expression for each in items}
        columns = (Item(each, one if each == name else ColumnRef(each, type=values[each].type)) for each in values)
        return filtered(project(node, tuple(columns)), others)

    def _deduplicated(self, items: tuple[Item, ...]) -> Node:
        """The first rows, with the columns ``items`` and those that the row number reads."""
        number = self.number
        if traits(self.node).changing:
            hint = "aggregate with GROUP BY, for example MAX(..)"
            raise self.error("ROW_NUMBER() of rows that are updated or deleted is not supported", hint)
        if len(number.order) != 1:
            reason = f"ROW_NUMBER() needs one column in ORDER BY, not {len(number.order)}"
            raise self.error(reason, "order by a time attribute")
        values = {each.expression: each.name for each in items}
        taken = [each.name for each in items]
        added: list[Item] = []

        def named(value: Expression) -> str:
            if value not in values:
                values[value] = free_name(name_of(value), taken)
                taken.append(values[value])
                added.append(Item(values[value], value))
            return values[value]

        keys = tuple(dict.fromkeys(named(each) for each in number.partition))
        order = "" if _is_proctime(number.order[0], self.node) else named(self._time(number.order[0]))
        below = project(self.node, (*items, *added))
        return in_windows(Deduplicate(below.schema, below, keys, order, number.descending[0]))

    def _time(self, order: Expression) -> Expression:
        """The column of ORDER BY. Raises UnsupportedError unless it is the event time."""
        if isinstance(order, ColumnRef) and order.name == traits(self.node).event_time:
            return order
        reason = "ROW_NUMBER() is supported only in the order of a time attribute"
        raise self.error(reason, "order by a column with WATERMARK FOR, or by a computed column AS PROCTIME()")


def _asks_for_first(condition: Expression, name: str) -> bool:
    """Whether a condition on the row number ``name`` is true for the first row only."""
    match condition:
        case Call(function=sign, args=(ColumnRef(name=found), Literal(value=int(limit)))):
            return found == name and (sign, limit) in _FIRST
        case Call(function=sign, args=(Literal(value=int(limit)), ColumnRef(name=found))):
            return found == name and (_EXCHANGED.get(sign, ""), limit) in _FIRST
    return False


def _is_proctime(expression: Expression, node: Node) -> bool:
    """Whether an expression over ``node`` is the time of processing, in which rows arrive."""
    while isinstance(expression, ColumnRef) and isinstance(node, Project | Filter | AssignWatermarks):
        if isinstance(node, Project):
            name = expression.name
            expression = next(each.expression for each in node.items if each.name == name)
        node = node.input
    return isinstance(expression, Call) and expression.function == "PROCTIME"


@dataclass(frozen=True)
class RankedSource:
    """A query with a row number in FROM, called ``qualifier`` here, and its columns ``names``."""

    ranked: Ranked
    qualifier: str
    names: tuple[str, ...]
    errors: Errors
    event_time: str = ""

    @property
    def schema(self) -> RowType:
        return self.ranked.schema

    @cached_property
    def tables(self) -> tuple[NamedTable, ...]:
        return (named_table(self.qualifier, self.schema, self.names),)

    def rows(self, conditions: Sequence[Expression], *, with_watermark: bool = False) -> Node | None:
        return self.errors.attempt(lambda: self.ranked.first(conditions))
