"""The state of an operator: tables of rows by key, in segments, of which each batch adds one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.flow.compaction import joined, merges, stale_rows, without
from penstock.flow.equality import Flags, Rows, same_rows
from penstock.flow.hashing import Groups, Hashes, key_hashes, runs_of
from penstock.flow.merging import merged
from penstock.flow.segments import END, Segment, SegmentReader, SegmentRef, SegmentWriter, TableSpec
from penstock.flow.storage import Storage
from penstock.formats.columns.buffers import batch_of

__all__ = ["KeyedState", "MultisetState", "SegmentRef", "StateStore", "TableSpec"]


class _Table:
    """What keyed states and multisets share: their segments, newest first, and the change of this batch."""

    def __init__(self, spec: TableSpec, refs: Sequence[SegmentRef], reader: SegmentReader):
        self.spec = spec
        self.refs = sorted(refs, key=lambda ref: ref.newest, reverse=True)
        self._reader = reader
        self._change: Segment | None = None
        self._stale = 0

    def flush(self, writer: SegmentWriter, low: int, high: int) -> Sequence[SegmentRef]:
        """Add what was changed, and what it makes worth merging, to ``writer``; the segments after that."""
        change = self._change
        if change is None or not len(change):
            return joined(self.refs)
        own = SegmentRef("", 0, 0, len(change), self._stale, low, high, 1 + self._newest(), self.spec.kind, 0)
        refs = [own, *self.refs]
        due = merges(refs, low, high, len(change))
        result = []
        for ref in without(refs, due):
            if ref.file:
                result.append(ref)
            elif len(part := change.between(ref.low, ref.high)):
                result.append(writer.add(part, ref.low, ref.high, ref.newest, ref.stale))
        for merge in due:
            parts = [
                (self._reader.read(ref, self.spec)[0] if ref.file else change).between(
                    max(ref.low, merge.low), min(ref.high, merge.high)
                )
                for ref in merge.refs
            ]
            whole = merged(parts, self.spec, oldest=merge.oldest)
            if len(whole):
                stale = 0 if merge.oldest else stale_rows(merge, sum(map(len, parts)) - len(whole))
                result.append(writer.add(whole, merge.low, merge.high, merge.newest, stale))
        return joined(result)

    def _newest(self) -> int:
        return max((ref.newest for ref in self.refs), default=0)

    def _find(self, ref: SegmentRef, groups: Groups, which: Rows) -> tuple[Segment, Rows, Rows, Rows]:
        """A segment, and those of the groups ``which``, ascending, that may have rows in it: from where up to but not
        where."""
        segment, index = self._reader.read(ref, self.spec)
        first = 0 if ref.low == 0 else int(np.searchsorted(groups.hashes, np.uint64(ref.low)))
        last = len(groups) if ref.high == END else int(np.searchsorted(groups.hashes, np.uint64(ref.high)))
        if (first, last) != (0, len(groups)):
            which = which[slice(*np.searchsorted(which, [first, last]))]
        return segment, *index.find(segment.hashes, groups.hashes, which)

    def _changed(self, columns: Sequence[pa.Array]) -> Segment:
        if self._change is not None:
            raise ValueError(f"the state '{self.spec.name}' was changed twice in one batch")
        schema = self.spec.schema()
        fitting = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
        return Segment.of(pa.RecordBatch.from_arrays(fitting, schema=schema), self.spec)


class KeyedState(_Table):
    """A table with one row per key. What a batch puts is seen from the next batch on."""

    #: The last groups that were asked for, and which of them have a row.
    _asked: tuple[Groups, Flags] | None = None

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]:
        """Whether there is a row for each group's key, and the rows' values, null where there is none."""
        known, found = np.zeros(len(groups), np.bool_), np.zeros(len(groups), np.bool_)
        missing: Rows = np.arange(len(groups))
        pieces: list[tuple[Segment, Rows, Rows]] = []
        for ref in self.refs:
            if not len(missing):
                break
            segment, which, rows, ends = self._find(ref, groups, missing)
            which, rows = _same_keys(segment, rows, ends, groups, which)
            if len(which):
                present = segment.marks.take(pa.array(rows)).to_numpy(zero_copy_only=False)
                known[which], found[which] = True, present
                pieces.append((segment, which[present], rows[present]))
                missing = missing[~known[missing]]
        self._asked = groups, found
        return found, self._gathered(pieces, len(groups))

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None:
        """Replace the rows of these keys by ``values``, or delete them where ``present`` is false. A group whose values
        stay the same need not be put."""
        if len(groups):
            if self._asked is not None and self._asked[0] is groups:
                self._stale = int(np.sum(self._asked[1] * np.where(present, 1, 2)))
            self._change = self._changed(
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
        everything: Rows = np.arange(len(groups))
        asked, pieces = [], []
        for ref in self.refs:
            segment, which, rows, ends = self._find(ref, groups, everything)
            sizes = ends - rows
            if len(which) and sizes.max() > 1:
                which, rows = np.repeat(which, sizes), _spread(rows, sizes)
            same = same_rows(segment.keys, rows, groups.keys.columns, which)
            if not same.all():
                which, rows = which[same], rows[same]
            if len(which):
                asked.append(which)
                pieces.append(segment.rows.take(pa.array(rows)))
        if not pieces:
            nothing = batch_of([pa.nulls(0, field.type) for field in self.spec.value], self.spec.value, 0)
            return np.zeros(0, np.int64), nothing, np.zeros(0, np.int64)
        stored = Segment.of(pa.concat_batches(pieces), self.spec)
        index = np.concatenate(asked)
        order, begins = runs_of(index.view(np.uint64), stored.row_hashes, stored.values)
        weights = np.add.reduceat(stored.marks.to_numpy()[order], np.flatnonzero(begins))
        kept = np.flatnonzero(weights)
        chosen = order[begins][kept]
        values = [column.take(pa.array(chosen)) for column in stored.values]
        return index[chosen], batch_of(values, self.spec.value, len(chosen)), weights[kept]

    def add(self, hashes: Hashes, keys: pa.RecordBatch, values: pa.RecordBatch, weights: npt.NDArray[np.int64]) -> None:
        """Add these rows with their weights; where the weights of a row add up to zero, it disappears."""
        if not len(hashes):
            return
        row_hashes = key_hashes(values.columns, rows=len(hashes))
        columns = [pa.array(hashes), pa.array(row_hashes), *keys.columns, *values.columns, pa.array(weights)]
        self._change = merged([self._changed(columns)], self.spec, oldest=False)
        self._stale = 2 * int(np.count_nonzero(self._change.marks.to_numpy() < 0))


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
        self._tables: dict[str, KeyedState | MultisetState] = {}
        for spec in specs:
            own = [part for ref in refs.get(spec.name, ()) if (part := ref.within(low, high))]
            keyed = spec.kind == "keyed"
            self._tables[spec.name] = (KeyedState if keyed else MultisetState)(spec, own, reader)

    def table(self, name: str) -> KeyedState | MultisetState:
        """The table of that name. Raises KeyError."""
        return self._tables[name]

    def keyed(self, name: str) -> KeyedState:
        """The table of that name with one row per key. Raises KeyError."""
        table = self._tables[name]
        if not isinstance(table, KeyedState):
            raise KeyError(name)
        return table

    def multiset(self, name: str) -> MultisetState:
        """The table of that name with weights. Raises KeyError."""
        table = self._tables[name]
        if not isinstance(table, MultisetState):
            raise KeyError(name)
        return table

    def flush(self) -> Mapping[str, Sequence[SegmentRef]]:
        """Write the changes of all tables as one file, and return the segments that the state of this range consists of
        from now on. When the call returns, they are durable."""
        writer = SegmentWriter(f"{self._prefix}{uuid.uuid4().hex}.arrow")
        result = {name: table.flush(writer, self._low, self._high) for name, table in self._tables.items()}
        writer.write(self._storage)
        return result


def _same_keys(segment: Segment, rows: Rows, ends: Rows, groups: Groups, which: Rows) -> tuple[Rows, Rows]:
    """Of these rows with the hashes of the groups ``which``, those with their keys. A row that has the hash but another
    key is followed by others of its hash up to but not ``ends``."""
    same = same_rows(segment.keys, rows, groups.keys.columns, which)
    if same.all():
        return which, rows
    groups_found, rows_found = [which[same]], [rows[same]]
    while len(which):
        rows, ends, which = rows[~same] + 1, ends[~same], which[~same]
        inside = rows < ends
        rows, ends, which = rows[inside], ends[inside], which[inside]
        same = same_rows(segment.keys, rows, groups.keys.columns, which)
        groups_found.append(which[same])
        rows_found.append(rows[same])
    return np.concatenate(groups_found), np.concatenate(rows_found)


def _spread(starts: Rows, sizes: Rows) -> Rows:
    """The ``sizes[i]`` numbers from ``starts[i]`` on, for each i."""
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
