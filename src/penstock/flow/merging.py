"""Merging segments: the newest row of a key wins, or the weights of a row add up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.flow.hashing import Groups, key_hashes
from penstock.flow.segments import Segment, TableSpec


def merged(segments: Sequence[Segment], spec: TableSpec, *, oldest: bool) -> Segment:
    """One segment for these, which are given newest first. With ``oldest``, there are no older ones: what is deleted
    needs no mark."""
    rows = pa.concat_batches([segment.rows for segment in segments])
    whole = Segment.of(rows, spec)
    marks = whole.marks.to_numpy(zero_copy_only=False)
    if spec.kind == "keyed":
        names = [str(at) for at in range(len(whole.keys))]
        keys = pa.RecordBatch.from_arrays(list(whole.keys), names=names)
        groups = Groups.of(whole.hashes, keys)
        firsts = groups.order[groups.starts]
        kept = firsts[marks[firsts]] if oldest else firsts
        return Segment.of(rows.take(pa.array(kept)), spec)
    row_hashes = rows.column(1).to_numpy()
    columns = [*whole.keys, *whole.values]
    both = key_hashes([pa.array(whole.hashes), pa.array(row_hashes)])
    groups = Groups.of(both, pa.RecordBatch.from_arrays(columns, names=[str(at) for at in range(len(columns))]))
    weights = np.add.reduceat(marks[groups.order], groups.starts) if len(marks) else marks
    firsts = groups.order[groups.starts]
    kept = np.flatnonzero(weights)
    firsts, weights = firsts[kept], weights[kept]
    order = np.lexsort((row_hashes[firsts], whole.hashes[firsts]))
    taken = rows.take(pa.array(firsts[order]))
    return Segment.of(
        taken.set_column(rows.num_columns - 1, rows.schema.field(rows.num_columns - 1), pa.array(weights[order])), spec
    )
