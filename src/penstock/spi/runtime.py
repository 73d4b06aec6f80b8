"""What a connector's ``runtime`` implements to read and write on Spark, and what the engine tells it.

These protocols name no Spark type, so that only the engine and the runtimes import pyspark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from penstock.errors import PenstockError, to_wire
from penstock.settings import Settings
from penstock.spi.metrics import MetricGroup
from penstock.types import BIGINT, INT, Field, RowType

#: Columns that follow a scan's own: the number of the place (topic and partition) that a row came from, and its offset.
#: Errors name them.
HIDDEN = RowType((Field("__place", INT), Field("__offset", BIGINT)))

#: Each source of a job numbers its partitions from its ordinal times this.
PARTITIONS_PER_SOURCE = 1_000_000

#: A column (TINYINT) that follows those of :data:`HIDDEN` where rows are changes of rows: their RowKind, null for an
#: insertion.
KIND = "__kind"

#: A column (a struct) that follows them where a source keeps records that it cannot decode. A row that has a value in
#: it is none of the table's, but such a record on its way to the sink whose columns the struct has.
DEAD_LETTER = "__dead_letter"

#: The last column (BINARY) of a source's frame. A row that has a value in it is none of the table's, but what a reading
#: task has to tell its source's :meth:`Source.reported`; the engine takes it out.
REPORT = "__report"

#: A column (BIGINT) of a source with event time: the watermark when the batch was planned, in ms since 1970, the same
#: in every row of a batch; null as long as there is none. It stands before :data:`REPORT`, and rows with a report have
#: it too.
WATERMARK = "__watermark"


class Checkpoint(Protocol):
    """A job's durable folder, on any file system that Spark can write to."""

    location: str

    def read(self, name: str) -> dict[str, Any] | None:
        """The document of that name, or None. Raises CheckpointError when it is there but unreadable."""
        ...

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Put the document there, atomically and durably. Raises CheckpointError."""
        ...

    def create(self, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Put the document there unless there is one, and give the one that is there. Raises CheckpointError."""
        ...

    def revise(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
        """Replace what is known under ``name`` by what ``change`` makes of it, as if nobody else did meanwhile, and
        give that. Raises CheckpointError."""
        ...


@dataclass(frozen=True)
class NextBatch:
    """The batch that Spark runs next: the last planned one when it was not logged as done, else the one after it.

    ``start`` holds one position per source; it is empty for the first batch.
    """

    id: int = 0
    start: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class JobContext:
    """What a job's runtimes share. ``query_id`` and ``secret``, which only copies of the checkpoint share, stay
    the same over restarts; ``run_id`` is new."""

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
    secret: str = field(default="", repr=False)
    #: The last batch that a version without secrets may have published.
    unsealed_to: int = -1
    #: The job's metrics. Those of a table are in the group that :meth:`operator` gives.
    metrics: MetricGroup = field(default_factory=MetricGroup)
    #: What the checkpoint goes on with, read when it is called: a copy of the job may be running.
    next_batch: Callable[[], NextBatch] = NextBatch
    #: Whether this run follows one of the same process that has failed: what that wrote into the checkpoint holds.
    restarted: bool = False

    def operator(self, table: str) -> MetricGroup:
        """The group of a table's metrics."""
        return self.metrics.add_group("operator", table)


@dataclass(frozen=True)
class Batch:
    """One micro-batch. ``start`` and ``end`` hold one position per source (None at the start of the first batch).

    ``tasks`` is the number of tasks that read it. ``consumed`` holds what each source's ``consumed`` gave; it is empty
    for a committer after which others are still to publish the batch.
    """

    id: int
    start: tuple[dict[str, Any] | None, ...]
    end: tuple[dict[str, Any], ...]
    tasks: int
    consumed: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Output:
    """One sink of a committer, and where its rows are in the frame: in the struct column ``column`` (null: no row), or
    (None) in the frame's own columns, those of the names ``columns`` in the order of the sink's."""

    index: int
    table: str
    spec: Any
    schema: RowType
    column: str | None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    """One of the ``of`` tasks that read a batch, numbered in the order of what they read.

    ``instructions`` come from the driver and are the same for all tasks of a Spark job. ``attempt`` counts how often
    Spark has tried the task before.
    """

    number: int
    of: int
    instructions: str = ""
    attempt: int = 0


@dataclass(frozen=True)
class Stage:
    """A committer's work on rows that needs no Spark: done by the tasks that read, on the batches they have just made.

    ``run`` takes the task and its batches of rows; picklable. ``schema`` is that of the batches that come out.
    """

    run: Callable[[Task, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    schema: pa.Schema


@dataclass(frozen=True)
class Written:
    """What one batch wrote to one output. ``send_millis``: how long the last request took that carried records."""

    records: int = 0
    bytes: int = 0
    send_millis: float | None = None


@dataclass(frozen=True)
class Published:
    """What one batch wrote to one committer: ``written`` to each of its outputs, in their order.

    ``consumed`` are the numbers of the sources whose consumption was recorded with it, or (False) was to be recorded
    and may not be.
    """

    written: tuple[Written, ...] = ()
    skipped: bool = False
    consumed: Mapping[int, bool] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Records written to all outputs."""
        return sum(each.records for each in self.written)

    @property
    def bytes(self) -> int:
        """Bytes written to all outputs."""
        return sum(each.bytes for each in self.written)


class Source(Protocol):
    """One scan of a running job."""

    #: Whether all that the source is to give is there when the query starts, so that it is read at once to its end.
    bounded: bool
    #: Whether the source has event time: its frame has the column :data:`WATERMARK`.
    timed: bool
    #: Whether it finds out by itself how far event time has come; otherwise the engine tells it (:meth:`progressed`).
    measures: bool

    def frame(self, stage: Stage | None = None) -> Any:
        """The streaming DataFrame: the scan's columns, those of :data:`HIDDEN`, and :data:`KIND` and
        :data:`DEAD_LETTER` where the scan has them, with ``stage`` what that makes of them; without it
        :data:`WATERMARK` if the source is ``timed``; and the column :data:`REPORT`."""
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
        """Whether the source has an end and ``reached`` (None: its start) is at it. A query that ends before all of its
        sources are there was stopped by somebody, the ``bounded`` ones included."""
        ...

    def lag(self, reached: dict[str, Any]) -> int | None:
        """Records between ``reached`` and the end of the source, or None when that is not known."""
        ...

    def consumed(self, end: dict[str, Any]) -> Any:
        """What a committer of the same system can record together with its output; None when there is nothing."""
        ...

    def done(self, end: dict[str, Any], recorded: bool | None) -> None:
        """Everything before ``end`` is done. ``recorded``: a committer has recorded that (False: was not allowed to);
        None: nobody has, so tell the system. That is for observers only, so it never fails."""
        ...

    def reported(self, reports: Sequence[bytes]) -> None:
        """What the tasks of a batch told, in no order. For metrics only: a batch may be told of again."""
        ...

    def progressed(self, watermarks: Mapping[int, int], end: dict[str, Any]) -> None:
        """The largest watermark of the rows of each ``__place``, in ms since 1970, in the batch that ended at
        ``end``."""
        ...

    def close(self) -> None:
        """Release connections."""
        ...


class Committer(Protocol):
    """All sinks of a job that are written, and committed, together."""

    def stage(self) -> Stage | None:
        """What can be done with rows before Spark sees them, None when there is nothing. Asked for before ``open``
        when a job's rows need no computing; ``publish`` then gets frames that went through it."""
        ...

    def check(self) -> None:
        """Raise what must stop a start, as far as it can be known without taking ownership: another run of the job may
        be alive and well. All committers of a job are checked before one of them is opened."""
        ...

    def open(self) -> None:
        """Take ownership, finish what a former owner left, read what was committed. After :meth:`check`, and before the
        query starts."""
        ...

    def records(self, consumed: Any) -> bool:
        """Whether it commits ``consumed``, which a source's ``consumed`` gave, with its output. After ``open``."""
        ...

    def publish(self, batch: Batch, frame: Any) -> Published:
        """Write the batch and commit it; when it was committed before, write nothing. All or nothing."""
        ...

    def close(self) -> None:
        """Abort what is open and release connections. Safe to call twice, and while ``publish`` runs elsewhere."""
        ...


class SourceRuntime(Protocol):
    """What a connector's ``runtime`` path names when its tables can be read."""

    def source(self, spec: Any, ordinal: int, context: JobContext) -> Source:
        """Resolve where to start and stop (once; then from the checkpoint) and be ready to read."""
        ...


class SinkRuntime(Protocol):
    """What a connector's ``runtime`` path names when its tables can be written."""

    def commit_group(self, spec: Any) -> Hashable:
        """Sinks with equal keys are written together by one committer."""
        ...

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that writes these sinks."""
        ...


@runtime_checkable
class Warmable(Protocol):
    """A connector's runtime that prepares for tasks before Spark's Python processes are forked."""

    def warm(self) -> None:
        """Import what tasks need, and load what is compiled. Starts no threads: they would not be in the forks."""
        ...


_RAISED = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: .*)?$", re.MULTILINE)


_CALL = "An error occurred while calling "


def cause_of(text: str) -> str:
    """The line of Spark's report that says most: what Python raised first, else its first line, or the one behind
    Py4J's on which call of Java failed."""
    raised = _RAISED.findall(text)
    lines = [line.strip(": ") for line in (raised or text.splitlines()) if line.strip()]
    return next((line for line in lines if not line.startswith(_CALL)), "".join(lines[:1]))


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
