"""Values of groups in the order of their arrival, for FIRST_VALUE, LISTAGG, ARRAY_AGG and COLLECT."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Groups, key_hashes
from penstock.columns.ordinals import valid_mask
from penstock.errors import ExecutionError
from penstock.flow.operators.extremes import GroupValues
from penstock.plan.expressions import Place


def ends_of_added(old: Mapping[str, pa.Array], given: GroupValues, groups: int) -> dict[str, pa.Array]:
    """``FIRST`` and ``LAST`` of each group after these values were added; null without values."""
    result = {}
    for name, column in old.items():
        every = pa.concat_arrays([column, given.values])
        rows = np.concatenate([np.flatnonzero(valid_mask(column)), groups + np.flatnonzero(given.weights)])
        index = np.concatenate([np.arange(groups), given.index])
        rows = rows[::-1] if name == "FIRST" else rows
        chosen = np.full(groups, -1, np.int64)
        chosen[index[rows]] = rows  # of equal indices, numpy keeps the last value
        result[name] = every.take(pa.array(chosen, mask=chosen < 0))
    return result


def lists_of_changed(old: pa.ListArray, given: GroupValues, groups: int) -> pa.ListArray:
    """The lists of groups after these changes, which are in the order of their arrival: an added value is appended, a
    retraction removes the first value that is equal to it, or nothing."""
    stored = pc.list_flatten(old)
    added, removed = np.flatnonzero(given.weights > 0), np.flatnonzero(given.weights < 0)
    new = np.repeat(added, given.weights[added])
    index = np.concatenate([np.repeat(np.arange(groups), _count_values(old)), given.index[new]])
    values = pa.concat_arrays([stored, given.values.take(pa.array(new))])
    if len(removed):
        every = pa.concat_arrays([values, given.values.take(pa.array(removed))])
        same = _group_values(np.concatenate([index, given.index[removed]]), every)
        gone = np.zeros(len(same), np.int64)
        np.add.at(gone, same.index[len(index) :], -given.weights[removed])
        rank = _rank_values(same)[: len(index)]
        kept = np.flatnonzero(rank >= gone[same.index[: len(index)]])
        index, values = index[kept], values.take(pa.array(kept))
    return _make_lists(index, values, groups)


def ends_of_lists(lists: pa.ListArray, *, last: bool) -> pa.Array:
    """The first or the last value of each list; null for an empty one."""
    sizes = _count_values(lists)
    ends = np.cumsum(sizes)
    places = ends - 1 if last else ends - sizes
    return pc.list_flatten(lists).take(pa.array(places, mask=sizes == 0))


def take_only_values(lists: pa.ListArray, place: Place | None) -> pa.Array:
    """The one value of each list; null for an empty one. Raises ExecutionError for a list of several values, with the
    ``place`` of the query that is used as a value."""
    if (_count_values(lists) > 1).any():
        where = f"{place}: " if place else ""
        hint = "aggregate its rows, as in MAX(..), or keep one of them with ORDER BY .. LIMIT 1"
        raise ExecutionError(f"{where}a query used as a value returned several rows ({hint})")
    return ends_of_lists(lists, last=False)


def join_texts(lists: pa.ListArray, separator: str) -> pa.Array:
    """The texts of each list, with a separator between them; null for an empty one."""
    return _clear_empty(pc.binary_join(lists, pa.scalar(separator, lists.type.value_type)), lists)


def make_arrays(lists: pa.ListArray) -> pa.Array:
    """The lists; null for an empty one."""
    return _clear_empty(lists, lists)


def make_multisets(lists: pa.ListArray, kind: pa.MapType) -> pa.Array:
    """How often each value is in each list, as a map from values; equal multisets are equal maps."""
    sizes = _count_values(lists)
    index, values = np.repeat(np.arange(len(lists)), sizes), pc.list_flatten(lists)
    same = _group_values(index, values)
    firsts = same.order[same.starts]
    hashes = key_hashes([values.take(pa.array(firsts))])
    order = np.lexsort((hashes, index[firsts]))
    counts = np.bincount(same.index, minlength=len(same))[order]
    offsets = _find_offsets(index[firsts], len(lists))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        values.take(pa.array(firsts[order])).cast(kind.key_type),
        pa.array(counts).cast(kind.item_type),
        kind,
    )


def _group_values(index: RowIndices, values: pa.Array) -> Groups:
    """Values of groups by group and value, and within these in the order of arrival."""
    pairs = pa.RecordBatch.from_arrays([pa.array(index), values], names=["group", "value"])
    return Groups.by_key(key_hashes(pairs.columns), pairs)


def _rank_values(same: Groups) -> RowIndices:
    """How many equal values came before each."""
    ranks = np.empty(len(same.order), np.int64)
    sizes = np.diff(same.starts, append=len(same.order))
    ranks[same.order] = np.arange(len(same.order)) - np.repeat(same.starts, sizes)
    return ranks


def _make_lists(index: RowIndices, values: pa.Array, groups: int) -> pa.ListArray:
    """The values of each group as a list."""
    order = np.argsort(index, kind="stable")
    offsets = pa.array(_find_offsets(index, groups), pa.int32())
    return pa.ListArray.from_arrays(offsets, values.take(pa.array(order)))


def _find_offsets(index: RowIndices, groups: int) -> npt.NDArray[np.int64]:
    """Where the values of each group begin and end, once they are sorted by group."""
    offsets = np.zeros(groups + 1, np.int64)
    np.cumsum(np.bincount(index, minlength=groups), out=offsets[1:])
    return offsets


def _count_values(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    found = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(found, np.int64)


def _clear_empty(values: pa.Array, lists: pa.ListArray) -> pa.Array:
    """The values, null where the list is empty."""
    return pc.if_else(pa.array(_count_values(lists) > 0), values, pa.scalar(None, values.type))
