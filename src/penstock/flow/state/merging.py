"""Merging segments: the newest row of a key wins, or the weights of a row add up."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.columns.hashing import sort_into_runs
from penstock.flow.state.segments import Segment, TableSpec


def merge_segments(segments: Sequence[Segment], spec: TableSpec, *, oldest: bool, since: int = 0) -> Segment:
    """One segment for these, which are given newest first.

    With ``oldest``, there are no older ones: what is deleted needs no mark, and rows of a table with times that were
    last written at ``since`` or before are left out. Else both hide older rows.
    """
    whole = segments[0]
    if len(segments) > 1:
        whole = Segment.from_rows(pa.concat_batches([segment.rows for segment in segments]), spec)
    if not len(whole):
        return whole
    return _keep_newest(whole, oldest, since) if spec.replaces else sum_weights(whole)


def sum_weights(whole: Segment) -> Segment:
    """The rows of a multiset with the sums of their weights, each once."""
    order, begins = sort_into_runs(whole.hashes, whole.second, whole.identity)
    weights = np.add.reduceat(whole.marks.to_numpy()[order], np.flatnonzero(begins))
    kept = np.flatnonzero(weights)
    return whole.with_marks(order[begins][kept], weights[kept])


def _keep_newest(whole: Segment, oldest: bool, since: int) -> Segment:
    second = whole.second if whole.spec.has_second else None
    order, begins = sort_into_runs(whole.hashes, second, whole.identity)
    kept = order[begins]
    if oldest:
        if whole.spec.timed:
            kept = kept[whole.seen[kept] > since]
        kept = kept[whole.marks.to_numpy(zero_copy_only=False)[kept].astype(np.bool_)]
    return Segment.from_rows(whole.rows.take(pa.array(kept)), whole.spec)
