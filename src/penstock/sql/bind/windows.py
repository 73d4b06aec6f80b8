"""Tables of windows: TUMBLE, HOP, CUMULATE and SESSION in FROM."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from penstock.plan.expressions import Literal
from penstock.plan.nodes import Node, WindowTable
from penstock.plan.traits import Traits, traits
from penstock.plan.windowing import Windowing, WindowKind
from penstock.plan.windows import windowed
from penstock.sql.bind.scope import Scope
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import Unbound, UnboundWindow
from penstock.types import RowType, TimestampType

_EVENT_TIME = "declare WATERMARK FOR it, and pass it on as it is"


def window_table(given: UnboundWindow, node: Node, source: SourceText) -> WindowTable:
    """The rows of ``node`` with the columns of their windows. Raises SqlError for other arguments than Flink takes."""
    own = traits(node)
    _check_time(given, node.schema, own, source)
    lengths = _lengths(given, source)
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
            raise source.schema_error(
                key.at, f"there is no column '{key.text}'", f"there are {', '.join(node.schema.names)}"
            )
    if processing or kind is WindowKind.SESSION:
        feature = "a window of processing time" if processing else "SESSION"
        raise source.unsupported(given.at, f"{feature} is not supported", "use a TUMBLE window of event time")
    keys = tuple(dict.fromkeys(each.text for each in given.keys))
    windowing = Windowing(kind, given.time.text, size, step, lengths.get("OFFSET", 0), zoned, processing, keys)
    return windowed(node, windowing)


def _check_time(given: UnboundWindow, schema: RowType, own: Traits, source: SourceText) -> None:
    """Raises SchemaError unless the column of DESCRIPTOR is a time attribute."""
    name = given.time.text
    field = schema.field(name)
    if field is None:
        hint = f"there are {', '.join(schema.names)}"
        raise source.schema_error(given.time.at, f"there is no column '{name}'", hint)
    if name not in (*own.rowtimes, *own.proctimes):
        reason = f"{given.function} needs a time attribute, and '{name}' is {field.type.text()}"
        hint = _EVENT_TIME if isinstance(field.type, TimestampType) else "name a column with WATERMARK FOR"
        raise source.schema_error(given.time.at, reason, hint)
    if isinstance(field.type, TimestampType) and field.type.precision > 3 and name in own.rowtimes:
        reason = f"a time attribute has at most 3 digits of a second, and '{name}' is {field.type.text()}"
        raise source.schema_error(given.time.at, reason, "declare it as TIMESTAMP(3), or compute it with CAST(..)")


def _lengths(given: UnboundWindow, source: SourceText) -> Mapping[str, int]:
    """The lengths of a window by their names, in milliseconds."""
    found = {}
    for name, value in given.lengths:
        found[name] = length(value, name, source, positive=name != "OFFSET")
    return found


def length(given: Unbound, name: str, source: SourceText, *, positive: bool = True) -> int:
    """An interval of days or less, in milliseconds. Raises SqlError for anything else."""
    value = Scope(RowType((), nullable=False), source).bind(given)
    if not (isinstance(value, Literal) and isinstance(value.value, timedelta)):
        reason = f"{name} is an interval of days, hours, minutes or seconds, not {value.type.text()}"
        raise source.error(given.at, reason, "such as INTERVAL '10' MINUTE")
    millis, rest = divmod(value.value, timedelta(milliseconds=1))
    if rest or (positive and millis <= 0):
        reason = f"{name} is {'not whole milliseconds' if rest else 'not longer than 0 ms'}"
        raise source.error(given.at, reason, "write a longer interval")
    return millis
