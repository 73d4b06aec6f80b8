"""Whose checkpoint it is: the query that a job continues, and the job that may continue it."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from typing import Any

from penstock.engine.checkpoint import JobCheckpoint
from penstock.engine.runs.uids import in_order_of, uids_of
from penstock.errors import CheckpointError, CheckpointUnavailableError
from penstock.plan import Job, Scan, scans


def identify(job: Job, checkpoint: JobCheckpoint, former_id: str, warn: Callable[[str], None]) -> dict[str, Any]:
    """The document ``job`` of the checkpoint: id and secret of the query, name and sinks of its job. Creates it in a
    new checkpoint.

    A restart has the ``former_id`` of the query that ran before, and continues no other one: in an empty folder that
    took the checkpoint's place it would publish everything again. Raises CheckpointError.
    """
    location = checkpoint.location
    known = checkpoint.read("job")
    sinks = _sinks(job)
    if known is None:
        if former_id:
            raise CheckpointUnavailableError(
                f"the checkpoint '{location}', which the job was started with, no longer holds 'penstock/job.json': is "
                "its volume still mounted?"
            )
        if checkpoint.offsets(0) is not None or checkpoint.first_batch() > 0:
            raise CheckpointError(
                f"the checkpoint '{location}' has batches but no 'penstock/job.json'; it was damaged, or written by "
                "another program: restore it, or start with another directory"
            )
        identity = {"query_id": str(uuid.uuid4()), "secret": secrets.token_hex(32)}
        named = {"sinks": sinks, "sources": list(uids_of(scans(*job.sinks)))}
        return checkpoint.create("job", {**identity, "job": job.name, **named})
    if former_id not in {"", known["query_id"]}:
        raise CheckpointError(
            f"the checkpoint '{location}' is no longer the one that the job was started with: it belongs to another "
            "query. Put the former one back, and start the job again"
        )
    if known.get("job", job.name) != job.name:
        raise CheckpointError(
            f"the checkpoint '{location}' belongs to job '{known['job']}', or is a copy of its checkpoint, and job "
            f"'{job.name}' would shut that job out. Start with an empty directory; if the job was renamed, change "
            "'job' in the directory's 'penstock/job.json'"
        )
    if "secret" not in known:  # a version that did not seal progress may have published up to the next batch
        known |= {"secret": secrets.token_hex(32), "unsealed_to": checkpoint.first_batch()}
        checkpoint.write("job", known)
    if known.get("sinks") != sinks:
        warn(
            f"the checkpoint '{location}' was written by a job with the sinks {', '.join(known.get('sinks', []))}, not "
            f"{', '.join(sinks)}; rows that were read before are not read again"
        )
        known["sinks"] = sinks
        checkpoint.write("job", known)
    return known


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


def _sinks(job: Job) -> list[str]:
    """The job's sinks, as a checkpoint remembers them."""
    return sorted(
        " ".join((sink.connector, repr(sink.table), *sink.spec.capabilities.destinations)) for sink in job.sinks
    )
