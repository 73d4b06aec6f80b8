"""The checkpoint as the target that keeps the state of a job without exactly-once tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.engine.checkpoint.committed import STATE as DOCUMENT
from penstock.engine.checkpoint.committed import write_state
from penstock.errors import CheckpointError, FencedError
from penstock.spi import Batch, Checkpoint, Committer, Published, Standing


@dataclass(frozen=True)
class CheckpointTarget(Committer):
    """Keeps the reference to the state of a job none of whose tables is exactly-once: their rows may be repeated, the
    state counts each row once."""

    checkpoint: Checkpoint
    keeps_state = True

    def standing(self, batch: Batch) -> Standing:
        """By the checkpoint's document."""
        where = f"the checkpoint '{self.checkpoint.location}' continues with batch {batch.id}"
        known = self._known()
        if not known and batch.id > 0:
            raise CheckpointError(
                f"{where}, but has no state: the job had none before, or another guarantee. Start the former "
                "definition, or a new checkpoint"
            )
        known = known or {"batch": -1, "state": ""}
        if known["batch"] not in (batch.id - 1, batch.id):
            raise CheckpointError(
                f"{where}, but its state is that after batch {known['batch']}; restore the checkpoint with all its "
                "files, or start the job with a new one"
            )
        return Standing(known["batch"] == batch.id, known["state"])

    def state(self) -> str:
        """The reference in the document."""
        return str(self._known().get("state", ""))

    def publish(self, batch: Batch, frame: Any) -> Published:
        """Write the document. Raises FencedError if another copy of the job has written it since the batch began: its
        state goes on from there."""
        state = batch.results.state if batch.results else ""
        last = write_state(self.checkpoint, batch, state)
        if (last["batch"], last["state"]) != (batch.id, state):
            raise FencedError(
                f"another copy of the job writes the checkpoint '{self.checkpoint.location}': its state is that after "
                f"batch {last['batch']}, and this copy was at work on batch {batch.id}; stop one of the two"
            )
        return Published()

    def _known(self) -> dict[str, Any]:
        """The document; empty if there is none."""
        return self.checkpoint.latest(DOCUMENT) or {}
