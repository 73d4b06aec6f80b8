"""MIN and MAX per group: of values that are only added, and of values that are retracted too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, key_hashes
from penstock.columns.ordinals import Ordinals, ordinals, valid_mask
from penstock.columns.sums import smallest, sums
from penstock.flow.operators.deltas import select_groups
from penstock.flow.state.store import MultisetState


@dataclass(frozen=True, eq=False)
class GroupValues:
    """Values of groups with their weights; ``index`` is the group of each."""

    index: RowIndices
    values: pa.Array
    weights: npt.NDArray[np.int64]

    def at(self, rows: RowIndices) -> GroupValues:
        """Some of the values."""
        return GroupValues(self.index[rows], self.values.take(pa.array(rows)), self.weights[rows])


def extremes_of_added(old: Mapping[str, pa.Array], given: GroupValues, groups: int) -> dict[str, pa.Array]:
    """``MIN`` and ``MAX`` of each group after these values were added; null without values."""
    result = {}
    for name, column in old.items():
        before = np.flatnonzero(valid_mask(column))
        every = pa.concat_arrays([column, given.values])
        rows = np.concatenate([before, groups + np.flatnonzero(given.weights)])
        index = np.concatenate([np.arange(groups), given.index])
        result[name] = _take_or_null(every, smallest(index, rows, _order_ascending(name, ordinals(every)), groups))
    return result


def extremes_of_changed(
    old: Mapping[str, pa.Array], given: GroupValues, groups: Groups, stored: MultisetState
) -> dict[str, pa.Array]:
    """``MIN`` and ``MAX`` of each group after these net changes of its values, of which ``stored`` has those before.

    Only groups that lost their old extreme, and got no better value, are read from the table.
    """
    added, removed = np.flatnonzero(given.weights > 0), np.flatnonzero(given.weights < 0)
    size = len(groups)
    every_group = np.arange(size)
    index = np.concatenate([every_group, given.index])
    lost = np.zeros(size, np.bool_)
    result = {}
    for name, column in old.items():
        every = pa.concat_arrays([column, given.values])
        order = _order_ascending(name, ordinals(every))
        stays = valid_mask(column)
        owners = given.index[removed]
        gone = owners[stays[owners] & (order[size + removed] == order[owners])]
        best = smallest(index, size + added, order, size)
        lost[gone[(best[gone] < 0) | (order[best[gone]] > order[gone])]] = True
        stays[gone] = False
        rows = np.concatenate([np.flatnonzero(stays), size + added])
        result[name] = _take_or_null(every, smallest(index, rows, order, size))
    if not lost.any():
        return result
    left = _list_live_values(groups, lost, given, stored)
    for name, column in result.items():
        best = smallest(left.index, np.arange(len(left.index)), _order_ascending(name, ordinals(left.values)), size)
        every = pa.concat_arrays([column, left.values])
        places = np.where(lost, np.where(best < 0, -1, best + size), every_group)
        result[name] = _take_or_null(every, places)
    return result


def _list_live_values(groups: Groups, lost: Flags, given: GroupValues, stored: MultisetState) -> GroupValues:
    """All values that these groups have now."""
    subset, found, weights = stored.get(select_groups(groups, lost))
    changed = given.at(np.flatnonzero(lost[given.index]))
    index = np.concatenate([np.flatnonzero(lost)[subset], changed.index])
    values = pa.concat_arrays([found.column(0), changed.values])
    pairs = pa.RecordBatch.from_arrays([pa.array(index), values], names=["group", "value"])
    same = Groups.by_key(key_hashes(pairs.columns), pairs)
    total = sums(same.index, np.concatenate([weights, changed.weights]), len(same))
    positive = np.flatnonzero(total > 0)
    firsts = same.order[same.starts[positive]]
    return GroupValues(index[firsts], values.take(pa.array(firsts)), total[positive])


def _order_ascending(name: str, order: Ordinals) -> Ordinals:
    """Ordered so that the extreme is the smallest."""
    return ~order if name == "MAX" else order


def _take_or_null(column: pa.Array, rows: RowIndices) -> pa.Array:
    """The values at these rows; null where a row is -1."""
    return column.take(pa.array(rows, mask=rows < 0))
