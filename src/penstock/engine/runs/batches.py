"""The batches of a query: how Spark has planned them, and how the job's committers publish them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.engine.checkpoint import JobCheckpoint
from penstock.errors import CheckpointError
from penstock.plan import Job
from penstock.spi import Batch, Committer, Published, Source

#: The property of the thread that runs a query's batches. It holds the query's id.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come in this process, over all its restarts. ``records_in`` counts offsets read,
    ``records_out`` records written, both since the start; ``committed_at`` is the Unix time of the last committed
    batch. ``restarts`` counts the restarts, ``last_failure`` is the failure before the last one."""

    batch: int = -1
    records_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    batches: int = 0
    committed_at: float | None = None
    restarts: int = 0
    last_failure: str = ""


def described(
    number: int,
    job: Job,
    spark: SparkSession,
    checkpoint: JobCheckpoint,
    sources: Sequence[Source],
    warn: Callable[[str], None],
) -> Batch:
    """The batch of that number, which Spark has just given to the calling thread. Warns of data that its sources have
    lost. Raises CheckpointError when the log does not hold it, or holds another plan."""
    end = checkpoint.offsets(number)
    if end is None or len(end) != len(sources):
        raise CheckpointError(
            f"the checkpoint '{checkpoint.location}' does not hold the positions of batch {number} for {len(sources)} "
            "source(s); did another program change it?"
        )
    logged = checkpoint.offsets(number - 1) if number > 0 else None
    if number > 0 and logged is None:
        raise CheckpointError(
            f"'offsets/{number - 1}' is missing from the checkpoint '{checkpoint.location}'; restore it"
        )
    _check_alone(number, logged or (), end, job, spark, checkpoint)
    start: Sequence[dict[str, Any] | None] = logged if logged is not None else [None] * len(end)
    for source, a, b in zip(sources, start, end, strict=True):
        for loss in source.losses(a, b):
            warn(loss)
    tasks = [source.tasks(a, b) for source, a, b in zip(sources, start, end, strict=True)]
    consumed = [source.consumed(reached) for source, reached in zip(sources, end, strict=True)]
    return Batch(number, tuple(start), end, sum(tasks), tuple(consumed))


def published(batch: Batch, frame: DataFrame, committers: Sequence[Committer]) -> list[Published]:
    """Publish the batch to each committer, and return the results in the order of ``committers``.

    A committer that can commit the sources' consumption comes last: it commits what the sources have consumed when all
    other committers have the batch. A job that lost its checkpoint continues from there.
    """
    order = list(range(len(committers)))
    if len(order) > 1:
        order.sort(key=lambda number: any(map(committers[number].records, batch.consumed)))
        frame = frame.persist()
    before_last = replace(batch, consumed=())
    try:
        done = {n: committers[n].publish(batch if n == order[-1] else before_last, frame) for n in order}
    finally:
        if len(order) > 1:
            frame.unpersist()
    return [done[number] for number in range(len(order))]


def _check_alone(
    number: int,
    start: tuple[dict[str, Any], ...],
    end: tuple[dict[str, Any], ...],
    job: Job,
    spark: SparkSession,
    checkpoint: JobCheckpoint,
) -> None:
    """Raises CheckpointError if Spark's log differs from the batch that Spark has planned and is reading.

    Spark checks that an entry does not exist before it renames its own into place, so another copy of the job may have
    replaced it. Progress would name records that were not published (docs/decisions/0026-two-drivers.md).
    """
    planned_start, planned_end = _planned(spark)
    logs = ((number - 1, start, planned_start if start else ()), (number, end, planned_end))
    for entry, logged, planned in logs:
        if logged != planned:
            raise CheckpointError(
                f"another copy of job '{job.name}' writes the checkpoint '{checkpoint.location}': 'offsets/{entry}' "
                f"ends at {_shown(logged)}, but this copy planned {_shown(planned)}; stop one of the two, and start "
                "the job again"
            )


def _planned(spark: SparkSession) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """Start and end of the calling thread's batch as Spark has them in memory, by source in the order of Spark's log.
    The start is empty for the first batch."""
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
