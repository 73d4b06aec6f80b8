"""The checks of a whole job: its sinks against its changes, its tables against its settings, and jobs against one
another."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import OptionsError, Problem, SchemaError
from penstock.plan.nodes import Job
from penstock.plan.traits import traits
from penstock.plan.walk import scans
from penstock.spi import Guarantee, ScanSpec, SinkSpec


def check_changes(job: Job) -> None:
    """Raises SchemaError for each sink that does not take the row kinds that it is given, as Flink's planner does."""
    problems = []
    for sink in job.sinks:
        taken = sink.spec.capabilities.kinds
        if not traits(sink).kinds <= taken:
            changing = next(each.table for each in scans(sink) if not traits(each).kinds <= taken)
            reason = f"takes insertions only, and table '{changing}' gives updates and deletions too"
            hint = "write it in a format for changes such as 'debezium-json'"
            problems.append(Problem(reason, where=f"table '{sink.table}'", hint=hint))
    if problems:
        raise SchemaError(tuple(problems))


def check_settings(job: Job) -> None:
    """Raises OptionsError with everything in the job's tables that its settings rule out."""
    specs: list[ScanSpec | SinkSpec] = [*(scan.spec for scan in scans(*job.sinks)), *(sink.spec for sink in job.sinks)]
    problems = tuple(problem for spec in specs for problem in spec.problems(job.settings))
    if problems:
        raise OptionsError(problems)


def check_guarantees(job: Job) -> None:
    """Raises OptionsError for each sink whose guarantee the job cannot keep.

    Exactly-once needs a checkpoint that lasts (rule "unsafe setups are refused"). A sink that rewrites rows when a
    batch is retried stands beside an exactly-once one only if its table says that this is intended (rule "targets
    commit independently").
    """
    exact = [sink for sink in job.sinks if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
    problems = []
    for sink in exact if not job.settings.checkpointing else ():
        reason = "exactly-once needs checkpointing, which is off"
        problems.append(Problem(reason, where=f"table '{sink.table}'", hint="switch it on"))
    for sink in job.sinks if exact else ():
        if sink.spec.capabilities.guarantee is None:
            table = f"the exactly-once table '{exact[0].table}'"
            reason = f"connector '{sink.connector}' rewrites rows when a batch is retried, beside {table}"
            hint = "if that is intended, set 'sink.delivery-guarantee' = 'at-least-once'; else write it in another job"
            problems.append(Problem(reason, where=f"table '{sink.table}'", hint=hint))
    if problems:
        raise OptionsError(tuple(problems))


def check_identities(jobs: Sequence[Job]) -> None:
    """Raises OptionsError for jobs that would fence one another, or share a checkpoint, when they run together (rule
    "one identity per job"): those of one name, and those whose prefix and name make one transactional id."""
    problems = []
    names: set[str] = set()
    owners: dict[str, str] = {}
    for job in jobs:
        where = f"job '{job.name}'"
        if job.name in names:
            reason = "another job has this name too; they would share a checkpoint and a transactional id"
            problems.append(Problem(reason, where=where, hint="give each job a name of its own"))
            continue
        names.add(job.name)
        prefixes = (sink.spec.capabilities.transactional_id_prefix for sink in job.sinks)
        for transactional_id in [f"{prefix}-{job.name}" for prefix in prefixes if prefix]:
            owner = owners.setdefault(transactional_id, job.name)
            if owner != job.name:
                reason = f"its transactional id '{transactional_id}' is that of job '{owner}' too"
                hint = "change the name of one of them, or, before its first start, its 'sink.transactional-id-prefix'"
                problems.append(Problem(reason, where=where, hint=hint))
    if problems:
        raise OptionsError(tuple(problems))
