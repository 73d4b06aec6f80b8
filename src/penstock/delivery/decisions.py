"""What to do with a batch, given what was recorded last: the table of decisions of exactly-once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.delivery.progress import Progress, canonical
from penstock.errors import CheckpointError, PossibleDataLossError


@dataclass(frozen=True)
class Run:
    """Publish the batch."""


@dataclass(frozen=True)
class Skip:
    """The batch was committed already: do everything but publish (rule 6). ``record`` says what was committed."""

    record: Progress


@dataclass(frozen=True)
class TakeOver:
    """Publish the batch; ``warning`` says whose progress, or which, is given up with it."""

    warning: str


Decision = Run | Skip | TakeOver


def decide(
    record: Progress | None, query_id: str, batch_id: int, start: Any, end: Any, adopt: bool = False
) -> Decision:
    """What to do with a batch, given what the progress topic holds (the table of rule 5).

    ``adopt`` goes on although progress is missing or behind. Raises PossibleDataLossError when a batch was published
    with other offsets, when this one does not begin where the one before it ended, or when progress is behind;
    CheckpointError when the checkpoint is older or foreign. Both name both positions.
    """
    batch = Progress(query_id, batch_id, start, end)
    if record is None:
        if batch_id == 0:
            return Run()
        if adopt:
            return TakeOver(f"{batch} is published although its progress is lost: a second time, if it was committed")
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the progress topic holds nothing: progress was lost, or the "
            "sink came to the job with this batch. Check the topic, or go on with --adopt-progress, if you are sure "
            "that the batch was not published"
        )
    check_ahead(record, batch)
    if record.query_id != query_id:
        return TakeOver(f"{batch} takes over a transactional id that last published {record}")
    if record.batch_id == batch_id - 1:
        # One entry of Spark's offset log holds both, so they differ only in a log that is not the one published from.
        if canonical(record.end) == canonical(start):
            return Run()
        raise PossibleDataLossError(
            f"the checkpoint goes on with {batch}, but what was published before it is {record}, which ends elsewhere: "
            "the checkpoint is not the one that was published from. Restore the checkpoint that belongs to it"
        )
    if record.batch_id == batch_id:
        if canonical([record.start, record.end]) == canonical([start, end]):
            return Skip(record)
        raise PossibleDataLossError(
            f"the checkpoint replays {batch}, but what was published is {record}: the checkpoint is not the one that "
            "was published from. Restore the checkpoint that belongs to it"
        )
    if adopt:
        return TakeOver(f"{batch} is published although the last published is {record}: what is between is not known")
    raise PossibleDataLossError(
        f"the checkpoint goes on with {batch}, but the last published is {record}: progress was lost, the checkpoint "
        "belongs to something else, or the job ran without this sink for a while. Check the progress topic and the "
        "checkpoint, or go on with --adopt-progress, if you are sure that the checkpoint is right"
    )


def check_ahead(record: Progress, batch: Progress) -> None:
    """Raises CheckpointError for progress beyond ``batch``, with which the checkpoint goes on, and for that of another
    query, unless the batch is this one's first. Where the batch begins and ends does not matter."""
    if record.query_id != batch.query_id and batch.batch_id > 0:
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but the last published is {record}: another query used this "
            "transactional id since. Give each query a name or a prefix of its own, and start this one with a new "
            "checkpoint"
        )
    if record.query_id == batch.query_id and record.batch_id > batch.batch_id:
        raise CheckpointError(
            f"the checkpoint goes on with {batch}, but {record} was published already: an older checkpoint was "
            "restored. Restore the latest one"
        )
