"""Tables whose rows change: which sinks can take them."""

from __future__ import annotations

from penstock.errors import Problem, SchemaError
from penstock.plan.nodes import Job
from penstock.plan.traits import traits
from penstock.plan.walk import scans


def check_changes(job: Job) -> None:
    """Raises SchemaError with every sink that is given kinds of rows that it does not take, as Flink's planner does."""
    problems = []
    for sink in job.sinks:
        if traits(sink).kinds <= sink.spec.capabilities.kinds:
            continue
        changing = next(each.table for each in scans(sink) if not traits(each).kinds <= sink.spec.capabilities.kinds)
        reason = f"takes insertions only, and table '{changing}' gives updates and deletions too"
        hint = "write it in a format for changes such as 'debezium-json'"
        problems.append(Problem(reason, where=f"table '{sink.table}'", hint=hint))
    if problems:
        raise SchemaError(tuple(problems))
