"""The state of an operator: tables of rows by key, in segments, of which each batch adds one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.flow.equality import Flags, Rows, same_rows
from penstock.flow.hashing import Groups, Hashes, key_hashes
from penstock.flow.merging import merged
from penstock.flow.segments import Segment, SegmentReader, SegmentRef, SegmentWriter, TableSpec
from penstock.flow.storage import Storage
from penstock.formats.columns.buffers import batch_of

__all__ = ["KeyedState", "MultisetState", "SegmentRef", "StateStore", "TableSpec"]

_MOST = 8


class _Table:
    """What keyed states and multisets share: their segments, newest first, and the change of this batch."""

    def __init__(self, spec: TableSpec, refs: Sequence[SegmentRef], reader: SegmentReader):
        self.spec = spec
        self.refs = sorted(refs, key=lambda ref: ref.newest, reverse=True)
        self._reader = reader
        self._segments: list[Segment] | None = None
        self.change: Segment | None = None

    @property
    def segments(self) -> list[Segment]:
        if self._segments is None:
            self._segments = [self._reader.read(ref, self.spec) for ref in self.refs]
        return self._segments

    def _changed(self, columns: Sequence[pa.Array]) -> Segment:
        if self.change is not None:
            raise ValueError(f"the state '{self.spec.name}' was changed twice in one batch")
        schema = self.spec.schema()
        fitting = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return Segment.of(pa.RecordBatch.from_arrays(fitting, schema=schema), self.spec)


class KeyedState(_Table):
    """A table with one row per key. What a batch puts is seen from the next batch on."""

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]:
        """Whether there is a row for each group's key, and the rows' values, null where there is none."""
        found = np.zeros(len(groups), np.bool_)
        missing: Rows = np.arange(len(groups))
        pieces: list[tuple[Segment, Rows, Rows]] = []
        for segment in self.segments:
            if not len(missing):
                break
            asked, rows = _matches(segment, groups, missing)
            if len(asked):
                present = segment.marks.take(pa.array(rows)).to_numpy(zero_copy_only=False)
                found[asked] = present
                pieces.append((segment, asked[present], rows[present]))
                missing = np.setdiff1d(missing, asked, assume_unique=True)
        return found, self._gathered(pieces, len(groups))

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None:
        """Replace the rows of these keys by ``values``, or delete them where ``present`` is false. A group whose values
        stay the same need not be put."""
        if len(groups):
            self.change = self._changed(
                [pa.array(groups.hashes), *groups.keys.columns, *values.columns, pa.array(present)]
            )

    def _gathered(self, pieces: Sequence[tuple[Segment, Rows, Rows]], rows: int) -> pa.RecordBatch:
        if not len(self.spec.value):
            return batch_of([], self.spec.value, rows)
        places = np.full(rows, -1)
        total = 0
        for _, asked, _ in pieces:
            places[asked] = total + np.arange(len(asked))
            total += len(asked)
        indices = pa.array(places, mask=places < 0)
        columns = []
        for at, field in enumerate(self.spec.value):
            parts = [segment.values[at].take(pa.array(stored)) for segment, _, stored in pieces]
            column = pa.concat_arrays(parts) if parts else pa.nulls(0, field.type)
            columns.append(column.take(indices))
        return pa.RecordBatch.from_arrays(columns, schema=self.spec.value)


class MultisetState(_Table):
    """A table of rows with weights by key. What a batch adds is seen from the next batch on."""

    def get(self, groups: Groups) -> tuple[Rows, pa.RecordBatch, npt.NDArray[np.int64]]:
        """The stored rows of these keys in the order of the groups: the index of each one's group, its values, and its
        weight, which is not zero."""
        pieces = []
        for segment in self.segments:
            lows = np.searchsorted(segment.hashes, groups.hashes, side="left")
            sizes = np.searchsorted(segment.hashes, groups.hashes, side="right") - lows
            asked = np.repeat(np.arange(len(groups)), sizes)
            rows = np.repeat(lows - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(asked))
            same = same_rows(segment.keys, rows, groups.keys.columns, asked)
            if same.any():
                pieces.append((asked[same], segment.rows.take(pa.array(rows[same]))))
        if not pieces:
            return np.zeros(0, np.int64), pa.RecordBatch.from_pylist([], self.spec.value), np.zeros(0, np.int64)
        asked = np.concatenate([piece[0] for piece in pieces])
        rows_found = Segment.of(pa.concat_batches([piece[1] for piece in pieces]), self.spec)
        group_column = pa.array(asked)
        # Rows of one group and one value: the hash of the values, then exactly.
        value_hashes = rows_found.rows.column(1).to_numpy()
        by_value = Groups.of(
            value_hashes * np.uint64(0x9E3779B97F4A7C15) + asked.astype(np.uint64),
            pa.RecordBatch.from_arrays(
                [group_column, *rows_found.values], names=[str(i) for i in range(1 + len(rows_found.values))]
            ),
        )
        weights = np.add.reduceat(rows_found.marks.to_numpy()[by_value.order], by_value.starts)
        firsts = by_value.order[by_value.starts]
        kept = np.flatnonzero(weights)
        kept = kept[np.lexsort((value_hashes[firsts[kept]], asked[firsts[kept]]))]
        chosen = firsts[kept]
        values = [column.take(pa.array(chosen)) for column in rows_found.values]
        batch = batch_of(values, self.spec.value, len(chosen))
        return asked[chosen], batch, weights[kept]

    def add(self, hashes: Hashes, keys: pa.RecordBatch, values: pa.RecordBatch, weights: npt.NDArray[np.int64]) -> None:
        """Add these rows with their weights; where the weights of a row add up to zero, it disappears."""
        if not len(hashes):
            return
        row_hashes = key_hashes(values.columns, rows=len(hashes))
        columns = [pa.array(hashes), pa.array(row_hashes), *keys.columns, *values.columns, pa.array(weights)]
        self.change = merged([self._changed(columns)], self.spec, oldest=False)


class StateStore:
    """One task's access to the state of one operator: keys with hashes from ``low`` up to but not ``high``.

    ``refs`` are the segments of each table, of this range and perhaps of others, which are ignored. Files that it
    writes are named ``prefix`` and something unique. ``uid`` is the operator's, for messages.

    Raises CheckpointError for tables in ``refs`` that the operator does not have.
    """

    def __init__(
        self,
        storage: Storage,
        specs: Sequence[TableSpec],
        refs: Mapping[str, Sequence[SegmentRef]],
        low: int,
        high: int,
        prefix: str,
        *,
        uid: str = "",
    ):
        self._storage = storage
        self._low, self._high = low, high
        self._prefix = prefix
        reader = SegmentReader(storage, uid)
        self._tables: dict[str, Any] = {}
        for spec in specs:
            own = [part for ref in refs.get(spec.name, ()) if (part := ref.within(low, high))]
            cls = KeyedState if spec.kind == "keyed" else MultisetState
            self._tables[spec.name] = cls(spec, own, reader)

    def table(self, name: str) -> Any:
        """The table of that name, a KeyedState or MultisetState."""
        return self._tables[name]

    def flush(self) -> Mapping[str, Sequence[SegmentRef]]:
        """Write the changes of all tables as one file, and return the segments that the state of this range consists of
        from now on. When the call returns, they are durable."""
        writer = SegmentWriter(f"{self._prefix}{uuid.uuid4().hex}.arrow")
        result = {}
        for name, table in self._tables.items():
            refs = list(reversed(table.refs))
            if table.change is not None:
                newest = 1 + max((ref.newest for ref in refs), default=0)
                if len(refs) >= _MOST:
                    whole = merged([table.change, *table.segments], table.spec, oldest=True)
                    refs = [writer.add(whole, self._low, self._high, newest)] if len(whole) else []
                elif len(table.change):
                    refs.append(writer.add(table.change, self._low, self._high, newest))
            result[name] = refs
        writer.write(self._storage)
        return result


def _matches(segment: Segment, groups: Groups, asked: Rows) -> tuple[Rows, Rows]:
    """Those of the groups ``asked`` that have a row in the segment, and the rows."""
    hashes = groups.hashes[asked]
    rows = np.searchsorted(segment.hashes, hashes)
    inside = np.flatnonzero(rows < len(segment))
    inside = inside[segment.hashes[rows[inside]] == hashes[inside]]
    groups_found, rows_found = [], []
    while len(inside):
        at, which = rows[inside], asked[inside]
        same = same_rows(segment.keys, at, groups.keys.columns, which)
        groups_found.append(which[same])
        rows_found.append(at[same])
        # Keys that collide: the next row of the same hash.
        rest = inside[~same]
        rows[rest] += 1
        rest = rest[rows[rest] < len(segment)]
        inside = rest[segment.hashes[rows[rest]] == hashes[rest]]
    if not groups_found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    which = np.concatenate(groups_found)
    sort = np.argsort(which, kind="stable")
    return which[sort], np.concatenate(rows_found)[sort]
