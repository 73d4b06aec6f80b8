"""What a connector's ``runtime`` implements to read and write on Spark, and what the engine passes to it.

These protocols name no Spark type, so that only the engine and the runtimes import pyspark. Classes may derive from
:class:`Source` and :class:`Committer`, whose optional methods do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from penstock.errors import AbortableError, PenstockError
from penstock.settings import Settings
from penstock.spi.metrics import MetricGroup
from penstock.types import BIGINT, INT, Field, RowType, arrow_type, quoted_name

#: Columns that follow a scan's own: where a row came from, which errors name. ``__partition`` is the number of the
#: source's partition (:meth:`Source.partition`).
HIDDEN = RowType((Field("__partition", INT), Field("__offset", BIGINT)))

#: Each source of a job numbers its partitions from its ordinal times this.
PARTITIONS_PER_SOURCE = 1_000_000

#: A column (TINYINT) that follows those of :data:`HIDDEN` where rows are changes of rows: their RowKind, null for an
#: insertion.
KIND = "__kind"

#: A column (a struct) that follows them where a source keeps records that it cannot decode. A row with a value in it is
#: not a row of the table, but a dead letter on its way to the sink whose columns the struct has.
DEAD_LETTER = "__dead_letter"

#: The property of a Spark job that holds the instructions of its tasks.
INSTRUCTIONS = "penstock.instructions"

#: The last column (BINARY) of a source's frame. A row with a value in it is not a row of the table, but the report of a
#: reading task for :meth:`Source.reported`; the engine takes it out.
REPORT = "__report"

#: A column (BIGINT) of a source with event time: the watermark when the batch was planned, in ms since 1970, the same
#: in every row of a batch; null before the first one. It precedes :data:`REPORT`, and rows with a report have it too.
WATERMARK = "__watermark"


class Checkpoint(Protocol):
    """A job's durable folder, on any file system that Spark can write to."""

    location: str

    def read(self, name: str) -> dict[str, Any] | None:
        """The document of that name, or None. Raises CheckpointError when it is there but unreadable."""

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write the document, atomically and durably. Raises CheckpointError."""

    def folder(self, name: str) -> str:
        """The address of a folder in it."""

    def create(self, name: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Write the document unless there is one of that name, and return the stored one. Raises CheckpointError."""

    def latest(self, name: str) -> dict[str, Any] | None:
        """The document that :meth:`advance` has written with the highest number, or None. Raises CheckpointError."""

    def advance(self, name: str, number: int, document: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write the document with this number, which comes after that of the former one, unless it exists, or
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
    #: Whether a version that did not seal progress may have published with this checkpoint.
    unsealed: bool = False
    #: The job's metrics. Those of a table are in the group that :meth:`operator` returns.
    metrics: MetricGroup = field(default_factory=MetricGroup)
    #: The next batch by the checkpoint, read on each call: a copy of the job may be running.
    next_batch: Callable[[], NextBatch] = NextBatch
    #: Whether this run follows a failed run of the same process, whose entries in the checkpoint hold.
    restarted: bool = False
    #: Whether the job began with a savepoint.
    forked: bool = False
    #: Whether the state of a reference in the job's progress is that of no step, so that a job without state may go on.
    keeps_nothing: Callable[[str], bool] = lambda _: False

    @property
    def identity(self) -> str:
        """The name of the job among those that write to the same system: two jobs that began with one savepoint have
        different ones, also under one name (rule "savepoints fork identities")."""
        return f"{self.job}-{self.query_id.replace('-', '')[:12]}" if self.forked else self.job

    def operator(self, table: str) -> MetricGroup:
        """The group of a table's metrics."""
        return self.metrics.add_group("operator", table)


@dataclass(frozen=True)
class Batch:
    """One micro-batch. ``start`` and ``end`` hold one position per source (None at the start of the first batch).

    ``tasks`` is the number of tasks that read it. ``consumed`` holds the result of each source's ``consumed``; it is
    empty for every committer but the last that publishes the batch. ``results`` is what the operators of a job with
    state made of the batch for the committer; None in other jobs.
    """

    id: int
    start: tuple[dict[str, Any] | None, ...]
    end: tuple[dict[str, Any], ...]
    tasks: int
    consumed: tuple[Any, ...] = ()
    results: Results | None = None


@dataclass(frozen=True)
class Results:
    """What the operators of a batch gave for one committer: ``state`` is the reference to the state after the batch,
    which is committed with the output. ``rows`` has what the committer's stage made of the output; None if it has no
    stage. ``frame`` returns a DataFrame of the output's rows, with the columns :data:`HIDDEN` and :data:`KIND`."""

    state: str
    rows: pa.Table | None
    frame: Callable[[], Any]


@dataclass(frozen=True)
class Standing:
    """What a committer that keeps the state knows of a batch: whether it is ``done``, and the reference to the state
    after it; before it is done, that to the state before it, or None where progress does not tell."""

    done: bool
    state: str | None


@dataclass(frozen=True)
class Output:
    """One sink of a committer, and where its rows are in a batch or frame: in the struct column ``column`` (missing or
    null: no row), or (None) in the columns ``columns``, which are in the order of the sink's."""

    index: int
    table: str
    spec: Any
    schema: RowType
    column: str | None
    columns: tuple[str, ...] = ()

    def rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows of the sink in a batch of the frame, under the names of ``schema``, and their columns
        :data:`HIDDEN` and, where rows have kinds, :data:`KIND`."""
        hidden = batch.select([name for name in (*HIDDEN.names, KIND) if name in batch.schema.names])
        if self.column is None:
            columns = [batch.column(name) for name in self.columns]
        elif self.column not in batch.schema.names:
            hidden = hidden[:0]
            columns = [pa.nulls(0, arrow_type(each.type)) for each in self.schema.fields]
        else:
            struct = batch.column(self.column)
            if struct.null_count == len(struct):
                struct, hidden = struct[:0], hidden[:0]
            elif struct.null_count:
                chosen = struct.is_valid()
                struct, hidden = struct.filter(chosen), hidden.filter(chosen)
            columns = struct.flatten()
        return pa.RecordBatch.from_arrays(columns, names=list(self.schema.names)), hidden

    def select(self, frame: Any) -> tuple[Any, list[Any]]:
        """The rows of the sink in a DataFrame, and its columns of those, under the names of ``schema``."""
        if self.column is None:
            columns = [frame[quoted_name(name)] for name in self.columns]
        else:
            struct = frame[quoted_name(self.column)]
            frame, columns = frame.where(struct.isNotNull()), [struct[name] for name in self.schema.names]
        return frame, [each.alias(name) for each, name in zip(columns, self.schema.names, strict=True)]


_O = TypeVar("_O", bound=Output)


def outputs_in(batch: pa.RecordBatch, outputs: Sequence[_O]) -> Iterator[tuple[int, _O]]:
    """Those of the ``outputs`` that have columns in a batch, with their numbers. So a batch costs what its rows cost,
    however many outputs there are."""
    names = set(batch.schema.names)
    return ((at, each) for at, each in enumerate(outputs) if each.column is None or each.column in names)


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Task:
    """One of the ``of`` tasks that read a batch, numbered in the order of what they read.

    ``instructions`` come from the driver and are the same for all tasks of a Spark job. ``attempt`` counts Spark's
    earlier attempts at the task. ``folder`` is for results on their way, where all tasks run on one machine.
    ``abandoned`` tells whether nobody wants the result any more, where that may happen to a task that goes on.
    """

    number: int
    of: int
    instructions: str = ""
    attempt: int = 0
    folder: str = ""
    abandoned: Callable[[], bool] = field(default=_never, compare=False)


@dataclass(frozen=True)
class Stage:
    """A committer's work on rows that needs no Spark: the reading tasks do it on the batches that they have just made.

    ``run`` takes the task and its batches of rows, and is picklable. A task of a job with state may call it several
    times, for the rows of other keys each. ``schema`` is that of the batches it yields.
    ``calls``: it calls functions of the user, which run in Spark's Python processes only.
    """

    run: Callable[[Task, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    schema: pa.Schema
    calls: bool = False


@dataclass(frozen=True)
class SentStage:
    """A stage on its way to reading tasks: ``text`` for :func:`penstock.spi.staged`, and ``columns``, Spark's type of
    the frame that reads: the columns of the stage, then :data:`REPORT`."""

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

    def collect(self, instructions: str = "") -> list[dict[str, Any]]:
        """The rows. Raises the errors of the source and of the stage, and AbortableError for any other one."""
        try:
            table, self.report = self.run(instructions)
        except PenstockError:
            raise
        except Exception as error:
            raise AbortableError(f"{type(error).__name__}: {error}") from error
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


@dataclass(frozen=True)
class Written:
    """What one batch wrote to one output. ``send_millis`` is the duration of the last request with records."""

    records: int = 0
    bytes: int = 0
    send_millis: float | None = None


@dataclass(frozen=True)
class Published:
    """What one batch wrote through one committer: ``written`` to each of its outputs, in their order.

    ``consumed`` has the numbers of the sources whose consumption the committer records: True where it has, False where
    it lacks permission.
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


@dataclass(frozen=True)
class SourcePartition:
    """A partition of a source at a position: its ``number`` in ``__partition``, its ``name`` in checkpoints, and
    whether event time does not wait for it: because it is ``idle``, or because it was read to its end."""

    number: int
    name: str
    idle: bool = False
    ended: bool = False


class Source(Protocol):
    """One scan of a running job."""

    #: Whether all records exist when the query starts, so that they are read at once to the end.
    bounded: bool
    #: Whether its positions count files, and not records.
    of_files: bool = False
    #: Whether the source has event time: its frame has the column :data:`WATERMARK`.
    timed: bool = False
    #: Whether it measures event time itself; otherwise the engine does, and calls :meth:`progressed`.
    measures: bool = False

    def frame(self, stage: SentStage | None = None) -> Any:
        """The streaming DataFrame: the scan's columns, those of :data:`HIDDEN`, and :data:`KIND` and
        :data:`DEAD_LETTER` where the scan has them, or the result of ``stage`` on these; without a stage
        :data:`WATERMARK` if the source is ``timed``; and the column :data:`REPORT`."""

    def on_driver(self, stage: Stage, start: dict[str, Any] | None, end: dict[str, Any]) -> OnDriver | None:
        """This range and the ``stage`` on it, for the driver; None if only tasks can read it."""
        return None

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """How many tasks read this range."""

    def partition(self, number: int, end: dict[str, Any]) -> tuple[str, int] | None:
        """The (topic, partition) of a ``__partition``; None when it belongs to another source, and where a source does
        not read topics."""
        return None

    def place(self, number: int, offset: int, end: dict[str, Any]) -> str:
        """Where the row with this ``__partition`` and ``__offset`` came from, such as "file 'a.json', line 3"; empty
        when it belongs to another source, and where :meth:`partition` tells it."""
        return ""

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The partitions of the source at a position; none if it does not know them: then it has no event time."""
        return ()

    def records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """How many offsets lie between the two positions; files where the source is ``of_files``."""

    def losses(self, start: dict[str, Any] | None, end: dict[str, Any]) -> Sequence[str]:
        """What was lost between the two positions before it was read, as human-readable sentences."""
        return ()

    def ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the source has an end, and ``reached`` (None: its start) is at it. A query that ends before all its
        sources are at their ends was stopped by somebody, even when all are ``bounded``."""

    def start_text(self, reached: dict[str, Any] | None) -> str:
        """Where the run begins whose last position in the checkpoint is ``reached`` (None: it has none), and why, for
        people: what follows the table's name, such as ``starts at the earliest offsets``. Empty where only the engine
        knows."""
        return ""

    def complete(self) -> bool:
        """Whether all records up to the source's end exist. In batch mode the batch begins when all sources say so."""
        return True

    def lag(self, reached: dict[str, Any]) -> int | None:
        """Records (files where the source is ``of_files``) between ``reached`` and the end of the source, or None when
        that is not known."""

    def consumed(self, end: dict[str, Any]) -> Any:
        """What a committer of the same system can record with its output, or None."""
        return None

    def done(self, end: dict[str, Any], recorded: bool | None) -> None:
        """All batches up to ``end`` are done. ``recorded`` says whether a committer has recorded this (False: it
        lacks permission). With None no committer has, and the source informs its system. That is for observers only,
        so it never fails."""
        return

    def reported(self, reports: Sequence[bytes]) -> None:
        """Take the reports of a batch's tasks, in no order. For metrics only: a batch may be reported twice."""
        return

    def progressed(self, watermarks: Mapping[int, int], end: dict[str, Any]) -> None:
        """Take the largest watermark of the rows of each ``__partition``, in ms since 1970, in the batch that ended at
        ``end``."""
        return

    def wake(self, at: int | None) -> None:
        """Plan a batch at this time, in ms since 1970, even if there is nothing to read, instead of one that was asked
        for before. With None only that one is not needed any more."""
        return

    def close(self) -> None:
        """Release connections."""
        return


class Committer(Protocol):
    """All sinks of a job that are written, and committed, together."""

    #: Whether it commits the reference to a job's state with its output. Then it gets the ``results`` of each batch of
    #: a job with state, and no frame.
    keeps_state: bool = False

    def stage(self) -> Stage | None:
        """The work on rows that the reading tasks can do, None when there is none. Called before ``open`` when the
        reading tasks compute the job's rows; ``publish`` then gets frames that the stage has made, or
        :class:`OnDriver` for small batches."""
        return None

    def check(self) -> None:
        """Raise all errors that must stop a start and show without taking ownership: another run of the job may be
        healthy. All committers of a job are checked before one of them is opened."""
        return

    def open(self) -> None:
        """Take ownership, finish the work of a former owner, and read what was committed. Called after :meth:`check`,
        and before the query starts."""
        return

    def records(self, consumed: Any) -> bool:
        """Whether it commits ``consumed``, the result of a source's ``consumed``, with its output. After ``open``."""
        return False

    def standing(self, batch: Batch) -> Standing:
        """What it has committed, when a batch of a job with state begins. Writes nothing, and raises what
        :meth:`publish` would raise. For committers with ``keeps_state``."""
        return Standing(False, None)

    def state(self, upcoming: int) -> str:
        """The reference to the state that its progress holds after the batch ``upcoming``, with which the checkpoint
        goes on, or the one before it; empty if it holds none, and if it is behind: files of that state may be gone.
        Called after :meth:`open`. For committers with ``keeps_state``."""
        return ""

    def check_owner(self) -> None:
        """Raise FencedError when another run has taken over: the better explanation of another error."""
        return

    def publish(self, batch: Batch, frame: Any) -> Published:
        """Write the batch and commit it; write nothing when it was committed before. All or nothing."""

    def close(self) -> None:
        """Abort an open transaction and release connections. May be called twice, and while ``publish`` runs in
        another thread."""
        return


class SourceRuntime(Protocol):
    """The class that a connector's ``runtime`` names when its tables can be read."""

    def source(self, spec: Any, ordinal: int, context: JobContext) -> Source:
        """A source that is ready to read. Start and stop are resolved once, and then read from the checkpoint."""


class SinkRuntime(Protocol):
    """The class that a connector's ``runtime`` names when its tables can be written."""

    def commit_group(self, spec: Any) -> Hashable:
        """Sinks with equal keys are written together by one committer."""

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that writes these sinks."""


@runtime_checkable
class Warmable(Protocol):
    """A connector's runtime that prepares for tasks before Spark's Python processes are forked."""

    def warm(self) -> None:
        """Import the modules of tasks, and load compiled loops. Starts no threads: forks would not have them."""
