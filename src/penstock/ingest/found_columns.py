"""The columns of tables of SQL that declare none: what a look at the records of their topics shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.errors import KafkaError, OptionsError, Problem, UnsupportedError
from penstock.ingest.tables.message_columns import SourceRows
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.topic_tables import ValueFormat, find_format, make_source, read_count
from penstock.options import BOOLEAN
from penstock.schemas import FoundColumns
from penstock.settings import Settings
from penstock.spi import ChangeFormat, ScanSpec, TableDefinition
from penstock.types import Field, RowType, TimestampType

#: How many records of each partition are read where the table asks for none.
_RECORDS = 50
_FLATTEN = "infer-schema.flatten-nested-columns.enable"
_NOTHING = RowType((), nullable=False)
#: The most digits after the second that a TIMESTAMP keeps: records to come may have more than those of the sample.
_TIMESTAMP_DIGITS = 6

#: Reads the oldest and the newest records of each partition of a scan, at most so many of each, as rows. Raises
#: KafkaError.
ReadsRecords = Callable[[ScanSpec, int, Settings], Sequence[pa.RecordBatch]]
#: What a job of this name, with these settings of its file, knows of the columns of its tables, by their places.
KnownColumns = Callable[[str, Settings], Mapping[str, FoundColumns]]


def _know_nothing(_job: str, _settings: Settings) -> Mapping[str, FoundColumns]:
    return {}


@dataclass(frozen=True)
class ColumnFinder:
    """Finds the columns of tables over topics that declare none. ``known`` gives those of a job that continues; those
    of a new one are what the records show that ``read`` gives."""

    read: ReadsRecords
    known: KnownColumns = _know_nothing
    _sampled: dict[str, FoundColumns] = field(default_factory=dict)

    def __call__(self, table: TableDefinition, job: str, settings: Settings) -> FoundColumns | None:
        """The columns of a table that the job of this name reads; None for a table whose format shows no columns, or
        reads changes. Raises DefinitionError for topics that cannot be read, or that have no records with columns."""
        found = find_format(table)
        if found is None or isinstance(found.format, ChangeFormat):
            return None
        _refuse_flattening(table, found.format.identifier)
        place = _find_place(table)
        known = self.known(job, settings).get(place)
        if known is not None:
            return known
        if place not in self._sampled:
            self._sampled[place] = self._find(table, found, place, settings)
        return self._sampled[place]

    def _find(self, table: TableDefinition, values: ValueFormat, place: str, settings: Settings) -> FoundColumns:
        """The columns that records show. Raises OptionsError if they cannot be read, or show none."""
        scan, source = make_source(table, values, _NOTHING, table.name)
        text = f"the columns of table '{table.name}' are found in the records of {_name_topics(table)}"
        try:
            batches = self.read(scan.spec, read_count(table) or _RECORDS, settings)
        except KafkaError as error:
            hint = "declare the columns of the table, or start the broker"
            raise OptionsError((Problem(f"{text}, which cannot be read: {error}", hint=hint),)) from error
        declared = {each.name for each in table.columns}
        row, keys = _find_columns(source, batches)
        fields = tuple(_keep_digits(each) for each in row.fields if each.name not in declared)
        if not fields:
            records = sum(each.num_rows for each in batches)
            text += f", none of which ({records} were read) has any" if records else ", which has none yet"
            raise OptionsError((Problem(text, hint="declare the columns of the table, or write a record first"),))
        row = RowType(fields, nullable=False)
        return FoundColumns(place, row, tuple(each for each in keys if row.field(each) is not None))


def _find_place(table: TableDefinition) -> str:
    """The table with its topics: hints may give it others."""
    return f"{table.name} {_name_topics(table)}"


def _name_topics(table: TableDefinition) -> str:
    key = "topic" if "topic" in table.options else "topic-pattern"
    return f"{key} '{table.options.get(key, '')}'"


def _refuse_flattening(table: TableDefinition, identifier: str) -> None:
    """Raises UnsupportedError if nested fields are to be columns of their own."""
    key = f"{identifier}.{_FLATTEN}"
    try:
        flattens = BOOLEAN.parse(table.options.get(key, "false"))
    except ValueError as error:
        raise OptionsError((Problem(str(error), key, table.origin.locate(key)),)) from None
    if flattens:
        reason = "is for copies with AS TABLE, and not for queries yet"
        hint = "leave it out: nested values are their JSON text, which JSON_VALUE reads; or declare the columns"
        raise UnsupportedError((Problem(reason, key, table.origin.locate(key), hint),))


def _find_columns(source: SourceTables, batches: Sequence[pa.RecordBatch]) -> tuple[RowType, tuple[str, ...]]:
    """The columns that rows of the scan show, those of keys first, and the names of those that keys alone have, unless
    they are declared."""
    of_values = replace(source, columns=replace(source.columns, keys=None))
    every = values = _NOTHING
    for batch in batches:
        rows = _drop_tombstones(source, source.columns.open(batch))
        if len(rows):
            every, values = source.survey(rows, every).row, of_values.survey(rows, values).row
    if source.columns.keys is None or source.columns.key_fields:
        return every, ()
    return every, tuple(name for name in every.names if values.field(name) is None)


def _drop_tombstones(source: SourceTables, rows: SourceRows) -> SourceRows:
    return rows.take(np.flatnonzero(source.find_tables(rows).at >= 0))


def _keep_digits(column: Field) -> Field:
    """The column, whose timestamps keep all digits."""
    if isinstance(column.type, TimestampType):
        return replace(column, type=replace(column.type, precision=_TIMESTAMP_DIGITS))
    return column
