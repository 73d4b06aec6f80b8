"""Records at which a job crashes, stops or pauses, once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.errors import ExecutionError, ServiceError
from penstock.plan.nodes import Job, MapRows, Node, Scan
from penstock.plan.walk import rewrite

_POLL_SECONDS = 0.05


class Mishap(Enum):
    """What happens at the marked record."""

    #: The Python worker that reads the record is killed (SIGKILL).
    CRASH_WORKER = "the worker is killed"
    #: The Python process that made the :class:`Disturbance` is killed (SIGKILL). For jobs that run on this machine.
    CRASH_DRIVER = "the driver is killed"
    #: The task fails with an ExecutionError, and with it the job.
    STOP = "the job fails"
    #: The task waits until :meth:`Disturbance.release`.
    PAUSE = "the task waits"


@dataclass(frozen=True)
class Disturbance:
    """Something that happens to a job when it reads a certain record: the first time only, also over restarts.

    ::

        crash = Disturbance(lambda row: row["id"] == 500, Mishap.CRASH_WORKER, tmp_path / "crash")
        engine.run(crash.on(job))
        assert crash.happened

    Args:
        when: says which record, given its columns as the table declares them, by name.
        mishap: what happens.
        folder: where it is noted that it has; keep it for as long as it shall not happen again. It has to be seen by
            the machine that the task runs on.
    """

    when: Callable[[Mapping[str, Any]], bool]
    mishap: Mishap
    folder: Path
    _driver: int = field(default_factory=os.getpid, repr=False)

    def on(self, job: Job) -> Job:
        """``job`` with this disturbance above each of its tables. Its rows then go through Python one by one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return replace(job, sinks=rewrite(job.sinks, self._above_scan))

    @property
    def happened(self) -> bool:
        """Whether it has."""
        return (self.folder / "happened").exists()

    def wait(self, seconds: float) -> None:
        """Wait until it happens. Raises ServiceError when it does not in so many seconds."""
        until = time.monotonic() + seconds
        while not self.happened:
            if time.monotonic() > until:
                raise ServiceError(f"no record was read in {seconds:g} s at which {self.mishap.value}")
            time.sleep(_POLL_SECONDS)

    def release(self) -> None:
        """Let a task that waits go on."""
        (self.folder / "released").touch()

    def _above_scan(self, node: Node) -> Node:
        return MapRows(node.schema, node, _Rows(self, node.schema.names)) if isinstance(node, Scan) else node

    def happen(self) -> None:
        """Do it, unless it was done before."""
        try:
            (self.folder / "happened").touch(exist_ok=False)
        except FileExistsError:
            return
        if self.mishap is Mishap.CRASH_WORKER:
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.mishap is Mishap.CRASH_DRIVER:
            os.kill(self._driver, signal.SIGKILL)
        elif self.mishap is Mishap.STOP:
            raise ExecutionError(
                "a record was marked to stop the job; start it again, and it goes on from its checkpoint"
            )
        else:
            while self.folder.exists() and not (self.folder / "released").exists():
                time.sleep(_POLL_SECONDS)


@dataclass(frozen=True)
class _Rows:
    """Passes rows on; what a plan's MapRows calls."""

    disturbance: Disturbance
    names: tuple[str, ...]

    def __call__(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            if self.disturbance.when(dict(zip(self.names, row, strict=True))):
                self.disturbance.happen()
            yield row
