"""Whether a job's tables agree with its settings."""

from __future__ import annotations

from penstock.errors import OptionsError
from penstock.plan.nodes import Job
from penstock.plan.walk import scans

__all__ = ["check_settings"]


def check_settings(job: Job) -> None:
    """Raises OptionsError with everything in the job's tables that its settings rule out: what the ``problems`` of
    specs, called with the settings, find. A spec without has none."""
    specs = [*(scan.spec for scan in scans(*job.sinks)), *(sink.spec for sink in job.sinks)]
    checks = filter(None, (getattr(spec, "problems", None) for spec in specs))
    problems = tuple(problem for check in checks for problem in check(job.settings))
    if problems:
        raise OptionsError(problems)
