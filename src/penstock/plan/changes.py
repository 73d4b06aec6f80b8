"""Tables whose rows change: which sinks can take them."""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.plan.nodes import DeadLetters, Job, Node, Scan
from penstock.plan.walk import fold

__all__ = ["check_changes"]


def check_changes(job: Job) -> None:
    """Raises SchemaError with every sink that takes insertions only and is given updates and deletions, as Flink's
    planner does. ``changes`` of a scan's spec and ``takes_changes`` of a sink's say so; without, there are none."""
    problems = []
    for sink in job.sinks:
        (changing,) = fold((sink,), _changing)
        if changing and not getattr(sink.spec, "takes_changes", False):
            reason = f"takes insertions only, and table '{changing[0]}' gives updates and deletions too"
            hint = "write it in a format for changes such as 'debezium-json'"
            problems.append(Problem(reason, where=f"table '{sink.table}'", hint=hint))
    if problems:
        raise SchemaError(tuple(problems))


def _changing(node: Node, inputs: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """The tables whose updates and deletions reach ``node``."""
    if isinstance(node, Scan) and getattr(node.spec, "changes", False):
        return (node.table,)
    return () if isinstance(node, DeadLetters) else tuple(each for found in inputs for each in found)
