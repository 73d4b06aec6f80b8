"""How far a job is, by the files of its checkpoint or savepoint alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.engine.checkpoint.committed import STATE, Committed, read_committed
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.savepoints import read_savepoint
from penstock.errors import CheckpointError
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import read_schemas
from penstock.flow.state.storage import Storage
from penstock.flow.state.table_totals import Total
from penstock.schemas import SchemaVersion


@dataclass(frozen=True)
class TableStatus:
    """A table of a pipeline's source: what was read of it in all batches, and the present version of its schema, None
    where it has none yet."""

    table: str
    total: Total
    version: SchemaVersion | None


@dataclass(frozen=True)
class JobStatus:
    """A job after a ``batch``, which was committed at ``time_ms``, in milliseconds since the epoch (None: not known).
    ``begun`` is a later batch that may be committed or not. ``positions`` are those of the sources, by uid. ``unknown``
    records were left out whose table is not known."""

    job: str
    batch: int
    time_ms: int | None
    begun: int | None
    positions: Mapping[str, dict[str, Any]]
    tables: Sequence[TableStatus]
    unknown: int = 0

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(each.total.rows for each in self.tables)

    @property
    def refused(self) -> int:
        """All records that were left out."""
        return self.unknown + sum(each.total.refused for each in self.tables)

    def sort_tables(self) -> list[TableStatus]:
        """The tables, those with the most records left out first, and then those with the most rows."""
        return sorted(self.tables, key=lambda each: (-each.total.refused, -each.total.rows, each.table))


def read_status(place: JobCheckpoint) -> JobStatus:
    """The job of the checkpoint or the savepoint at ``place``. Raises CheckpointError if there is neither, or a file is
    missing or damaged."""
    if place.read("job") is None:
        savepoint = read_savepoint(place)
        return _describe(place, savepoint.content, savepoint.created_ms)
    while True:
        found = read_committed(place)
        try:
            return _describe(place, found, found.time_ms)
        except CheckpointError:
            if read_committed(place).state == found.state:
                raise  # else the job runs, and has deleted what it no longer needs


def _describe(place: JobCheckpoint, found: Committed, time_ms: int | None) -> JobStatus:
    uri = place.folder(STATE)
    storage = Storage.from_uri(uri)
    manifest = Manifest.read(storage, found.state)
    totals = manifest.totals.read(storage)
    unknown = totals.pop("", Total()).refused
    versions = read_schemas(uri, manifest.schemas).sources
    names = dict.fromkeys((*versions, *totals))
    tables = [TableStatus(name, totals.get(name, Total()), versions.get(name)) for name in names]
    return JobStatus(found.job, found.batch, time_ms, found.begun, found.positions, tables, unknown)
