"""Rows of groups: sums and extremes per group, by compiled loops, and the numbers of rows that follow one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.loops.compiled import Vector, compiled


@compiled
def _add(out: Vector, index: Vector, values: Vector) -> None:
    for row in range(len(index)):
        out[index[row]] += values[row]


@compiled
def _add_weighted(out: Vector, index: Vector, values: Vector, weights: Vector) -> None:
    for row in range(len(index)):
        if weights[row] != 0:
            out[index[row]] += values[row] * weights[row]


@compiled
def _find_smallest(out: Vector, index: Vector, rows: Vector, values: Vector) -> None:
    for at in range(len(rows)):
        row = rows[at]
        found = out[index[row]]
        if found < 0 or values[row] < values[found]:
            out[index[row]] = row


def sums(index: npt.NDArray[np.int64], values: npt.NDArray[Any], groups: int) -> npt.NDArray[Any]:
    """The sum of the values of each group, where ``index`` is the group of each row. Whole numbers wrap."""
    out = np.zeros(groups, values.dtype)
    _add(out, index, values)
    return out


def weighted_sums(
    index: npt.NDArray[np.int64], values: npt.NDArray[Any], weights: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[Any]:
    """The sum of the values of each group, each times its weight. Values of weight 0 do not count, NaN among them."""
    out = np.zeros(groups, values.dtype)
    _add_weighted(out, index, values, weights)
    return out


def smallest(
    index: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], values: npt.NDArray[np.int64], groups: int
) -> npt.NDArray[np.int64]:
    """Of each group, which of ``rows`` has the smallest of ``values``, the first of equal ones; -1 without rows."""
    out = np.full(groups, -1, np.int64)
    _find_smallest(out, index, rows, values)
    return out


def ranges(starts: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The ``sizes[i]`` numbers from ``starts[i]`` on, for each i."""
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(int(sizes.sum()))
