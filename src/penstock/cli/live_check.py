"""``penstock check --live``: what a pipeline would find in its topics, and what it would do to its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.cli.display import count
from penstock.errors import DefinitionError, Problem
from penstock.plan.nodes import Job, scans
from penstock.schemas import SchemaVersion

if TYPE_CHECKING:
    from penstock.connectors.kafka.source.samples import Sample
    from penstock.engine.checkpoint.state_report import KnownSchemas
    from penstock.ingest.tables.preview import Preview, TablePreview

#: How many records of each partition are read where the pipeline looks at none before its first batch.
_RECORDS = 50
#: The most tables, changes and records that are shown.
_SHOWN_TABLES, _SHOWN_CHANGES, _SHOWN_RECORDS = 50, 100, 5


def check_live(job: Job) -> Iterator[str]:
    """What a planned job that finds its tables would do with the records that its topics have now: lines for people.
    Writes nothing. Raises a PenstockError for topics that cannot be read, and for what the job would end with."""
    from penstock.connectors.kafka.source.samples import read_sample
    from penstock.connectors.kafka.source.spec import KafkaScanSpec
    from penstock.connectors.kafka.table.client_properties import with_login
    from penstock.engine.checkpoint.state_report import find_schemas
    from penstock.flow.kernels.session import Session
    from penstock.ingest.tables.preview import preview
    from penstock.ingest.tables.work import IngestWork
    from penstock.schemas import Schemas

    work = next((sink.input.tables_work for sink in job.sinks if isinstance(sink.input.tables_work, IngestWork)), None)
    spec = scans(*job.sinks)[0].spec if work is not None else None
    if work is None or not isinstance(spec, KafkaScanSpec):
        hint = "leave --live out: the columns of these tables are declared"
        raise DefinitionError((Problem("is for pipelines that find their tables", where="--live", hint=hint),))
    known = find_schemas(job)
    number = work.looks_ahead or _RECORDS
    sample = read_sample(replace(spec, client=with_login(spec.client, job.settings.kerberos)), number)
    schemas = known.schemas if known is not None else Schemas()
    found = preview(work, sample.batches, schemas, Session(job.settings.session_time_zone or "UTC"))
    yield from _describe_sample(sample, number)
    yield from _describe_tables(found.tables)
    yield from _describe_refused(found, sample)
    yield from _describe_changes(found, known)
    yield from (f"warning: {each}" for each in (*found.lost, *found.unused))


def _describe_sample(sample: Sample, number: int) -> Iterator[str]:
    topics = sorted({topic for topic, _ in sample.partitions})
    named = ", ".join(map(repr, topics[:_RECORDS])) or "none"
    yield (
        f"live: {count(sample.records, 'record')} of {count(len(topics), 'topic')} ({named}): at most the oldest and "
        f"the newest {number} of {count(len(sample.partitions), 'partition')} each"
    )


def _describe_tables(tables: Sequence[TablePreview]) -> Iterator[str]:
    for each in tables[:_SHOWN_TABLES]:
        refused = f", {count(each.refused, 'record')} that cannot be read" if each.refused else ""
        targets = ", ".join(map(repr, each.targets))
        yield f"  table '{each.table}', to {targets}: {count(each.rows, 'row')}{refused}"
        key = f" PRIMARY KEY ({', '.join(each.schema.primary_key)})" if each.schema.primary_key else ""
        yield f"    {', '.join(map(str, each.schema.row.fields))}{key}"
    if len(tables) > _SHOWN_TABLES:
        yield f"  and {count(len(tables) - _SHOWN_TABLES, 'more table')}"
    if not tables:
        yield "  no tables"


def _describe_refused(found: Preview, sample: Sample) -> Iterator[str]:
    if found.refused:
        yield f"  {count(len(found.refused), 'record')} cannot be read:"
    for each in found.refused[:_SHOWN_RECORDS]:
        table = f"table '{each.table}', " if each.table else ""
        field = f"field '{each.field}': " if each.field else ""
        yield f"    {table}{sample.find_place(each.partition, each.offset)}: {field}{each.reason}"
    if len(found.refused) > _SHOWN_RECORDS:
        yield f"    and {count(len(found.refused) - _SHOWN_RECORDS, 'other')}"


def _describe_changes(found: Preview, known: KnownSchemas | None) -> Iterator[str]:
    """The changes of tables that would follow."""
    if known is not None and known.schemas.sources:
        yield f"changes of tables by the definition alone, since {known.where}, after batch {known.batch}:"
        yield from _list_versions(found.by_definition)
        yield "changes by these records:"
    else:
        yield "changes of tables:"
    yield from _list_versions(found.by_records)


def _list_versions(versions: Sequence[SchemaVersion]) -> Iterator[str]:
    for each in versions[:_SHOWN_CHANGES]:
        yield f"  {each.side.value} table '{each.table}', version {each.number}: {'; '.join(each.changes)}"
    if len(versions) > _SHOWN_CHANGES:
        yield f"  and {count(len(versions) - _SHOWN_CHANGES, 'more version')}"
    if not versions:
        yield "  none"
