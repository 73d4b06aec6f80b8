"""The batches of a query: their positions in Spark's log, and how far a job has come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from penstock.engine.checkpoint import JobCheckpoint
from penstock.errors import AnotherCopyError, CheckpointError
from penstock.flow.state.inspection import TableSize
from penstock.flow.state.table_totals import Total
from penstock.flow.time.watermarks import OperatorTime
from penstock.plan.nodes import Job
from penstock.spi import (
    Batch,
    Source,
)

#: The property of the thread that runs a query's batches. It holds the query's id.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class StepProgress:
    """A step that keeps state or has a watermark: the size of its state after the last batch, about; its watermark, in
    ms since 1970 (None: not yet), and how many rows came too late, in all runs of the job."""

    rows: int = 0
    bytes: int = 0
    watermark: int | None = None
    late: int = 0

    @classmethod
    def from_operator(cls, size: TableSize, time: OperatorTime) -> StepProgress:
        """The progress of an operator, from the size of its state and its event time."""
        return cls(size.rows, size.bytes, time.reached, time.late)


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job in this process, over all its restarts. ``records_in`` counts offsets read, ``files_in``
    the files that sources of files have read, whose records are not in ``records_in``, and ``records_out`` records
    written, all since the start. ``files_left`` files are still to be read. ``committed_at`` is the Unix time of the
    last committed batch. ``restarts`` counts the restarts, ``last_failure`` is the failure before the last one.
    ``state_rows`` and ``state_bytes`` are the size of the state after the last batch, about; None in a job without
    state. ``steps`` has the steps by uid, and ``tables`` what was read of each table that the job has found; the name
    is empty for records that were left out, and whose table is not known."""

    batch: int = -1
    records_in: int = 0
    files_in: int = 0
    files_left: int = 0
    records_out: int = 0
    bytes_out: int = 0
    batches: int = 0
    committed_at: float | None = None
    restarts: int = 0
    last_failure: str = ""
    state_rows: int | None = None
    state_bytes: int | None = None
    steps: Mapping[str, StepProgress] = field(default_factory=dict, hash=False)
    tables: Mapping[str, Total] = field(default_factory=dict, hash=False)


def describe_batch(
    number: int,
    job: Job,
    spark: SparkSession,
    checkpoint: JobCheckpoint,
    sources: Sequence[Source],
    warn: Callable[[str], None],
) -> Batch:
    """The batch of that number, which Spark has just given to the calling thread. Warns of data that its sources have
    lost. Raises CheckpointError if the log does not hold it, or holds another plan.

    Spark checks that an entry does not exist before it renames its own into place, so another copy of the job may have
    replaced it. Progress would name records that were not published (docs/decisions/0026-two-drivers.md).
    """
    location = checkpoint.location
    end = checkpoint.offsets(number)
    if end is None or len(end) != len(sources):
        raise CheckpointError(
            f"the checkpoint '{location}' does not hold the positions of batch {number} for {len(sources)} source(s); "
            "another program may have changed it: restore it"
        )
    logged = checkpoint.offsets(number - 1) if number > 0 else None
    if number > 0 and logged is None:
        raise CheckpointError(f"'offsets/{number - 1}' is missing from the checkpoint '{location}'; restore it")
    planned_start, planned_end = _planned(spark)
    before = [(number - 1, logged, planned_start)] if logged else []
    for entry, positions, planned in (*before, (number, end, planned_end)):
        if positions != planned:
            if entry == number:  # nothing was published yet: the present entry can be
                raise AnotherCopyError(_difference(job, location, entry, positions, planned))
            raise replaced_entry_error(job, location, entry, positions, planned)
    start: Sequence[dict[str, Any] | None] = logged if logged is not None else [None] * len(end)
    tasks, consumed = 0, []
    for source, first, last in zip(sources, start, end, strict=True):
        for loss in source.losses(first, last):
            warn(loss)
        tasks += source.tasks(first, last)
        consumed.append(source.find_consumed(last))
    return Batch(number, tuple(start), end, tasks, tuple(consumed))


def replaced_entry_error(
    job: Job, location: str, entry: int, positions: Sequence[Any] | None, planned: Sequence[Any]
) -> CheckpointError:
    """The error for an entry of the log that another copy of the job has replaced by other ``positions``, or deleted,
    since the batch was published up to those that this copy ``planned``."""
    return CheckpointError(
        f"{_difference(job, location, entry, positions, planned)}, and has published that: stop the other copy, and "
        "write the planned positions into the entry before the job is started again"
    )


def _difference(job: Job, location: str, entry: int, positions: Sequence[Any] | None, planned: Sequence[Any]) -> str:
    found = "is gone" if positions is None else f"ends at {_shown(positions)}"
    return (
        f"another copy of job '{job.name}' writes the checkpoint '{location}': 'offsets/{entry}' {found}, but this "
        f"copy planned {_shown(planned)}"
    )


def _planned(spark: SparkSession) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Start and end of the calling thread's batch in Spark's memory, by source in the order of Spark's log. The start
    is empty for the first batch."""
    session: Any = spark._jsparkSession
    query = session.streams().get(spark.sparkContext.getLocalProperty(_QUERY_ID)).streamingQuery()
    listed = query.sources()
    sources = [listed.apply(index) for index in range(listed.size())]
    start, end = query.getStartOffsetsOfLatestBatch(), query.availableOffsets()
    return tuple(_positions(start, sources)), tuple(_positions(end, sources))


def _positions(progress: Any, sources: list[Any]) -> Iterator[dict[str, Any]]:
    for source in sources:
        offset = progress.get(source)
        if offset.isDefined():
            yield json.loads(offset.get().json())


def _shown(positions: Sequence[dict[str, Any]]) -> str:
    return json.dumps(list(positions), sort_keys=True)
