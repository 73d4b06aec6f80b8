"""Small batches, which the driver runs by itself because Spark takes longer to start tasks. `Query._on_driver` decides
which batches are small; sources offer their rows as :class:`penstock.spi.OnDriver`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.engine.runs.write_tasks import build_instructions, publish_on_driver, read_results
from penstock.spi import OnDriver, TaskResults, WriterFactory


@dataclass(frozen=True, eq=False)
class DriverTask:
    """The one task of a small batch, which the driver runs (:class:`penstock.spi.WriteTasks`)."""

    batch: OnDriver
    writers: WriterFactory
    stopping: Callable[[], bool]
    state = ""
    computed = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """Run the task, which runs once in any case."""
        if not by_owners:
            return read_results(self.writers, self.batch.collect(build_instructions(1, instructions)))
        passed = self.batch.collect(build_instructions(1))
        return publish_on_driver(self.writers, instructions, passed, None, self.stopping)
