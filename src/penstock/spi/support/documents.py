"""The checkpoint's documents of a job's sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.errors import CheckpointError
from penstock.schemas import FoundColumns
from penstock.spi.plugin.context import Checkpoint, JobContext


def source_document(
    context: JobContext,
    ordinal: int,
    table: str,
    asked: Mapping[str, Any],
    first: Callable[[], Mapping[str, Any]],
    *,
    former: str = "",
) -> dict[str, Any]:
    """The document of the source with this number: what ``first`` returned when the job first started, and the data
    that the positions in the checkpoint refer to, which must be the data ``asked`` for now. ``first`` gives JSON
    values. A document of a former version, which has the entry ``former`` but not the data, gets the data asked for.

    Raises CheckpointError if the document is of other data, or is not there although a batch was planned.
    """
    name, checkpoint = f"source-{ordinal}", context.checkpoint
    known = checkpoint.read(name)
    if known is None:
        if context.planned:
            raise CheckpointError(
                f"the checkpoint '{checkpoint.location}' has batches but no 'penstock/{name}.json'; it was damaged, or "
                "written by another program: restore it, or start with another directory"
            )
        known = checkpoint.create(name, {"source": dict(asked), **first()})  # two copies that start at once get one
    elif former in known and "source" not in known:
        known = {"source": dict(asked), **known}
        checkpoint.write(name, known)
    _check_same(known.get("source", {}), asked, checkpoint.location, table)
    return known


def check_source(
    checkpoint: Checkpoint, ordinal: int, table: str, asked: Mapping[str, Any], *, former: str = ""
) -> dict[str, Any] | None:
    """The document of the source with this number; None before the job's first start. Writes nothing. Raises
    CheckpointError if it is of other data than those ``asked`` for (:func:`source_document`)."""
    known = checkpoint.read(f"source-{ordinal}")
    if known is not None and not (former in known and "source" not in known):
        _check_same(known.get("source", {}), asked, checkpoint.location, table)
    return known


def keep_columns(checkpoint: Checkpoint, ordinal: int, table: str, found: FoundColumns) -> None:
    """Keep the columns that the records of a source showed in its document: a restart finds them there, and a savepoint
    has them too. Raises CheckpointError if it has others."""
    name = f"source-{ordinal}"
    known, asked = checkpoint.read(name) or {}, found.to_json()
    if "columns" not in known:
        checkpoint.write(name, {**known, "columns": asked})
    elif known["columns"] != asked:
        before = FoundColumns.from_json(known["columns"])
        raise CheckpointError(
            f"the checkpoint '{checkpoint.location}' has other columns of table '{table}': "
            f"{', '.join(map(str, before.row.fields))}, and not {', '.join(map(str, found.row.fields))}; declare the "
            "former ones, or choose another checkpoint directory or another job name"
        )


def _check_same(found: Mapping[str, Any], asked: Mapping[str, Any], location: str, table: str) -> None:
    if found == asked:
        return
    differing = sorted(key for key in asked if found.get(key) != asked[key])
    changes = "; ".join(f"{key} was {found.get(key)!r}, and is {asked[key]!r}" for key in differing)
    raise CheckpointError(
        f"the checkpoint '{location}' belongs to another source than table '{table}': {changes}; choose another "
        "checkpoint directory or another job name"
    )
