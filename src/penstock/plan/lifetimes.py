"""Warnings of steps that keep rows forever."""

from __future__ import annotations

from penstock.plan.node import Node, Stateful
from penstock.plan.nodes import Job
from penstock.plan.walk import fold


def warn_of_growing_steps(job: Job) -> tuple[str, ...]:
    """A warning for each step that keeps rows forever, of tables that do not end, where users may not expect it: its
    state grows with them."""
    found: list[str] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        warning = node.warn_of_growing_state(job.settings.state_ttl) if isinstance(node, Stateful) else None
        if warning is not None:
            found.append(warning)

    if not job.settings.batch and not job.settings.once:
        fold(job.sinks, visit)
    return tuple(found)
