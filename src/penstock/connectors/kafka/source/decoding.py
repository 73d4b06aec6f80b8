"""From records of a partition to rows of the table: decode, pair keys with values, add metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connectors.kafka.dead_letters import LETTER, METADATA, DeadLetter, build_letters
from penstock.connectors.kafka.source.positions import Split
from penstock.connectors.kafka.source.scan_watermarks import Measure
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.upserts import add_deletions
from penstock.connectors.kafka.table.header_filter import match_headers
from penstock.connectors.kafka.table.metadata import OF_VALUE, READABLE
from penstock.errors import RecordError
from penstock.kafka.record_batches import TIMESTAMP_TYPES, Records
from penstock.spi import (
    DEAD_LETTER,
    HIDDEN,
    INSERTIONS,
    KIND,
    BadRecord,
    ChangeFormat,
    Decoded,
    Decoder,
    FormatSpec,
    NotNull,
    TableFormat,
    formats,
    missing_text,
)
from penstock.types import RowKind, RowType, arrow_schema, arrow_type

_HEADER_KEYS = ("headers", "header-list")
_Index = NDArray[np.int64] | None


class RowReader:
    """Makes rows of a scan's table from records. Each task has one."""

    def __init__(self, scan: KafkaScanSpec):
        self._scan = scan
        found, schema, options = formats.get(scan.value.identifier), scan.value_schema, scan.value.options
        wanted = [column.key.removeprefix(OF_VALUE) for column in scan.value_metadata]
        #: The metadata that names a message's table, for formats that have it.
        self._table_keys = found.table_keys if scan.table_id and isinstance(found, TableFormat) else ()
        #: The metadata that the value's format reads: for the table's columns, and for the name of the table.
        self._keys = [*wanted, *(key for key in self._table_keys if key not in wanted)]
        if isinstance(found, ChangeFormat):
            self._value = found.decoder(schema, options, self._keys)
        else:
            self._value = found.decoder(schema, options)
        self._key = formats.get(scan.key.identifier).decoder(scan.key_schema, scan.key.options) if scan.key else None
        self._native = scan.native
        self._not_null = NotNull(_require_time(scan.produced, scan.time_column), scan.primary_key)
        self._metadata = {column.name: column.key for column in scan.metadata if column not in scan.value_metadata}
        self._in_value = (*scan.value_columns, *(column.name for column in scan.value_metadata))
        self._keeps = scan.dead_letters is not None
        self._has_kinds = scan.kinds != INSERTIONS
        hidden = [*arrow_schema(HIDDEN)]
        hidden += [pa.field(KIND, pa.int8())] if self._has_kinds else []
        hidden += [pa.field(DEAD_LETTER, arrow_type(LETTER))] if self._keeps else []
        #: The Arrow schema of the result of :meth:`rows`.
        self.schema = pa.schema([*arrow_schema(self._native), *hidden])
        #: Whether records have to be scanned with their headers.
        self.wants_headers = (
            bool(scan.options.header_filter)
            or self._keeps
            or any(column.key in _HEADER_KEYS for column in scan.metadata)
        )
        #: The watermarks of the rows; None in a scan without event time.
        self.measure = Measure(scan.watermark) if scan.watermark is not None else None
        #: The number of records that could not be decoded, and were left out or became dead letters.
        self.refused = 0
        #: The number of records that the header filter left out.
        self.filtered = 0

    def rows(self, records: Records, split: Split) -> pa.RecordBatch:
        """The rows of ``records``, which are of ``split``, and their dead letters. Raises RecordError with the position
        of the first message that cannot be decoded, unless the user keeps or ignores those."""
        chosen = records
        if self._scan.options.header_filter:
            chosen = _filter_records(records, match_headers(self._scan.options.header_filter, records.headers))
            self.filtered += len(records) - len(chosen)
        value = self._refuse_other_tables(self._value.decode(chosen.values))
        if self._scan.upserts:
            value = add_deletions(value, chosen.values)
        refused = self._collect_refused("value", value, self._scan.value, self._value, chosen, split)
        key: Decoded | None = None
        if self._key is not None and self._scan.key is not None:
            key = self._key.decode(chosen.keys)
            refused |= self._collect_refused("key", key, self._scan.key, self._key, chosen, split)
        value_at, key_at, record_at = _pair(value, key, len(chosen))
        columns: dict[str, pa.Array] = {}
        if key is not None:
            columns |= _take_columns(self._scan.key_columns, key.rows, key_at)
        # Where key and value have the same column, the value's counts, as in Flink. A deletion has no value.
        columns |= self._merge_value_columns(
            columns, _take_columns(self._in_value, value.rows, value_at), value, value_at
        )
        for name, metadata in self._metadata.items():
            columns[name] = _take(_metadata(metadata, chosen, split), record_at)
        kinds = _gather_kinds(value, value_at) if self._has_kinds else None
        missing = self._not_null.missing(columns, kinds)
        if missing:
            record_at = np.arange(len(chosen), dtype=np.int64) if record_at is None else record_at
            incomplete = self._collect_incomplete(missing, record_at, chosen, split)
            refused = incomplete | refused
            kept = ~np.isin(record_at, list(incomplete))
            columns = {name: each.filter(pa.array(kept)) for name, each in columns.items()}
            record_at, kinds = record_at[kept], None if kinds is None else kinds[kept]
        self.refused += len(refused)
        offsets = pa.array(chosen.offsets if record_at is None else chosen.offsets[record_at])
        hidden = [pa.repeat(pa.scalar(split.number, pa.int32()), len(offsets)), offsets]
        if kinds is not None:
            hidden.append(pa.array(kinds))
        if self._keeps:
            hidden.append(pa.nulls(len(offsets), self.schema.field(DEAD_LETTER).type))
        arrays = [columns[field.name] for field in self._native.fields]
        rows = pa.RecordBatch.from_arrays([*arrays, *hidden], schema=self.schema)
        if self.measure is not None:
            timestamps = chosen.timestamps if record_at is None else chosen.timestamps[record_at]
            self.measure.note((split.topic, split.partition), timestamps, rows)
        if self._keeps and refused:
            dead = self._dead_letter_rows([refused[index] for index in sorted(refused)], chosen, split)
            return pa.concat_batches([rows, dead])
        return rows

    def _merge_value_columns(
        self, keys: Mapping[str, pa.Array], values: Mapping[str, pa.Array], value: Decoded, value_at: _Index
    ) -> Mapping[str, pa.Array]:
        """The columns of the value; in deletions, columns that both have come from the key."""
        if not self._scan.upserts:
            return values
        deletes = pa.array(_gather_kinds(value, value_at) == RowKind.DELETE)
        both = {name: pc.if_else(deletes, keys[name], values[name]) for name in values.keys() & keys.keys()}
        return {**values, **both}

    def _dead_letter_rows(self, found: list[DeadLetter], chosen: Records, split: Split) -> pa.RecordBatch:
        """Rows with only dead letters in them."""
        at = np.array([letter.index for letter in found], np.int64)
        index, offsets = pa.array(at), chosen.offsets[at]
        record = {
            "key": chosen.keys.take(index),
            "value": chosen.values.take(index),
            "headers": chosen.headers.take(index),  # type: ignore[union-attr]
            "timestamp": _to_instants(chosen.timestamps[at]),
        }
        known = {
            HIDDEN.names[0]: pa.repeat(pa.scalar(split.number, pa.int32()), len(at)),
            HIDDEN.names[1]: pa.array(offsets),
            DEAD_LETTER: build_letters(
                found, record, ((split.topic, split.partition, offset) for offset in offsets.tolist())
            ),
        }
        columns = [known.get(field.name, pa.nulls(len(at), field.type)) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _refuse_other_tables(self, value: Decoded) -> Decoded:
        """``value``, with messages of other tables than the scan's refused. A message that names no table passes."""
        if not self._table_keys:
            return value
        *spaces, table = self._scan.table_id
        first = len(self._scan.value_columns)
        database, name = (value.rows.column(first + self._keys.index(key)) for key in self._table_keys)
        mask = np.asarray(pc.not_equal(name, table).fill_null(False))
        if spaces:
            elsewhere = pc.and_(pc.is_valid(database), pc.invert(pc.is_in(database, pa.array(spaces))))
            mask = mask | np.asarray(elsewhere)
        if not mask.any():
            return value
        origin = np.arange(value.rows.num_rows, dtype=np.int64) if value.origin is None else value.origin
        refused, rows = np.unique(origin[mask], return_index=True)
        at = np.flatnonzero(mask)[rows]
        bad = tuple(
            BadRecord(
                index, f"the message is of table '{_format_id(database[row], name[row])}', not '{self._scan.table}'"
            )
            for index, row in zip(refused.tolist(), at.tolist(), strict=True)
        )
        kept = ~np.isin(origin, refused)
        kinds = None if value.kinds is None else value.kinds[kept]
        return Decoded(value.rows.filter(pa.array(kept)), origin[kept], kinds, (*value.bad, *bad))

    def _collect_refused(
        self, part: str, decoded: Decoded, spec: FormatSpec, decoder: Decoder, chosen: Records, split: Split
    ) -> dict[int, DeadLetter]:
        """The records whose ``part`` was refused, by their index. Raises RecordError unless the user keeps or ignores
        those."""
        found = {bad.index: DeadLetter(bad.index, part, spec.identifier, bad) for bad in decoded.bad}
        if found and not self._continues(decoder):
            raise self._build_error(found[min(found)], chosen, split, spec)
        return found

    def _collect_incomplete(
        self,
        missing: Sequence[tuple[str, NDArray[np.bool_]]],
        record_at: NDArray[np.int64],
        chosen: Records,
        split: Split,
    ) -> dict[int, DeadLetter]:
        """The records with a row in which a column is ``missing``, by their index; ``record_at`` has the record of each
        row. Raises RecordError unless the user keeps or ignores those."""
        found: dict[int, DeadLetter] = {}
        failing: dict[int, RecordError] = {}
        for column, mask in missing:
            part, spec, decoder = self._find_part(column)
            identifier = spec.identifier if part != METADATA else ""
            for index in set(record_at[mask].tolist()) - found.keys():
                bad = BadRecord(index, self._describe_missing(column), column)
                found[index] = DeadLetter(index, part, identifier, bad)
                if not self._continues(decoder):
                    failing[index] = self._build_error(
                        found[index], chosen, split, spec, self._suggest_declaration(column)
                    )
        if failing:
            raise failing[min(failing)]
        return found

    def _find_part(self, column: str) -> tuple[str, FormatSpec, Decoder]:
        """The part of a message that a column comes from, and the format whose options decide about bad ones."""
        of_key = column in self._scan.key_columns and column not in self._in_value
        if of_key and self._key is not None and self._scan.key is not None:
            return "key", self._scan.key, self._key
        return METADATA if column in self._metadata else "value", self._scan.value, self._value

    def _suggest_declaration(self, column: str) -> str:
        """How to declare ``column`` so that records without its value are read."""
        if self._lacks_time(column):
            return "'penstock.null-event-time' = 'late' counts rows like it as late, "
        if column in self._scan.key_columns and column in self._in_value:
            return f"'value.fields-include' = 'EXCEPT_KEY' takes '{column}' from the key, "
        return f"declare '{column}' without NOT NULL to read such records, "

    def _describe_missing(self, column: str) -> str:
        if self._lacks_time(column):
            return f"the row has no event time: column '{column}' is NULL"
        key = next((each.key for each in self._scan.metadata if each.name == column), "")
        return missing_text(self._scan.produced, column) + (f" (metadata '{key}')" if key else "")

    def _lacks_time(self, column: str) -> bool:
        """Whether a ``column`` may be missing in a row, except for the event time."""
        declared = self._scan.produced.field(column)
        return column == self._scan.time_column and declared is not None and declared.type.nullable

    def _continues(self, decoder: Decoder) -> bool:
        """Whether the job continues after a record that it cannot read."""
        return self._keeps or self._scan.options.ignore_errors or decoder.ignores_errors

    def _build_error(
        self, found: DeadLetter, chosen: Records, split: Split, spec: FormatSpec, more: str = ""
    ) -> RecordError:
        """The error that stops the job at a record. ``more`` is a further remedy."""
        return RecordError(
            found.bad.reason,
            split.topic,
            split.partition,
            int(chosen.offsets[found.index]),
            found.format,
            found.bad.field,
            "look at the record; "
            + more
            + (
                f"'{spec.prefix}ignore-parse-errors' = 'true' leaves records like it out, "
                if "ignore-parse-errors" in spec.options.keys()  # noqa: SIM118 - the option set's own method
                else ""
            )
            + "'scan.dead-letter.topic' keeps them in a separate topic",
        )


def _require_time(schema: RowType, column: str) -> RowType:
    """The schema, in which a ``column`` is never NULL."""
    fields = (
        replace(each, type=each.type.with_nullability(False)) if each.name == column else each for each in schema.fields
    )
    return replace(schema, fields=tuple(fields))


def _format_id(database: pa.Scalar, table: pa.Scalar) -> str:
    return ".".join(part for part in (database.as_py(), table.as_py()) if part)


def _gather_kinds(value: Decoded, index: _Index) -> NDArray[np.int8]:
    """The row kind of each row of the table."""
    kinds = np.zeros(value.rows.num_rows, np.int8) if value.kinds is None else value.kinds
    return kinds if index is None else kinds[index]


def _filter_records(records: Records, mask: NDArray[np.bool_]) -> Records:
    """The records that ``mask`` chooses."""
    if mask.all():
        return records
    chosen = pa.array(mask)
    return replace(
        records,
        keys=records.keys.filter(chosen),
        values=records.values.filter(chosen),
        headers=None if records.headers is None else records.headers.filter(chosen),
        offsets=records.offsets[mask],
        timestamps=records.timestamps[mask],
        timestamp_types=records.timestamp_types[mask],
        leader_epochs=records.leader_epochs[mask],
    )


def _pair(value: Decoded, key: Decoded | None, records: int) -> tuple[_Index, _Index, _Index]:
    """The value row, the key row and the record of each row of the table (None: all, in order).

    A message with n key rows and m value rows is n times m rows of the table, and none when it has no rows of either.
    """
    if key is None:
        return None, None, value.origin
    if value.origin is None and key.origin is None:
        return None, None, None
    everything = np.arange(records, dtype=np.int64)
    value_origin = everything if value.origin is None else value.origin
    key_origin = everything if key.origin is None else key.origin
    keys_per_record = np.bincount(key_origin, minlength=records)
    first_key = np.cumsum(keys_per_record) - keys_per_record
    repeats = keys_per_record[value_origin]
    value_at = np.repeat(np.arange(value_origin.size, dtype=np.int64), repeats)
    record_at = value_origin[value_at]
    within = np.arange(value_at.size, dtype=np.int64) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return value_at, first_key[record_at] + within, record_at


def _take_columns(names: tuple[str, ...], rows: pa.RecordBatch, index: _Index) -> Mapping[str, pa.Array]:
    return {name: _take(rows.column(i), index) for i, name in enumerate(names)}


def _take(array: pa.Array, index: _Index) -> pa.Array:
    return array if index is None else array.take(pa.array(index))


def _metadata(key: str, chosen: Records, split: Split) -> pa.Array:
    """The metadata column ``key``, one value per record, in its type of READABLE."""
    type_, count = arrow_type(READABLE[key]), len(chosen)
    match key:
        case "topic":
            return pa.repeat(pa.scalar(split.topic, type_), count)
        case "partition":
            return pa.repeat(pa.scalar(split.partition, type_), count)
        case "offset":
            return pa.array(chosen.offsets)
        case "leader-epoch":
            return pa.array(chosen.leader_epochs, mask=chosen.leader_epochs < 0)
        case "timestamp":
            return _check_instants(chosen, split)
        case "timestamp-type":
            names = pa.array(TIMESTAMP_TYPES, type_)
            return names.take(pa.array(chosen.timestamp_types))
        case "header-list":
            return chosen.headers.cast(type_)  # type: ignore[union-attr]
        case "headers":
            return _header_map(chosen.headers, type_)
        case "__raw_key__":
            return chosen.keys
        case "__raw_value__":
            return chosen.values
    raise KeyError(key)


#: Later and earlier timestamps, in ms, are beyond 64 bits of microseconds.
_MOST_MILLIS = (2**63 - 1) // 1000


def _to_instants(millis: NDArray[np.int64]) -> pa.Array:
    """The timestamps of records, null for what TIMESTAMP_LTZ(3) cannot hold."""
    far = (millis > _MOST_MILLIS) | (millis < -_MOST_MILLIS)
    micros = pa.array(np.where(far, 0, millis) * 1000, mask=far)
    return micros.cast(arrow_type(READABLE["timestamp"]))


def _check_instants(chosen: Records, split: Split) -> pa.Array:
    found = _to_instants(chosen.timestamps)
    if found.null_count:
        at = int(np.flatnonzero(np.asarray(found.is_null()))[0])
        millis, offset = int(chosen.timestamps[at]), int(chosen.offsets[at])
        reason = f"the record's timestamp, {millis} ms, is beyond the range of {READABLE['timestamp']}"
        hint = "its writer gives another unit; leave the metadata column 'timestamp' out to read the record"
        raise RecordError(reason, split.topic, split.partition, offset, hint=hint)
    return found


def _header_map(headers: pa.ListArray, type_: pa.MapType) -> pa.MapArray:
    """Headers as a map; of headers with the same key the last counts."""
    entries = headers.flatten()
    record = np.asarray(headers.value_parent_indices()).astype(np.int64)
    offsets = np.zeros(len(headers) + 1, np.int32)
    if len(entries):
        keys = pc.dictionary_encode(entries.field(0)).indices.to_numpy()
        marks = record * (int(keys.max()) + 1) + keys
        _, last_from_end = np.unique(marks[::-1], return_index=True)
        kept = np.sort(marks.size - 1 - last_from_end)
        np.cumsum(np.bincount(record[kept], minlength=len(headers)), out=offsets[1:])
        entries = entries.take(pa.array(kept))
    keys, values = entries.field(0).cast(type_.key_type), entries.field(1).cast(type_.item_type)
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values)
