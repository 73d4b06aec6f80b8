"""The id of a job."""

from __future__ import annotations

__all__ = ["JobID"]


class JobID:
    """Stays the same as long as the job has its checkpoint."""

    def __init__(self, job_id: str):
        self._id = job_id

    def __str__(self) -> str:
        return self._id

    def __repr__(self) -> str:
        return f"JobID({self._id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)
