"""Safeguards of pipelines taken out of the code, one at a time: what tests that kill them must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from penstock import delivery
from penstock.delivery import Publish
from penstock.engine.checkpoint.committed import read_state
from penstock.engine.runs import table_schemas
from penstock.engine.runs.states import StateHistory
from penstock.engine.runs.table_schemas import TableSchemas
from penstock.errors import PenstockError
from penstock.flow.rows.table_rows import Evolution
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.ingest.tables.reports import SeenTable
from penstock.ingest.tables.task import IngestTask
from penstock.schemas import SchemaVersion
from penstock.spi import Batch, CommitStatus
from tests.unit.ingest.killed_sinks import SystemCommitter

__all__ = ["MUTANTS", "Mutant"]

Patch = tuple[Any, str, Any]


@dataclass(frozen=True)
class Mutant:
    """A safeguard that is missing. ``patches`` gives what stands in its place: object, attribute, value. ``points`` are
    those at which a job is killed that needs it; with none, it is not killed. ``rigid``: it needs a table whose columns
    get no other types."""

    name: str
    safeguard: str
    patches: Callable[[], Sequence[Patch]]
    points: tuple[str, ...] = ()
    rigid: bool = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Takes the safeguard out in the block."""
        with ExitStack() as stack:
            for owner, name, value in self.patches():
                stack.enter_context(mock.patch.object(owner, name, value))
            yield


def _nothing_reported() -> Sequence[Patch]:
    return [(IngestTask, "report_schemas", lambda _: b"")]


def _sink_not_told() -> Sequence[Patch]:
    return [(TableSchemas, "_carry_out", lambda _, evolution: evolution.version)]


def _refusal_ignored() -> Sequence[Patch]:
    carry_out = TableSchemas._carry_out

    def carried_out(self: TableSchemas, evolution: Evolution) -> SchemaVersion:
        try:
            return carry_out(self, replace(evolution, fallback=None))
        except PenstockError:
            return evolution.version

    return [(TableSchemas, "_carry_out", carried_out)]


def _versions_not_in_the_manifest() -> Sequence[Patch]:
    write = Manifest.write

    def written(self: Manifest, storage: Storage, name: str) -> str:
        return write(replace(self, schemas=()), storage, name)

    return [(Manifest, "write", written)]


def _newest_versions() -> Sequence[Patch]:
    begin = TableSchemas.begin

    def begun(self: TableSchemas, files: tuple[str, ...], batch: Batch, now_ms: int) -> tuple[str, ...]:
        found = [each.name for each in Storage.from_uri(self.place).files() if each.name.endswith(".schemas")]
        newer = tuple(sorted(name for name in found if not files or name[:9] > files[-1][:9]))
        return begin(self, (*files, *newer), batch, now_ms)

    return [(TableSchemas, "begin", begun)]


def _definition_not_compared() -> Sequence[Patch]:
    def begin(self: TableSchemas, files: tuple[str, ...], *_: Any) -> tuple[str, ...]:
        self.show(files)
        return files

    return [(TableSchemas, "begin", begin)]


def _every_retry_a_version() -> Sequence[Patch]:
    return [(table_schemas, "_is_known", lambda *_: False)]


def _reports_in_the_order_of_tasks() -> Sequence[Patch]:
    def rank_columns(self: SeenTable) -> dict[str, Any]:
        return {each.name: ((0, 0), number) for number, each in enumerate(self.row.fields)}

    return [
        (SeenTable, "position", property(lambda _: (0, 0))),
        (SeenTable, "rank_columns", rank_columns),
        (SeenTable, "sort_columns", lambda self, known, row: row),
    ]


def _progress_ignored() -> Sequence[Patch]:
    return [(delivery, "decide", lambda *_, **__: Publish())]


def _state_apart_from_progress() -> Sequence[Patch]:
    """The state before a batch is what the checkpoint names, which is written after the commit."""
    status = SystemCommitter.commit_status

    def commit_status(self: SystemCommitter, batch: Batch) -> CommitStatus:
        named = (read_state(self.context.checkpoint) or {}).get("state", "")
        return replace(status(self, batch), state=named)

    return [(SystemCommitter, "commit_status", commit_status)]


def _files_deleted_before_the_commit() -> Sequence[Patch]:
    """What a manifest does not need any more is deleted when it is written."""
    write = StateHistory.write

    def written(self: StateHistory, manifest: Manifest, name: str) -> str:
        before = self.last.files()
        reference = write(self, manifest, name)
        for each in before - manifest.files():
            self.storage.delete(each)
        return reference

    return [(StateHistory, "write", written)]


_AFTER_COMMIT = ("after the commit",)
_BEFORE_COMMIT = ("the manifest is written", "before publishing", "before the commit")
_ALL = (
    Mutant("nothing-reported", "tasks report schemas that are not enough", _nothing_reported),
    Mutant("sink-not-told", "the sink follows before rows are written", _sink_not_told),
    Mutant("refusal-ignored", "a table that cannot be altered keeps its version", _refusal_ignored, rigid=True),
    Mutant(
        "versions-not-in-the-manifest",
        "the manifest names the versions",
        _versions_not_in_the_manifest,
        ("Spark has logged the batch",),
    ),
    Mutant(
        "newest-versions",
        "a batch begins with the versions that are committed, not with those of an attempt",
        _newest_versions,
        ("the state has the versions, by messages", "before the commit"),
    ),
    Mutant("definition-not-compared", "a start compares the definition with the tables", _definition_not_compared),
    Mutant(
        "every-retry-a-version",
        "a change that is refused again is no version",
        _every_retry_a_version,
        ("Spark has logged the batch",),
        rigid=True,
    ),
    Mutant(
        "reports-in-the-order-of-tasks",
        "reports are merged by the places of records",
        _reports_in_the_order_of_tasks,
        ("tasks have reported schemas",),
    ),
    Mutant("progress-ignored", "progress decides", _progress_ignored, _AFTER_COMMIT),
    Mutant("state-apart-from-progress", "the state commits with the output", _state_apart_from_progress, _AFTER_COMMIT),
    Mutant(
        "files-deleted-before-the-commit",
        "files stay until no committed state needs them",
        _files_deleted_before_the_commit,
        _BEFORE_COMMIT,
    ),
)

#: By name.
MUTANTS = {each.name: each for each in _ALL}
