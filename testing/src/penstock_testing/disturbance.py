"""Records at which a job crashes, stops or pauses, once."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from penstock.deadline import awaited
from penstock.errors import ExecutionError, ServiceError
from penstock.plan.nodes import Job, MapRows, Node, Scan
from penstock.plan.walk import rewrite


class Mishap(Enum):
    """What happens at the marked record."""

    #: The Python worker that reads the record is killed (SIGKILL).
    CRASH_WORKER = "the worker is killed"
    #: The Python process that made the :class:`Disturbance` is killed (SIGKILL). For jobs that run on this machine.
    CRASH_DRIVER = "the driver is killed"
    #: The task fails with an ExecutionError, and the job with it.
    STOP = "the job fails"
    #: The task waits until :meth:`Disturbance.release`.
    PAUSE = "the task waits"


@dataclass(frozen=True)
class Disturbance:
    """A mishap of a job when it first reads a certain record. It does not happen again, not even after a restart.

    ::

        crash = Disturbance(lambda row: row["id"] == 500, Mishap.CRASH_WORKER, tmp_path / "crash")
        engine.run(crash.on(job))
        assert crash.happened

    Args:
        when: whether this is the record, given its columns by name as the table declares them.
        mishap: what happens.
        folder: remembers that it has happened; keep it as long as it must not happen again. The machine that runs the
            task must see it.
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
        """Whether it has happened."""
        return (self.folder / "happened").exists()

    def wait(self, seconds: float) -> None:
        """Waits until it happens. Raises ServiceError if it does not within ``seconds``."""
        if not awaited(lambda: self.happened, seconds):
            raise ServiceError(f"no record was read in {seconds:g} s at which {self.mishap.value}")

    def release(self) -> None:
        """Lets a task that waits continue."""
        (self.folder / "released").touch()

    def happen(self) -> None:
        """Makes it happen, unless it has happened before."""
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
                "a record was marked to stop the job; start it again, and it continues from its checkpoint"
            )
        else:
            awaited(lambda: not self.folder.exists() or (self.folder / "released").exists(), math.inf)

    def _above_scan(self, node: Node) -> Node:
        return MapRows(node.schema, node, _DisturbRows(self, node.schema.names)) if isinstance(node, Scan) else node


@dataclass(frozen=True)
class _DisturbRows:
    """Passes rows on. MapRows calls it, and plans compare it."""

    disturbance: Disturbance
    names: tuple[str, ...]

    def __call__(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        for row in rows:
            if self.disturbance.when(dict(zip(self.names, row, strict=True))):
                self.disturbance.happen()
            yield row
