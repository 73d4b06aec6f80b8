"""The work of a task: messages to rows of the sink's tables, under the present schemas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RecordError
from penstock.flow.rows.table_rows import TableRows
from penstock.ingest.tables.bound_tables import BoundTable, TableBinder
from penstock.ingest.tables.message_columns import BadKey, SourceRows
from penstock.ingest.tables.refused import MOST_REPORTED, ErrorPolicy, RefusedRecord, TaskCounts
from penstock.ingest.tables.reports import SeenTable, encode_report
from penstock.ingest.tables.source_tables import SourceTables
from penstock.ingest.transforms import METADATA
from penstock.schemas import Schemas
from penstock.spi import HIDDEN, KIND, BadRecord, Decoded, RefusedRow
from penstock.types import RowType, arrow_schema

#: The number of a row's table among those that are worked on together.
_TABLE = "__table__"


class _OpenTable:
    """A table of the source in one task. ``bound`` is None while its schema is not known."""

    def __init__(self, name: str, bound: BoundTable | None, source: SourceTables):
        self.name, self.bound = name, bound
        #: The columns of its messages that are known for the whole batch. What else other messages of the batch show
        #: does not count, since another task may read them.
        self.columns = source.initial_schema(name).row if bound is None else bound.columns
        self.seen = SeenTable(name, self.columns)

    @property
    def is_known(self) -> bool:
        """Whether its schema is known, and has columns."""
        return self.bound is not None and bool(self.columns.fields)


#: A table, and the numbers of its messages.
_Part: TypeAlias = tuple[_OpenTable, npt.NDArray[np.int64]]


class IngestTask:
    """Works on the messages of one batch that a task reads. Once a schema is not enough, it gives no more rows, and
    looks for whatever else is not."""

    def __init__(self, source: SourceTables, binder: TableBinder, errors: ErrorPolicy, schemas: Schemas):
        self._source, self._binder, self._errors, self._schemas = source, binder, errors, schemas
        self._tables: dict[str, _OpenTable] = {}
        self._insufficient: dict[str, _OpenTable] = {}
        self._rows: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._records: list[RefusedRecord] = []
        self._letters: list[pa.RecordBatch] = []

    def process(self, rows: pa.RecordBatch) -> Iterator[TableRows]:
        """The rows that messages become. Raises RecordError for one that cannot be read, unless those are left out."""
        every = self._source.columns.open(rows)
        found = self._source.find_tables(every)
        self._refuse(found.bad, every)
        if not found.names:
            return
        order = np.argsort(found.at, kind="stable")
        bounds = np.searchsorted(found.at[order], np.arange(len(found.names) + 1)).tolist()
        parts = [
            (self._open(name), order[begin:end])
            for name, (begin, end) in zip(found.names, pairwise(bounds), strict=True)
            if begin < end
        ]
        for group in self._group(parts):
            if len(group) > 1 and (together := self._process_together(group, every)) is not None:
                yield from together
                continue
            for table, index in group:
                yield from self._process_table(table, every if len(index) == len(every) else every.take(index))

    def _group(self, parts: Sequence[_Part]) -> Iterable[list[_Part]]:
        """Tables that can be worked on together."""
        groups: dict[object, list[_Part]] = {}
        for table, index in parts:
            bound = table.bound
            key: object = table.name
            if bound is not None and not self._source.static and not bound.transform.rule.names_table:
                key = id(bound.decoder), id(bound.transform.rule)
            groups.setdefault(key, []).append((table, index))
        return groups.values()

    def _process_together(self, parts: Sequence[_Part], every: SourceRows) -> list[TableRows] | None:
        """The rows of tables with equal columns and transforms; None if one of them has to be looked at by itself."""
        first = parts[0][0].bound
        assert first is not None, "only known tables are grouped"  # noqa: S101
        rows = every.take(np.concatenate([index for _, index in parts]))
        if self._source.survey(rows, first.columns).firsts:
            return None
        if self._insufficient:
            return []
        decoded = first.decoder.decode(rows)
        if decoded.bad:
            return None
        counts = [len(index) for _, index in parts]
        number = np.repeat(np.arange(len(parts)), counts)
        if decoded.origin is not None:
            number = number[decoded.origin]
        made = self._add_columns(decoded, rows, first).append_column(_TABLE, pa.array(number))
        read = np.bincount(number, minlength=len(parts)).tolist()
        try:
            made = first.transform.apply(made)
            ends = np.searchsorted(made.column(_TABLE).to_numpy(), np.arange(len(parts) + 1)).tolist()
            made = made.remove_column(made.schema.get_field_index(_TABLE))
            found = [
                TableRows(target.version, target.fitter.fit(made.slice(begin, end - begin)))
                for (table, _), (begin, end) in zip(parts, pairwise(ends), strict=True)
                if table.bound is not None and begin < end
                for target in table.bound.targets
            ]
        except RecordError:
            return None
        for (table, _), count in zip(parts, read, strict=True):
            if count:
                self._rows[table.name] += count
        return found

    def report_schemas(self) -> bytes:
        """What was seen of tables whose schemas are not enough."""
        return encode_report(each.seen for each in self._insufficient.values())

    def take_letters(self) -> list[pa.RecordBatch]:
        """The dead letters since the last call."""
        letters, self._letters = self._letters, []
        return letters

    def report_rows(self) -> bytes:
        """The rows of each table, and what was left out."""
        return TaskCounts(self._rows, self._refused, self._records).to_bytes()

    def _open(self, name: str) -> _OpenTable:
        if name not in self._tables:
            bound = self._binder.bind(name, self._schemas) if name in self._schemas.sources else None
            self._tables[name] = _OpenTable(name, bound, self._source)
        return self._tables[name]

    def _process_table(self, table: _OpenTable, rows: SourceRows) -> Iterator[TableRows]:
        if self._survey(table, rows) or self._insufficient:
            return
        if self._source.static:
            rows = self._drop_misfits(table, rows)
        yield from self._decode(table, rows)

    def _survey(self, table: _OpenTable, rows: SourceRows) -> bool:
        """Whether messages show something new; then it is kept for the report."""
        if self._source.static and table.is_known:
            return False
        first = table.name not in self._insufficient and table.bound is None
        found = self._source.survey(rows, table.columns)
        if self._source.static and not table.columns.fields and found.firsts:
            at = min(found.firsts.values())  # the first message with a column decides
            found = self._source.survey(rows.slice(at, at + 1), table.columns)
            found = replace(found, firsts=dict.fromkeys(found.firsts, at))
        elif self._source.static:
            found = replace(found, row=table.columns, firsts={})
        if not found.firsts and not first:
            return table.name in self._insufficient
        places = {name: rows.origin(at) for name, at in found.firsts.items()}
        begin = rows.origin(0)
        keyed = begin if found.primary_key else None
        seen = SeenTable(
            table.name, found.row, places, found.primary_key, keyed, begin if table.bound is None else None
        )
        table.seen = table.seen.combine(seen, self._source.static) if table.name in self._insufficient else seen
        self._insufficient[table.name] = table
        return True

    def _decode(self, table: _OpenTable, rows: SourceRows) -> Iterator[TableRows]:
        assert table.bound is not None, "its rows wait for a schema"  # noqa: S101
        decoded = table.bound.decoder.decode(rows)
        self._refuse(decoded.bad, rows, table.name)
        made = self._add_columns(decoded, rows, table.bound)
        try:
            found = _compute(table.bound, made)
        except RecordError:
            if not self._errors.ignores:
                raise
            message = np.arange(made.num_rows) if decoded.origin is None else decoded.origin
            bound = table.bound

            def find_failure(start: int, end: int) -> BadRecord | None:
                try:
                    _compute(bound, made.filter(pa.array((start <= message) & (message < end))))
                except RecordError as error:
                    return BadRecord(start, error.reason, error.field)
                return None

            bad = tuple(_search_by_halves(find_failure, 0, len(rows)))
            self._refuse(bad, rows, table.name)
            made = made.filter(pa.array(~np.isin(message, [each.index for each in bad])))
            found = _compute(table.bound, made)
        if made.num_rows:
            self._rows[table.name] += made.num_rows
        yield from found

    def _drop_misfits(self, table: _OpenTable, rows: SourceRows) -> SourceRows:
        """The messages of a table whose schema is fixed, without those with a value that does not fit its column."""

        def find_misfit(start: int, end: int) -> BadRecord | None:
            column = self._source.find_misfit(rows.slice(start, end), table.columns)
            if column is None:
                return None
            reason = f"the value does not fit its column, which is {column.type}"
            return BadRecord(start, f"{reason}, and 'schema.inference.strategy' is static", column.name)

        bad = tuple(_search_by_halves(find_misfit, 0, len(rows)))
        if not bad:
            return rows
        self._refuse(bad, rows, table.name)
        kept = np.ones(len(rows), bool)
        kept[[each.index for each in bad]] = False
        return rows.take(np.flatnonzero(kept))

    def _add_columns(self, decoded: Decoded, rows: SourceRows, table: BoundTable) -> pa.RecordBatch:
        """The rows with the metadata of their messages, and the hidden columns."""
        index = None if decoded.origin is None else pa.array(decoded.origin)
        columns = dict(zip(decoded.rows.schema.names, decoded.rows.columns, strict=True))
        for each in arrow_schema(RowType(self._source.metadata)):
            values = _take(rows.column(each.name), index)
            columns[each.name] = values if values.type == each.type else _cast(values, each.type)
        for name in (each.name for each in table.metadata if each.name not in columns):
            columns[name] = _take(rows.column(name.removeprefix(METADATA)), index)
        for name in HIDDEN.names:
            columns[name] = _take(rows.column(name), index)
        if decoded.kinds is not None:
            columns[KIND] = pa.array(decoded.kinds, pa.int8())
        return pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])

    def _refuse(self, bad: Sequence[BadRecord], rows: SourceRows, table: str = "") -> None:
        """Count messages that are left out. Raises RecordError, unless such messages are."""
        if bad and not self._errors.ignores:
            first = bad[0]
            raise RecordError(
                first.reason,
                "",
                *rows.origin(first.index),
                self._source.identifier,
                first.field,
                f"look at the record; '{self._source.prefix}ignore-parse-errors: true' and "
                "'ingestion.ignore-errors: true' leave records like it out",
            )
        if not bad:
            return
        self._refused[table] += len(bad)
        if self._source.letters is not None:
            refused = [
                RefusedRow(
                    int(rows.index[each.index]),
                    "key" if isinstance(each, BadKey) else "value",
                    self._source.identifier,
                    each.reason,
                    each.field,
                    table,
                )
                for each in bad
            ]
            self._letters.append(self._source.letters.build_dead_letters(rows.every, refused))
        for each in bad[: MOST_REPORTED - len(self._records)]:
            place, value = rows.origin(each.index), rows.value(each.index)
            self._records.append(RefusedRecord(*place, table, each.reason, each.field, value))


def _compute(table: BoundTable, rows: pa.RecordBatch) -> list[TableRows]:
    """What becomes of the rows of a table. Raises RecordError."""
    rows = table.transform.apply(rows)
    return [TableRows(target.version, target.fitter.fit(rows)) for target in table.targets if rows.num_rows]


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
