"""The history of the schemas in a checkpoint or a savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.engine.checkpoint.committed import STATE, read_committed
from penstock.engine.checkpoint.documents import JobCheckpoint
from penstock.engine.checkpoint.savepoints import read_savepoint
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.schema_log import read_history
from penstock.flow.state.storage import Storage
from penstock.schemas import SchemaVersion, Side


@dataclass(frozen=True)
class SchemaHistory:
    """The versions of the schemas of a job's tables after a batch, the oldest first, and the number of records that it
    has left out."""

    job: str
    batch: int
    versions: Sequence[SchemaVersion]
    refused: int = 0

    def present(self) -> list[SchemaVersion]:
        """The present version of each table, those of the source first."""
        last = {(each.side, each.table): each for each in self.versions}
        return sorted(last.values(), key=lambda each: (each.side is Side.SINK, each.table))

    def select_table(self, name: str) -> SchemaHistory:
        """The versions of the tables of that id, on both sides."""
        return replace(self, versions=[each for each in self.versions if each.table == name])


def read_schema_history(place: JobCheckpoint) -> SchemaHistory:
    """The history in the checkpoint or the savepoint at ``place``. Raises CheckpointError if there is neither."""
    found = read_committed(place) if place.read("job") is not None else read_savepoint(place).content
    storage = Storage.from_uri(place.folder(STATE))
    manifest = Manifest.read(storage, found.state)
    return SchemaHistory(found.job, found.batch, read_history(storage, manifest.schemas), manifest.refused)
