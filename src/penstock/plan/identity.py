"""What keeps jobs that run side by side apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.errors import OptionsError, Problem
from penstock.plan.nodes import Job


def check_identities(jobs: Sequence[Job]) -> None:
    """Raises OptionsError for jobs that would fence one another, or share a checkpoint, when they run together (rule 2
    of exactly-once): those of one name, and those whose prefix and name make one transactional id."""
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
        for transactional_id in _transactional_ids(job):
            owner = owners.setdefault(transactional_id, job.name)
            if owner != job.name:
                reason = f"its transactional id '{transactional_id}' is that of job '{owner}' too"
                hint = "change the name of one of them, or, before its first start, its 'sink.transactional-id-prefix'"
                problems.append(Problem(reason, where=where, hint=hint))
    if problems:
        raise OptionsError(tuple(problems))


def _transactional_ids(job: Job) -> Iterator[str]:
    for sink in job.sinks:
        prefix = sink.spec.capabilities.transactional_id_prefix
        if prefix:
            yield f"{prefix}-{job.name}"
