"""The work of a pipeline, as tasks and the driver do it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.flow.rows.table_rows import Evolution, FindPlace, TableCounts
from penstock.ingest.tables.bound_tables import TableBinder
from penstock.ingest.tables.evolution import Evolver
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import ErrorPolicy, TaskCounts
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.tables.task import IngestTask
from penstock.schemas import Schemas, SchemaVersion
from penstock.spi import Output

_T = TypeVar("_T")
_LENIENT = ErrorPolicy(ignores=True)


class WritesVersions(Protocol):
    """The tables of a sink."""

    def output(self, version: SchemaVersion) -> Output:
        """How a version of a table is written. Raises a DefinitionError."""


@dataclass(frozen=True)
class IngestWork:
    """Reads the tables of a source, and writes them to those of a sink."""

    source: SourceTables
    programs: Programs
    evolver: Evolver
    sink: WritesVersions
    errors: ErrorPolicy
    #: By which processes know the work again that get it with each batch.
    id: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False, repr=False)

    @property
    def calls(self) -> bool:
        """Whether the pipeline has functions of the user."""
        return self.programs.has_functions

    def open(self, schemas: Schemas, session: Session) -> IngestTask:
        """The work of a task."""
        binder = _keep(_BINDERS, self.id, lambda: TableBinder(self.source, self.programs, session))
        return IngestTask(self.source, binder, self.errors, schemas)

    @property
    def looks_ahead(self) -> int:
        """How many of the newest records of each partition are surveyed before the first batch of a job."""
        return self.source.looks_ahead

    def survey(self, batches: Iterable[pa.RecordBatch], session: Session) -> list[bytes]:
        """What rows of the scan show of tables. Records that cannot be read show nothing."""
        source = replace(self.source, static=False, letters=None)
        task = IngestTask(source, TableBinder(source, self.programs, session), _LENIENT, Schemas())
        for batch in batches:
            for _ in task.process(batch):
                pass  # without schemas, there are no rows
        report = task.report_schemas()
        return [report] if report else []

    def evolve(self, schemas: Schemas, reports: Sequence[bytes]) -> list[Evolution]:
        """The versions of schemas that follow from the reports of all tasks."""
        return self.evolver.evolve(schemas, reports)

    def count(self, reports: Sequence[bytes], refused: int, batch: int, find_place: FindPlace) -> TableCounts:
        """What tasks have read of a batch, and left out. Raises ExecutionError if that is too much."""
        found = TaskCounts.merge_reports(reports)
        return TableCounts(found.rows, self.errors.collect(found, refused, batch, find_place), found.refused)

    def explain_unused(self, tables: Collection[str]) -> list[str]:
        """The rules that match none of the tables of the source, unless that was known from the start."""
        return [] if self.source.names else self.programs.explain_unused(tables)

    def output(self, version: SchemaVersion) -> Output:
        """How a version of a table of the sink is written."""
        outputs = _keep(_OUTPUTS, self.id, dict[str, tuple[SchemaVersion, Output]])
        kept = outputs.get(version.table)
        if kept is None or kept[0] is not version:
            kept = outputs[version.table] = version, self.sink.output(version)
        return kept[1]


#: What a process keeps between batches, by the ids of works.
_BINDERS: dict[str, TableBinder] = {}
_OUTPUTS: dict[str, dict[str, tuple[SchemaVersion, Output]]] = {}
#: The most works for which it does.
_MOST_WORKS = 4


def _keep(kept: dict[str, _T], key: str, make: Callable[[], _T]) -> _T:
    """What is kept under a key. What was kept first makes room for something new."""
    if key not in kept:
        for oldest in [*kept][: len(kept) + 1 - _MOST_WORKS]:
            kept.pop(oldest, None)
        kept[key] = make()
    return kept[key]
