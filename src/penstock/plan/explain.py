"""A job as text that people read: its settings, sinks, steps and sources. The line of each node comes from its
:meth:`Node.explain_step`."""

from __future__ import annotations

from functools import partial

from penstock.options import DURATION
from penstock.plan.flink_sql import quote_names
from penstock.plan.node import Node, Stateful
from penstock.plan.nodes import Job
from penstock.plan.row_traits import Traits
from penstock.plan.walk import fold
from penstock.settings import Settings


def explain(job: Job) -> str:
    """An indented tree: the job's settings, then each sink with the steps that feed it, the source innermost.

    Sinks that commit to different systems are not atomic together (rule "targets commit independently").
    """
    lines = [f"job '{job.name}'", *_indent_lines(_explain_settings(job.settings))]
    systems = dict.fromkeys(sink.spec.capabilities.commits_to for sink in job.sinks)
    systems.pop("", None)
    if len(systems) > 1:
        lines.append(f"  one commit each, not atomic together: {'; '.join(systems)}")
    for sink, _ in fold(job.sinks, partial(_explain_node, job.settings)):
        lines += _indent_lines(sink)
    return "\n".join(lines)


def _indent_lines(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _explain_settings(settings: Settings) -> list[str]:
    default = Settings()
    interval = settings.checkpoint_interval
    pace = DURATION.show(interval) if interval is not None else "(as soon as the one before it is done)"
    shown = {
        "a batch every": None if settings.batch else pace,
        "batch mode": "all rows are computed in one batch" if settings.batch else None,
        "checkpoints in": settings.checkpoint_dir if settings.checkpointing else "(none: checkpointing is off)",
        "parallelism": settings.parallelism,
        "time zone": settings.session_time_zone,
        "overflow": "fails" if settings.strict else None,
        "progress topic": settings.progress_topic if settings.progress_topic != default.progress_topic else None,
        "ends": "when it has read what is there now" if settings.once else None,
        "state is kept for": DURATION.show(settings.state_ttl) if settings.state_ttl else None,
        "adopts progress": "yes" if settings.adopt_progress else None,
        "Kerberos login": settings.kerberos.describe() if settings.kerberos else None,
        "partitions are idle after": DURATION.show(settings.idle_timeout) if settings.idle_timeout else None,
        "restarts": settings.restart.describe() if settings.restart else None,
    }
    return [f"{title}: {value}" for title, value in shown.items() if value is not None]


def _explain_node(
    settings: Settings, node: Node, inputs: tuple[tuple[list[str], Traits], ...]
) -> tuple[list[str], Traits]:
    """The lines of a node, and of its inputs below it, and its traits."""
    own = node.own_traits(tuple(below for _, below in inputs))
    below = [line for lines, _ in inputs for line in _indent_lines(lines)]
    return [*node.explain_step(), *_indent_lines(_explain_facts(node, own, settings)), *below], own


def _explain_facts(node: Node, own: Traits, settings: Settings) -> list[str]:
    """What a node keeps, how rows are distributed to it, and which changes it gives. In batch mode, whose only batch
    gives the final rows, there is nothing to say about changes."""
    lines = []
    if isinstance(node, Stateful):
        lines.append(f"keeps {node.describe_state()}" + (f", as '{node.uid}'" if node.uid else ""))
        lines += node.explain_lifetimes(settings.state_ttl)
        keys = [quote_names(each) for each in node.shuffle_keys]
        lines.append(
            f"takes rows by the hash of {' and of '.join(keys)}" if all(keys) else "takes all rows in one task"
        )
    if own.changing and not settings.batch and node.shows_changes:
        lines.append(f"gives {', '.join(kind.short for kind in sorted(own.kinds))}")
    return lines
