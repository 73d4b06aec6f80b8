"""The parts of aggregates for the frame of each row: counts, sums, extremes, first and last values, lists.

They have the columns of the states of groups, so that results come from them as they do in GROUP BY.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.frames import find_appearances, find_least_in_frames, sum_distinct, sum_frames
from penstock.columns.hashing import Groups, Hashes, key_hashes, take_rows
from penstock.columns.ordinals import ordinals, valid_mask
from penstock.columns.sums import ranges
from penstock.columns.wide_decimals import add_limbs, to_limbs, wide_column
from penstock.flow.operators.accumulators import ORDERED, Accumulators, check_sums, counts_of, sum_type
from penstock.flow.operators.deltas import finer_hashes, select_groups
from penstock.flow.operators.group_states import ROWS, GroupStates
from penstock.flow.operators.over_frames import Frames, Partitions
from penstock.flow.rows.envelope import VALUE
from penstock.flow.state.store import Tables

#: About how many bytes the lists of a part have, and how many bytes an element needs beside its value.
_MOST_BYTES, _ELEMENT = 1 << 26, 8


@dataclass(frozen=True, eq=False)
class Carried:
    """The values that are carried into each partition from the rows before, which are in the frames of all rows: the
    ``states`` of the groups, and the tables of their different values."""

    groups: Groups
    states: pa.RecordBatch
    tables: Tables


@dataclass(frozen=True, eq=False)
class Line:
    """Of rows of partitions of which only the last ones are kept: the place of each among all of its partition, and its
    time; and by argument of DISTINCT, the place where its value appeared, below 0 where that is not known yet. A value
    that comes again while it is in the frame stays where it is, as in Flink."""

    places: RowIndices
    times: RowIndices
    appeared: dict[str, RowIndices]


@dataclass(frozen=True, eq=False)
class FramedRows:
    """Sorted ``rows`` with the ``keys`` of each one's partition, and their frames, which with ``carried`` all begin
    where their partition does. Results are made of the rows that are ``wanted``, in ascending order."""

    rows: pa.RecordBatch
    keys: pa.RecordBatch
    partitions: Partitions
    frames: Frames
    wanted: RowIndices
    carried: Carried | None = None
    line: Line | None = None

    def compute_states(self, given: GroupStates) -> FrameStates:
        """The state of the frame of each row that is wanted."""
        rows = self._make_members(np.ones(len(self.rows), np.bool_))
        columns, lists = {ROWS: pa.array(rows.counts(self._find_old(ROWS)))}, {}
        for each in given.accumulators:
            members = self._select_members(each)
            columns |= self._compute_columns(each, members)
            if "VALUES" in each.needs:
                name = each.column("VALUES")
                lists[name] = members.lists(each.values(self.rows), self._find_old(name))
        return FrameStates(given.schema, len(self.wanted), columns, lists)

    def _select_members(self, given: Accumulators) -> _Members:
        """The rows that an argument counts."""
        counted = given.effective_weights(self.rows, np.ones(len(self.rows), np.int64)) != 0
        members = self._make_members(counted)
        return self._keep_distinct(given, members) if given.argument.distinct else members

    def _compute_columns(self, given: Accumulators, members: _Members) -> dict[str, pa.Array]:
        """The columns of an argument, except lists."""
        values, found = given.values(self.rows), {}
        for need in sorted(given.needs - {"VALUES"}):
            name = given.column(need)
            found[name] = members.column(need, values, self._find_old(name))
            if need == "SUM" and given.strict and pa.types.is_integer(sum_type(given.type)):
                nearly = members.sums(values.cast(pa.float64(), safe=False), self._as_float(name))
                keys = take_rows(self.keys, self.wanted)
                check_sums(found[name], np.asarray(fixed_values(nearly)), keys, name)
        return found

    def _as_float(self, name: str) -> pa.Array | None:
        old = self._find_old(name)
        return None if old is None else old.cast(pa.float64(), safe=False)

    def _find_old(self, name: str) -> pa.Array | None:
        return None if self.carried is None else self.carried.states.column(name)

    def _make_members(self, counted: Flags) -> _Members:
        """The rows that count, and before each partition a separate row with the values that are carried into it."""
        starts, ends = self.frames.starts[self.wanted], self.frames.ends[self.wanted]
        if self.carried is None:
            return _Members(counted, np.arange(len(counted)), None, starts, ends)
        index, firsts = self.partitions.index, self.partitions.firsts
        slots, of = np.arange(len(index)) + index + 1, index[self.wanted]
        return _Members(counted, slots, firsts + np.arange(len(firsts)), starts + of, ends + of + 1)

    def _keep_distinct(self, given: Accumulators, members: _Members) -> _Members:
        """The rows with values that count once in each frame."""
        rows = np.flatnonzero(members.counted)
        values = given.values(self.rows).take(pa.array(rows))
        index = self.partitions.index[rows]
        names = [*self.keys.schema.names, VALUE]
        columns = [*take_rows(self.keys, rows).columns, values]
        pairs_of = pa.RecordBatch.from_arrays(columns, names=names)
        pairs = Groups.by_key(finer_hashes(self._hash_values(index), [values]), pairs_of)
        previous = np.full(len(members.counted), -1, np.int64)
        places = rows[pairs.order]
        before = np.concatenate([[-1], places[:-1]])
        before[pairs.starts] = -1
        previous[places] = before
        running = self.line is None and (self.frames.starts == self.partitions.starts).all()
        if self.carried is None and not running:
            return replace(members, previous=previous, appeared=self._find_appeared(given, previous))
        new = members.counted & (previous < 0)
        if self.carried is not None:
            new[rows] &= ~self._note_known(given, pairs)[pairs.index]
        return replace(members, counted=new)

    def _find_appeared(self, given: Accumulators, previous: RowIndices) -> RowIndices | None:
        """Where the value of each row appeared, which is noted from now on."""
        if self.line is None or not given.needs & ORDERED:
            return None
        known = self.line.appeared.get(str(given.argument), np.full(len(previous), -1, np.int64))
        found = find_appearances(known, previous, self.frames.starts, self.line.places)
        self.line.appeared[str(given.argument)] = found
        return found

    def _hash_values(self, index: RowIndices) -> Hashes:
        if self.carried is not None:
            return self.carried.groups.hashes[index]
        return key_hashes([pa.array(index)], len(index))

    def _note_known(self, given: Accumulators, pairs: Groups) -> Flags:
        """Whether the values of groups occurred before. From now on they count as known."""
        assert self.carried is not None  # noqa: S101
        table = self.carried.tables.keyed(given.table)
        known = table.get(pairs)[0]
        new = ~known | table.spec.timed
        weights = pa.RecordBatch.from_arrays([pa.array(np.ones(np.count_nonzero(new), np.int64))], names=["weight"])
        table.put(select_groups(pairs, new), weights, np.ones(len(weights), np.bool_))
        return known


@dataclass(frozen=True, eq=False)
class FrameStates:
    """The states of the frames of ``count`` rows. ``lists`` are made on demand: the lists of all frames may be far
    larger than the rows, and than one column can hold."""

    schema: pa.Schema
    count: int
    columns: Mapping[str, pa.Array]
    lists: Mapping[str, _Lists]

    def at(self, which: RowIndices) -> pa.RecordBatch:
        """The states of some of the frames, in any order."""
        columns = {name: each.take(pa.array(which)) for name, each in self.columns.items()}
        columns |= {name: each.at(which) for name, each in self.lists.items()}
        ordered = [columns[each.name].cast(each.type) for each in self.schema]
        return build_batch(ordered, self.schema, len(which))

    def parts(self, order: RowIndices) -> Sequence[RowIndices]:
        """The frames in this order, in parts whose lists have no more than some 64 MB, except where one frame has."""
        if not self.lists or not len(order):
            return [order]
        sizes = np.sum([each.sizes for each in self.lists.values()], axis=0)[order]
        number = (np.cumsum(sizes) - sizes) // _MOST_BYTES
        return np.split(order, np.flatnonzero(np.diff(number)) + 1)


@dataclass(frozen=True, eq=False)
class _Members:
    """Which rows are ``counted``, at the positions ``slots``, and frames over these positions. What is carried into
    each partition is at the ``carriers``; None if nothing is. Where there are ``previous`` rows with equal values, a
    row counts in the frames that begin behind that one. Where values ``appeared`` at places, their order is that."""

    counted: Flags
    slots: RowIndices
    carriers: RowIndices | None
    starts: RowIndices
    ends: RowIndices
    previous: RowIndices | None = None
    appeared: RowIndices | None = None

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self.slots) + (0 if self.carriers is None else len(self.carriers))

    def column(self, need: str, values: pa.Array, old: pa.Array | None) -> pa.Array:
        """The column of the states that ``need`` names, from the same column of the states that are carried."""
        if need == "COUNT":
            return pa.array(self.counts(old))
        if need == "SUM":
            return self.sums(values.cast(sum_type(values.type), safe=False), old)
        every, counted = self._spread_column(values, old), self._read_flags(old)
        if need in ("MIN", "MAX") or self.appeared is not None:
            order = ordinals(every) if need in ("MIN", "MAX") or self.appeared is None else self.appeared
            found = find_least_in_frames(~order if need in ("MAX", "LAST") else order, counted, self.starts, self.ends)
        else:
            found = self._find_end(counted, last=need == "LAST")
        return every.take(pa.array(found, mask=found < 0))

    def counts(self, old: pa.Array | None) -> npt.NDArray[np.int64]:
        """How many rows count."""
        if self.previous is not None:
            return sum_distinct(np.ones(self.size, np.int64), self.counted, self.previous, self.starts, self.ends)
        return sum_frames(
            self._spread(self.counted.astype(np.int64), None if old is None else counts_of(old)), *self._bounds
        )

    def sums(self, values: pa.Array, old: pa.Array | None) -> pa.Array:
        """The sums of values."""
        if pa.types.is_decimal(values.type):
            return self._sum_decimals(values, old)
        given: Any = fixed_values(values)
        stored: Any = None if old is None else fixed_values(old)
        kept = None if old is None else np.where(valid_mask(old), stored, 0)
        return pa.array(self._accumulate(given, kept))

    def _sum_decimals(self, values: pa.Array, old: pa.Array | None) -> pa.Array:
        limbs, kept = to_limbs(values), None if old is None else to_limbs(old)
        total = np.array([self._accumulate(each, None if kept is None else kept[at]) for at, each in enumerate(limbs)])
        return wide_column(add_limbs(total, np.zeros_like(total)), values.type.scale)

    def _accumulate(self, values: npt.NDArray[Any], kept: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        counting = np.where(self.counted, values, 0).astype(values.dtype)
        if self.previous is not None:
            return sum_distinct(counting, self.counted, self.previous, self.starts, self.ends)
        return sum_frames(self._spread(counting, kept), *self._bounds)

    def lists(self, values: pa.Array, old: pa.Array | None) -> _Lists:
        """The values of frames as lists, behind those that are carried."""
        slots = self.slots[self.counted]
        elements = values.take(pa.array(np.flatnonzero(self.counted)))
        if self.carriers is not None and old is not None:
            sizes = np.asarray(pc.fill_null(pc.list_value_length(old), 0), np.int64)
            slots = np.concatenate([np.repeat(self.carriers, sizes), slots])
            elements = pa.concat_arrays([pc.list_flatten(old), elements])
            order = np.argsort(slots, kind="stable")
            slots, elements = slots[order], elements.take(pa.array(order))
        first, last = np.searchsorted(slots, self.starts), np.searchsorted(slots, self.ends)
        return _Lists(self, slots, elements, first, last)

    @property
    def _bounds(self) -> tuple[RowIndices, RowIndices]:
        return self.starts, self.ends

    def _find_end(self, counted: Flags, *, last: bool) -> RowIndices:
        """The positions of the first or the last values of frames that count; -1 without any."""
        places, before = np.flatnonzero(counted), np.concatenate([[0], np.cumsum(counted)])
        first, end = before[self.starts], before[self.ends]
        found = np.full(len(first), -1, np.int64)
        there = end > first
        found[there] = places[(end - 1 if last else first)[there]]
        return found

    def _read_flags(self, old: pa.Array | None) -> Flags:
        return self._spread(self.counted, None if old is None else valid_mask(old))

    def _spread(self, values: npt.NDArray[Any], kept: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """Values of rows, and of what is carried, at their positions."""
        if self.carriers is None:
            return values
        every = np.zeros(self.size, values.dtype)
        every[self.slots] = values
        if kept is not None:
            every[self.carriers] = kept
        return every

    def _spread_column(self, values: pa.Array, old: pa.Array | None) -> pa.Array:
        if self.carriers is None or old is None:
            return values
        places = np.empty(self.size, np.int64)
        places[self.carriers] = np.arange(len(old))
        places[self.slots] = len(old) + np.arange(len(values))
        return pa.concat_arrays([old, values]).take(pa.array(places))


@dataclass(frozen=True, eq=False)
class _Lists:
    """The ``elements``, at the positions ``slots``, and those of each frame, from the ``firsts`` to the ``lasts``
    (exclusive)."""

    members: _Members
    slots: RowIndices
    elements: pa.Array
    firsts: RowIndices
    lasts: RowIndices

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The bytes of each frame's list, about: no less than a text of its elements has."""
        kind = self.elements.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            widths = np.asarray(pc.fill_null(pc.binary_length(self.elements), 0), np.int64) + _ELEMENT
        else:
            widths = np.full(len(self.elements), _ELEMENT + self.elements.nbytes // max(1, len(self.elements)))
        before = np.concatenate([[0], np.cumsum(widths)])
        return np.asarray(before[self.lasts] - before[self.firsts], np.int64)

    def at(self, which: RowIndices) -> pa.ListArray:
        """The lists of some of the frames."""
        sizes = self.lasts[which] - self.firsts[which]
        places = ranges(self.firsts[which], sizes)
        if self.members.previous is not None:
            frame = np.repeat(np.arange(len(sizes)), sizes)
            once = self.members.previous[self.slots[places]] < self.members.starts[which][frame]
            places, frame = places[once], frame[once]
            sizes = np.bincount(frame, minlength=len(sizes))
            if self.members.appeared is not None:
                places = places[np.lexsort((self.members.appeared[self.slots[places]], frame))]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), self.elements.take(pa.array(places)))
