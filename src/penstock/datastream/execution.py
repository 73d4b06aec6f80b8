"""Runs the jobs of ``execute``: by the engine, or by another function that replaces it."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from penstock.common.job_client import JobClient, Running
from penstock.common.program_lines import ProgramLine
from penstock.errors import PenstockError, Problem, UnsupportedError, verbose
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
    try:
        running = _engine(job)
        client = JobClient._from_running(running)
        try:
            client.wait()
        finally:
            running.stop()
    except PenstockError as error:
        if verbose():
            raise
        # Spark's report is in the file that the error's note names, and remains the error's context.
        raise error.with_traceback(None) from None
    return client._result()


def start(job: Job) -> Running:
    """Start ``job`` and return while it runs."""
    run_job = _runner.get()
    return _engine(job) if run_job is None else Handed(job, run_job)


def _engine(job: Job) -> Running:
    from penstock import engine

    return engine.start(job, ProgramLine.current().warn, _say)


def _say(text: str) -> None:
    """Show news of a job, unless the program shows Python's log, which has it."""
    if not logging.getLogger("penstock").isEnabledFor(logging.INFO):
        sys.stderr.write(f"{text}\n")


class Handed:
    """A job that a function runs in a separate thread."""

    def __init__(self, job: Job, run_job: Callable[[Job], Any]):
        self.checkpoint: Any = None
        self.query_id = ""
        self.metrics: Any = None
        self._job = job
        self._result: Any = None
        self._failure: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run, run_job), daemon=True)
        self._thread.start()

    def _run(self, run_job: Callable[[Job], Any]) -> None:
        try:
            self._result = run_job(self._job)
        except BaseException as error:  # noqa: BLE001 - wait() raises it
            self._failure = error

    @property
    def status(self) -> str:
        """``running``, ``failed`` or ``finished``."""
        if self._thread.is_alive():
            return "running"
        return "finished" if self._failure is None else "failed"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; True when the job has ended. Raises the error that ended it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._failure is not None:
            raise self._failure
        return True

    def stop(self) -> None:
        """Wait for the end: the runner of the job ends it."""
        self._thread.join()

    def savepoint(self, directory: str | None = None) -> str | None:
        """Raises UnsupportedError: the runner of the job has its checkpoint."""
        hint = "run `penstock savepoint` with the job's name"
        raise UnsupportedError((Problem("a program that another runs makes no savepoints", "savepoint", hint=hint),))

    def result(self) -> Any:
        """What the function returned."""
        return self._result
