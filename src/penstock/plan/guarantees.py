"""The delivery guarantees of a job's sinks, and the identities that they depend on, checked before a job starts.

What a table can guarantee is in its ``SinkSpec.capabilities``; connectors check their own options.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import OptionsError, Problem
from penstock.plan.nodes import Job
from penstock.spi import Guarantee


def check_guarantees(job: Job) -> None:
    """Raises OptionsError for each sink whose guarantee the job cannot keep.

    Exactly-once needs a checkpoint that lasts (rule "unsafe setups are refused"). A sink that rewrites rows when a
    batch is retried may be beside an exactly-once one only if its table says that this is intended (rule "targets
    commit independently").
    """
    exact = [sink for sink in job.sinks if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
    problems = []
    for sink in exact if not job.settings.checkpointing else ():
        reason = "exactly-once needs checkpointing, which is off"
        problems.append(Problem(reason, where=sink.place, hint="switch it on"))
    for sink in job.sinks if exact else ():
        if sink.spec.capabilities.guarantee is None:
            table = f"the exactly-once table '{exact[0].table}'"
            reason = f"connector '{sink.connector}' rewrites rows when a batch is retried, beside {table}"
            hint = "if that is intended, set 'sink.delivery-guarantee' = 'at-least-once'; else write it in another job"
            problems.append(Problem(reason, where=sink.place, hint=hint))
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
            reason = "another job has the same name; they would share a checkpoint and a transactional id"
            problems.append(Problem(reason, where=where, hint="give each job its own name"))
            continue
        names.add(job.name)
        prefixes = (sink.spec.capabilities.transactional_id_prefix for sink in job.sinks)
        for transactional_id in [f"{prefix}-{job.name}" for prefix in prefixes if prefix]:
            owner = owners.setdefault(transactional_id, job.name)
            if owner != job.name:
                reason = f"its transactional id '{transactional_id}' is also that of job '{owner}'"
                hint = "change the name of one of them, or, before its first start, its 'sink.transactional-id-prefix'"
                problems.append(Problem(reason, where=where, hint=hint))
    if problems:
        raise OptionsError(tuple(problems))
