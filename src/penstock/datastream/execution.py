"""Runs the jobs of ``execute``: by the engine, or by another function that replaces it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.plan.nodes import Job

_runner: ContextVar[Callable[[Job], Any] | None] = ContextVar("runner", default=None)


@contextmanager
def runner(run_job: Callable[[Job], Any]) -> Iterator[None]:
    """While this is open, ``execute`` hands its job to ``run_job`` and returns what that returns.

    ``runner(jobs.append)`` collects the jobs of a program without running any.
    """
    token = _runner.set(run_job)
    try:
        yield
    finally:
        _runner.reset(token)


def run(job: Job) -> Any:
    """Run ``job`` by the engine, or by the function that :func:`runner` put in its place."""
    run_job = _runner.get()
    if run_job is not None:
        return run_job(job)
    from penstock import engine

    return engine.run(job, lambda message: warnings.warn(message, stacklevel=2))
