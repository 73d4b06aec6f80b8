"""A job as text that people read: its settings, sinks, steps and sources."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from penstock.options import DURATION
from penstock.plan.expressions import ColumnRef, Literal
from penstock.plan.flink_sql import flink_sql
from penstock.plan.lifetimes import lifetimes
from penstock.plan.nodes import (
    STATEFUL,
    AggregateCall,
    AssignWatermarks,
    DeadLetters,
    Deduplicate,
    Filter,
    GroupAggregate,
    InWindows,
    Item,
    Job,
    Join,
    MapRows,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    OverCall,
    Project,
    Rank,
    Ranking,
    Scan,
    SessionTable,
    SetKind,
    SetOperation,
    Sink,
    Sort,
    SortColumn,
    TemporalSort,
    Union,
    Unnest,
    WindowAggregate,
    WindowTable,
)
from penstock.plan.traits import Traits, own_traits, traits
from penstock.plan.walk import fold
from penstock.plan.windowing import WindowColumns, Windowing, WindowKind
from penstock.settings import Settings
from penstock.types import STRING, quoted_name


def explain(job: Job) -> str:
    """An indented tree: the job's settings, then each sink with the steps that feed it, the source innermost.

    Sinks that commit to different systems are not atomic together (rule "targets commit independently").
    """
    lines = [f"job '{job.name}'", *_indented(_settings(job.settings))]
    systems = dict.fromkeys(sink.spec.capabilities.commits_to for sink in job.sinks)
    systems.pop("", None)
    if len(systems) > 1:
        lines.append(f"  one commit each, not atomic together: {'; '.join(systems)}")
    for sink, _ in fold(job.sinks, partial(_node, job.settings.state_ttl)):
        lines += _indented(sink)
    return "\n".join(lines)


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _settings(settings: Settings) -> list[str]:
    default = Settings()
    interval = settings.checkpoint_interval
    pace = DURATION.show(interval) if interval is not None else "(as soon as the one before it is done)"
    shown = {
        "a batch every": None if settings.batch else pace,
        "batch mode": "all rows are computed in one batch" if settings.batch else None,
        "checkpoints in": settings.checkpoint_dir if settings.checkpointing else "(none: checkpointing is off)",
        "parallelism": settings.parallelism,
        "time zone": settings.session_time_zone,
        "what overflows": "fails" if settings.strict else None,
        "progress topic": settings.progress_topic if settings.progress_topic != default.progress_topic else None,
        "ends": "when it has read what is there now" if settings.once else None,
        "state is kept for": DURATION.show(settings.state_ttl) if settings.state_ttl else None,
        "adopts progress": "yes" if settings.adopt_progress else None,
        "Kerberos login": settings.kerberos.describe() if settings.kerberos else None,
        "partitions are idle after": DURATION.show(settings.idle_timeout) if settings.idle_timeout else None,
        "restarts": settings.restart.describe() if settings.restart else None,
    }
    return [f"{title}: {value}" for title, value in shown.items() if value is not None]


def _node(ttl: timedelta | None, node: Node, inputs: tuple[tuple[list[str], Traits], ...]) -> tuple[list[str], Traits]:
    """The lines of a node, and of its inputs below it, and its traits."""
    own = own_traits(node, tuple(below for _, below in inputs))
    below = [line for lines, _ in inputs for line in _indented(lines)]
    return [*step_lines(node), *_indented(_facts(node, own, ttl)), *below], own


def _facts(node: Node, own: Traits, ttl: timedelta | None) -> list[str]:
    """What a node keeps, where its rows go before it, and which changes it gives."""
    lines = []
    if isinstance(node, STATEFUL):
        lines.append(f"keeps {state_of(node)}" + (f", as '{node.uid}'" if node.uid else ""))
        times = [f"{DURATION.show(each)} after their last change" if each else "never" for each in lifetimes(node, ttl)]
        if len(set(times)) > 1:
            lines.append(f"forgets the left rows {times[0]}, the right ones {times[1]}")
        elif times[0] != "never" or isinstance(node, Join):
            lines.append(f"forgets them {times[0]}" if times[0] != "never" else "never forgets them")
        keys = [_names(each) for each in shuffled_by(node)]
        lines.append(
            f"takes rows by the hash of {' and of '.join(keys)}" if all(keys) else "takes all rows in one task"
        )
    if own.changing and isinstance(node, STATEFUL | Scan | Union):
        lines.append(f"gives {', '.join(kind.short for kind in sorted(own.kinds))}")
    return lines


def state_of(node: Node) -> str:
    """What a node with state keeps."""
    match node:
        case InWindows():
            return "the rows of the windows that are open"
        case SessionTable():
            return "the rows of the sessions that are open"
        case Join():
            return "the rows of both tables"
        case GroupAggregate():
            return "each group"
        case WindowAggregate():
            return "each group of the windows that are open"
        case Deduplicate(by_watermark=True):
            return "the first row of each key until the watermark reaches it, then the key"
        case Deduplicate(last=False):
            return "the first row of each key"
        case OverAggregate(frame=frame) if not node.by_time:
            return "all rows of each key"
        case OverAggregate(frame=frame, time=time):
            found = "each group" if frame.running else "the rows of each key that are in frames of later ones"
            return f"{found}, and the rows that the watermark has not reached" if time else found
        case TemporalSort(time="") | Sort():
            return "nothing between batches"
        case TemporalSort():
            return "the rows that the watermark has not reached"
        case Materialize():
            return "all rows of each key, in their order"
        case SetOperation():
            return "how often each row is on either side"
        case Rank(input=below) if traits(below).changing:
            return "all rows of each key"
        case Rank(last=last):
            return f"the first {last} rows of each key"
    return "the last row of each key"


def shuffled_by(node: Node) -> tuple[tuple[str, ...], ...]:
    """The columns by whose hash the rows of each input are divided among tasks; no columns: they go to one task."""
    match node:
        case InWindows(inner=inner):
            return shuffled_by(inner)
        case WindowAggregate(windowing=Windowing(kind=WindowKind.SESSION, keys=keys)):
            return (keys,)
        case SessionTable(windowing=windowing):
            return (windowing.keys,)
        case Join(left_keys=left, right_keys=right):
            return left, right
        case SetOperation(left=left_side, right=right_side):
            return left_side.schema.names, right_side.schema.names
        case TemporalSort() | Sort():
            return ((),)
        case (
            GroupAggregate(keys=keys)
            | WindowAggregate(keys=keys)
            | Normalize(keys=keys)
            | Deduplicate(keys=keys)
            | Rank(keys=keys)
            | OverAggregate(keys=keys)
            | Materialize(keys=keys)
        ):
            return (keys,)
    return ()


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(quoted_name(each) for each in names)


def step_lines(node: Node) -> list[str]:
    """The lines of a node, without those of its inputs."""
    match node:
        case Sink() | Scan():
            columns = ", ".join(str(field) for field in node.schema.fields)
            return [*node.spec.describe().splitlines(), f"  columns: {columns}"]
        case Filter(condition=condition):
            return [f"where {flink_sql(condition)}"]
        case Project(items=items):
            return ["select", *(f"  {_item(item)}" for item in items)]
        case AssignWatermarks(column=column, watermark=watermark):
            return [f"event time {quoted_name(column)}, watermark {flink_sql(watermark)}"]
        case DeadLetters():
            return ["records that cannot be decoded"]
        case GroupAggregate(keys=keys, calls=calls):
            head = f"group by {_names(keys)}" if keys else "group all rows"
            return [head, *(f"  {quoted_name(each.name)} = {_call(each)}" for each in calls)]
        case WindowAggregate(keys=keys, calls=calls, windowing=windowing, columns=columns):
            head = f"group by {windowing.describe()}" + (f" and {_names(keys)}" if keys else "")
            return [head, *(f"  {quoted_name(each.name)} = {_call(each)}" for each in calls), _window(columns)]
        case InWindows(inner=inner, windows=windows):
            first, *more = step_lines(inner)
            return [f"{first}, in {windows[0].describe()}", *more]
        case WindowTable(windowing=windowing, columns=columns):
            return [f"rows of each window of {windowing.describe()}", _window(columns)]
        case Unnest(collection=collection, columns=columns, outer=outer):
            every = ", of an empty one one row" if outer else ""
            return [f"rows of each element of {quoted_name(collection)}{every}, as {_names(columns)}"]
        case Join(kind=kind, left_keys=left, right_keys=right, condition=condition):
            pairs = [f"{quoted_name(a)} = {quoted_name(b)}" for a, b in zip(left, right, strict=True)]
            pairs += [] if condition is None else [flink_sql(condition)]
            return [f"{kind.value} join on {' and '.join(pairs)}" if pairs else f"{kind.value} join of all pairs"]
        case Union():
            return ["all rows of"]
        case SetOperation(kind=kind_of):
            return [_COMPARISONS[kind_of]]
        case Normalize(keys=keys):
            return [f"changes of the table with the key {_names(keys)}"]
        case Deduplicate(keys=keys, order=order, last=last):
            which = f"the {'last' if last else 'first'} row"
            by = f"by {quoted_name(order)}" if order else "to arrive"
            return [f"{which} {by} of each {_names(keys)}" if keys else f"{which} {by}"]
        case Materialize(keys=keys, decided=decided):
            row = f"the last row of each {_names(keys)}" if keys else "the last row"
            return [f"{row}, with the random values that it had first" if decided else row]
        case OverAggregate():
            return [_over(node), *(f"  {quoted_name(each.name)} = {_call(each)}" for each in node.calls)]
        case TemporalSort(time=time, order=order):
            by = ", ".join([*([quoted_name(time)] if time else []), *map(_sort, order)])
            return [f"rows in the order of {by}" if time else f"rows of a batch in the order of {by}"]
        case Sort(order=order):
            return [f"rows in the order of {', '.join(map(_sort, order))}"]
        case Rank():
            return [_rank(node)]
        case MapRows(rows=rows):
            return [f"map rows with {getattr(rows, '__qualname__', type(rows).__name__)}"]
    return [type(node).__name__]


def _window(columns: WindowColumns) -> str:
    return f"  window {_names((columns.start, columns.end))}, time attribute {quoted_name(columns.time)}"


_COMPARISONS = {
    SetKind.INTERSECT: "different rows of both",
    SetKind.INTERSECT_ALL: "rows of both",
    SetKind.EXCEPT: "different rows of the first without those of the second",
    SetKind.EXCEPT_ALL: "rows of the first less those of the second",
    SetKind.SEMI: "rows of the first that are in the second",
    SetKind.ANTI: "rows of the first that are not in the second",
}


def _rank(rank: Rank) -> str:
    which = f"row {rank.last}" if rank.first == rank.last else f"rows {rank.first} to {rank.last}"
    which += f" by {rank.ranking.value}" if rank.ranking is not Ranking.ROW_NUMBER else ""
    order = ", ".join(map(_sort, rank.order)) or "arrival"
    order += ", the latest first" if rank.latest else ""
    of = f" of each {_names(rank.keys)}" if rank.keys else ""
    return f"{which}{of}, by {order}" + (f", numbered {quoted_name(rank.number)}" if rank.number else "")


def _over(over: OverAggregate) -> str:
    by = ["processing time"] if over.processing else [quoted_name(over.time)] if over.time else []
    order = ", ".join([*by, *map(_sort, over.order)]) or "no order"
    of = f" of each {_names(over.keys)}" if over.keys else ""
    unit = " (milliseconds)" if over.by_time and not over.frame.rows and over.frame.start is not None else ""
    return f"functions over {over.frame.describe()}{unit}{of}, by {order}"


def _sort(column: SortColumn) -> str:
    nulls = "" if column.nulls_first != column.descending else f" NULLS {'FIRST' if column.nulls_first else 'LAST'}"
    return f"{quoted_name(column.name)}{' DESC' if column.descending else ''}{nulls}"


def _item(item: Item) -> str:
    text, name = flink_sql(item.expression), quoted_name(item.name)
    return name if isinstance(item.expression, ColumnRef) and text == name else f"{name} = {text}"


def _call(call: AggregateCall) -> str:
    argument = "*" if call.argument is None else quoted_name(call.argument)
    condition = "" if call.filter is None else f" FILTER (WHERE {quoted_name(call.filter)})"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument}{more_arguments(call)}){condition}"


def more_arguments(call: AggregateCall) -> str:
    """What follows the argument of an aggregate."""
    if isinstance(call, OverCall) and call.function in ("LAG", "LEAD"):
        return f", {call.number}" + ("" if call.default is None else f", {quoted_name(call.default)}")
    if call.function == "LISTAGG":
        return f", {flink_sql(Literal(call.separator, type=STRING))}"
    return " IGNORE NULLS" if call.function == "ARRAY_AGG" and not call.nulls else ""
