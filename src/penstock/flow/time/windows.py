"""Windows of time: which a row belongs to, and when they close.

Rows are counted in slices, of which windows consist: each row is in one slice, and overlapping windows share them. All
times here are local: those of the wall clock for moments (TIMESTAMP_LTZ), as the column has them otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.equality import Flags
from penstock.flow.time.watermarks import millis_of
from penstock.flow.time.zones import Millis, Zone
from penstock.plan.windowing import Attached, Windowing, WindowKind


@dataclass(frozen=True)
class Slices:
    """The slices of TUMBLE, HOP and CUMULATE. A slice or a window is known by its end, which is not part of it.

    A window closes when the watermark reaches the last millisecond in it.
    """

    windowing: Windowing
    zone: Zone

    @property
    def length(self) -> int:
        """The length of a slice."""
        each = self.windowing
        return math.gcd(each.size, each.stride) if each.kind is WindowKind.HOP else each.stride

    def assign(self, rows: pa.RecordBatch, now: int) -> tuple[Millis, Flags]:
        """The slice of each row, and whether it has a time. ``now`` is that of processing."""
        if self.windowing.processing:
            instants, valid = np.full(len(rows), now), np.ones(len(rows), np.bool_)
        else:
            instants, valid = millis_of(rows.column(self.windowing.time))
        local = self.zone.local(instants)
        return local - (local - self.windowing.offset) % self.length + self.length, valid

    def windows(self, slice_end: int) -> range:
        """The windows that a slice is part of: none where HOP leaves gaps."""
        each = self.windowing
        if each.kind is WindowKind.CUMULATE:
            last = self._longest(slice_end) + each.size
        else:
            last = slice_end - self.length + each.size
        first = slice_end + (each.offset + each.size - slice_end) % each.stride
        return range(first, last + 1, each.stride)

    def is_end(self, time: int, *, slices: bool) -> bool:
        """Whether a slice may end at a time, or else a window."""
        each = self.windowing
        if slices:
            return (time - each.offset) % self.length == 0
        return (time - each.offset - each.size) % each.stride == 0

    def start(self, window: int) -> int:
        """The start of a window."""
        return self._longest(window) if self.windowing.kind is WindowKind.CUMULATE else window - self.windowing.size

    def closing(self, windows: Millis) -> Millis:
        """When windows close: the watermark that does it."""
        return self.zone.instants(windows - 1)

    def _longest(self, end: int) -> int:
        """The start of the windows of CUMULATE that contain this end."""
        each = self.windowing
        return end - 1 - (end - 1 - each.offset) % each.size


@dataclass(frozen=True)
class AttachedSlices:
    """Windows that rows were assigned to before: a slice is a window."""

    windowing: Attached
    zone: Zone

    def assign(self, rows: pa.RecordBatch, now: int) -> tuple[Millis, Flags]:
        """The window of each row, and whether it has one."""
        return millis_of(rows.column(self.windowing.end))

    def windows(self, slice_end: int) -> range:
        """The slice itself."""
        return range(slice_end, slice_end + 1)

    def closing(self, windows: Millis) -> Millis:
        """When windows close: the watermark that does it."""
        return self.zone.instants(windows - 1)


def time_column(windowing: Windowing | Attached) -> str:
    """The column by which rows are assigned to windows; empty for processing time."""
    if isinstance(windowing, Attached):
        return windowing.end
    return "" if windowing.processing else windowing.time


def last_windows(slices: Slices | AttachedSlices, ends: Millis) -> Millis:
    """The last window of each slice; for a slice without windows, one that is always closed."""
    found = [slices.windows(end) for end in ends.tolist()]
    return np.array([each[-1] if each else np.iinfo(np.int64).min + 1 for each in found], np.int64)
