"""The work on rows that reading tasks do, and the driver for small batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.errors import BatchError, PenstockError

#: The property of a Spark job that holds the instructions of its tasks.
INSTRUCTIONS = "penstock.instructions"


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """One of the ``of`` tasks that read a batch, numbered in the order of what they read.

    ``instructions`` come from the driver and are the same for all tasks of a Spark job. ``attempt`` counts Spark's
    earlier attempts at the task. ``abandoned`` tells whether the result is not wanted any more, where that may happen
    to a task that still runs.
    """

    number: int
    of: int
    instructions: str = ""
    attempt: int = 0
    abandoned: Callable[[], bool] = field(default=_never, compare=False)


@dataclass(frozen=True)
class Stage:
    """The work of a job on rows where they are read: the reading tasks do it on the batches that they have just made.

    ``run`` takes the task and its batches of rows, and is picklable. ``schema`` is that of the batches it yields.
    ``calls``: it calls user-defined functions, which run in Spark's Python processes only.
    """

    run: Callable[[Task, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    schema: pa.Schema
    calls: bool = False


@dataclass(frozen=True)
class SentStage:
    """A stage on its way to reading tasks: ``text`` for :func:`penstock.spi.run_stage`, and ``columns``, Spark's type
    of the frame that reads: the columns of the stage, then :data:`REPORT`."""

    text: str
    columns: Any


@dataclass(eq=False)
class OnDriver:
    """A batch of few records, in place of the DataFrame that a stage makes: the driver reads it by itself, as one task,
    because Spark takes longer to start tasks. ``run`` takes the instructions, and returns the rows of the stage and the
    report of the source."""

    run: Callable[[str], tuple[pa.Table, bytes]]
    #: The report of the last reading.
    report: bytes | None = field(default=None, init=False)

    def collect(self, instructions: str = "") -> pa.Table:
        """The rows. Raises the errors of the source and of the stage, and BatchError for any other one."""
        try:
            table, self.report = self.run(instructions)
        except PenstockError:
            raise
        except Exception as error:
            raise BatchError(f"{type(error).__name__}: {error}") from error
        return table
