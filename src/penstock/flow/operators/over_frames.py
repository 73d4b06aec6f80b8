"""The frames of rows in OVER: which rows around a row its aggregates are over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import Flags, RowIndices, fixed_values, wide_values
from penstock.columns.ordinals import valid_of
from penstock.plan.nodes import Frame, SortColumn

#: Milliseconds of a unit of a time's Arrow type.
_UNITS = {"s": 1000, "ms": 1}
_DAY = 86_400_000


@dataclass(frozen=True, eq=False)
class Partitions:
    """Rows in order, of one partition after the other: where the partition of each row, and where the rows that are
    equal to it in the order, begin and end (exclusive)."""

    index: RowIndices
    firsts: RowIndices
    peers: RowIndices

    @classmethod
    def from_rows(cls, index: RowIndices, order: Sequence[npt.NDArray[np.generic]]) -> Partitions:
        """The partitions of rows, ``index`` being that of each, which are sorted by it and then by ``order``."""
        new = np.ones(len(index), np.bool_)
        new[1:] = index[1:] != index[:-1]
        differs = new.copy()
        for each in order:
            differs[1:] |= each[1:] != each[:-1]
        return cls(index, np.flatnonzero(new), np.flatnonzero(differs))

    def __len__(self) -> int:
        return len(self.index)

    @property
    def starts(self) -> RowIndices:
        """Where the partition of each row begins."""
        return _spread(self.firsts, len(self))[0]

    @property
    def ends(self) -> RowIndices:
        """Where it ends."""
        return _spread(self.firsts, len(self))[1]

    @property
    def peer_starts(self) -> RowIndices:
        """Where the rows that are equal to each row begin."""
        return _spread(self.peers, len(self))[0]

    @property
    def peer_ends(self) -> RowIndices:
        """Where they end."""
        return _spread(self.peers, len(self))[1]

    @property
    def lasts(self) -> RowIndices:
        """The last row of each partition."""
        return np.append(self.firsts[1:], len(self)) - 1 if len(self.firsts) else self.firsts


def _spread(firsts: RowIndices, count: int) -> tuple[RowIndices, RowIndices]:
    """For each of ``count`` rows, where its run begins and ends."""
    sizes = np.diff(firsts, append=count)
    return np.repeat(firsts, sizes), np.repeat(firsts + sizes, sizes)


@dataclass(frozen=True, eq=False)
class Frames:
    """The frame of each row: the positions from ``starts`` to ``ends`` (exclusive)."""

    starts: RowIndices
    ends: RowIndices


def frames_of(frame: Frame, partitions: Partitions, values: OrderValues | None) -> Frames:
    """The frames of sorted rows. ``values`` are those of the only column of the order, which a frame needs that goes by
    them."""
    first, last = partitions.starts, partitions.ends
    if frame.rows:
        rows = np.arange(len(partitions))
        starts = first if frame.start is None else np.clip(rows + int(frame.start), first, last)
        ends = last if frame.end is None else np.clip(rows + int(frame.end) + 1, first, last)
        return Frames(starts, np.maximum(starts, ends))
    starts = _bound(frame.start, partitions, values, end=False)
    ends = _bound(frame.end, partitions, values, end=True)
    return Frames(starts, np.maximum(starts, ends))


def _bound(
    offset: int | Decimal | None, partitions: Partitions, values: OrderValues | None, *, end: bool
) -> RowIndices:
    if offset is None:
        return partitions.ends if end else partitions.starts
    peers = partitions.peer_ends if end else partitions.peer_starts
    if offset == 0 or values is None:
        return peers
    return np.where(values.valid, values.search(partitions, offset, end=end), peers)


@dataclass(frozen=True, eq=False)
class OrderValues:
    """The ``values`` of the column that rows are sorted by, as numbers that grow in that order, with what an offset is
    multiplied by to become such a number. Nulls are before all values, or with ``nulls_last`` behind them."""

    values: npt.NDArray[Any]
    valid: Flags
    scale: Decimal
    nulls_last: bool = False

    @classmethod
    def from_column(cls, column: pa.Array, by: SortColumn, places: int) -> OrderValues:
        """The values of a column of numbers, dates or times; ``places`` is the number of decimal places that offsets
        have."""
        valid, kind = valid_of(column), column.type
        values: npt.NDArray[Any]
        if pa.types.is_decimal(kind):
            places = max(places, kind.scale)
            wide = column.cast(pa.decimal128(38, places), safe=False)
            values, scale = wide_values(wide, 2)[:, 0].view(np.int64), Decimal(10) ** places
        elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
            values, scale = _fixed(column), Decimal(1) / _UNITS[kind.unit] if kind.unit in _UNITS else Decimal(1000)
        elif pa.types.is_date32(kind):
            values, scale = _fixed(column).astype(np.int64) * _DAY, Decimal(1)
        elif pa.types.is_integer(kind) and places:
            values, scale = _fixed(column).astype(np.float64), Decimal(1)
        else:
            values, scale = _fixed(column), Decimal(1)
        values = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
        values = np.where(valid, values, 0)
        return cls(-values if by.descending else values, valid, scale, nulls_last=not by.nulls_first)

    @classmethod
    def from_millis(cls, times: npt.NDArray[np.int64]) -> OrderValues:
        """Times in milliseconds."""
        return cls(times, np.ones(len(times), np.bool_), Decimal(1))

    def search(self, partitions: Partitions, offset: int | Decimal, *, end: bool) -> RowIndices:
        """For each row, where the values of its partition begin that are at least its own and ``offset``; with ``end``
        where those end that are at most that."""
        known = np.unique(self.values[self.valid])
        far = Decimal(offset) * self.scale
        bounds = self.values + (float(far) if known.dtype.kind == "f" else int(far))
        ranks = np.where(self.valid, np.searchsorted(known, self.values), len(known) if self.nulls_last else -1) + 1
        wanted = np.searchsorted(known, bounds, side="right" if end else "left") + 1
        width = len(known) + 2
        return np.searchsorted(partitions.index * width + ranks, partitions.index * width + wanted)


def _fixed(column: pa.Array) -> npt.NDArray[Any]:
    found = fixed_values(column)
    if found is None:
        raise TypeError(f"a frame cannot go by values of {column.type}")
    return found
