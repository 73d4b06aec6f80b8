"""Which cell turns red when which safeguard is taken out of penstock, and by what. See ``mutated_penstock.py``."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tests.faults.results import Run

__all__ = ["MUTANTS", "Mutant"]


def seed_with(before: int) -> int:
    """A seed with which a trial has so many batches done before the one that is hit."""
    return next(seed for seed in range(1000) if Random(seed).randint(1, 3) == before)


@dataclass(frozen=True)
class Mutant:
    """A safeguard that is taken out, and the cell that must notice.

    ``counts`` are those of the verdict of which one must not be 0; ``texts`` are those of which one must be in what the
    run says went wrong, where that is what gives the mutant away. ``ci``: part of every test run.
    """

    name: str
    safeguard: str
    cell: str
    counts: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    ci: bool = False

    def killed_by(self, run: Run) -> tuple[str, str]:
        """What has given it away in a run; or, when nothing has, why the run does not count."""
        counted = [f"{run.verdict[name]} {name}" for name in self.counts if run.verdict and run.verdict[name]]
        told = [text for text in self.texts if text in run.failure]
        seen = ", ".join(counted + [f"'{text}'" for text in told])
        return seen, "" if seen else run.failure or run.unavailable or f"came out as {run.verdict}"


_ENDED, _MISSED = "it ended with status 0", "the fault has missed: "
_BEFORE_END_TXN = "F1 after the progress record, before EndTxn"
_GROUP = "F20 new checkpoint and group-offsets after a death between TxnOffsetCommit and EndTxn"
_LATE = "F2 Python worker, mid-publish; what it was sending arrives when the transaction has been aborted"
_BEFORE_END_TXN_OF_STATE = "F26 driver and workers, between manifest and EndTxn"
_WRONG_TABLE, _WRONG_STATE = (
    "rows of the table 'counts' are wrong",
    "rows of the state 'counts: group(s) groups' are wrong",
)
_FILE_MISSING = "is missing, but the checkpoint names it as part of the job's state"
_NO_REDO = f"{_MISSED}batch 1 redone in place"

_ALL = (
    Mutant(
        "skip-fencing",
        "each start has a transactional id of its own, and nobody is fenced",
        "F1 mid-publish",
        ("lost", "open_transactions"),
    ),
    Mutant(
        "ignore-progress",
        "every batch is published, whatever progress says",
        "F1 after EndTxn, before Spark's commit log",
        ("duplicated",),
    ),
    Mutant(
        "accept-older-checkpoint",
        "a checkpoint that is behind progress is gone on with",
        "F7 restored three times: two older copies taken while running, then the latest",
        texts=(_ENDED,),
    ),
    Mutant(
        "believe-aborted-progress",
        "progress of an aborted transaction is believed",
        _BEFORE_END_TXN,
        ("lost",),
    ),
    Mutant(
        "read-stable-progress",
        "progress is read up to the first open transaction, whoever has it",
        "F16 another producer, open since the batch before; ours killed after EndTxn",
        texts=("lacks the record just written",),  # the mark is not seen either, so that the job does not start
    ),
    Mutant(
        "move-progress",
        "progress is written and read where an id has its place after the topic was enlarged",
        "F24 progress topic enlarged after a death after EndTxn",
        texts=("holds nothing: progress was lost",),
    ),
    Mutant("record-outside", "progress is committed apart from its batch", _BEFORE_END_TXN, ("lost",)),
    Mutant(
        "skip-settling",
        "an unknown end is taken for a commit",
        "F17 EndTxn outcome unknown, settled as aborted",
        ("lost",),
    ),
    Mutant(
        "settle-as-aborted",
        "a commit that was found out is taken for an abort",
        "F17 EndTxn outcome unknown, settled as committed",
        ("duplicated",),
        ci=True,
    ),
    Mutant(
        "settle-failed-as-aborted",
        "an end that cannot be found out is taken for an abort",
        "F17 settle fails at reading progress again (ListOffsets), until the job ends",
        ("duplicated",),
    ),
    Mutant(
        "settle-in-the-old-epoch",
        "an unknown end is looked up without a new epoch",
        "F17 EndTxn outcome unknown, and EndTxn arrives while it is looked up",
        ("duplicated",),
    ),
    Mutant(
        "abort-in-the-old-epoch",
        "an abort leaves the epoch as it is",
        _LATE,
        ("duplicated", "open_transactions"),
        texts=("sent on and answered NONE",),  # where the sequences agree, the broker takes it for a repetition
    ),
    Mutant("offsets-outside", "a group's offsets are committed apart from their batch", _GROUP, ("lost",)),
    Mutant(
        "always-clean",
        "Spark runs again what has failed, and that is not looked at",
        "F15 executor, between the map output and the publish stage",
        texts=(_NO_REDO,),
    ),
    Mutant(
        "always-one-writer",
        "two tasks may write to one partition",
        "F1 mid-publish, through a shuffle",
        ("lost", "duplicated"),
        texts=("OUT_OF_ORDER_SEQUENCE_NUMBER",),
    ),
    Mutant(
        "restart-when-fenced",
        "a job that another run has shut out is restarted by its strategy",
        "F3 stopped in an open transaction; both have a restart strategy",
        texts=("the two ended with", "restarts, and the first says"),
    ),
    Mutant(
        "start-unrefused",
        "a second start does not look whether the job runs",
        "F28 on one machine, while the first sleeps in a transaction",
        texts=("the job ended with status 3",),  # the first, which nobody wanted to end
    ),
    Mutant(
        "never-look",
        "a copy does not look whether another one has taken over",
        "F28 on one machine, at least once, the first sleeps while it is idle, and wakes up when records come",
        ("duplicated",),
        texts=("the fault has missed: ended with", "the first did not name process", "has not ended in"),
    ),
    Mutant(
        "newer-ends",
        "the newer copy ends where it meets what the older one has done",
        "F28 on one machine, the first takes the id back when the second has committed a batch",
        texts=("the fault has missed: ended with",),
    ),
    Mutant(
        "state-unverified",
        "a manifest counts whatever is in it",
        "F26 a manifest has the content of another batch",
        texts=(_ENDED,),
    ),
    Mutant(
        "newest-state",
        "a batch begins with the newest state in the checkpoint, that of an aborted attempt too",
        _BEFORE_END_TXN_OF_STATE,
        texts=(_WRONG_TABLE, _WRONG_STATE),
    ),
    Mutant(
        "state-outside",
        "the state is committed apart from its batch, after it",
        "F26 driver and workers, after EndTxn, before Spark's commit log",
        texts=(_WRONG_TABLE, _WRONG_STATE),
    ),
    Mutant(
        "delete-before-commit",
        "files are deleted when a manifest without them is written, before it is committed",
        _BEFORE_END_TXN_OF_STATE,
        texts=(_FILE_MISSING,),
    ),
    Mutant(
        "attempt-unbound",
        "a batch that is in one of two targets is computed again for the other",
        "F26 Kafka and PostgreSQL, killed between the two commits",
        texts=("with different states",),
    ),
)

#: By name.
MUTANTS = {each.name: each for each in _ALL}
