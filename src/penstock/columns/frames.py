"""Loops over the frames of rows: sums and extremes of the values from one position to another, for each row.

Frames are given by their ``starts`` and ``ends`` (exclusive), neither of which ever goes back from one row to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.loops.compiled import Vector, compiled

Positions = npt.NDArray[np.int64]


@compiled
def _add_up(out: Vector, values: Vector, starts: Vector, ends: Vector) -> None:
    zero = out[0]
    start, end, total = -1, -1, zero
    for row in range(len(starts)):
        if starts[row] != start:
            start, end, total = starts[row], starts[row], zero
        for at in range(end, ends[row]):
            total += values[at]
        end = max(end, ends[row])
        out[row] = total


@compiled
def _add_different(
    out: Vector, values: Vector, counted: Vector, previous: Vector, starts: Vector, ends: Vector
) -> None:
    for row in range(len(starts)):
        if row > 0 and starts[row] == starts[row - 1] and ends[row] == ends[row - 1]:
            out[row] = out[row - 1]
            continue
        for at in range(starts[row], ends[row]):
            if counted[at] and previous[at] < starts[row]:
                out[row] += values[at]


@compiled
def _find_least(out: Vector, order: Vector, counted: Vector, starts: Vector, ends: Vector, waiting: Vector) -> None:
    # The waiting values are in ascending order: the first is the least of the frame.
    head, tail, filled = 0, 0, 0
    for row in range(len(starts)):
        if filled < starts[row]:
            head, tail, filled = 0, 0, starts[row]
        while filled < ends[row]:
            if counted[filled]:
                while tail > head and order[waiting[tail - 1]] > order[filled]:
                    tail -= 1
                waiting[tail] = filled
                tail += 1
            filled += 1
        while head < tail and waiting[head] < starts[row]:
            head += 1
        out[row] = waiting[head] if head < tail else -1


@compiled
def _find_appearances(out: Vector, previous: Vector, starts: Vector, places: Vector) -> None:
    for row in range(len(out)):
        if out[row] < 0:
            before = previous[row]
            out[row] = out[before] if before >= starts[row] else places[row]


def sum_frames(values: npt.NDArray[Any], starts: Positions, ends: Positions) -> npt.NDArray[Any]:
    """The sums of the values of frames. Whole numbers wrap; others are added one after the other, from the start."""
    if values.dtype.kind == "f":
        out = np.zeros(len(starts), values.dtype)
        if len(starts):
            with np.errstate(over="ignore", invalid="ignore"):
                _add_up(out, values, starts, ends)
        return out
    before = np.zeros(len(values) + 1, values.dtype)
    np.cumsum(values, out=before[1:])
    return before[ends] - before[starts]


def sum_distinct(
    values: npt.NDArray[Any], counted: npt.NDArray[np.bool_], previous: Positions, starts: Positions, ends: Positions
) -> npt.NDArray[Any]:
    """The sums of the distinct ``counted`` values of frames. ``previous`` is the position of the last equal counted
    value before each value."""
    out = np.zeros(len(starts), values.dtype)
    _add_different(out, values, counted, previous, starts, ends)
    return out


def find_appearances(known: Positions, previous: Positions, starts: Positions, places: Positions) -> Positions:
    """The place where the value of each row first appeared in its frame: ``known`` if that is not negative; the place
    of the equal value at ``previous``, if that is in the frame; else the place of the row."""
    out = known.copy()
    _find_appearances(out, previous, starts, places)
    return out


def find_least_in_frames(
    order: npt.NDArray[np.int64], counted: npt.NDArray[np.bool_], starts: Positions, ends: Positions
) -> Positions:
    """The position of the least ``counted`` value of each frame; -1 without any."""
    out = np.full(len(starts), -1, np.int64)
    _find_least(out, order, counted, starts, ends, np.empty(len(order), np.int64))
    return out
