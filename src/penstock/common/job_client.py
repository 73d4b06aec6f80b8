"""A handle on a running job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.errors import OptionsError, Problem, UnsupportedError
from penstock.java_gateway import without_java

__all__ = ["JobClient"]

_T = TypeVar("_T")


class Running(Protocol):
    """A started job, as the engine has it."""

    checkpoint: Any

    @property
    def status(self) -> str:
        """``running``, ``restarting``, ``failed``, ``canceled`` or ``finished``."""

    @property
    def metrics(self) -> Any:
        """The job's metrics."""

    @property
    def query_id(self) -> str:
        """The id of the job in its checkpoint."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; True when the job has ended. Raises the PenstockError that ended it."""

    def stop(self) -> None:
        """End the job after its current batch."""

    def savepoint(self, directory: str | None = None) -> str | None:
        """The path of a new savepoint of what is committed, in ``directory`` or that of the job's settings; None if
        there is neither."""

    def result(self) -> Any:
        """The result of the job so far."""


class JobClient:
    """What ``execute_async`` returns. Raises UnsupportedError when it is made of a Java object."""

    _running: Running

    def __init__(self, j_job_client: Any):
        raise without_java("JobClient", "env.execute_async() returns one")

    @classmethod
    def _from_running(cls, running: Running) -> JobClient:
        made = cls.__new__(cls)
        made._running = running
        return made

    def get_job_id(self) -> JobID:
        """The job's id."""
        return JobID(self._running.query_id.replace("-", ""))

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """What the job is doing now."""
        return CompletableFuture._from_result(JobStatus[self._running.status.upper()])

    def cancel(self) -> CompletableFuture[None]:
        """End the job after its current batch. Its checkpoint stays: a job of the same name continues from there."""
        return _run_later(self._running.stop)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """End the job, and make a savepoint of all that it has committed, in the directory or in the one of
        ``execution.checkpointing.savepoint-dir``. The result is its path, from which ``execution.state-recovery.path``
        or `penstock run --from` starts other jobs. Without a directory it is the path of the checkpoint, from which a
        job of the same name continues.

        Raises UnsupportedError for an end of event time.
        """
        if advance_to_end_of_event_time:
            hint = "stop without it: nothing waits for event time in streams without keys"
            raise UnsupportedError((Problem("is not supported yet", "advance_to_end_of_event_time", hint=hint),))

        def stop() -> str:
            self._running.stop()
            return self._running.savepoint(savepoint_directory) or str(self._running.checkpoint.location)

        return _run_later(stop)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Make a savepoint of the last committed batch, while the job continues, in the directory or in the one of
        ``execution.checkpointing.savepoint-dir``. The result is its path.

        Raises OptionsError without a directory.
        """

        def make() -> str:
            made = self._running.savepoint(savepoint_directory)
            if made is None:
                hint = "name one, or set 'execution.checkpointing.savepoint-dir'"
                raise OptionsError((Problem("a savepoint needs a directory", "savepoint_directory", hint=hint),))
            return made

        return _run_later(make)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Nothing: functions have no accumulators."""
        return CompletableFuture._from_result({})

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result of the job, when it has ended. The future raises the PenstockError that ended it."""

        def wait() -> JobExecutionResult:
            self.wait()
            return self._result()

        return _run_later(wait)

    # --- not in PyFlink --------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to ``timeout`` seconds; True when the job has ended. Raises the PenstockError that ended it."""
        if timeout is not None:
            return self._running.wait(timeout)
        while not self._running.wait(3600):
            pass
        return True

    @property
    def metrics(self) -> Any:
        """The job's metrics, a moment after the last batch: ``metrics["operator.orders.numRecordsIn"]``."""
        return self._running.metrics

    def _result(self) -> JobExecutionResult:
        found = self._running.result()
        return JobExecutionResult(self.get_job_id(), found.job, found.progress, found.stopped, found.seconds)


def _run_later(work: Callable[[], _T]) -> CompletableFuture[_T]:
    """The result of ``work``, which a thread does."""
    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # noqa: BLE001 - the future raises it
            future.set_exception(error)

    threading.Thread(target=run, name="penstock job client", daemon=True).start()
    return CompletableFuture._from_future(future)
