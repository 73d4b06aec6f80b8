"""The work of a task: messages to rows of the sink's tables, under the present schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.errors import RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.table_rows import TableRows
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.reports import SeenTable, encode_report
from penstock.ingest.tables.row_fitting import RowFitter
from penstock.ingest.tables.source_tables import VALUE, SourceTables
from penstock.schemas import Schemas, SchemaVersion
from penstock.spi import HIDDEN, KIND, BadRecord, Decoded, Decoder, origin_of
from penstock.types import RowType, arrow_schema


@dataclass
class _Target:
    """A table of the sink, and what its rows go through last."""

    version: SchemaVersion
    fitter: RowFitter


class _OpenTable:
    """A table of the source in one task."""

    def __init__(self, name: str, version: SchemaVersion | None, source: SourceTables):
        self.name, self.version = name, version
        row = source.initial_schema(name).row if version is None else source.read_columns(version.schema.row)
        self.seen = SeenTable(name, row)
        #: Of a table whose schema is known.
        self.decoder: Decoder | None = None
        self.targets: list[_Target] = []

    @property
    def columns(self) -> RowType:
        """The columns of its messages that are known so far."""
        return self.seen.row


class IngestTask:
    """Works on the messages of one batch that a task reads. Once a schema is not enough, it gives no more rows, and
    looks for whatever else is not."""

    def __init__(self, source: SourceTables, programs: Programs, schemas: Schemas, session: Session):
        self._source, self._programs, self._schemas, self._session = source, programs, schemas, session
        self._tables: dict[str, _OpenTable] = {}
        self._insufficient: dict[str, _OpenTable] = {}
        self.refused = 0

    def process(self, rows: pa.RecordBatch) -> Iterator[TableRows]:
        """The rows that messages become. Raises RecordError for one that cannot be read, unless those are left out."""
        found = self._source.find_tables(rows)
        self._refuse(found.bad, rows)
        order = np.argsort(found.at, kind="stable")
        codes = found.at[order]
        bounds = np.flatnonzero(np.diff(codes, prepend=-2, append=len(found.names)))
        for begin, end in pairwise(bounds.tolist()):
            code = int(codes[begin])
            if code >= 0:
                whole = end - begin == rows.num_rows
                part = rows if whole else rows.take(pa.array(order[begin:end]))
                yield from self._process_table(self._open(found.names[code]), part)

    def report_schemas(self) -> bytes:
        """What was seen of tables whose schemas are not enough."""
        return encode_report(each.seen for each in self._insufficient.values())

    def report_rows(self) -> bytes:
        """Nothing yet."""
        return b""

    def _open(self, name: str) -> _OpenTable:
        if name not in self._tables:
            self._tables[name] = _OpenTable(name, self._schemas.sources.get(name), self._source)
        return self._tables[name]

    def _process_table(self, table: _OpenTable, rows: pa.RecordBatch) -> Iterator[TableRows]:
        if not self._survey(table, rows) and not self._insufficient:
            yield from self._decode(table, rows)

    def _survey(self, table: _OpenTable, rows: pa.RecordBatch) -> bool:
        """Whether messages show something new; then it is kept for the report."""
        if table.version is not None and self._source.static:
            return False
        values = rows.column(VALUE)
        first = table.name not in self._insufficient and table.version is None
        if self._source.static:
            if not first:
                return True
            values = values.slice(0, 1)
        found = self._source.drop_metadata(self._source.reader.survey(values, table.columns))
        if not found.firsts and not first:
            return table.name in self._insufficient
        places = {name: origin_of(rows, at) for name, at in found.firsts.items()}
        seen = replace(table.seen, row=found.row, places={**places, **table.seen.places})
        if first:
            seen = replace(seen, first=origin_of(rows, 0), primary_key=found.primary_key)
        table.seen = seen
        self._insufficient[table.name] = table
        return True

    def _decode(self, table: _OpenTable, rows: pa.RecordBatch) -> Iterator[TableRows]:
        if table.decoder is None:
            self._bind(table)
        assert table.decoder is not None  # noqa: S101
        decoded = table.decoder.decode(rows.column(VALUE))
        self._refuse(decoded.bad, rows)
        made = self._add_columns(decoded, rows)
        if not made.num_rows:
            return
        for target in table.targets:
            yield TableRows(target.version, target.fitter.fit(made))

    def _bind(self, table: _OpenTable) -> None:
        """Make what a known table needs to be read and written."""
        assert table.version is not None, "its rows wait for a schema"  # noqa: S101
        table.decoder = self._source.reader.decoder(table.columns)
        row = table.version.schema.row
        for name in self._programs.find_targets(table.name):
            version = self._schemas.sinks.get(name)
            if version is not None:
                table.targets.append(_Target(version, RowFitter.from_rows(row, version.schema.row, self._session)))

    def _add_columns(self, decoded: Decoded, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the metadata of their messages, and the hidden columns."""
        index = None if decoded.origin is None else pa.array(decoded.origin)
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        for each in arrow_schema(RowType(self._source.metadata)):
            values = _take(rows.column(each.name), index)
            columns[each.name] = values if values.type == each.type else values.cast(each.type)
        for name in HIDDEN.names:
            columns[name] = _take(rows.column(name), index)
        if decoded.kinds is not None:
            columns[KIND] = pa.array(decoded.kinds, pa.int8())
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def _refuse(self, bad: tuple[BadRecord, ...], rows: pa.RecordBatch) -> None:
        """Count messages that cannot be read. Raises RecordError, unless those are left out."""
        self.refused += len(bad)
        if bad and not self._source.ignores_errors:
            first = bad[0]
            raise RecordError(
                first.reason,
                "",
                *origin_of(rows, first.index),
                self._source.identifier,
                first.field,
                f"look at the record; '{self._source.prefix}ignore-parse-errors: true' and "
                "'ingestion.ignore-errors: true' leave records like it out",
            )


def _take(column: pa.Array, index: pa.Array | None) -> pa.Array:
    return column if index is None else column.take(index)
