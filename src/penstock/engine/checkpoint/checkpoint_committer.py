"""The checkpoint as the target that keeps the state of a job without exactly-once tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.delivery import to_canonical_json
from penstock.engine.checkpoint.committed import keeps_nothing, read_state, write_state
from penstock.errors import AnotherCopyError, CheckpointError, ExecutionError, PossibleDataLossError
from penstock.spi import Batch, Checkpoint, CommitStatus, Committer, Published, WriterFactory, WriteTasks


@dataclass(eq=False)
class CheckpointTarget(Committer):
    """Keeps the reference to the state of a job none of whose tables is exactly-once: their rows may be repeated, but
    the state counts each row once. ``keeps_rows``: a step of the job has state; UNNEST has none, and a job that finds
    its tables finds them again where it began as one that did not."""

    checkpoint: Checkpoint
    keeps_rows: bool = True
    #: The batch under way, and the document when it began.
    _batch: int = field(default=-1, init=False)
    _before: dict[str, Any] = field(default_factory=dict, init=False)
    keeps_state = True

    def writers(self) -> WriterFactory:
        """None: no table is written here."""
        raise ExecutionError("the checkpoint writes no rows")

    def commit_status(self, batch: Batch) -> CommitStatus:
        """Decides by the checkpoint's document. Raises PossibleDataLossError if its positions differ from the
        batch's."""
        where = f"the checkpoint '{self.checkpoint.location}' continues with batch {batch.id}"
        known = self._known()
        self._batch, self._before = batch.id, known
        if not known and batch.id > 0:
            if not self.keeps_rows:  # the job had no such step before, and needs none of the rows that were read then
                return CommitStatus(False, "")
            raise CheckpointError(
                f"{where}, but has no state: the job had none before, or another guarantee. Start the former "
                "definition, or a new checkpoint"
            )
        known = known or {"batch": -1, "state": ""}
        if known["batch"] < batch.id - 1 and keeps_nothing(self.checkpoint, known["state"]):
            # The batches since left no document: the job had a definition without steps for a while.
            return CommitStatus(False, known["state"])
        if known["batch"] not in (batch.id - 1, batch.id):
            raise CheckpointError(
                f"{where}, but its state is that after batch {known['batch']}; restore the checkpoint with all its "
                "files, or start the job with a new one"
            )
        self._check_positions(batch, known)
        return CommitStatus(known["batch"] == batch.id, known["state"])

    def _check_positions(self, batch: Batch, known: Mapping[str, Any]) -> None:
        """Raises PossibleDataLossError unless the document ends where the batch does, or begins. A batch has its number
        from Spark's log, where it may be planned again: in a copy of the checkpoint with files of different moments, by
        another copy of the job, after a power failure. Former versions have written no positions."""
        found, done = known.get("positions"), known["batch"] == batch.id
        log = batch.end if done else batch.start
        if found is None or to_canonical_json(found) == to_canonical_json(log):
            return
        does, place = ("replays", "to") if done else ("continues with", "from")
        raise PossibleDataLossError(
            f"the checkpoint '{self.checkpoint.location}' {does} batch {batch.id} ({place} {to_canonical_json(log)}), "
            f"but its state is that after a batch {known['batch']} which ends elsewhere, at "
            f"{to_canonical_json(found)}: the checkpoint has files of different moments, or another copy of the job "
            "has written it. Restore the checkpoint with all its files, or start the job from a savepoint of it, which "
            "has the positions of its state"
        )

    def state(self, upcoming: int) -> str:
        """The reference in the document, if it is of this batch or the one before it."""
        known = self._known()
        return str(known["state"]) if known.get("batch") in (upcoming - 1, upcoming) else ""

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Write the document. Raises AnotherCopyError if another copy of the job has written it since the batch began:
        its state continues from there."""
        state = tasks.state
        write_state(self.checkpoint, batch, state)
        last = self._known()
        if (last["batch"], last["state"]) != (batch.id, state):
            raise self._taken_over(last, batch.id)
        return Published()

    def check_owner(self) -> None:
        """Raise AnotherCopyError if another copy of the job has written the document since the batch began."""
        last = self._known()
        if last != self._before:
            raise self._taken_over(last, self._batch)

    def _taken_over(self, last: Mapping[str, Any], batch: int) -> AnotherCopyError:
        return AnotherCopyError(
            f"another copy of the job writes the checkpoint '{self.checkpoint.location}': its state is that after "
            f"batch {last.get('batch')}, and this copy was at work on batch {batch}"
        )

    def _known(self) -> dict[str, Any]:
        """The document; empty if there is none."""
        return read_state(self.checkpoint) or {}
