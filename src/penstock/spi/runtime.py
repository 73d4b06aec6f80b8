"""What a connector's ``runtime`` implements to read and write on Spark, and what the engine tells it.

These protocols name no Spark type, so that only the engine and the runtimes import pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from penstock.errors import PenstockError, to_wire
from penstock.plan import Settings
from penstock.types import BIGINT, INT, Field, RowType

__all__ = [
    "HIDDEN",
    "Batch",
    "Checkpoint",
    "JobContext",
    "Output",
    "Published",
    "Runtime",
    "Source",
    "Stage",
    "Target",
    "Task",
    "cause_of",
    "guarded",
]


#: Columns that follow a scan's own: the number of the place (topic and partition) that a row came from, and its offset.
#: Errors name them.
HIDDEN = RowType((Field("__place", INT), Field("__offset", BIGINT)))


class Checkpoint(Protocol):
    """A job's durable folder, on any file system that Spark can write to."""

    location: str

    def read(self, name: str) -> dict[str, Any] | None:
        """The document of that name, or None. Raises CheckpointError when it is there but unreadable."""
        ...

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Put the document there, atomically and durably. Raises CheckpointError."""
        ...


@dataclass(frozen=True)
class JobContext:
    """What a job's runtimes share. ``query_id`` stays the same over restarts from one checkpoint; ``run_id`` is new."""

    job: str
    query_id: str
    run_id: str
    checkpoint: Checkpoint
    settings: Settings
    parallelism: int
    spark: Any
    #: Whether Spark has planned a batch before, so that starts and stops are in the checkpoint.
    planned: bool
    #: Whether the job is being stopped, so that what fails is not worth another attempt.
    stopping: Callable[[], bool]
    warn: Callable[[str], None]


@dataclass(frozen=True)
class Batch:
    """One micro-batch. ``start`` and ``end`` hold one position per source (None at the start of the first batch).

    ``tasks`` is the number of tasks that read it. ``consumed`` holds what each source's ``consumed`` gave.
    """

    id: int
    start: tuple[dict[str, Any] | None, ...]
    end: tuple[dict[str, Any], ...]
    tasks: int
    consumed: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Output:
    """One sink of a target, and where its rows are in the frame: in the struct column ``column`` (null: no row), or
    (None) in the frame's own columns, those of the names ``columns`` in the order of the sink's."""

    index: int
    table: str
    spec: Any
    schema: RowType
    column: str | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One of the ``of`` tasks that read a batch, numbered in the order of what they read. ``told`` is what the driver
    said to the tasks of this Spark job when it started it."""

    number: int
    of: int
    told: str = ""


@dataclass(frozen=True)
class Stage:
    """A target's work on rows that needs no Spark: done by the tasks that read, on the batches they have just made.

    ``run`` takes the task and its batches of rows; picklable. ``ddl`` describes what comes out.
    """

    run: Callable[[Task, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    ddl: str


@dataclass(frozen=True)
class Published:
    """What one batch wrote to one target. ``consumed`` numbers the sources whose consumption was recorded with it."""

    records: int = 0
    bytes: int = 0
    skipped: bool = False
    consumed: tuple[int, ...] = ()


class Source(Protocol):
    """One scan of a running job."""

    #: Whether all that the source is to give is there when the query starts, so that it is read at once to its end.
    bounded: bool
    #: Whether reading tasks make the scan's columns in their declared types, so that a stage may follow at once.
    stageable: bool

    def frame(self, stage: Stage | None = None) -> Any:
        """The streaming DataFrame: the scan's columns and those of :data:`HIDDEN`; with
        ``stage`` what that makes of them."""
        ...

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """How many tasks read this range."""
        ...

    def place(self, number: int, end: dict[str, Any]) -> tuple[str, int] | None:
        """The (topic, partition) that a value of ``__place`` stands for, or None when it is another source's."""
        ...

    def records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """How many offsets lie between the two positions."""
        ...

    def losses(self, start: dict[str, Any] | None, end: dict[str, Any]) -> Sequence[str]:
        """What the source has lost between the two positions before it was read, for people."""
        ...

    def ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the source has an end and ``reached`` (None: its start) is at it."""
        ...

    def lag(self, reached: dict[str, Any]) -> int | None:
        """Records between ``reached`` and the end of the source, or None when that is not known."""
        ...

    def consumed(self, end: dict[str, Any]) -> Any:
        """What a target of the same system can record together with its output; None when there is nothing."""
        ...

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the system that everything before ``end`` is done. For observers only, so it never fails."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class Target(Protocol):
    """All sinks of a job that are written, and committed, together."""

    def stage(self) -> Stage | None:
        """What can be done with rows before Spark sees them, None when there is nothing. Asked for before ``open``
        when a job's rows need no computing; ``publish`` then gets frames that went through it."""
        ...

    def open(self) -> None:
        """Take ownership, finish what a former owner left, read what was committed. Before the query starts."""
        ...

    def publish(self, batch: Batch, frame: Any) -> Published:
        """Write the batch and commit it; when it was committed before, write nothing. All or nothing."""
        ...

    def close(self) -> None:
        """Abort what is open and release connections. Safe to call twice, and while ``publish`` runs elsewhere."""
        ...


class Runtime(Protocol):
    """What a connector's ``runtime`` path names: builds sources and targets."""

    def source(self, spec: Any, ordinal: int, context: JobContext) -> Source:
        """Resolve where to start and stop (once; then from the checkpoint) and be ready to read."""
        ...

    def target_key(self, spec: Any) -> Hashable:
        """Sinks with equal keys are written together by one target."""
        ...

    def target(self, outputs: Sequence[Output], context: JobContext) -> Target:
        """The target that writes these sinks."""
        ...


_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$", re.MULTILINE)


def cause_of(text: str) -> str:
    """The line of Spark's report that says most: what Python raised first, else its first line."""
    raised = _RAISED.findall(text)
    lines = [line.strip() for line in (raised or text.splitlines()) if line.strip()]
    return lines[0] if lines else ""


_P = ParamSpec("_P")
_T = TypeVar("_T")


def guarded(run: Callable[_P, Iterator[_T]]) -> Callable[_P, Iterator[_T]]:
    """``run``, a generator function for tasks, with penstock's errors put into text that survives to the driver."""

    def guard(*args: _P.args, **kwargs: _P.kwargs) -> Iterator[_T]:
        try:
            yield from run(*args, **kwargs)
        except PenstockError as error:
            raise RuntimeError(to_wire(error)) from None

    return guard
