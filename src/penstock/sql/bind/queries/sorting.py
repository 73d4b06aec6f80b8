"""ORDER BY and LIMIT: the first rows of a query, which change as rows arrive, or its rows in the order of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penstock.plan.expressions import ColumnRef
from penstock.plan.nodes import Node, Rank, Sort, SortColumn, TemporalSort
from penstock.plan.traits import traits
from penstock.sql.bind.expressions.selection import Selected
from penstock.sql.bind.results import Result
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import (
    SelectItem,
    SortKey,
    Unbound,
    UnboundLiteral,
    UnboundName,
    UnboundQuery,
    UnboundSelect,
    UnboundSorted,
)
from penstock.types import ArrayType, MapType, RowType

#: More rows than any query has.
_ALL = 2**62


@dataclass(frozen=True)
class Sorting:
    """A query with ORDER BY, LIMIT or OFFSET, of ``source``."""

    given: UnboundSorted
    source: SourceText
    #: Whether the rows have an end, at which they can be sorted.
    batch: bool = False

    def select_hidden(self) -> UnboundQuery:
        """The query, with further columns for expressions that only ORDER BY has."""
        query, hidden = self.given.query, self._find_hidden_keys()
        if not hidden or not isinstance(query, UnboundSelect):
            return query
        return replace(query, items=(*query.items, *(SelectItem(each, None) for each in hidden)))

    def result(self, result: Result, rows: Callable[[Result], Node | None], keys: Sequence[str] = ()) -> Result:
        """The first rows of the ``result`` of :meth:`select_hidden`, or those of each value of the columns
        ``keys``, which ``rows`` turns into a node. Raises DefinitionError for an order that is unsupported
        on streams."""
        given, columns = self.given, result.complete
        node = None if columns is None else rows(result)
        if node is None or columns is None:
            return Result(None, result.columns)
        if given.limit == 0:
            raise self.source.error(given.clause, "LIMIT 0 leaves no rows", "ask for at least one row")
        visible = len(columns) - len(self._find_hidden_keys())
        order = self._make_order(node, columns, visible)
        found: Node
        if given.limit is None and not self.batch:
            found = self._sort_by_time(node, order)
        elif given.limit is None and not given.offset:
            found = Sort(node.schema, node, order)
        else:
            last = _ALL if given.limit is None else given.offset + given.limit
            found = Rank(node.schema, node, tuple(keys), order, given.offset + 1, last)
        refs = zip(columns[:visible], node.schema.fields, strict=False)
        return Result(found, tuple(replace(each, value=_ref(each, field.name)) for each, field in refs))

    def _sort_by_time(self, node: Node, order: tuple[SortColumn, ...]) -> Node:
        """The rows of ``node``, which is unbounded, in an order that begins with the time, ascending. Raises
        DefinitionError for another order, as Flink's planner does."""
        given, below = self.given, traits(node)
        hint = "add LIMIT, which keeps the first rows as they change, or set 'execution.runtime-mode' to 'BATCH'"
        if given.offset or not order:
            raise self.source.unsupported_feature(
                given.clause, "OFFSET without LIMIT is not supported on a stream", hint
            )
        first, *more = order
        if first.descending or first.name not in (*below.rowtimes, *below.proctimes):
            reason = "Sort on a non-time-attribute field is not supported: a stream is sorted by its time, ascending"
            raise self.source.unsupported_feature(given.clause, reason, hint)
        if below.changing:
            reason = "ORDER BY a time attribute needs rows that are only added, and the query changes its rows"
            raise self.source.unsupported_feature(given.clause, reason, hint)
        if first.name in below.rowtimes:
            return TemporalSort(node.schema, node, first.name, tuple(more))
        return TemporalSort(node.schema, node, "", tuple(more)) if more else node

    def _make_order(self, node: Node, columns: Sequence[Selected], visible: int) -> tuple[SortColumn, ...]:
        hidden = self._find_hidden_keys()
        found = []
        for key in self.given.order:
            if key.expression in hidden:
                place = visible + hidden.index(key.expression)
            else:
                place = self._find_place(key, columns[:visible])
            column = node.schema.fields[place]
            if isinstance(column.type, ArrayType | MapType | RowType):
                reason = f"{column.type.text()} has no order"
                raise self.source.error(key.expression.at, reason, "order by its elements")
            found.append(SortColumn(column.name, key.descending, key.nulls_first))
        return tuple(found)

    def _find_hidden_keys(self) -> list[Unbound]:
        """The expressions of ORDER BY that are not columns of the result."""
        query = self.given.query
        if not isinstance(query, UnboundSelect) or query.distinct:
            return []
        aliases = {each.alias.text for each in query.items if each.alias is not None}
        return [each.expression for each in self.given.order if not _is_of_result(each.expression, aliases)]

    def _find_place(self, key: SortKey, columns: Sequence[Selected]) -> int:
        """The column of the result that ORDER BY names, or counts from 1."""
        match key.expression:
            case UnboundLiteral(form="NUMBER", text=text):
                if text.isdigit() and 1 <= int(text) <= len(columns):
                    return int(text) - 1
                reason = f"there is no column number {text} to order by"
            case UnboundName(parts=(name,)):
                found = [index for index, each in enumerate(columns) if each.name == name.text]
                if found:
                    return found[0]
                reason = f"there is no column '{name.text}' in the result"
            case _:
                reason = "the rows of DISTINCT, or of several queries, are ordered by their columns only"
        hint = f"the columns are {', '.join(each.name for each in columns)}"
        raise self.source.schema_error(key.expression.at, reason, hint)


def _is_of_result(given: Unbound, aliases: set[str]) -> bool:
    if isinstance(given, UnboundLiteral):
        return given.form == "NUMBER"
    return isinstance(given, UnboundName) and len(given.parts) == 1 and given.parts[0].text in aliases


def _ref(column: Selected, name: str) -> ColumnRef:
    return ColumnRef(name, type=column.value.type, place=column.value.place)
