"""What a checkpoint knows to be committed, by its files alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.clock import now_ms
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.spi import Batch, Checkpoint

#: The folder of the state in a checkpoint, and the document that refers to the state after the last committed batch.
STATE = "state"
#: The document that names the run which was started last.
_RUN = "run"
#: The document of a run that ended cleanly: its last published batch, and its last planned one.
_STOPPED = "stopped"


@dataclass(frozen=True)
class Committed:
    """The last batch of a job that its checkpoint knows to be committed, ``batch`` (-1: none), with the positions of
    its sources after it, by uid, and the reference to its state (empty for none).

    ``begun`` is a later batch of which the checkpoint does not know whether it was committed; None if there is none.
    """

    job: str
    query_id: str
    batch: int
    positions: Mapping[str, dict[str, Any]]
    state: str
    begun: int | None = None
    #: The documents of the sources, by uid: which data they read.
    sources: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    #: When it was committed, in milliseconds since the epoch; None where the checkpoint does not say it.
    time_ms: int | None = None


def write_state(checkpoint: Checkpoint, batch: Batch, state: str, *, bound: bool = False) -> None:
    """Write the document :data:`STATE` after a batch that was committed with the reference ``state``, unless a copy of
    the job has written one. It has the time, and the positions too: those in Spark's log may be of a copy of the job,
    which has replaced them since.

    ``bound``: the progress of a target has this reference. Then it replaces that of another attempt, which was written
    while the tables of the job were not exactly-once, or before the target lost its last commit.
    """
    document = {"batch": batch.id, "state": state, "positions": list(batch.end), "time_ms": now_ms()}
    checkpoint.advance(STATE, batch.id, document, replace=bound)


def read_state(checkpoint: Checkpoint) -> dict[str, Any] | None:
    """The document :data:`STATE` of the last batch; None if there is none."""
    return checkpoint.latest(STATE)


def keeps_nothing(checkpoint: Checkpoint, state: str) -> bool:
    """Whether the state of this reference has no steps, since UNNEST keeps none, and no schemas of tables. Raises
    CheckpointUnavailableError."""
    try:
        return Manifest.read(Storage.from_uri(checkpoint.folder(STATE)), state).keeps_nothing
    except CheckpointUnavailableError:
        raise
    except CheckpointError:  # its file is missing or changed: whoever needs the state reports it
        return False


def write_started(checkpoint: Checkpoint, run: str) -> None:
    """Write that a run begins. From now on a batch may be committed that the document of a former run does not
    contain."""
    checkpoint.write(_RUN, {"run": run})


def write_stopped(checkpoint: JobCheckpoint, run: str, batch: int) -> None:
    """Write that a run ended cleanly, and which batch it published last. Writes nothing if another run was started
    since, which may have published the batch planned last: its document stays."""
    if (checkpoint.read(_RUN) or {}).get("run") != run:
        return
    checkpoint.write(_STOPPED, {"run": run, "batch": batch, "planned": checkpoint.last("offsets")})


def _stopped(checkpoint: JobCheckpoint) -> dict[str, Any]:
    """The document of the run that was started last, if it has ended cleanly; else an empty one. Former versions named
    no run, and emptied the document at each start."""
    found, started = checkpoint.read(_STOPPED) or {}, checkpoint.read(_RUN) or {}
    return found if found.get("run") == started.get("run") else {}


def read_committed(checkpoint: JobCheckpoint) -> Committed:
    """What the checkpoint of a job knows. Raises CheckpointError if it holds no job, or is damaged.

    Spark logs a batch as done a moment after it was committed, and not at all if it was stopped in between: so the
    documents that penstock writes after a commit count too. In a job with state its document alone counts: a batch of
    Spark's log and the state of another would not fit together. But a document that is behind, and whose steps kept
    nothing, is from a former definition of the job.
    """
    known = checkpoint.read("job")
    if known is None:
        raise CheckpointError(
            f"'{checkpoint.location}' is not the checkpoint of a job: it has no 'penstock/job.json'. Name the job's "
            "own folder, which `penstock run` shows when it starts"
        )
    stopped = _stopped(checkpoint)
    published = stopped.get("batch", -1)
    logged = max(checkpoint.last("commits"), published)
    state = read_state(checkpoint)  # after the logs: a job with state writes it before them
    if state is not None and state["batch"] < logged and keeps_nothing(checkpoint, state["state"]):
        state = None
    planned = checkpoint.last("offsets")
    batch = logged if state is None else state["batch"]
    begun = planned if planned > batch and (stopped.get("planned"), published) != (planned, batch) else None
    uids: Sequence[str] = known.get("sources", ())
    ends = (state or {}).get("positions")
    if ends is None:  # a job without state, or a checkpoint of a former version
        ends = checkpoint.offsets(batch) if batch >= 0 else ()
    if ends is None or (ends and len(ends) != len(uids)):
        raise CheckpointError(
            f"the checkpoint '{checkpoint.location}' does not hold the positions of batch {batch} for {len(uids)} "
            "source(s); restore it, or start the job once, so that it finishes a batch"
        )
    documents = ((uid, checkpoint.read(f"source-{number}")) for number, uid in enumerate(uids))
    return Committed(
        job=str(known.get("job", "")),
        query_id=str(known["query_id"]),
        batch=batch,
        positions=dict(zip(uids, ends, strict=False)),
        state=(state or {}).get("state") or known.get("origin", {}).get("state", ""),
        begun=begun,
        sources={uid: document for uid, document in documents if document is not None},
        time_ms=(state or {}).get("time_ms"),
    )
