"""The decision whether to publish a batch, by the last recorded progress: the decision table of exactly-once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.delivery.progress import Progress, canonical
from penstock.errors import CheckpointError, PossibleDataLossError


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
    """Publish the batch; ``warning`` names the progress that it replaces."""

    warning: str


Decision = Publish | Skip | TakeOver


def decide(
    record: Progress | None, query_id: str, batch_id: int, start: Any, end: Any, adopt: bool = False
) -> Decision:
    """Decide whether to publish a batch, by the last recorded progress (rule "progress decides").

    ``adopt`` continues although progress is missing or behind. Raises PossibleDataLossError if the batch was published
    with other offsets, does not begin at the end of the one before it, or progress is behind; CheckpointError if the
    checkpoint is older or foreign. Both errors name both positions.
    """
    batch = Progress(query_id, batch_id, start, end)
    if record is None:
        if batch_id == 0:
            return Publish()
        if adopt:
            return TakeOver(f"{batch} is published although its progress is lost: records repeat if it was committed")
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but the progress topic holds nothing: progress was lost, or the "
            "sink was added to the job with this batch. Check the topic; if you are sure that the batch was not "
            "published, continue with --adopt-progress"
        )
    check_ahead(record, batch)
    if record.query_id != query_id:
        return TakeOver(f"{batch} takes over a transactional id that last published {record}")
    if record.batch_id == batch_id - 1:
        # One entry of Spark's offset log holds both, so they differ only if another log was published from.
        if canonical(record.end) == canonical(start):
            return Publish()
        raise PossibleDataLossError(
            f"the checkpoint continues with {batch}, but the batch that was published before it is {record}, which "
            "ends elsewhere: the job published from another checkpoint. Restore that checkpoint"
        )
    if record.batch_id == batch_id:
        if canonical([record.start, record.end]) == canonical([start, end]):
            return Skip(record)
        raise PossibleDataLossError(
            f"the checkpoint replays {batch}, but {record} was published: the job published from another checkpoint. "
            "Restore that checkpoint"
        )
    if adopt:
        return TakeOver(f"{batch} is published although the last published is {record}: batches between may be missing")
    raise PossibleDataLossError(
        f"the checkpoint continues with {batch}, but the last published is {record}: progress was lost, the checkpoint "
        "belongs to another job, or the job ran without this sink for a while. Check the progress topic and the "
        "checkpoint; if you are sure that the checkpoint is right, continue with --adopt-progress"
    )


def check_ahead(record: Progress, batch: Progress) -> None:
    """Raises CheckpointError for progress beyond ``batch``, with which the checkpoint continues, and for progress of
    another query, unless the batch is the first. The offsets of the batch do not matter."""
    if record.query_id != batch.query_id and batch.batch_id > 0:
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but the last published is {record}: another query has used this "
            "transactional id since. Give each query its own name or prefix, and start this one with a new checkpoint"
        )
    if record.query_id == batch.query_id and record.batch_id > batch.batch_id:
        raise CheckpointError(
            f"the checkpoint continues with {batch}, but {record} was published already: an older checkpoint was "
            "restored. Restore the latest one"
        )
