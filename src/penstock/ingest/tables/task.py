"""The work of a task: messages to rows of the sink's tables, under the present schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from penstock.errors import RecordError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.table_rows import TableRows
from penstock.ingest.tables.message_columns import VALUE, MessageDecoder
from penstock.ingest.tables.programs import Programs
from penstock.ingest.tables.refused import MOST_REPORTED, ErrorPolicy, RefusedRecord, TaskCounts
from penstock.ingest.tables.reports import SeenTable, encode_report
from penstock.ingest.tables.row_fitting import RowFitter
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.transforms import TableTransform
from penstock.schemas import Schemas, SchemaVersion
from penstock.spi import HIDDEN, KIND, BadRecord, Decoded, origin_of
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
        #: The columns of its messages that are known for the whole batch. What else other messages of the batch show
        #: does not count, since another task may read them.
        self.columns = row
        #: Of a table whose schema is known.
        self.decoder: MessageDecoder | None = None
        self.transform: TableTransform | None = None
        self.targets: list[_Target] = []

    @property
    def is_known(self) -> bool:
        """Whether its schema is known, and has columns."""
        return self.version is not None and bool(self.columns.fields)


class IngestTask:
    """Works on the messages of one batch that a task reads. Once a schema is not enough, it gives no more rows, and
    looks for whatever else is not."""

    def __init__(
        self, source: SourceTables, programs: Programs, errors: ErrorPolicy, schemas: Schemas, session: Session
    ):
        self._source, self._programs, self._errors = source, programs, errors
        self._schemas, self._session = schemas, session
        self._tables: dict[str, _OpenTable] = {}
        self._insufficient: dict[str, _OpenTable] = {}
        self._rows: dict[str, int] = {}
        self._refused = 0
        self._records: list[RefusedRecord] = []

    def process(self, rows: pa.RecordBatch) -> Iterator[TableRows]:
        """The rows that messages become. Raises RecordError for one that cannot be read, unless those are left out."""
        found = self._source.find_tables(rows)
        self._refuse(found.bad, rows)
        if not found.names:
            return
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
        """The rows of each table, and what was left out."""
        return TaskCounts(self._rows, self._refused, self._records).to_bytes()

    def _open(self, name: str) -> _OpenTable:
        if name not in self._tables:
            self._tables[name] = _OpenTable(name, self._schemas.sources.get(name), self._source)
        return self._tables[name]

    def _process_table(self, table: _OpenTable, rows: pa.RecordBatch) -> Iterator[TableRows]:
        if self._survey(table, rows) or self._insufficient:
            return
        if self._source.static:
            rows = self._drop_misfits(table, rows)
        yield from self._decode(table, rows)

    def _survey(self, table: _OpenTable, rows: pa.RecordBatch) -> bool:
        """Whether messages show something new; then it is kept for the report."""
        if self._source.static and table.is_known:
            return False
        first = table.name not in self._insufficient and table.version is None
        found = self._source.survey(rows, table.columns)
        if self._source.static and not table.columns.fields and found.firsts:
            at = min(found.firsts.values())  # the first message with a column decides
            found = self._source.survey(rows.slice(at, 1), table.columns)
            found = replace(found, firsts=dict.fromkeys(found.firsts, at))
        elif self._source.static:
            found = replace(found, row=table.columns, firsts={})
        if not found.firsts and not first:
            return table.name in self._insufficient
        places = {name: origin_of(rows, at) for name, at in found.firsts.items()}
        begin = origin_of(rows, 0)
        keyed = begin if found.primary_key else None
        seen = SeenTable(
            table.name, found.row, places, found.primary_key, keyed, begin if table.version is None else None
        )
        table.seen = table.seen.combine(seen, self._source.static) if table.name in self._insufficient else seen
        self._insufficient[table.name] = table
        return True

    def _decode(self, table: _OpenTable, rows: pa.RecordBatch) -> Iterator[TableRows]:
        if table.decoder is None:
            self._bind(table)
        assert table.decoder is not None  # noqa: S101
        decoded = table.decoder.decode(rows)
        self._refuse(decoded.bad, rows, table.name)
        made = self._add_columns(decoded, rows)
        try:
            found = self._compute(table, made)
        except RecordError:
            if not self._errors.ignores:
                raise
            message = np.arange(made.num_rows) if decoded.origin is None else decoded.origin

            def find_failure(start: int, end: int) -> BadRecord | None:
                try:
                    self._compute(table, made.filter(pa.array((start <= message) & (message < end))))
                except RecordError as error:
                    return BadRecord(start, error.reason, error.field)
                return None

            bad = tuple(_search_by_halves(find_failure, 0, rows.num_rows))
            self._refuse(bad, rows, table.name)
            made = made.filter(pa.array(~np.isin(message, [each.index for each in bad])))
            found = self._compute(table, made)
        self._rows[table.name] = self._rows.get(table.name, 0) + made.num_rows
        yield from found

    def _compute(self, table: _OpenTable, rows: pa.RecordBatch) -> list[TableRows]:
        """What becomes of the rows of a table. Raises RecordError."""
        if table.transform is not None:
            rows = table.transform.apply(rows)
        return [TableRows(target.version, target.fitter.fit(rows)) for target in table.targets if rows.num_rows]

    def _drop_misfits(self, table: _OpenTable, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The messages of a table whose schema is fixed, without those with a value that does not fit its column."""

        def find_misfit(start: int, end: int) -> BadRecord | None:
            firsts = self._source.survey(rows.slice(start, end - start), table.columns).firsts
            for name in firsts:
                if column := table.columns.field(name):
                    reason = f"the value does not fit its column, which is {column.type}"
                    return BadRecord(start, f"{reason}, and 'schema.inference.strategy' is static", name)
            return None

        bad = tuple(_search_by_halves(find_misfit, 0, rows.num_rows))
        if not bad:
            return rows
        self._refuse(bad, rows, table.name)
        kept = np.ones(rows.num_rows, bool)
        kept[[each.index for each in bad]] = False
        return rows.filter(pa.array(kept))

    def _bind(self, table: _OpenTable) -> None:
        """Make what a known table needs to be read and written."""
        assert table.version is not None, "its rows wait for a schema"  # noqa: S101
        table.decoder = self._source.columns.open(table.columns)
        table.transform = self._programs.bind(table.name, table.version.schema)
        row = table.transform.schema.row
        for name in self._programs.find_targets(table.name):
            version = self._schemas.sinks.get(name)
            if version is not None:
                fitter = RowFitter.from_rows(row, version.schema.row, self._session, lacks=bool(version.outcome))
                table.targets.append(_Target(version, fitter))

    def _add_columns(self, decoded: Decoded, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the metadata of their messages, and the hidden columns."""
        index = None if decoded.origin is None else pa.array(decoded.origin)
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        for each in arrow_schema(RowType(self._source.metadata)):
            values = _take(rows.column(each.name), index)
            columns[each.name] = values if values.type == each.type else _cast(values, each.type)
        for name in HIDDEN.names:
            columns[name] = _take(rows.column(name), index)
        if decoded.kinds is not None:
            columns[KIND] = pa.array(decoded.kinds, pa.int8())
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def _refuse(self, bad: Sequence[BadRecord], rows: pa.RecordBatch, table: str = "") -> None:
        """Count messages that are left out. Raises RecordError, unless such messages are."""
        if bad and not self._errors.ignores:
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
        self._refused += len(bad)
        values = rows.column(VALUE)
        for each in bad[: MOST_REPORTED - len(self._records)]:
            place = origin_of(rows, each.index)
            self._records.append(RefusedRecord(*place, table, each.reason, each.field, values[each.index].as_py()))


def _search_by_halves(find: Callable[[int, int], BadRecord | None], start: int, end: int) -> Iterator[BadRecord]:
    """The records from ``start`` to ``end`` that ``find`` finds something wrong with. It says whether there are any
    such between two numbers, and of a single one what it is."""
    found = find(start, end)
    if found is None:
        return
    if end - start == 1:
        yield found
        return
    half = (start + end) // 2
    yield from _search_by_halves(find, start, half)
    yield from _search_by_halves(find, half, end)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The values in another type. Bytes that are no text have the character for what cannot be read instead."""
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid:
        texts = [None if each is None else each.decode(errors="replace") for each in column.to_pylist()]
        return pa.array(texts, wanted)


def _take(column: pa.Array, index: pa.Array | None) -> pa.Array:
    return column if index is None else column.take(index)
