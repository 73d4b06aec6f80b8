"""The result of a job."""

from __future__ import annotations

from typing import Any

from penstock.common.job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The result of a job that has ended. ``progress`` are its counters; ``stopped``: it was stopped before its sources
    were read; ``seconds`` is how long it ran."""

    def __init__(self, job_id: JobID, job: str, progress: Any, stopped: bool, seconds: float):
        self._id = job_id
        self.job = job
        self.progress = progress
        self.stopped = stopped
        self.seconds = seconds

    def get_job_id(self) -> JobID:
        """The job's id."""
        return self._id

    def is_job_execution_result(self) -> bool:
        """True: the job has ended."""
        return True

    def get_net_runtime(self) -> int:
        """How long the job ran, in ms."""
        return round(self.seconds * 1000)

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """None: functions have no accumulators."""
        return self.get_all_accumulator_results().get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Nothing: functions have no accumulators."""
        return {}

    def __str__(self) -> str:
        return f"job '{self.job}' ({self._id}): ran for {self.get_net_runtime()} ms"
