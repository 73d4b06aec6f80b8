"""Tables whose rows change: which sinks can take them."""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.plan.nodes import DeadLetters, Job, scan_of

__all__ = ["check_changes"]


def check_changes(job: Job) -> None:
    """Raises SchemaError with every sink that takes insertions only and is given updates and deletions, as Flink's
    planner does. ``changes`` of a scan's spec and ``takes_changes`` of a sink's say so; without, there are none."""
    problems = []
    for sink in job.sinks:
        scan = scan_of(sink.input)
        changes = getattr(scan.spec, "changes", False) and not isinstance(sink.input, DeadLetters)
        if changes and not getattr(sink.spec, "takes_changes", False):
            reason = f"takes insertions only, and table '{scan.table}' gives updates and deletions too"
            hint = "write it in a format for changes such as 'debezium-json'"
            problems.append(Problem(reason, where=f"table '{sink.table}'", hint=hint))
    if problems:
        raise SchemaError(tuple(problems))
