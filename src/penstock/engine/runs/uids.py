"""Which of a checkpoint's sources is which scan of the job: by uid, and not by position.

Spark's offset log holds one position per source, in the order in which the query names them. The checkpoint keeps the
uids in this order, so that the tables of a job may change places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import CheckpointError
from penstock.plan import Scan


def uids_of(scans: Sequence[Scan]) -> dict[str, Scan]:
    """The scans by uid, which is the table's name where the user gave none; ``name-2`` for a second scan of a table."""
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
    those that are gone, with a warning: it is for the source to find out whether it is the same.

    Raises CheckpointError when there are more scans than before, or fewer.
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
            warn(f"source '{taken}' goes on where '{uid}' was in the checkpoint {where}")
        found[taken] = given[taken]
    return found


def _named(uids: Sequence[str]) -> str:
    return ", ".join(map(repr, uids)) or "none"
