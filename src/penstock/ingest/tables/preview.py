"""What a pipeline would make of some records: the tables that they show, and the changes that would follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.ingest.tables.refused import ErrorPolicy, RefusedRecord, TaskCounts
from penstock.ingest.tables.task import IngestTask
from penstock.ingest.tables.work import IngestWork
from penstock.schemas import Schemas, SchemaVersion, TableSchema

_LENIENT = ErrorPolicy(ignores=True)


@dataclass(frozen=True)
class TablePreview:
    """A table of the source that records show: its columns, the rows that were read of it, the records that cannot be
    read, and the tables of the sink that it goes to."""

    table: str
    schema: TableSchema
    rows: int
    refused: int
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Preview:
    """What follows from the definition of a pipeline alone, in the schemas that there are (``by_definition``), and then
    from records (``by_records``). ``refused`` are records that cannot be read. ``lost`` says which columns do not reach
    the sink, and ``unused`` what of the definition has no effect on the tables."""

    tables: Sequence[TablePreview]
    by_definition: Sequence[SchemaVersion]
    by_records: Sequence[SchemaVersion]
    refused: Sequence[RefusedRecord]
    lost: Sequence[str]
    unused: Sequence[str]


def preview(work: IngestWork, batches: Sequence[pa.RecordBatch], schemas: Schemas, session: Session) -> Preview:
    """What the pipeline makes of ``batches`` of its scan, where its state has these ``schemas``. Raises SchemaError for
    a change that it does not allow, and PipelineError or UnsupportedError for a rule that does not fit a table."""
    by_definition: list[SchemaVersion] = []
    reports = []
    if schemas.sources:
        by_definition = [each.version for each in work.evolve(schemas, ())]
        schemas = schemas.add_versions(by_definition)
        if report := _run(work, batches, schemas, session).report_schemas():
            reports.append(report)
    else:
        reports += work.survey(batches, session)
    by_records = [each.version for each in work.evolve(schemas, reports)] if reports else []
    schemas = schemas.add_versions(by_records)
    counts = TaskCounts.merge_reports([each for each in [_run(work, batches, schemas, session).report_rows()] if each])
    shown = sorted({*counts.rows, *filter(None, counts.refused)})
    tables = [
        TablePreview(
            name,
            schemas.sources[name].schema,
            counts.rows.get(name, 0),
            counts.refused.get(name, 0),
            work.programs.find_targets(name),
        )
        for name in shown
    ]
    lost = [*_find_lost(work, schemas)]
    return Preview(tables, by_definition, by_records, counts.records, lost, work.explain_unused(schemas.sources))


def _run(work: IngestWork, batches: Sequence[pa.RecordBatch], schemas: Schemas, session: Session) -> IngestTask:
    """The task that has read all batches."""
    task = replace(work, errors=_LENIENT, source=replace(work.source, letters=None)).open(schemas, session)
    for batch in batches:
        for _ in task.process(batch):
            pass
    return task


def _find_lost(work: IngestWork, schemas: Schemas) -> Iterator[str]:
    """The columns that rows have and their tables of the sink do not."""
    for table, version in schemas.sources.items():
        columns = work.programs.bind(table, version.schema).schema.row.names
        for target in work.programs.find_targets(table):
            known = schemas.sinks.get(target)
            lacking = [name for name in columns if known is not None and known.schema.row.field(name) is None]
            if lacking:
                yield f"'{target}' lacks columns that rows of '{table}' have: {', '.join(lacking)}"
