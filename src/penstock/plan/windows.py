"""GROUP BY over windows: groups that are given once, when their window closes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.plan.expressions import ColumnRef, Expression, columns_of, conjunction, fields_of, substitute
from penstock.plan.nodes import (
    Filter,
    GroupAggregate,
    InWindows,
    Item,
    Node,
    Project,
    SessionTable,
    Stateful,
    WindowAggregate,
    WindowTable,
    project,
)
from penstock.plan.row_traits import Traits
from penstock.plan.traits import traits
from penstock.plan.windowing import Attached, WindowColumns, Windowing, WindowKind
from penstock.types import Field, RowType, TimestampType

#: The type of the start and the end of a window.
BOUND = TimestampType(3, nullable=False)


def bounds_and_time(columns: WindowColumns, *, zoned: bool) -> tuple[Field, Field, Field]:
    """The columns of a window with their types; its time is a TIMESTAMP_LTZ if ``zoned``."""
    time = TimestampType(3, local_zone=zoned, nullable=False)
    return Field(columns.start, BOUND), Field(columns.end, BOUND), Field(columns.time, time)


def plan_groups(node: GroupAggregate) -> Node:
    """The groups of ``node``; if the start and the end of the window are among their keys, those of windows."""
    window = traits(node.input).window
    if window is None or not {window.columns.start, window.columns.end} <= set(node.keys):
        return node
    below = _aggregate_unassigned(node, window.columns) or _aggregate_attached(node, window.columns, window.windowing)
    own = dict(zip(window.columns.names, below.columns.names, strict=True))
    return project(
        below, tuple(Item(f.name, ColumnRef(own.get(f.name, f.name), type=f.type)) for f in node.schema.fields)
    )


def aggregate_windows(
    node: Node, group: GroupAggregate, keys: tuple[str, ...], windowing: Windowing | Attached, zoned: bool
) -> WindowAggregate:
    """The groups of windows with the ``keys`` and calls of ``group``, of the rows of ``node``."""
    calls = tuple(Field(each.name, each.type) for each in group.calls)
    fields = [*node.schema.select(keys).fields, *calls]
    taken = [each.name for each in fields]
    columns = WindowColumns(*(_find_free_name(name, taken) for name in ("window_start", "window_end", "window_time")))
    row = RowType((*fields, *bounds_and_time(columns, zoned=zoned)), nullable=False)
    return WindowAggregate(row, node, keys, group.calls, windowing, columns)


def _aggregate_attached(
    group: GroupAggregate, columns: WindowColumns, windowing: Windowing | Attached
) -> WindowAggregate:
    """The groups of windows that the rows have in their columns."""
    keys = tuple(each for each in group.keys if each not in columns.names)
    return aggregate_windows(
        group.input, group, keys, Attached(columns.start, columns.end, windowing.zoned), windowing.zoned
    )


@dataclass(frozen=True)
class _WindowProjection:
    """Rows in terms of the columns of ``table``: those for which ``conditions`` are true, with ``columns``."""

    table: WindowTable
    conditions: tuple[Expression, ...]
    columns: Mapping[str, Expression]

    @classmethod
    def from_node(cls, node: Node) -> _WindowProjection | None:
        """The rows of ``node``, if only expressions are between it and a table of windows."""
        steps: list[Filter | Project] = []
        while isinstance(node, Filter | Project):
            steps.append(node)
            node = node.input
        if not isinstance(node, WindowTable):
            return None
        conditions: tuple[Expression, ...] = ()
        columns: dict[str, Expression] = {each.name: each for each in fields_of(node.schema)}
        for step in reversed(steps):
            if isinstance(step, Filter):
                conditions = (*conditions, substitute(step.condition, columns))
            else:
                columns = {each.name: substitute(each.expression, columns) for each in step.items}
        return cls(node, conditions, columns)


def _aggregate_unassigned(group: GroupAggregate, columns: WindowColumns) -> WindowAggregate | None:
    """The groups of windows that the aggregate itself assigns rows to, so that it need not see a row once for each
    window. None where the rows' windows are used below, or rows are also grouped by copies of the window's
    ``columns``."""
    rows = _WindowProjection.from_node(group.input)
    if rows is None:
        return None
    table = rows.table
    names = set(table.columns.names)
    windows = {name for name, each in rows.columns.items() if isinstance(each, ColumnRef) and each.name in names}
    if not windows.intersection(group.keys) <= set(columns.names):
        return None
    keys = tuple(each for each in group.keys if each not in windows)
    read = {*keys, *(name for call in group.calls for name in (call.argument, call.filter) if name is not None)}
    values = {name: rows.columns[name] for name in rows.columns if name in read}
    if any(columns_of(each) & names for each in (*rows.conditions, *values.values())):
        return None
    given = table.windowing
    of = tuple(_pass_column(each, table.input.schema, values) for each in given.keys)
    time = "" if given.processing else _pass_column(given.time, table.input.schema, values)
    below: Node = table.input
    if rows.conditions:
        below = Filter(below.schema, below, conjunction(rows.conditions))
    if values:  # a row needs a column, even an unread one
        below = project(below, tuple(Item(name, each) for name, each in values.items()))
    windowing = replace(given, time=time, keys=keys if given.grouped else of, grouped=False)
    return aggregate_windows(below, group, keys, windowing, windowing.zoned)


def _pass_column(name: str, schema: RowType, values: dict[str, Expression]) -> str:
    """The name among ``values`` of a column of ``schema``; it is added if it is not there."""
    found = next((own for own, each in values.items() if _is_column(each, name)), "")
    if not found:
        found = _find_free_name(name, list(values))
        field = schema.field(name)
        assert field is not None  # noqa: S101
        values[found] = ColumnRef(name, type=field.type)
    return found


def _is_column(expression: Expression, name: str) -> bool:
    return isinstance(expression, ColumnRef) and expression.name == name


def _find_free_name(name: str, taken: list[str]) -> str:
    """``name``, with a number after it if it is taken; the result is added to ``taken``."""
    found, number = name, 0
    while found in taken:
        found, number = f"{name}{number}", number + 1
    taken.append(found)
    return found


def move_into_windows(node: Stateful) -> Node:
    """``node``, which joins rows or keeps some rows of each key, for each window separately if its keys identify
    windows: if the window's start and end are among them, on both sides of a join."""
    windows: list[Attached] = []
    places = []
    for each, own in zip(node.inputs, node.shuffle_keys, strict=True):
        found = traits(each)
        window = found.window
        if window is None or found.changing or not {window.columns.start, window.columns.end} <= set(own):
            return node
        windows.append(Attached(window.columns.start, window.columns.end, window.windowing.zoned))
        places.append((own.index(window.columns.start), own.index(window.columns.end)))
    if len(set(places)) > 1 or len({_make_length_key(traits(each)) for each in node.inputs}) > 1:
        return node
    return InWindows(node.schema, node, tuple(windows))


def _make_length_key(own: Traits) -> object:
    """A key that is equal for two windowings with the same windows."""
    windowing = own.window.windowing if own.window is not None else None
    return replace(windowing, time="") if isinstance(windowing, Windowing) else None


def assign_windows(node: Node, windowing: Windowing) -> WindowTable:
    """The rows of ``node`` with the columns of their windows. Columns of these names get a number, as in Flink."""
    taken = list(node.schema.names)
    columns = WindowColumns(*(_find_free_name(name, taken) for name in ("window_start", "window_end", "window_time")))
    fields = (*node.schema.fields, *bounds_and_time(columns, zoned=windowing.zoned))
    kind = SessionTable if windowing.kind is WindowKind.SESSION else WindowTable
    return kind(RowType(fields, nullable=False), node, windowing, columns)
