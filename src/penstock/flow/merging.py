"""Merging segments: the newest row of a key wins, or the weights of a row add up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.flow.equality import Flags
from penstock.flow.hashing import runs_of
from penstock.flow.segments import Segment, TableSpec


def merged(segments: Sequence[Segment], spec: TableSpec, *, oldest: bool) -> Segment:
    """One segment for these, which are given newest first. With ``oldest``, there are no older ones: what is deleted
    needs no mark."""
    whole = segments[0]
    if len(segments) > 1:
        whole = Segment.of(pa.concat_batches([segment.rows for segment in segments]), spec)
    if not len(whole):
        return whole
    return _newest(whole, oldest) if spec.kind == "keyed" else _added(whole)


def _newest(whole: Segment, oldest: bool) -> Segment:
    order, begins = runs_of(whole.hashes, None, whole.keys)
    kept = order[begins]
    if oldest:
        present: Flags = whole.marks.to_numpy(zero_copy_only=False)
        kept = kept[present[kept]]
    return Segment.of(whole.rows.take(pa.array(kept)), whole.spec)


def _added(whole: Segment) -> Segment:
    rows = whole.rows
    order, begins = runs_of(whole.hashes, whole.row_hashes, [*whole.keys, *whole.values])
    weights = np.add.reduceat(whole.marks.to_numpy()[order], np.flatnonzero(begins))
    kept = np.flatnonzero(weights)
    taken = rows.take(pa.array(order[begins][kept]))
    last = rows.num_columns - 1
    return Segment.of(taken.set_column(last, rows.schema.field(last), pa.array(weights[kept])), whole.spec)
