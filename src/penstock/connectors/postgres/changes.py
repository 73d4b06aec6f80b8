"""The changes of a table with a key: only the last one of each key is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.types import RowKind

#: The row of a key is gone after such a change, unless another one follows: a row before an update that no other change
#: follows got another key, or was filtered out.
_GONE = (RowKind.DELETE, RowKind.UPDATE_BEFORE)


def find_deletions(kinds: pa.Array | None, count: int) -> NDArray[np.bool_]:
    """Which of ``count`` changes delete the row of their key, by their RowKind; a null is an insertion."""
    if kinds is None:
        return np.zeros(count, bool)
    found: NDArray[np.bool_] = np.isin(pc.fill_null(kinds, int(RowKind.INSERT)).to_numpy(zero_copy_only=False), _GONE)
    return found


def find_last_of_keys(keys: Sequence[pa.Array]) -> NDArray[np.int64] | None:
    """The places of the last row of each key, in their order; None if all rows have different keys.

    Values that only PostgreSQL treats as equal, such as 0.0 and -0.0, are different here.
    """
    count = len(keys[0])
    if any(pa.types.is_nested(each.type) for each in keys):
        return None
    codes = np.zeros(count, np.int64)
    for number, key in enumerate(keys):
        encoded = pc.dictionary_encode(key)
        own = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * len(encoded.dictionary) + own
        if number:  # make them small again, so that the next column cannot make them overflow
            codes = np.unique(codes, return_inverse=True)[1]
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[codes] = np.arange(count)  # of equal indices, numpy keeps the last value
    places = last[last >= 0]
    return None if len(places) == count else np.sort(places)


class LastChanges:
    """Holds back changes of keys while they are few, and gives the last one of each key."""

    #: This many changes are worth a separate COPY.
    _MOST = 1 << 16

    def __init__(self, keys: Sequence[str]):
        self._keys = keys
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, changes: pa.RecordBatch) -> pa.RecordBatch | None:
        """Hold changes back. Returns and releases all held changes when there are many."""
        self._parts.append(changes)
        self._rows += changes.num_rows
        if self._rows < self._MOST:
            return None
        last = self.take()
        if last is not None and last.num_rows < self._MOST // 2:
            self._parts, self._rows = [last], last.num_rows
            return None
        return last

    def take(self) -> pa.RecordBatch | None:
        """Returns and releases the last change of each held key; None without any."""
        if not self._parts:
            return None
        held = pa.concat_batches(self._parts)
        self._parts, self._rows = [], 0
        last = find_last_of_keys([held.column(name) for name in self._keys])
        return held if last is None else held.take(pa.array(last))
