"""The schemas of tables that a job finds: newer versions of them, which the sink follows before rows are written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from penstock.errors import PenstockError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.table_rows import Evolution, TableCounts, TablesWork
from penstock.flow.state.schema_log import append_versions, read_schemas
from penstock.flow.state.storage import Storage
from penstock.schemas import Schemas, SchemaVersion, Side
from penstock.spi import Batch, Committer, Output, Source


@dataclass(eq=False)
class TableSchemas:
    """Makes newer versions of the schemas of one job, and has the ``committer`` of its sink follow, which has ``fixed``
    other outputs. ``place`` is that of the state. Tells the committer how each table is written
    (:class:`penstock.spi.FoundOutputs`)."""

    work: TablesWork
    committer: Committer
    fixed: int
    place: str
    sources: Sequence[Source]
    session: Session
    warn: Callable[[str], None]
    #: Whether this run has compared the definition of the job with the schemas.
    _compared: bool = False
    #: Whether this run has told what of the definition has no effect on the tables that there are.
    _explained: bool = False
    #: The files of the schemas of the batch under way.
    _files: tuple[str, ...] = ()
    #: The numbers of the versions of tables that :meth:`take_versions` has given, and the files that they are in.
    _told: dict[str, int] = field(default_factory=dict)
    _told_files: tuple[str, ...] = ()
    #: The versions of the tables of the sink by their numbers, and the files that they are in.
    _versions: dict[int, SchemaVersion] = field(default_factory=dict)
    _versions_files: tuple[str, ...] = ()

    def show(self, files: tuple[str, ...]) -> None:
        """Tell the committer of the tables with these schemas from now on."""
        self._files = files

    def find_output(self, number: int) -> Output:
        """How the rows with a number are written. Raises KeyError for a number that no table has."""
        if self._versions_files != self._files:
            sinks = read_schemas(self.place, self._files).sinks
            self._versions, self._versions_files = {each.output: each for each in sinks.values()}, self._files
        return self.work.output(self._versions[number - self.fixed])

    def list_tables(self) -> Collection[str]:
        """The ids of the tables of the sink."""
        return read_schemas(self.place, self._files).sinks.keys()

    def begin(self, files: tuple[str, ...], batch: Batch, now_ms: int) -> tuple[str, ...]:
        """The files of the schemas with which a batch begins: the first one of a run follows the definition of the job,
        which may be another than that of the run before."""
        self.show(files)
        if self._compared:
            return files
        found = self.evolve(files, self._look_ahead() if not files else (), batch, now_ms)
        self._compared = True
        return found

    def _look_ahead(self) -> Sequence[bytes]:
        """What the newest records of the sources show, before the first batch of a job."""
        count = self.work.looks_ahead
        batches = (batch for source in self.sources for batch in source.read_latest(count)) if count else ()
        return self.work.survey(batches, self.session)

    def evolve(self, files: tuple[str, ...], reports: Sequence[bytes], batch: Batch, now_ms: int) -> tuple[str, ...]:
        """The files of the schemas after what tasks report of a batch at ``now_ms``. Raises SchemaError for a change
        that the job does not allow, and the error of a sink that cannot follow."""
        schemas = read_schemas(self.place, files)
        found = self.work.evolve(schemas, reports)
        self._prepare([each.version for each in found if each.version.side is Side.SINK])
        carried_out = [(each, self._carry_out(each)) for each in found]
        versions = [
            replace(version, batch=batch.id, time_ms=now_ms, place=self._find_place(each, batch))
            for each, version in carried_out
            if reports or not _is_known(version, schemas)
        ]
        if not versions:
            return files
        newer = append_versions(Storage.from_uri(self.place), files, versions, batch.id)
        self.show(newer)
        return newer

    def _prepare(self, versions: Sequence[SchemaVersion]) -> None:
        """Let the sink do at once what several versions need. An error is that of a table, which will raise it."""
        if len(versions) > 1:
            with suppress(PenstockError):
                self.committer.prepare_changes([self.work.output(each) for each in versions])

    def _carry_out(self, evolution: Evolution) -> SchemaVersion:
        """The version, which the sink follows, or the one instead of it."""
        version = evolution.version
        if version.side is Side.SOURCE:
            return version
        try:
            self.committer.apply_changes(evolution.changes, self.work.output(version))
        except PenstockError as error:
            if evolution.fallback is None or error.retriable:
                raise
            self.warn(f"table '{version.table}' stays as it is: {error}")
            return replace(evolution.fallback, outcome=str(error))
        return version

    def count(self, reports: Sequence[bytes], refused: int, batch: Batch) -> TableCounts:
        """What tasks have read of a batch, where ``refused`` records were left out before it. Raises ExecutionError if
        too many are left out."""

        self._explain_unused()

        def find_place(number: int, offset: int) -> str:
            return self._describe_place(number, offset, batch)

        return self.work.count(reports, refused, batch.id, find_place)

    def _explain_unused(self) -> None:
        """Warn, once in a run, of what has no effect on the tables after the first batch that shows some."""
        tables = () if self._explained else read_schemas(self.place, self._files).sources
        if tables:
            self._explained = True
            for each in self.work.explain_unused(tables):
                self.warn(each)

    def take_versions(self) -> list[SchemaVersion]:
        """The present versions of tables of the source that are other ones than at the last call."""
        if self._files == self._told_files:
            return []
        present = read_schemas(self.place, self._files).sources
        found = [each for table, each in present.items() if self._told.get(table) != each.number]
        self._told, self._told_files = {table: each.number for table, each in present.items()}, self._files
        return found

    def _find_place(self, evolution: Evolution, batch: Batch) -> str:
        """The place of the first record that shows a version."""
        return "" if evolution.first is None else self._describe_place(*evolution.first, batch)

    def _describe_place(self, number: int, offset: int, batch: Batch) -> str:
        """The place of a record, for people."""
        for source, end in zip(self.sources, batch.end, strict=True):
            if found := source.partition(number, end):
                return f"topic '{found[0]}', partition {found[1]}, offset {offset}"
        return f"partition {number}, offset {offset}"


def _is_known(version: SchemaVersion, schemas: Schemas) -> bool:
    """Whether a change that was tried again came to the same end, so that the history tells it already."""
    known = schemas.find_version(version.side, version.table)
    return known is not None and (known.schema, known.outcome) == (version.schema, version.outcome)
