"""The decision whether to publish a batch, by the last recorded progress: the decision table of exactly-once."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.delivery.progress import Progress, to_canonical_json
from penstock.errors import CheckpointError, PossibleDataLossError
from penstock.spi import JobContext

#: What to do when the definition of a job has changed during a half-done batch.
FINISH_BATCH = (
    "Start the job once with its former definition so that it finishes this batch, stop it, then start it with the new "
    "one"
)


@dataclass(frozen=True)
class Publish:
    """Publish the batch."""


@dataclass(frozen=True)
class Skip:
    """The batch was committed already: do everything but publish (rule "skip publishing only"). ``record`` is its
    progress."""

    record: Progress


@dataclass(frozen=True)
class TakeOver:
    """Publish the batch; ``warning`` names the progress that it replaces. ``query_id`` is the query that has published
    last under the same name, if it is another one."""

    warning: str
    query_id: str = ""


Decision = Publish | Skip | TakeOver


def decide(record: Progress | None, batch: Progress, *, place: str, adopt: bool = False) -> Decision:
    """Decide whether to publish a batch, by the last recorded progress (rule "progress decides"). ``place`` is where
    progress is recorded, for messages.

    ``adopt`` continues although progress is missing or behind. Raises PossibleDataLossError if the batch was published
    with other offsets, does not begin at the end of the one before it, or progress is behind; CheckpointError if the
    checkpoint is older or foreign. Each error names both positions.
    """
    if record is None:
        if batch.batch_id == 0:
            return Publish()
        if adopt:
            return TakeOver(f"{batch} is published although its progress is lost: records repeat if it was committed")
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but {place} holds nothing: progress was lost, or the sink was "
            "added to the job with this batch. Restore the progress; if you are sure that the batch was not published, "
            "continue with --adopt-progress"
        )
    check_ahead(record, batch, place)
    if record.query_id != batch.query_id:
        return TakeOver(
            f"this job has published before, from another checkpoint: up to batch {record.batch_id} of query "
            f"'{record.query_id}', says {place}. This checkpoint is new, and begins with batch {batch.batch_id}: "
            "records that were published then and are read again are published again. If you did not mean that, stop "
            "the job, and start it with its former checkpoint",
            record.query_id,
        )
    if record.batch_id == batch.batch_id - 1:
        # One entry of Spark's offset log holds both, so they differ only if the batch was published from another log.
        if to_canonical_json(record.end) == to_canonical_json(batch.start):
            return Publish()
        raise PossibleDataLossError(
            f"the checkpoint continues with {batch}, but the batch before it in {place} is {record}, which ends "
            "elsewhere: the job published from another checkpoint. Restore that checkpoint"
        )
    if record.batch_id == batch.batch_id:
        if to_canonical_json([record.start, record.end]) == to_canonical_json([batch.start, batch.end]):
            return Skip(record)
        raise PossibleDataLossError(
            f"the checkpoint replays {batch}, but {place} has {record}: the job published from another checkpoint. "
            "Restore that checkpoint"
        )
    if adopt:
        return TakeOver(f"{batch} is published although the last published is {record}: batches between may be missing")
    raise PossibleDataLossError(
        f"the checkpoint continues with {batch}, but the last published is {record}: progress was lost, the checkpoint "
        f"belongs to another job, or the job ran without this sink for a while. Check {place} and the "
        "checkpoint; if you are sure that the checkpoint is right, continue with --adopt-progress"
    )


def check_ahead(record: Progress, batch: Progress, place: str) -> None:
    """Raises CheckpointError for progress in ``place`` beyond ``batch``, with which the checkpoint continues, and for
    progress of another query, unless the batch is the first. The offsets of the batch do not matter."""
    if record.query_id != batch.query_id and batch.batch_id > 0:
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but the last in {place} is {record}: another query has used the "
            "same name since. Give each its own, and start this one with a new checkpoint"
        )
    if record.query_id == batch.query_id and record.batch_id > batch.batch_id:
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but {record} was published already, according to {place}: an "
            "older checkpoint was restored. Restore the latest one"
        )


def check_stateless(context: JobContext, record: Progress | None) -> None:
    """Raises CheckpointError when a job without state had some according to its last recorded progress."""
    if record is None or record.query_id != context.query_id or not record.state or context.keeps_nothing(record.state):
        return
    raise CheckpointError(
        f"job '{context.job}' had state in batch {record.batch_id} and has none now, which would lose it. Start the "
        "job with its former definition, or this one with a new checkpoint"
    )
