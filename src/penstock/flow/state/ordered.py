"""Tables with an order inside a key: rows at places, of which a range can be read."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, same_rows
from penstock.columns.hash_loops import search_within
from penstock.columns.hashing import Groups, Hashes, take_rows
from penstock.columns.sums import ranges
from penstock.flow.state.merging import merge_segments
from penstock.flow.state.segments import Segment
from penstock.flow.state.tables import Table

#: The place of a row among the rows of its key, a number of 64 bits.
Places = npt.NDArray[np.int64]
#: Places are stored as unsigned numbers of the same order.
_SIGN = np.uint64(1 << 63)


class OrderedState(Table):
    """A table with rows at places of its keys: a key has at most one row at a place."""

    def get(self, groups: Groups, low: Places, high: Places) -> tuple[RowIndices, Places, pa.RecordBatch]:
        """The rows of each group's key at the places from ``low`` to ``high`` (exclusive), by group and place: the
        group of each, its place, and its values. Other rows are not read."""
        everything: RowIndices = np.arange(len(groups))
        begins, finishes = _to_hashes(low), _to_hashes(high)
        pieces: list[tuple[Segment, RowIndices, RowIndices]] = []
        for ref in self._layers:
            segment, which, rows, ends = self._find(ref, groups, everything)
            first, last = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
            search_within(segment.second, rows, ends, begins[which], first)
            search_within(segment.second, rows, ends, finishes[which], last)
            sizes = np.maximum(last - first, 0)
            which, rows = np.repeat(which, sizes), ranges(first, sizes)
            same = same_rows(segment.keys, rows, groups.keys.columns, which)
            if len(which):
                pieces.append((segment, which[same], rows[same]))
        if not pieces:
            nothing = build_batch([pa.nulls(0, field.type) for field in self.spec.value], self.spec.value, 0)
            return np.zeros(0, np.int64), np.zeros(0, np.int64), nothing
        index = np.concatenate([which for _, which, _ in pieces])
        places = np.concatenate([segment.second[rows] for segment, _, rows in pieces])
        present = np.concatenate([self._find_present(segment, rows) for segment, _, rows in pieces])
        order = np.lexsort((places, index))  # of equal ones, the first is the newest
        newest = np.ones(len(order), np.bool_)
        newest[1:] = (index[order[1:]] != index[order[:-1]]) | (places[order[1:]] != places[order[:-1]])
        chosen = order[newest & present[order]]
        columns = [
            pa.concat_arrays([segment.values[at].take(pa.array(rows)) for segment, _, rows in pieces])
            for at in range(len(self.spec.value))
        ]
        values = build_batch([each.take(pa.array(chosen)) for each in columns], self.spec.value, len(chosen))
        return index[chosen], (places[chosen] ^ _SIGN).view(np.int64), values

    def put(self, groups: Groups, index: RowIndices, places: Places, values: pa.RecordBatch, present: Flags) -> None:
        """Replace the rows at these places of the groups ``index`` by ``values``, or delete them where ``present`` is
        false: then their values do not matter. No row occurs twice."""
        if len(index):
            self._write(partial(self._make_replacement, groups, index, places, values, present))

    def _make_replacement(
        self, groups: Groups, index: RowIndices, places: Places, values: pa.RecordBatch, present: Flags
    ) -> Segment:
        self._stale += 2 * int(np.count_nonzero(~present))
        keys = take_rows(groups.keys, index).columns
        columns = [pa.array(groups.hashes[index]), pa.array(_to_hashes(places)), *keys, *values.columns]
        return merge_segments([self._make_change(columns, present)], self.spec, oldest=False)

    def _find_present(self, segment: Segment, rows: RowIndices) -> Flags:
        marks = segment.marks.take(pa.array(rows)).to_numpy(zero_copy_only=False)
        return np.asarray(marks & self._find_alive(segment, rows), np.bool_)


def _to_hashes(places: Places) -> Hashes:
    return places.view(np.uint64) ^ _SIGN
