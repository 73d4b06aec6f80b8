"""An index of ascending hashes: whether a hash may be present, and about where.

Hashes are spread evenly over their range. Their highest bits name one of as many buckets as a quarter to an eighth of
the rows. Of a bucket the index has a filter of 64 bits, of which each hash sets three, and its first row: an absent
hash is mostly rejected by one look at a filter, and a present one is one of a few neighbours. Where hashes are in small
parts of the range, because a few keys have many values, most buckets are empty. Then hashes are spread over the filters
by all of their bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import RowIndices
from penstock.columns.hash_loops import find_hashes, index_buckets, index_filters

_ROWS_PER_BUCKET = 8


@dataclass(frozen=True, eq=False)
class HashIndex:
    """An index of ascending hashes from ``low`` on; the bucket of one is its distance from there without its lowest
    ``shift`` bits."""

    low: np.uint64
    shift: np.uint64
    #: Whether hashes are spread over the filters, independently of buckets.
    spread: bool
    filters: npt.NDArray[np.uint64]
    #: The first row of each bucket, and the number of all.
    firsts: npt.NDArray[np.int32]

    @classmethod
    def from_hashes(cls, hashes: npt.NDArray[np.uint64]) -> HashIndex:
        """The index of these hashes, of which there is one at least."""
        low, width = hashes[0], int(hashes[-1]) - int(hashes[0])
        shift = max(0, width.bit_length() - (len(hashes) // _ROWS_PER_BUCKET).bit_length())
        shift = min(63, shift)  # processors shift 64 bits by 64 as if by 0
        filters = np.zeros((width >> shift) + 1, np.uint64)
        firsts = np.empty(len(filters) + 1, np.int32)
        used = index_buckets(hashes, low, np.uint64(shift), firsts)
        index = cls(low, np.uint64(shift), 2 * used < len(filters), filters, firsts)
        index_filters(hashes, index.low, index.shift, index.spread, filters)
        return index

    def parts(self) -> list[Any]:
        """What :meth:`read` reads, as bytes-like parts."""
        head = [int(self.low), int(self.shift), int(self.spread), len(self.filters)]
        return [np.array(head, np.uint64), self.filters, self.firsts]

    @classmethod
    def read(cls, content: pa.Buffer) -> HashIndex:
        """The index in the bytes of its :meth:`parts`, without copying. Raises ValueError if they are too few."""
        head = np.frombuffer(content, np.uint64, 4)
        buckets = int(head[3])
        filters = np.frombuffer(content, np.uint64, buckets, head.nbytes)
        firsts = np.frombuffer(content, np.int32, buckets + 1, head.nbytes + filters.nbytes)
        return cls(head[0], head[1], bool(head[2]), filters, firsts)

    def find(
        self, hashes: npt.NDArray[np.uint64], asked: npt.NDArray[np.uint64], which: RowIndices
    ) -> tuple[RowIndices, RowIndices, RowIndices]:
        """The entries of ``which`` for which ``asked[which]`` is among ``hashes``, and their rows there: from the
        second result until the third (exclusive)."""
        found, starts, ends = (np.empty(len(which), np.int64) for _ in range(3))
        index = self.low, self.shift, self.spread, self.filters, self.firsts
        count = find_hashes(hashes, *index, asked, which, found, starts, ends)
        return found[:count], starts[:count], ends[:count]
