"""A batch of a job with state, or with several targets: all targets get the output of one attempt (rule "the first
commit binds the attempt")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.errors import CheckpointError, DatabaseError
from penstock.spi import Batch, CommitStatus, Committer, Published, WriteTasks


class Attempt(Protocol):
    """What one run of the operators made of a batch."""

    @property
    def state(self) -> str:
        """The reference to the state after the batch."""

    def tasks(self, target: int) -> WriteTasks:
        """The tasks that have computed the rows of the target of that number."""


class Operators(Protocol):
    """Runs the work of a job on a batch. ``keeps_rows``: a step of it has state."""

    @property
    def keeps_rows(self) -> bool: ...

    def run(self, batch: Batch, state: str) -> Attempt:
        """A new attempt at the batch, from the state before it."""

    def kept(self, batch: Batch, state: str) -> Attempt:
        """The attempt that has the state after it, whose output was kept. Raises CheckpointError if it is not there."""

    def check_repeating(self, batch: Batch, state: str) -> None:
        """Raises CheckpointError unless the attempt that has the state after it was made for all tables that repeat
        batches."""


@dataclass(frozen=True)
class Delivered:
    """A batch that all targets have: ``published`` by each, and the reference to the state after it."""

    state: str
    published: tuple[Published, ...]


def deliver(batch: Batch, targets: Sequence[Committer], operators: Operators) -> Delivered:
    """Publish a batch to each target that does not have it yet.

    Targets that keep the state commit one after the other. The first of these commits binds the attempt: the others get
    the output of this attempt and no other, even if the job dies in between. Targets that repeat batches are written
    before the first commit: after it, they have the batch too, if the job wrote them then. They would accept rows of a
    run that was taken over while its operators ran, so the targets that keep the state are asked for the owner first.
    The last is a target that records what the sources have consumed, if there is one.

    Raises CheckpointError when the state before the batch is not known, when the output of the bound attempt is gone,
    or when a target that repeats batches was added to the job after that attempt.
    """
    statuses = {number: each.commit_status(batch) for number, each in enumerate(targets) if each.keeps_state}
    left = [number for number, status in statuses.items() if not status.done]
    bound = _agree_on_state(batch, [each.state for each in statuses.values() if each.done], operators)
    repeating = [number for number in range(len(targets)) if number not in statuses]
    # Of a job without state: a former version, or another definition, has delivered the batch to each target by itself.
    apart = bound is None and len(left) < len(statuses)
    skipped = tuple(Published(skipped=True) for _ in targets)

    def check_owners() -> None:
        for number in statuses:
            targets[number].check_owner()

    try:
        if bound is not None and repeating:
            operators.check_repeating(batch, bound)
            repeating = []
        if not left and not (apart and repeating):
            return Delivered(bound or "", skipped)
        attempt = (
            operators.run(batch, _find_state_before(batch, statuses, operators))
            if bound is None
            else operators.kept(batch, bound)
        )
    except (CheckpointError, DatabaseError):
        check_owners()  # a new owner deletes files that this run has not read yet, and tables that it writes
        raise
    if repeating:  # nothing fences a former owner from these
        check_owners()
    left.sort(key=lambda number: any(map(targets[number].can_commit_offsets, batch.consumed)))
    done = dict(enumerate(skipped))
    for number in (*repeating, *left):
        consumed = batch.consumed if left and number == left[-1] else ()
        done[number] = targets[number].publish(replace(batch, consumed=consumed), attempt.tasks(number))
    return Delivered(attempt.state if left else "", tuple(done[number] for number in range(len(targets))))


def _find_state_before(batch: Batch, statuses: Mapping[int, CommitStatus], operators: Operators) -> str:
    """The reference to the state before a batch that binds no attempt."""
    found = _agree_on_state(batch, [each.state for each in statuses.values()], operators)
    if found is None and not operators.keeps_rows:
        return ""
    if found is None:
        raise CheckpointError(
            f"the state before batch {batch.id} is not known: no exactly-once table of the job has progress of batch "
            f"{batch.id - 1}, because none was exactly-once then, or progress is lost; --adopt-progress cannot replace "
            "it. Make a savepoint of the checkpoint, which has the state, and start the job from it with a new "
            "checkpoint"
        )
    return found


def _agree_on_state(batch: Batch, states: Sequence[str | None], operators: Operators) -> str | None:
    """The one reference among these; None if there is none. Without steps that keep state, an empty one proves nothing:
    targets of such a job may have committed without a reference."""
    found = sorted({each for each in states if each is not None and (each or operators.keeps_rows)})
    if len(found) > 1:
        raise CheckpointError(
            f"the targets of the job have committed batch {batch.id} or the one before it with different states, "
            f"{' and '.join(map(repr, found))}: their progress was changed by something else. Restore it, or start the "
            "job with a new checkpoint"
        )
    return found[0] if found else None
