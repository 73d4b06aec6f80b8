"""Window tables: TUMBLE, HOP, CUMULATE and SESSION in FROM, and the window tables behind GROUP BY TUMBLE(..)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.plan.expressions import ColumnRef, Expression, offset_of, rewrite, walk
from penstock.plan.nodes import Node, WindowTable
from penstock.plan.row_traits import Traits
from penstock.plan.traits import traits
from penstock.plan.windowing import Windowing, WindowKind
from penstock.plan.windows import assign_windows
from penstock.sql.bind.expressions.aggregates import Aggregate
from penstock.sql.bind.expressions.group_windows import GroupWindow
from penstock.sql.bind.expressions.lengths import read_length
from penstock.sql.bind.results import Result
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import UnboundWindow
from penstock.types import RowType, TimestampType

_EVENT_TIME = "declare WATERMARK FOR it, and pass it on as it is"


def make_window_table(given: UnboundWindow, node: Node, source: SourceText) -> WindowTable:
    """The rows of ``node`` with the columns of their windows. Raises SqlError for other arguments than Flink takes."""
    own = traits(node)
    _check_time(given, node.schema, own, source)
    lengths = _read_lengths(given, source)
    size = lengths.get("SIZE", lengths.get("GAP", 0))
    step = lengths.get("SLIDE", lengths.get("STEP", 0))
    kind = WindowKind[given.function]
    if step and size % step:
        name = "slide" if kind is WindowKind.HOP else "step"
        reason = f"{kind.name} needs a size that is a multiple of its {name}, not {size} ms and {step} ms"
        raise source.error(given.at, reason, f"change the {name}")
    field = node.schema.field(given.time.text)
    assert field is not None  # noqa: S101 - it was checked
    processing = given.time.text in own.proctimes
    zoned = processing or (isinstance(field.type, TimestampType) and field.type.local_zone)
    for key in given.keys:
        if node.schema.field(key.text) is None:
            raise source.not_found_error(key.at, "column", key.text, node.schema.names)
    keys = tuple(dict.fromkeys(each.text for each in given.keys))
    offset, place = lengths.get("OFFSET", 0), source.at(given.at)
    windowing = Windowing(kind, given.time.text, size, step, offset, zoned, processing, keys, place=place)
    return assign_windows(node, windowing)


def _check_time(given: UnboundWindow, schema: RowType, own: Traits, source: SourceText) -> None:
    """Raises SchemaError unless the column of DESCRIPTOR is a time attribute."""
    name = given.time.text
    field = schema.field(name)
    if field is None:
        raise source.not_found_error(given.time.at, "column", name, schema.names)
    if name not in (*own.rowtimes, *own.proctimes):
        reason = f"{given.function} needs a time attribute, and '{name}' is {field.type.text()}"
        hint = _EVENT_TIME if isinstance(field.type, TimestampType) else "name a column with WATERMARK FOR"
        raise source.schema_error(given.time.at, reason, hint)
    if isinstance(field.type, TimestampType) and field.type.precision > 3 and name in own.rowtimes:
        reason = f"a time attribute has at most 3 digits of a second, and '{name}' is {field.type.text()}"
        raise source.schema_error(given.time.at, reason, "declare it as TIMESTAMP(3), or compute it with CAST(..)")


def _read_lengths(given: UnboundWindow, source: SourceText) -> Mapping[str, int]:
    """The lengths of a window by their names, in milliseconds."""
    found = {}
    for name, value in given.lengths:
        found[name] = read_length(value, name, source, positive=name != "OFFSET")
    return found


# --- GROUP BY TUMBLE(..) ---------------------------------------------------------------------------------------

#: A query's result, its keys and its conditions on groups.
Grouped = tuple[Result, tuple[Expression, ...], tuple[Expression, ...]]


def group_by_window(
    result: Result, keys: tuple[Expression, ...], having: tuple[Expression, ...], source: SourceText
) -> Grouped:
    """A query's result, keys and conditions in terms of the columns of the window that is among its keys. Raises
    SqlError for a second window."""
    window, *others = (each for each in keys if isinstance(each, GroupWindow))
    if others:
        at = offset_of(others[0])
        raise source.unsupported_feature(at, "a second window in GROUP BY is not supported", "leave one of them out")
    if result.node is None or result.columns is None:
        return result, keys, having
    if window.kind is WindowKind.SESSION:  # its bounds are known only when all its rows are
        values = [each.value for each in result.columns if each is not None]
        aggregates = (each for value in (*values, *having) for each in walk(value) if isinstance(each, Aggregate))
        _check_sessions([*aggregates, *(each for each in keys if each is not window)], source)
    table = assign_group_window(result.node, window, source)
    change = replace_window_parts(table, window, source)
    columns = tuple(None if each is None else replace(each, value=change(each.value)) for each in result.columns)
    bounds = table.schema.select(table.columns.names).fields
    plain = (each for each in keys if each is not window)
    found = (*plain, *(ColumnRef(each.name, type=each.type) for each in bounds))
    return Result(table, columns), found, tuple(change(each) for each in having)


def _check_sessions(values: Sequence[Expression], source: SourceText) -> None:
    """Raises UnsupportedError for aggregates and keys that read the bounds of a session."""
    for each in (part for value in values for part in walk(value) if isinstance(part, GroupWindow)):
        at = offset_of(each)
        name = f"SESSION_{each.part}".removesuffix("_")
        reason = f"{name} in an aggregate or in a key is not supported"
        raise source.unsupported_feature(at, reason, "select it, and aggregate in an outer query")


def assign_group_window(node: Node, window: GroupWindow, source: SourceText) -> WindowTable:
    """The rows of ``node`` with the columns of the window. Raises SchemaError unless its time is a time attribute."""
    at = offset_of(window.time)
    own = traits(node)
    time = window.time
    if not isinstance(time, ColumnRef) or time.name not in (*own.rowtimes, *own.proctimes):
        reason = f"{window.kind.name} needs a time attribute"
        raise source.schema_error(at, reason, "name a column with WATERMARK FOR, which was passed on as it is")
    processing = time.name in own.proctimes
    zoned = processing or (isinstance(time.type, TimestampType) and time.type.local_zone)
    grouped = window.kind is WindowKind.SESSION
    windowing = Windowing(window.kind, time.name, window.size, window.step, 0, zoned, processing, grouped=grouped)
    return assign_windows(node, windowing)


def replace_window_parts(
    table: WindowTable, window: GroupWindow, source: SourceText
) -> Callable[[Expression], Expression]:
    """Replaces parts of the window by the columns of the ``table``. Raises SqlError for parts of another window."""
    columns = table.columns
    names = {"START": columns.start, "END": columns.end, "ROWTIME": columns.time, "PROCTIME": columns.time}

    def change(each: Expression) -> Expression:
        if not isinstance(each, GroupWindow):
            return each
        at = offset_of(each)
        if each.window != window.window or not each.part:
            reason = f"{each.kind.name}{'_' if each.part else ''}{each.part} needs the window of GROUP BY"
            raise source.error(at, reason, "write the same time and lengths in both")
        field = table.schema.field(names[each.part])
        assert field is not None  # noqa: S101
        return ColumnRef(field.name, type=field.type, place=each.place)

    return lambda expression: rewrite(expression, change)
