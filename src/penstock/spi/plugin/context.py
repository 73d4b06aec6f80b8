"""What a job's runtimes share: its checkpoint, its settings, its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.settings import Settings
from penstock.spi.plugin.metrics import MetricGroup


class Checkpoint(Protocol):
    """A job's durable folder, on any file system that Spark can write to."""

    location: str

    def read(self, name: str) -> dict[str, Any] | None:
        """The document of that name, or None. Raises CheckpointError when it exists but is unreadable."""

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write the document, atomically and durably. Raises CheckpointError."""

    def folder(self, name: str) -> str:
        """The address of a folder in it."""

    def create(self, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write the document unless there is one of that name, and return the stored one. Raises CheckpointError."""

    def latest(self, name: str) -> dict[str, Any] | None:
        """The document that :meth:`advance` has written with the highest number, or None. Raises CheckpointError."""

    def advance(self, name: str, number: int, document: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write the document with this number, which follows the number of the former one, unless it exists, or
        ``replace`` it. Raises CheckpointError."""

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Replace the content of ``name`` (at first an empty one) by ``change(content)``, atomically among all copies
        of the job, and return the new content. Raises CheckpointError."""


@dataclass(frozen=True)
class NextBatch:
    """The batch that Spark runs next: the last planned one unless it was logged as done, else the one after it.

    ``start`` holds one position per source; it is empty for the first batch.
    """

    id: int = 0
    start: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class JobContext:
    """What a job's runtimes share. ``query_id`` and ``secret`` stay the same over restarts, and only copies of the
    checkpoint share them; each run has its own ``run_id``."""

    job: str
    query_id: str
    run_id: str
    checkpoint: Checkpoint
    settings: Settings
    parallelism: int
    spark: Any
    #: Whether Spark has planned a batch before, so that starts and stops are in the checkpoint.
    planned: bool
    #: Whether the job is being stopped, so that a failure is not worth another attempt.
    stopping: Callable[[], bool]
    warn: Callable[[str], None]
    secret: str = field(default="", repr=False)
    #: Whether a former version, which did not seal progress, may have published with this checkpoint.
    unsealed: bool = False
    #: The job's metrics. Those of a table are in the group that :meth:`operator` returns.
    metrics: MetricGroup = field(default_factory=MetricGroup)
    #: The next batch by the checkpoint, read on each call: a copy of the job may be running.
    next_batch: Callable[[], NextBatch] = NextBatch
    #: Whether this run follows a failed run of the same process, whose entries in the checkpoint hold.
    restarted: bool = False
    #: Whether the job began with a savepoint.
    forked: bool = False
    #: Whether the state of a reference in the job's progress belongs to no step, so that a job without state may
    #: continue.
    keeps_nothing: Callable[[str], bool] = lambda _: False

    @property
    def identity(self) -> str:
        """The name of the job among those that write to the same system: two jobs that began with one savepoint have
        different ones, also under one name (rule "savepoints fork identities")."""
        return f"{self.job}-{self.query_id.replace('-', '')[:12]}" if self.forked else self.job

    def operator(self, table: str) -> MetricGroup:
        """The group of a table's metrics."""
        return self.metrics.add_group("operator", table)
