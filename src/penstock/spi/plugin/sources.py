"""What a connector's ``runtime`` implements to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from penstock.spi.plugin.context import JobContext
from penstock.spi.plugin.tasks import OnDriver, SentStage, Stage


@dataclass(frozen=True)
class SourcePartition:
    """A partition of a source at a position: its ``number`` in rows (``HIDDEN``), its ``name`` in checkpoints, and
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
    #: Whether it measures event time itself; otherwise the engine does, and calls :meth:`receive_watermarks`.
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
        """The (topic, partition) of a partition number; None when it belongs to another source, and where a source does
        not read topics."""
        return None

    def place(self, number: int, offset: int, end: dict[str, Any]) -> str:
        """Where the row with this partition number and offset came from, such as "file 'a.json', line 3"; empty
        when it belongs to another source, and where :meth:`partition` says it."""
        return ""

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The partitions of the source at a position; none if it does not know them: then it has no event time."""
        return ()

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """How many offsets lie between the two positions; files where the source is ``of_files``."""

    def losses(self, start: dict[str, Any] | None, end: dict[str, Any]) -> Sequence[str]:
        """What was lost between the two positions before it was read, as human-readable sentences."""
        return ()

    def has_ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the source has an end, and ``reached`` (None: its start) has reached it. A query that ends before all
        its sources are at their ends was stopped from outside, even when all are ``bounded``."""

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

    def read_latest(self, count: int) -> Sequence[pa.RecordBatch]:
        """The rows of the newest records, at most ``count`` of each partition, as :meth:`frame` has them, without its
        last columns. For a look at what is there: a batch reads them again. None by default."""
        return ()

    def find_consumed(self, end: dict[str, Any]) -> Any:
        """The consumption up to ``end`` that a committer of the same system can record with its output, or None."""
        return None

    def confirm(self, end: dict[str, Any], recorded: bool | None) -> None:
        """All batches up to ``end`` are done. ``recorded`` says whether a committer has recorded this (False: it
        lacks permission). With None no committer has, and the source informs its system. That is for observers only,
        so it never fails."""
        return

    def receive_reports(self, reports: Sequence[bytes]) -> None:
        """Take the reports of a batch's tasks, in any order. For metrics only: a batch may be reported twice."""
        return

    def receive_watermarks(self, watermarks: Mapping[int, int], end: dict[str, Any]) -> None:
        """Take the largest watermark of the rows of each partition number, in ms since 1970, in the batch that ended at
        ``end``."""
        return

    def wake(self, at: int | None) -> None:
        """Plan a batch at this time, in ms since 1970, even if there is nothing to read, instead of an earlier request.
        With None, cancel that request."""
        return

    def close(self) -> None:
        """Release connections."""
        return


class SourceRuntime(Protocol):
    """The class that a connector's ``runtime`` names when its tables can be read."""

    def source(self, spec: Any, ordinal: int, context: JobContext) -> Source:
        """A source that is ready to read. Start and stop are resolved once, and then read from the checkpoint."""
