"""Whether a job's tables agree with its settings."""

from __future__ import annotations

from penstock.errors import OptionsError
from penstock.plan.nodes import Job, Scan, Sink
from penstock.plan.walk import scans


def check_settings(job: Job) -> None:
    """Raises OptionsError with everything in the job's tables that its settings rule out."""
    tables: tuple[Scan | Sink, ...] = (*scans(*job.sinks), *job.sinks)
    problems = tuple(problem for table in tables for problem in table.spec.problems(job.settings))
    if problems:
        raise OptionsError(problems)
