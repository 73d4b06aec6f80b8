"""A job as text that people read: its settings, sinks, steps and sources."""

from __future__ import annotations

from penstock.options import DURATION
from penstock.plan.expressions import ColumnRef
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import (
    AssignWatermarks,
    DeadLetters,
    Filter,
    Item,
    Job,
    MapRows,
    Node,
    Project,
    Scan,
    Sink,
)
from penstock.plan.walk import fold
from penstock.settings import Settings
from penstock.types import quoted_name


def explain(job: Job) -> str:
    """An indented tree: the job's settings, then each sink with the steps that feed it, the source innermost.

    Sinks that commit to different systems are not atomic together (rule "targets commit independently").
    """
    lines = [f"job '{job.name}'", *_indented(_settings(job.settings))]
    systems = dict.fromkeys(sink.spec.capabilities.commits_to for sink in job.sinks)
    systems.pop("", None)
    if len(systems) > 1:
        lines.append(f"  one commit each, not atomic together: {'; '.join(systems)}")
    for sink in fold(job.sinks, _node):
        lines += _indented(sink)
    return "\n".join(lines)


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _settings(settings: Settings) -> list[str]:
    default = Settings()
    interval = settings.checkpoint_interval
    shown = {
        "a batch every": DURATION.show(interval) if interval is not None else "(as soon as the one before it is done)",
        "checkpoints in": settings.checkpoint_dir if settings.checkpointing else "(none: checkpointing is off)",
        "parallelism": settings.parallelism,
        "time zone": settings.session_time_zone,
        "progress topic": settings.progress_topic if settings.progress_topic != default.progress_topic else None,
        "adopts progress": "yes" if settings.adopt_progress else None,
        "Kerberos login": settings.kerberos.describe() if settings.kerberos else None,
        "partitions are idle after": DURATION.show(settings.idle_timeout) if settings.idle_timeout else None,
        "restarts": settings.restart.describe() if settings.restart else None,
    }
    return [f"{title}: {value}" for title, value in shown.items() if value is not None]


def _node(node: Node, inputs: tuple[list[str], ...]) -> list[str]:
    """The lines of a node, and of its inputs below it."""
    return [*step_lines(node), *(line for each in inputs for line in _indented(each))]


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
        case MapRows(rows=rows):
            return [f"map rows with {getattr(rows, '__qualname__', type(rows).__name__)}"]
    return [type(node).__name__]


def _item(item: Item) -> str:
    text, name = flink_sql(item.expression), quoted_name(item.name)
    return name if isinstance(item.expression, ColumnRef) and text == name else f"{name} = {text}"
