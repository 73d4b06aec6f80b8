"""The owner of a checkpoint: the query that a job continues, and its sources.

Spark's offset log holds one position per source, in the order in which the query names them. The checkpoint keeps the
uids in this order, so that the tables of a job may change places.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from penstock.delivery import FINISH_BATCH
from penstock.engine.checkpoint import JobCheckpoint
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.plan.nodes import Job, Scan, Sink, scans


def identify(
    job: Job,
    checkpoint: JobCheckpoint,
    former_id: str,
    warn: Callable[[str], None],
    origin: Callable[[str], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The document ``job`` of the checkpoint: id and secret of the query, name and sinks of its job. A new checkpoint
    gets one, with what ``origin`` takes from the savepoint at ``job.settings.savepoint``.

    A restart has the ``former_id`` of the query that ran before, and continues no other one: with an empty folder in
    the checkpoint's place it would publish everything again. Raises CheckpointError.
    """
    location = checkpoint.location
    known = checkpoint.read("job")
    sinks = sorted(map(shown_sink, job.sinks))
    if known is None:
        if former_id:
            raise CheckpointUnavailableError(
                f"the checkpoint '{location}', which the job was started with, no longer holds 'penstock/job.json': is "
                "its volume still mounted?"
            )
        check_owner(job, checkpoint)
        identity = {"query_id": str(uuid.uuid4()), "secret": secrets.token_hex(32)}
        named: dict[str, Any] = {"sinks": sinks, "sources": list(uids_of(scans(*job.sinks)))}
        if job.settings.savepoint is not None and origin is not None:
            named["origin"] = origin(job.settings.savepoint)
        return checkpoint.create("job", {**identity, "job": job.name, **named})
    if former_id not in {"", known["query_id"]}:
        raise CheckpointError(
            f"the checkpoint '{location}' is no longer the one that the job was started with: it belongs to another "
            "query. Restore the former one, and start the job again"
        )
    check_owner(job, checkpoint)
    # Progress of 0.1.0 neither has a seal nor tells which sinks have the batch.
    earlier = "secret" not in known or known.get("unsealed", False)
    if earlier and known.get("sinks", sinks) != sinks and checkpoint.offsets(checkpoint.first_batch()) is not None:
        raise CheckpointError(
            f"the checkpoint '{location}' is of an earlier version, its batch {checkpoint.first_batch()} is not "
            f"finished, and its job wrote to {', '.join(known['sinks'])}, not {', '.join(sinks)}. "
            f"{FINISH_BATCH}"
        )
    if "secret" not in known:  # copies that start at once get one secret
        known |= checkpoint.create("seal", {"secret": secrets.token_hex(32), "unsealed": True})
    if known.get("sinks") != sinks:
        warn(
            f"the checkpoint '{location}' was written by a job with the sinks {', '.join(known.get('sinks', []))}, not "
            f"{', '.join(sinks)}; rows that were read before are not read again"
        )
        known["sinks"] = sinks
        checkpoint.write("job", known)
    return known


def check_owner(job: Job, checkpoint: JobCheckpoint) -> None:
    """Raises CheckpointError for the checkpoint of another job, and for one that does not name its job."""
    location, known = checkpoint.location, checkpoint.read("job")
    if known is None:
        if checkpoint.offsets(0) is not None or checkpoint.first_batch() > 0:
            raise CheckpointError(
                f"the checkpoint '{location}' has batches but no 'penstock/job.json'; it was damaged, or written by "
                "another program: restore it, or start with another directory"
            )
    elif known.get("job", job.name) != job.name:
        raise CheckpointError(
            f"the checkpoint '{location}' belongs to job '{known['job']}', or is a copy of its checkpoint, and job "
            f"'{job.name}' would fence that job. Start with an empty directory; if the job was renamed, change "
            "'job' in the directory's 'penstock/job.json'"
        )


def shown_sink(sink: Sink) -> str:
    """A sink with its connector, its table and where it writes: names that the job makes up are numbered, and change
    when a sink is added or removed."""
    return " ".join((sink.connector, repr(sink.table), *sink.spec.capabilities.destinations))


def ordered_scans(
    job: Job, checkpoint: JobCheckpoint, known: dict[str, Any], warn: Callable[[str], None]
) -> tuple[Scan, ...]:
    """The job's scans in the order of the checkpoint's sources. A checkpoint that was written before sources had uids
    has them in the order of the plan. ``known`` is the checkpoint's document ``job``."""
    given = scans(*job.sinks)
    found = in_order_of(
        known.get("sources") or list(uids_of(given)), given, where=f"'{checkpoint.location}'", warn=warn
    )
    if known.get("sources") != list(found):
        checkpoint.write("job", {**known, "sources": list(found)})
    return tuple(found.values())


def uids_of(scans: Sequence[Scan]) -> dict[str, Scan]:
    """The scans by uid, by default the table's name; ``name-2`` for a second scan of a table."""
    found: dict[str, Scan] = {}
    for scan in scans:
        uid, number = scan.uid or scan.table, 1
        while uid in found:
            number += 1
            uid = f"{scan.uid or scan.table}-{number}"
        found[uid] = scan
    return found


def in_order_of(
    known: Sequence[str], scans: Sequence[Scan], *, where: str, warn: Callable[[str], None]
) -> dict[str, Scan]:
    """The scans by uid, in the order of the uids that the checkpoint knows. Scans with new uids take the places of
    removed ones, with a warning: the source checks whether it is the same.

    Raises CheckpointError if there are more scans than before, or fewer.
    """
    given = uids_of(scans)
    if len(known) != len(given):
        raise CheckpointError(
            f"the checkpoint {where} was written by a job with {len(known)} source(s), {_named(known)}, and this one "
            f"has {len(given)}, {_named(list(given))}. Run the job with the sources of the checkpoint, or start with "
            "another checkpoint directory"
        )
    new = [uid for uid in given if uid not in known]
    found: dict[str, Scan] = {}
    for uid in known:
        taken = uid if uid in given else new.pop(0)
        if taken != uid:
            warn(f"source '{taken}' continues at the position of '{uid}' in the checkpoint {where}")
        found[taken] = given[taken]
    return found


def _named(uids: Sequence[str]) -> str:
    return ", ".join(map(repr, uids)) or "none"
