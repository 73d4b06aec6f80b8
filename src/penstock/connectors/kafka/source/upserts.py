"""Messages of an upsert table as changes: one without a value deletes the row of its key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.spi import Decoded
from penstock.types import RowKind


def add_deletions(decoded: Decoded, messages: pa.BinaryArray) -> Decoded:
    """``decoded`` values as changes in the order of ``messages``: rows that replace others, and for each message that
    is null a deletion, whose columns are null. A format's result for null is ignored."""
    gone = np.asarray(messages.is_null())
    rows = decoded.rows
    if not gone.any():
        return Decoded(rows, decoded.origin, _fill_kinds(rows.num_rows), decoded.bad)
    origin = np.arange(rows.num_rows, dtype=np.int64) if decoded.origin is None else decoded.origin
    kept = np.flatnonzero(~gone[origin])
    origins = np.concatenate([origin[kept], np.flatnonzero(gone)])
    order = np.argsort(origins, kind="stable")
    deletes = order >= len(kept)
    taken = np.concatenate([kept, np.zeros(len(origins) - len(kept), np.int64)])[order]
    kinds = _fill_kinds(len(order))
    kinds[deletes] = RowKind.DELETE
    bad = tuple(each for each in decoded.bad if not gone[each.index])
    return Decoded(rows.take(pa.array(taken, mask=deletes)), origins[order], kinds, bad)


def _fill_kinds(count: int) -> NDArray[np.int8]:
    return np.full(count, RowKind.UPDATE_AFTER, np.int8)
