"""Functions with OVER: the nodes that compute them beside the rows of a query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from penstock.plan.expressions import (
    Call,
    ColumnRef,
    Expression,
    Literal,
    Place,
    fields_of,
    offset_of,
    rewrite,
    walk,
)
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import (
    AssignWatermarks,
    Filter,
    Item,
    Node,
    OverAggregate,
    OverCall,
    Project,
    SortColumn,
    project,
)
from penstock.plan.scalar_functions import varies_by_row
from penstock.plan.traits import traits
from penstock.sql.bind.expressions.generated_names import find_free_name, generate_name, shorten
from penstock.sql.bind.expressions.over_functions import BoundWindow, OverFunction
from penstock.sql.parse.source import SourceText
from penstock.types import ArrayType, Field, MapType, RowType

_T = TypeVar("_T")


@dataclass(frozen=True)
class _Written(Generic[_T]):
    """A value that is computed once, however often it is written. A random one has the ``places`` where it is written,
    since it is another value elsewhere."""

    value: _T
    places: tuple[Place | None, ...] = ()


@dataclass
class OverPlan:
    """The rows of ``node`` with the results of functions. In a ``batch`` all rows exist at once. :meth:`rewrite` turns
    expressions with functions into expressions of columns; after that, :meth:`plan_rows` has all columns."""

    node: Node
    batch: bool
    source: SourceText
    #: The columns that windows and functions read, and the calls by window: each value and function once.
    _items: list[Item] = field(default_factory=list, init=False)
    _columns: dict[_Written[Expression], str] = field(default_factory=dict, init=False)
    _calls: dict[_Written[BoundWindow], dict[_Written[OverFunction], OverCall]] = field(
        default_factory=dict, init=False
    )

    def __post_init__(self) -> None:
        self._items = [Item(each.name, each) for each in fields_of(self.node.schema)]
        self._columns = {_make_written(each.expression, each.expression): each.name for each in self._items}

    def rewrite(self, expression: Expression) -> Expression:
        """``expression`` in terms of the columns of :meth:`plan_rows`."""
        return rewrite(expression, self._find_column)

    def plan_rows(self) -> Node:
        """The rows with all columns. Raises UnsupportedError for windows that streams do not have, as Flink does."""
        windows = list(self._calls)
        if not self.batch and len(windows) > 1:
            other = next(iter(self._calls[windows[1]])).value
            reason = "functions over different windows are not supported in streams: all must have the same window"
            hint = "write a WINDOW w AS (..) for all of them, or separate queries"
            raise self.source.unsupported_feature(offset_of(other), reason, hint)
        nodes = [self._make_over(window.value, calls) for window, calls in self._calls.items()]
        found = project(self.node, tuple(self._items))
        for each in nodes:
            fields = (*found.schema.fields, *(Field(call.name, call.type) for call in each.calls))
            found = replace(each, input=found, schema=RowType(fields, nullable=False))
        return found

    def _find_column(self, expression: Expression) -> Expression:
        if not isinstance(expression, OverFunction):
            return expression
        window = expression.window
        calls = self._calls.setdefault(_make_written(window, *window.partition, *window.order), {})
        written = _make_written(expression, expression)
        if written not in calls:
            argument, default = (
                None if each is None else self._add_column(each) for each in (expression.argument, expression.default)
            )
            call = OverCall(
                "",
                expression.function,
                expression.type,
                argument,
                expression.distinct,
                nulls=expression.nulls,
                separator=expression.separator,
                place=expression.place,
                number=expression.number,
                default=default,
            )
            known = [each.name for own in self._calls.values() for each in own.values()]
            calls[written] = replace(call, name=find_free_name(_make_name(call), [*self._names, *known]))
        call = calls[written]
        return ColumnRef(call.name, type=call.type, place=expression.place)

    @property
    def _names(self) -> list[str]:
        return [each.name for each in self._items]

    def _add_column(self, value: Expression) -> str:
        """The name of the column with a value."""
        written = _make_written(value, value)
        if written not in self._columns:
            calls = [each.name for own in self._calls.values() for each in own.values()]
            name = find_free_name(generate_name(value), [*self._names, *calls])
            self._items.append(Item(name, value))
            self._columns[written] = name
        return self._columns[written]

    def _make_over(self, window: BoundWindow, calls: Mapping[_Written[OverFunction], OverCall]) -> OverAggregate:
        at = offset_of(next(iter(calls)).value)
        keys = tuple(dict.fromkeys(self._add_column(each) for each in window.partition))
        for each in window.partition:
            if isinstance(each.type, MapType):
                raise self.source.error(offset_of(each), "a MAP cannot be in PARTITION BY", "use its elements")
        made = OverAggregate(
            self.node.schema, self.node, keys, self._make_order(window), tuple(calls.values()), window.frame
        )
        return made if self.batch else self._order_by_time(made, window, at)

    def _make_order(self, window: BoundWindow) -> tuple[SortColumn, ...]:
        found = []
        for value, way in zip(window.order, window.ways, strict=True):
            if isinstance(value.type, ArrayType | MapType | RowType):
                raise self.source.error(offset_of(value), f"{value.type.text()} has no order", "order by its elements")
            if not isinstance(value, Literal) and not is_proctime(value, self.node):
                found.append(replace(way, name=self._add_column(value)))
        return tuple(found)

    def _order_by_time(self, made: OverAggregate, window: BoundWindow, at: int) -> OverAggregate:
        """The node as streams have it. Raises UnsupportedError for others, as Flink does."""
        unsupported, below = self.source.unsupported_feature, traits(self.node)
        batch = "or set 'execution.runtime-mode' to 'BATCH'"
        if len(window.order) != 1:
            reason = "a window with OVER in a stream must be ordered by one column, the time"
            raise unsupported(at, reason, f"write ORDER BY with the event time or a column AS PROCTIME(), {batch}")
        (by,), (way,), frame = window.order, window.ways, made.frame
        if way.descending:
            raise unsupported(
                at, "a window with OVER in a stream must be in ascending order, not DESC", f"leave DESC out, {batch}"
            )
        if frame.end != 0 or (frame.start is not None and frame.start > 0):
            reason = f"{frame.describe()} is not supported in streams: frames go from PRECEDING to CURRENT ROW"
            raise unsupported(at, reason, f"write ROWS or RANGE BETWEEN .. PRECEDING AND CURRENT ROW, {batch}")
        processing = is_proctime(by, self.node)
        event_time = isinstance(by, ColumnRef) and by.name in below.rowtimes
        if not processing and not event_time:
            if not frame.running:
                column = f"{flink_sql(by)}, which is not a time attribute"
                reason = f"{frame.describe()} is not supported in the order of {column}"
                raise unsupported(at, reason, f"order by the event time, begin with UNBOUNDED PRECEDING, {batch}")
            return made
        if below.changing:
            reason = "OVER in the order of time takes rows that are only added, and the query's rows change"
            raise unsupported(at, reason, "aggregate with GROUP BY, or order by a column that is not a time attribute")
        if processing:
            return replace(made, order=(), processing=True)
        assert isinstance(by, ColumnRef)  # noqa: S101
        return replace(made, order=(), time=by.name)


def _make_written(value: _T, *expressions: Expression) -> _Written[_T]:
    """A value that is made of expressions."""
    parts = [each for expression in expressions for each in walk(expression)]
    random = any(isinstance(each, Call) and varies_by_row(each) for each in parts)
    return _Written(value, tuple(each.place for each in parts) if random else ())


def _make_name(call: OverCall) -> str:
    """The name of a function's column, as in ``$SUM(amount) OVER``."""
    argument = "*" if call.argument is None else call.argument.removeprefix("$")
    return shorten(f"${call.function}({'DISTINCT ' if call.distinct else ''}{argument}) OVER")


def is_proctime(expression: Expression, node: Node) -> bool:
    """Whether an expression over ``node`` is the processing time, in whose order rows arrive."""
    while isinstance(expression, ColumnRef) and isinstance(node, Project | Filter | AssignWatermarks):
        if isinstance(node, Project):
            name = expression.name
            expression = next(each.expression for each in node.items if each.name == name)
        node = node.input
    return isinstance(expression, Call) and expression.function == "PROCTIME"
