"""The tables of an operator's state: look-ups in their segments, and the change of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, same_rows
from penstock.columns.hash_loops import sum_found_weights
from penstock.columns.hashing import Groups, Hashes, row_hashes, sort_into_runs
from penstock.columns.index import HashIndex
from penstock.columns.sums import ranges
from penstock.flow.state.compaction import Merge, count_stale_rows, join_neighbours, plan_merges, remove_merged
from penstock.flow.state.merging import merge_segments, sum_weights
from penstock.flow.state.segments import END, Segment, SegmentReader, SegmentRef, SegmentWriter, TableSpec


class Table:
    """What all tables share: their segments, newest first, and the change of this batch. It may be
    written several times in a batch, sees what was written, and adds one segment.

    Rows of a table with times (:attr:`TableSpec.timed`) that were last written at ``since`` or before are gone. Where a
    table had no times before, unless it is a multiset, its rows live from this batch on. What is written to a table of
    the ``last`` batch is put together only if it is read.
    """

    def __init__(
        self,
        spec: TableSpec,
        refs: Sequence[SegmentRef],
        reader: SegmentReader,
        since: int = 0,
        *,
        last: bool = False,
    ):
        self.spec = spec
        self._last = last
        if spec.timed and spec.kind != "multiset":
            refs = [ref if ref.seen else replace(ref, seen=reader.now_ms) for ref in refs]
        self.refs = _drop_expired(refs, since)
        self._reader = reader
        self._since = since
        #: What was written and is not part of ``_settled`` yet.
        self._writes: list[Callable[[], Segment]] = []
        self._settled: Segment | None = None
        self._indexed: tuple[Segment, HashIndex] | None = None
        self._stale = 0

    def _write(self, write: Callable[[], Segment]) -> None:
        """Add to the change of this batch what ``write`` gives."""
        self._writes.append(write)
        if not self._last:
            self._settle()

    def _settle(self) -> Segment | None:
        """The change of this batch so far; None if nothing was written."""
        writes, self._writes = self._writes, []
        for write in writes:
            new, before = write(), self._settled
            self._settled = new if before is None else merge_segments([new, before], self.spec, oldest=False)
        return self._settled

    def flush(self, writer: SegmentWriter, low: int, high: int) -> Sequence[SegmentRef]:
        """Write the changes, and the merges that they make due, to ``writer``. Returns the segments after that."""
        change = self._settle()
        if change is None or not len(change):
            return join_neighbours(self.refs)
        newest = 1 + max((ref.newest for ref in self.refs), default=0)
        own = SegmentRef("", 0, 0, len(change), low, high, newest, self.spec.kind, self._stale, change.width)
        refs = [own, *self.refs]
        due = plan_merges(refs, low, high, own.weight)
        result = []
        for ref in remove_merged(refs, due):
            if ref.file:
                result.append(ref)
            elif len(part := change.clip(ref.low, ref.high)):
                result.append(writer.add(part, ref.low, ref.high, ref.newest, ref.stale))
        for merge in due:
            result += self._run_merge(merge, change, writer)
        return join_neighbours(result)

    def _run_merge(self, merge: Merge, change: Segment, writer: SegmentWriter) -> Sequence[SegmentRef]:
        """The segment that a merge makes, if there are rows in it."""
        parts = [
            (self._reader.read(ref, self.spec) if ref.file else change).clip(merge.low, merge.high)
            for ref in merge.refs
        ]
        whole = merge_segments(parts, self.spec, oldest=merge.oldest, since=self._since)
        if not len(whole):
            return ()
        stale = 0 if merge.oldest else count_stale_rows(merge, sum(map(len, parts)) - len(whole))
        return (writer.add(whole, merge.low, merge.high, merge.newest, stale),)

    def read_all(self) -> Segment:
        """All rows, as they are after the change of this batch."""
        stored = [self._reader.read(ref, self.spec).clip(ref.low, ref.high) for ref in self.refs]
        change = self._settle()
        parts = stored if change is None else [change, *stored]
        if not parts:
            schema = self.spec.schema()
            return Segment.from_rows(build_batch([pa.nulls(0, each.type) for each in schema], schema, 0), self.spec)
        return merge_segments(parts, self.spec, oldest=True, since=self._since)

    @property
    def _layers(self) -> Sequence[SegmentRef]:
        """Where rows are looked up, newest first: the change of this batch, as a segment without a file, and the
        segments."""
        change = self._settle()
        if change is None or not len(change):
            return self.refs
        return [SegmentRef("", 0, 0, len(change), 0, END, 0, self.spec.kind), *self.refs]

    def _index_change(self) -> tuple[Segment, HashIndex]:
        change = self._settle()
        assert change is not None  # noqa: S101
        if self._indexed is None or self._indexed[0] is not change:
            self._indexed = change, HashIndex.from_hashes(change.hashes)
        return self._indexed

    def _find(
        self, ref: SegmentRef, groups: Groups, which: RowIndices
    ) -> tuple[Segment, RowIndices, RowIndices, RowIndices]:
        """A segment, and the groups among ``which``, ascending, that may have rows in it: where these begin and end
        (exclusive)."""
        segment, index = self._reader.read_indexed(ref, self.spec) if ref.file else self._index_change()
        first = 0 if ref.low == 0 else int(np.searchsorted(groups.hashes, np.uint64(ref.low)))
        last = len(groups) if ref.high == END else int(np.searchsorted(groups.hashes, np.uint64(ref.high)))
        if (first, last) != (0, len(groups)):
            which = which[slice(*np.searchsorted(which, [first, last]))]
        return segment, *index.find(segment.hashes, groups.hashes, which)

    def _find_alive(self, segment: Segment, rows: RowIndices) -> Flags:
        """Which of the ``rows`` of a segment were written recently."""
        if not self.spec.timed:
            return np.ones(len(rows), np.bool_)
        return np.asarray(segment.seen[rows] > self._since, np.bool_)

    def _make_change(self, columns: Sequence[pa.Array], marks: npt.NDArray[np.bool_ | np.int64]) -> Segment:
        """The rows of a change: their hashes, keys and values, and marks."""
        seen = [pa.array(np.full(len(marks), self._reader.now_ms))] if self.spec.timed else []
        schema = self.spec.schema()
        fitting = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip([*columns, *seen, pa.array(marks)], schema, strict=True)
        ]
        return Segment.from_rows(pa.RecordBatch.from_arrays(fitting, schema=schema), self.spec)


def _drop_expired(refs: Sequence[SegmentRef], since: int) -> Sequence[SegmentRef]:
    """Segments, newest first, without the oldest ones in which no row was written after ``since``. A segment above one
    that is kept stays, because it hides rows of that one."""
    oldest_first = sorted(refs, key=lambda ref: ref.newest)
    return list(dropwhile(lambda ref: 0 < ref.seen <= since, oldest_first))[::-1]


class KeyedState(Table):
    """A table with one row per key."""

    #: The hashes of the last groups that were asked for, and which of them have a row in the segments.
    _asked: tuple[Hashes, Flags] = np.zeros(0, np.uint64), np.zeros(0, np.bool_)

    def get(self, groups: Groups) -> tuple[Flags, pa.RecordBatch]:
        """Whether there is a row for each group's key, and the rows' values, null where there is none."""
        known, found = np.zeros(len(groups), np.bool_), np.zeros(len(groups), np.bool_)
        missing: RowIndices = np.arange(len(groups))
        pieces: list[tuple[Segment, RowIndices, RowIndices]] = []
        stored: Flags | None = None
        for ref in self._layers:
            if not len(missing):
                break
            segment, which, rows, ends = self._find(ref, groups, missing)
            which, rows = _keep_same_keys(segment, rows, ends, groups, which)
            if len(which):
                present = segment.marks.take(pa.array(rows)).to_numpy(zero_copy_only=False)
                present = present & self._find_alive(segment, rows)
                known[which], found[which] = True, present
                pieces.append((segment, which[present], rows[present]))
                missing = missing[~known[missing]]
                if not ref.file:
                    stored = ~known
        self._asked = groups.hashes, found if stored is None else found & stored
        return found, self._gather_values(pieces, len(groups))

    def put(self, groups: Groups, values: pa.RecordBatch, present: Flags) -> None:
        """Replace the rows of these keys by ``values``, or delete them where ``present`` is false. A group whose values
        stay the same need not be put."""
        if len(groups):
            self._write(partial(self._make_replacement, groups, values, present, self._asked))

    def _make_replacement(
        self, groups: Groups, values: pa.RecordBatch, present: Flags, asked: tuple[Hashes, Flags]
    ) -> Segment:
        self._stale += sum_found_weights(*asked, groups.hashes, np.where(present, 1, 2))
        return self._make_change([pa.array(groups.hashes), *groups.keys.columns, *values.columns], present)

    def put_keys(self, groups: Groups) -> None:
        """Add these keys to a table without values."""
        self.put(groups, build_batch([], self.spec.value, len(groups)), np.ones(len(groups), np.bool_))

    def _gather_values(self, pieces: Sequence[tuple[Segment, RowIndices, RowIndices]], rows: int) -> pa.RecordBatch:
        """The values of the rows of these segments, each for one of ``rows`` groups."""
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
        return build_batch(columns, self.spec.value, rows)


class MultisetState(Table):
    """A table of rows with weights by key.

    Its segments hold changes of weights, which add up. With times they hold weights: else a change that is forgotten
    would leave its retraction.
    """

    def get(self, groups: Groups) -> tuple[RowIndices, pa.RecordBatch, npt.NDArray[np.int64]]:
        """The stored rows of these keys in the order of the groups: the index of each one's group, its values, and its
        weight, which is not zero."""
        everything: RowIndices = np.arange(len(groups))
        asked, pieces = [], []
        for ref in self._layers:
            segment, which, rows, ends = self._find(ref, groups, everything)
            sizes = ends - rows
            if len(which) and sizes.max() > 1:
                which, rows = np.repeat(which, sizes), ranges(rows, sizes)
            same = same_rows(segment.keys, rows, groups.keys.columns, which)
            if not same.all():
                which, rows = which[same], rows[same]
            if len(which):
                asked.append(which)
                pieces.append((segment, rows))
        if not pieces:
            nothing = build_batch([pa.nulls(0, field.type) for field in self.spec.value], self.spec.value, 0)
            return np.zeros(0, np.int64), nothing, np.zeros(0, np.int64)
        index = np.concatenate(asked)
        values = [
            pa.concat_arrays([segment.values[at].take(pa.array(rows)) for segment, rows in pieces])
            for at in range(len(self.spec.value))
        ]
        weights = np.concatenate([segment.marks.to_numpy()[rows] for segment, rows in pieces])
        second = np.concatenate([segment.second[rows] for segment, rows in pieces])
        order, begins = sort_into_runs(index.view(np.uint64), second, values)
        chosen = order[begins]
        if self.spec.timed:  # the first is the newest
            alive = np.concatenate([self._find_alive(segment, rows) for segment, rows in pieces])
            weights = np.where(alive, weights, 0)[chosen]
        else:
            weights = np.add.reduceat(weights[order], np.flatnonzero(begins))
        kept = np.flatnonzero(weights)
        chosen = chosen[kept]
        found = [column.take(pa.array(chosen)) for column in values]
        return index[chosen], build_batch(found, self.spec.value, len(chosen)), weights[kept]

    def add(self, hashes: Hashes, keys: pa.RecordBatch, values: pa.RecordBatch, weights: npt.NDArray[np.int64]) -> None:
        """Add these rows with their weights; where the weights of a row add up to zero, it disappears.

        With times, a weight that would become negative becomes zero: the retracted row was forgotten.
        """
        if len(hashes):
            self._write(partial(self._make_addition, hashes, keys, values, weights))

    def _make_addition(
        self, hashes: Hashes, keys: pa.RecordBatch, values: pa.RecordBatch, weights: npt.NDArray[np.int64]
    ) -> Segment:
        hashed = [pa.array(hashes), pa.array(row_hashes(values, self.spec.name_in_segments(self.spec.value.names)))]
        change = sum_weights(self._make_change([*hashed, *keys.columns, *values.columns], weights))
        if self.spec.timed:
            return self._add_stored(change)
        self._stale += 2 * int(np.count_nonzero(change.marks.to_numpy() < 0))
        return change

    def _add_stored(self, change: Segment) -> Segment:
        """The weights after a change of distinct rows."""
        groups = Groups.by_key(change.hashes, build_batch(list(change.keys), self.spec.key, len(change)))
        index, values, stored = self.get(groups)
        both = [pa.concat_arrays(pair) for pair in zip(change.values, values.columns, strict=True)]
        second = np.concatenate([change.second, row_hashes(values, self.spec.name_in_segments(values.schema.names))])
        order, begins = sort_into_runs(np.concatenate([groups.index, index]).view(np.uint64), second, both)
        changes = change.marks.to_numpy()
        sums = np.add.reduceat(np.concatenate([changes, stored])[order], np.flatnonzero(begins))
        firsts = order[begins]
        ours = firsts < len(change)  # where both have a row, the change's comes first
        after = np.empty(len(change), np.int64)
        after[firsts[ours]] = np.maximum(sums[ours], 0)
        known = np.zeros(len(change), np.bool_)
        known[firsts[ours]] = sums[ours] != changes[firsts[ours]]
        self._stale += int(np.count_nonzero(known)) + int(np.count_nonzero(known & (after == 0)))
        kept = np.flatnonzero((after != 0) | known)
        return change.with_marks(kept, after[kept])


def _keep_same_keys(
    segment: Segment, rows: RowIndices, ends: RowIndices, groups: Groups, which: RowIndices
) -> tuple[RowIndices, RowIndices]:
    """The rows with the keys of the groups ``which``, among these rows with their hashes. A row that has the hash but
    another key is followed by the other rows of its hash until ``ends`` (exclusive)."""
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
