"""Functions that only OVER has: numbers and shares of rows in their partition, and values of rows before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.equality import RowIndices
from penstock.columns.sums import ranges
from penstock.flow.operators.accumulators import counts_of
from penstock.flow.operators.group_states import ROWS
from penstock.flow.operators.over_values import FramedRows
from penstock.plan.nodes import OverCall
from penstock.types.arrow import arrow_type, quote_name

#: The functions that only OVER has.
FUNCTIONS = frozenset(
    ("ROW_NUMBER", "RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST", "NTILE", "LAG", "LEAD"),
)
_DENSE = "dense rank"


@dataclass(frozen=True)
class OverNumbers:
    """The results of ``calls`` of these functions, over rows with the columns of ``given``."""

    calls: tuple[OverCall, ...]
    given: pa.Schema

    @property
    def kept_calls(self) -> dict[str, OverCall]:
        """The calls for which more is kept of a group than the number of its rows, its last dense rank or its last
        values, by the name of the column."""
        return {make_kept_name(each): each for each in self.calls if each.function in ("DENSE_RANK", "LAG")}

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of what is kept."""
        return tuple(pa.field(name, self._find_kept_type(each)) for name, each in self.kept_calls.items())

    def compute_columns(self, given: FramedRows) -> dict[str, pa.Array]:
        """The results, by the names of the calls."""
        return {each.name: self._compute_result(each, given).cast(arrow_type(each.type)) for each in self.calls}

    def make_state(self, given: FramedRows) -> dict[str, pa.Array]:
        """The columns of :attr:`fields` after these rows."""
        found: dict[str, pa.Array] = {}
        lasts, firsts = given.partitions.lasts, given.partitions.firsts
        for name, each in self.kept_calls.items():
            if each.argument is None:
                found[name] = pa.array(self._rank_densely(given)[lasts])
                continue
            old = None if given.carried is None else given.carried.states.column(name)
            found[name] = _take_last_values(old, given.rows.column(each.argument), firsts, lasts, each.number)
        return found

    def _find_kept_type(self, call: OverCall) -> pa.DataType:
        return pa.int64() if call.argument is None else pa.list_(self.given.field(call.argument).type)

    def _compute_result(self, call: OverCall, given: FramedRows) -> pa.Array:
        partitions, rows = given.partitions, np.arange(len(given.rows))
        start, end = partitions.starts, partitions.ends
        match call.function:
            case "LAG" | "LEAD":
                return self._take_neighbour(call, given)
            case "DENSE_RANK":
                return pa.array(self._rank_densely(given))
            case "NTILE":
                return pa.array(_number_tiles(rows - start, end - start, call.number))
            case "PERCENT_RANK":
                others = np.maximum(end - start - 1, 1)
                return pa.array((partitions.peer_starts - start) / others)
            case "CUME_DIST":
                return pa.array((partitions.peer_ends - start) / (end - start))
        number = partitions.peer_starts if call.function == "RANK" else rows
        places = number - start + 1
        if given.carried is not None:  # then groups are numbered without gaps
            places = places + counts_of(given.carried.states.column(ROWS))[partitions.index]
        return pa.array(places)

    def _rank_densely(self, given: FramedRows) -> npt.NDArray[np.int64]:
        partitions = given.partitions
        places = np.zeros(len(given.rows), np.int64)
        places[partitions.peers] = 1
        numbers = np.cumsum(places)
        numbers -= numbers[partitions.starts] - 1 if len(numbers) else 0
        if given.carried is not None:
            numbers += counts_of(given.carried.states.column(_DENSE))[partitions.index]
        return numbers

    def _take_neighbour(self, call: OverCall, given: FramedRows) -> pa.Array:
        """The values that many rows before or after each row; in a frame that includes equal rows, before its last row,
        as in Flink."""
        values = given.rows.column(call.argument)
        starts, ends = given.partitions.starts, given.partitions.ends
        if call.function == "LEAD":
            found = np.arange(len(values)) + call.number
            found = np.where(found < ends, found, -1)
        else:
            found = given.frames.ends - 1 - call.number
            found = np.where(found >= starts, found, -1 - (starts - found))  # -2: the last one that is carried
        every = values.take(pa.array(found, mask=found < 0))
        missing = found < 0
        if given.carried is not None and call.function == "LAG":
            stored = given.carried.states.column(make_kept_name(call))
            sizes = _count_values(stored)
            behind = -1 - found  # how many values before the first row of the partition
            index = given.partitions.index
            there = missing & (behind <= sizes[index])
            places = np.cumsum(sizes)[index] - behind
            flat = pc.list_flatten(stored)
            every = pc.if_else(pa.array(there), flat.take(pa.array(places, mask=~there)), every)
            missing &= ~there
        if call.default is None or not missing.any():
            return every
        return pc.if_else(pa.array(missing), given.rows.column(call.default).cast(every.type), every)


def split_calls(calls: Sequence[OverCall]) -> tuple[tuple[OverCall, ...], tuple[OverCall, ...]]:
    """The calls of aggregates, and those of functions that only OVER has."""
    numbers = tuple(each for each in calls if each.function in FUNCTIONS)
    return tuple(each for each in calls if each not in numbers), numbers


def make_kept_name(call: OverCall) -> str:
    """The name of the column with what is kept for a call: the last dense rank, or the last values."""
    return _DENSE if call.argument is None else f"LAST {call.number} {quote_name(call.argument)}"


def _take_last_values(
    old: pa.ListArray | None, values: pa.Array, firsts: RowIndices, lasts: RowIndices, number: int
) -> pa.ListArray:
    """The last values of each partition, no more than ``number``."""
    sizes = np.zeros(len(firsts), np.int64) if old is None else _count_values(old)
    every = values if old is None else pa.concat_arrays([pc.list_flatten(old), values])
    new = np.minimum(lasts - firsts + 1, number)
    stored = np.minimum(sizes, number - new)
    ends, shift = np.cumsum(sizes), int(sizes.sum())
    starts = np.stack([ends - stored, shift + lasts + 1 - new], axis=1).ravel()
    lengths = np.stack([stored, new], axis=1).ravel()
    offsets = np.concatenate([[0], np.cumsum(stored + new)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), every.take(pa.array(ranges(starts, lengths))))


def _count_values(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    found: Any = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(found, np.int64)


def _number_tiles(places: RowIndices, sizes: RowIndices, number: int) -> RowIndices:
    """The tile of each row, among ``number`` tiles, of which the first ones may have one more row."""
    least, more = sizes // number, sizes % number
    border = more * (least + 1)
    first = places // (least + 1)
    rest = more + (places - border) // np.maximum(least, 1)
    return np.where(places < border, first, rest) + 1


def arrange_columns(columns: Mapping[str, pa.Array], schema: pa.Schema) -> list[pa.Array]:
    """The columns of a state in the order of its schema."""
    return [columns[each.name].cast(each.type) for each in schema]
