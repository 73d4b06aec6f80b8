"""Savepoints: copies of the committed state and positions of a job, from which other jobs start (rule "savepoints fork
identities")."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from penstock.clock import now_ms
from penstock.engine.checkpoint.committed import STATE, Committed, committed
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.errors import CheckpointError
from penstock.flow.state.manifest import Manifest, Sinks
from penstock.flow.state.storage import Storage

VERSION = 1
_DOCUMENT = "savepoint"
#: How often a savepoint of a running job is begun again because files were deleted meanwhile.
_ATTEMPTS = 20
#: How many files are copied at a time: the last batch's are soon deleted.
_COPIES = 8


@dataclass(frozen=True)
class Savepoint:
    """A savepoint at ``location``: what was committed, and the uids of the steps with state."""

    location: str
    content: Committed
    created_ms: int
    operators: tuple[str, ...]

    @property
    def note(self) -> str:
        """A note for the user: a batch may be published that is not in it; empty if there is none."""
        if self.content.begun is None:
            return ""
        return (
            f"batch {self.content.begun} was begun, and is not in the savepoint. If the job does not run: whether the "
            "batch was published is known to its next start only. Start the job, and stop it, for a savepoint of all "
            "that it has published"
        )


def write_savepoint(checkpoint: JobCheckpoint, target: JobCheckpoint) -> Savepoint:
    """Copy what the checkpoint of a job knows to be committed to ``target``, which must be empty. The job may run
    meanwhile: the savepoint has its last committed batch.

    Raises CheckpointError if the job has committed nothing yet, or there is a savepoint or a checkpoint already.
    """
    for name in (_DOCUMENT, "job"):
        if target.read(name) is not None:
            raise CheckpointError(
                f"'{target.location}' has a {'savepoint' if name == _DOCUMENT else 'checkpoint'} already; name another "
                "directory"
            )
    attempt = 1
    while True:
        found = committed(checkpoint)
        if found.batch < 0:
            raise CheckpointError(
                f"the job of the checkpoint '{checkpoint.location}' has not committed a batch yet; wait for its first"
            )
        try:
            operators = _copied(found.state, checkpoint.folder(STATE), target.folder(STATE))
            break
        except CheckpointError as error:
            # Files of a former batch, which the job, still running, no longer needs.
            if committed(checkpoint).state == found.state:
                raise
            if attempt == _ATTEMPTS:
                raise CheckpointError(
                    f"the job of the checkpoint '{checkpoint.location}' has deleted files of its state {attempt} times "
                    f"before they were copied to '{target.location}': stop it while the savepoint is written, or give "
                    "it a longer interval of checkpoints"
                ) from error
            attempt += 1
    made = Savepoint(target.location, found, now_ms(), operators)
    sources = [
        {"uid": uid, "position": position, "source": found.sources.get(uid, {})}
        for uid, position in found.positions.items()
    ]
    document = {
        "version": VERSION,
        "job": found.job,
        "query_id": found.query_id,
        "batch": found.batch,
        "state": found.state,
        "created_ms": made.created_ms,
        "operators": list(operators),
        "sources": sources,
    }
    target.write(_DOCUMENT, document)
    return made


def read_savepoint(place: JobCheckpoint) -> Savepoint:
    """The savepoint at ``place``. Raises CheckpointError if there is none, or one of a newer version."""
    found = place.read(_DOCUMENT)
    if found is None:
        hint = (
            "it is the checkpoint of a job: copy it with `penstock savepoint`"
            if place.read("job") is not None
            else "name the directory that `penstock savepoint` wrote"
        )
        raise CheckpointError(f"'{place.location}' is not a savepoint: it has no 'penstock/{_DOCUMENT}.json'; {hint}")
    if found["version"] > VERSION:
        raise CheckpointError(
            f"the savepoint '{place.location}' has format {found['version']}, and this version of penstock reads up to "
            f"{VERSION}; run the newer version that wrote it"
        )
    content = Committed(
        found["job"],
        found["query_id"],
        found["batch"],
        {each["uid"]: each["position"] for each in found["sources"]},
        found["state"],
        sources={each["uid"]: each["source"] for each in found["sources"]},
    )
    return Savepoint(place.location, content, found["created_ms"], tuple(found["operators"]))


def restorable(
    place: JobCheckpoint, operators: Collection[str], sources: Collection[str], *, allow_non_restored: bool
) -> tuple[Savepoint, list[str]]:
    """The savepoint at ``place``, and what it has of steps and sources that a job with these does not have. Raises
    CheckpointError if there is such a thing and ``allow_non_restored`` does not leave it out, and if there is no
    savepoint."""
    savepoint = read_savepoint(place)
    gone = [f"the step '{uid}'" for uid in savepoint.operators if uid not in operators]
    gone += [f"the source '{uid}'" for uid in savepoint.content.positions if uid not in sources]
    if gone and not allow_non_restored:
        raise CheckpointError(
            f"the savepoint '{savepoint.location}' has the state of {', '.join(gone)}, which the job does not have. "
            "Give its steps and tables their former names, or leave this state out with --allow-non-restored-state"
        )
    return savepoint, gone


def origin_of(
    place: JobCheckpoint,
    checkpoint: JobCheckpoint,
    operators: Collection[str],
    sources: Collection[str],
    *,
    reset: Collection[str] = (),
    allow_non_restored: bool,
    warn: Callable[[str], None],
) -> dict[str, Any]:
    """What a new job with these steps with state, and these sources, takes from the savepoint at ``place``, for the
    document ``job`` of its checkpoint. The state is copied there, without that of steps in ``reset`` that the job does
    not have.

    Raises CheckpointError for state and positions that the job does not have any more, unless
    ``allow_non_restored`` leaves them out with a warning.
    """
    savepoint, gone = restorable(place, (*operators, *reset), sources, allow_non_restored=allow_non_restored)
    content = savepoint.content
    if gone:
        warn(f"the state of {', '.join(gone)} in the savepoint '{savepoint.location}' is left out")
    state = ""
    kept = [uid for uid in savepoint.operators if uid in operators]
    if kept:
        storage = Storage.from_uri(checkpoint.folder(STATE))
        before = Manifest.read(Storage.from_uri(place.folder(STATE)), content.state)
        operators_kept = {uid: before.operators[uid] for uid in kept}
        times = {uid: each for uid, each in before.operator_times.items() if uid in operators_kept}
        # Forget the steps that are left out too: else those above them would not learn that they begin empty.
        left = before.operators.keys() - operators_kept.keys()
        manifest = replace(
            before,
            batch=-1,
            operators=operators_kept,
            output=None,
            sinks=Sinks(),
            operator_times=times,
            identities={uid: each for uid, each in before.identities.items() if uid not in left},
        )
        _copy(manifest.files(), place.folder(STATE), checkpoint.folder(STATE))
        state = manifest.write(storage, f"savepoint-{uuid.uuid4().hex[:12]}.manifest")
    return {
        "savepoint": savepoint.location,
        "job": content.job,
        "query_id": content.query_id,
        "batch": content.batch,
        "state": state,
        "sources": {
            uid: {**content.sources.get(uid, {}), "start": position}
            for uid, position in content.positions.items()
            if uid in sources
        },
    }


def check_origin(
    place: JobCheckpoint, checkpoint: JobCheckpoint, known: Mapping[str, Any], warn: Callable[[str], None]
) -> None:
    """Warns that a job which began with the savepoint at ``place`` continues from its checkpoint. ``known`` is the
    checkpoint's document ``job``. Raises CheckpointError for a job that did not begin with it."""
    if known.get("origin", {}).get("savepoint") != place.location:
        raise CheckpointError(
            f"the checkpoint '{checkpoint.location}' belongs to a job that did not begin with the savepoint "
            f"'{place.location}', and a savepoint starts a new job: name another checkpoint directory, or give the job "
            "another name"
        )
    if checkpoint.last("offsets") >= 0:
        warn(
            f"the job continues from its checkpoint '{checkpoint.location}', and not from the savepoint "
            f"'{place.location}' that it began with"
        )


def write_starts(checkpoint: JobCheckpoint, known: Mapping[str, Any]) -> None:
    """Write the start positions of the sources of a job that began with a savepoint, unless that was done before.
    ``known`` is the checkpoint's document ``job``."""
    starts = known.get("origin", {}).get("sources", {})
    for number, uid in enumerate(known.get("sources", ())):
        if uid in starts:
            checkpoint.create(f"source-{number}", starts[uid])


def _copied(reference: str, source: str, target: str) -> tuple[str, ...]:
    """Copy a manifest and the files that it names. Returns the uids of its operators."""
    if not reference:
        return ()
    storage = Storage.from_uri(source)
    manifest = Manifest.read(storage, reference)
    _copy({*manifest.files(), reference.partition("#")[0]}, source, target)
    return tuple(sorted(manifest.operators))


def _copy(names: Collection[str], source: str, target: str) -> None:
    """Copy files that are not there yet, or only in part: an earlier attempt may have been killed. The newest come
    first: a job that continues deletes those of its last batches soon."""
    here, there = Storage.from_uri(source), Storage.from_uri(target)
    sizes, present = ({each.name: each.bytes for each in storage.files()} for storage in (here, there))
    lacking = (name for name in names if name not in present or present[name] != sizes.get(name))
    with ThreadPoolExecutor(_COPIES) as pool:
        list(pool.map(lambda name: there.take(name, here), sorted(lacking, reverse=True)))
