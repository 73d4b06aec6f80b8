"""The frames of rows in OVER: which rows around a row its aggregates are over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.ordinals import Ordinals, ordinals, valid_mask
from penstock.plan.nodes import Frame, SortColumn

#: How many units of a time's Arrow type a millisecond has.
_UNITS = {"s": Fraction(1, 1000), "ms": Fraction(1), "us": Fraction(1000), "ns": Fraction(1_000_000)}
_DAY = 86_400_000
_LEAST, _GREATEST = -(2**63), 2**63 - 1
_EXACT = Context(prec=50)


@dataclass(frozen=True, eq=False)
class Partitions:
    """Rows in order, of one partition after the other: where the partition of each row, and where the rows that are
    equal to it in the order, begin and end (exclusive)."""

    index: RowIndices
    firsts: RowIndices
    peers: RowIndices

    @classmethod
    def from_rows(cls, index: RowIndices, order: Sequence[npt.NDArray[np.generic]]) -> Partitions:
        """The partitions of rows, which are sorted by their partition ``index`` and then by ``order``."""
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
    """The frames of sorted rows. ``values`` are the values of the only column of the order, which frames by value
    need."""
    first, last = partitions.starts, partitions.ends
    if frame.rows:
        rows = np.arange(len(partitions))
        starts = first if frame.start is None else np.clip(rows + rows_within(frame.start, len(rows)), first, last)
        ends = last if frame.end is None else np.clip(rows + rows_within(frame.end, len(rows)) + 1, first, last)
        return Frames(starts, np.maximum(starts, ends))
    starts = _find_bound(frame.start, partitions, values, end=False)
    ends = _find_bound(frame.end, partitions, values, end=True)
    return Frames(starts, np.maximum(starts, ends))


def rows_within(offset: int | Decimal, count: int) -> int:
    """A number of rows to go forward or back, at most as many as there are."""
    return max(-count, min(int(offset), count))


def _find_bound(
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
    """The values of the ``column`` that rows are sorted by. An offset times ``scale`` is a distance between whole
    numbers of the column; of floating-point ones it is one itself."""

    column: pa.Array
    descending: bool
    nulls_last: bool
    scale: Fraction

    @classmethod
    def from_column(cls, column: pa.Array, by: SortColumn) -> OrderValues:
        """The values of a column of numbers, dates or times."""
        kind = column.type
        if pa.types.is_decimal(kind):
            scale = Fraction(10**kind.scale)
        elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
            scale = _UNITS[kind.unit]
        else:
            scale = 1 / Fraction(_DAY) if pa.types.is_date32(kind) else Fraction(1)
        return cls(column, by.descending, not by.nulls_first, scale)

    @classmethod
    def from_millis(cls, times: npt.NDArray[np.int64]) -> OrderValues:
        """Times in milliseconds."""
        return cls(pa.array(times), descending=False, nulls_last=True, scale=Fraction(1))

    @cached_property
    def valid(self) -> Flags:
        """Which values are not null."""
        return valid_mask(self.column)

    def search(self, partitions: Partitions, offset: int | Decimal, *, end: bool) -> RowIndices:
        """For each row, where the values of its partition begin that are at least its own and ``offset``; with ``end``
        where those end that are at most that. NaN is further than any offset from other values."""
        values, bounds, beyond = self._find_bounds(Fraction(offset), end=end)
        known = np.unique(values[self.valid])
        ranks = np.where(self.valid, np.searchsorted(known, values), len(known) if self.nulls_last else -1) + 1
        wanted = np.searchsorted(known, bounds, side="right" if end else "left")
        wanted = np.where(beyond == 0, wanted, np.where(beyond > 0, len(known), 0)) + 1
        width = len(known) + 2
        return np.searchsorted(partitions.index * width + ranks, partitions.index * width + wanted)

    def _find_bounds(self, offset: Fraction, *, end: bool) -> tuple[Ordinals, Ordinals, npt.NDArray[np.int64]]:
        """The values and their bounds as numbers that grow in the order of rows; and which bounds are larger (1) or
        smaller (-1) than all numbers."""
        inside = np.zeros(len(self.column), np.int64)
        if pa.types.is_floating(self.column.type):
            wide = np.asarray(fixed_values(self.column), np.float64)
            with np.errstate(over="ignore"):
                moved = wide + float(-offset if self.descending else offset)
            return self._direct(ordinals(pa.array(wide))), self._direct(ordinals(pa.array(moved))), inside
        # Of whole numbers, the bound is the next one inside of the frame.
        distance = math.floor(offset * self.scale) if end else math.ceil(offset * self.scale)
        if pa.types.is_decimal(self.column.type):
            both = self._direct(ordinals(self._shift_decimals(-distance if self.descending else distance)))
            return both[: len(inside)], both[len(inside) :], inside
        values = self._direct(ordinals(self.column))
        bounds = (values.view(np.uint64) + np.uint64(distance % 2**64)).view(np.int64)
        room = (_GREATEST - distance) if distance > 0 else (_LEAST - distance)
        room = min(max(room, _LEAST), _GREATEST)
        if distance > 0:
            return values, bounds, inside + ((values > room) | (distance >= 2**64))
        return values, bounds, inside - ((values < room) | (distance <= -(2**64)))

    def _shift_decimals(self, distance: int) -> pa.Array:
        """The values of a column of decimals, and then those so far from them."""
        kind, far = self.column.type, 2 * 10**38
        wide = self.column.cast(pa.decimal256(40, kind.scale))
        step = Decimal(max(-far, min(distance, far))).scaleb(-kind.scale, _EXACT)
        moved = pc.add(wide, pa.scalar(step, wide.type))
        return pa.concat_arrays([wide.cast(moved.type), moved])

    def _direct(self, numbers: Ordinals) -> Ordinals:
        return ~numbers if self.descending else numbers
