"""OVER in the order of time: rows with aggregates of those before them, which are final when they are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import batch_of
from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.hashing import Groups, Hashes, take_rows
from penstock.columns.ordinals import valid_of
from penstock.flow.operators.aggregate import GROUPS
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext, TimeDomain, places_of
from penstock.flow.operators.deltas import Delta, concat_columns, select_groups, whole_rows
from penstock.flow.operators.node_operators import JobFacts, NodeOperator
from penstock.flow.operators.over_frames import OrderValues, Partitions, rows_within
from penstock.flow.operators.over_functions import OverFunctions
from penstock.flow.operators.over_rows import OverRowsOperator
from penstock.flow.operators.over_values import Carried
from penstock.flow.operators.timers import TIMERS, parts_of, set_timers, timers_table
from penstock.flow.rows.envelope import ARRIVED, arrivals_of, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import Clock, millis_of
from penstock.flow.time.zones import Millis
from penstock.plan.kept_state import KeptGroups
from penstock.plan.nodes import OverAggregate

_WAITING, _FRAMES, _POSITIONS = "waiting rows", "rows of frames", "positions"
#: The columns of kept rows with their time, and their place among the rows of their key in the order of arrival.
_TIME, _ARRIVAL = "__time", "__arrival"
_PLACE = [pa.field(_TIME, pa.int64()), pa.field(_ARRIVAL, pa.int64())]
#: Of a key: the latest time of its rows, that of the last row that was given, and how many rows have come.
_POSITION = pa.schema([pa.field(name, pa.int64()) for name in ("latest", "passed", "arrived")])


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows with the columns of the input, the group of each, its time and its place in the order of arrival."""

    rows: pa.RecordBatch
    groups: RowIndices
    times: Millis
    arrivals: RowIndices

    def __len__(self) -> int:
        return len(self.groups)

    def at(self, which: RowIndices | Flags) -> _Rows:
        """Some of the rows."""
        chosen: RowIndices = np.flatnonzero(which) if which.dtype == np.bool_ else which.astype(np.int64, copy=False)
        return _Rows(take_rows(self.rows, chosen), self.groups[chosen], self.times[chosen], self.arrivals[chosen])

    def with_rows(self, other: _Rows) -> _Rows:
        """These rows, and then others."""
        return _Rows(
            pa.concat_batches([self.rows, other.rows]),
            np.concatenate([self.groups, other.groups]),
            np.concatenate([self.times, other.times]),
            np.concatenate([self.arrivals, other.arrivals]),
        )

    def stored(self, given: Input) -> pa.RecordBatch:
        """The values of the tables of rows."""
        columns = [*self.rows.select(given.value_schema.names).columns, pa.array(self.times), pa.array(self.arrivals)]
        return batch_of(columns, _stored_schema(given), len(self))


@dataclass(frozen=True)
class OverOperator(OneInputOperator):
    """Gives rows with the results of functions over the rows before them in their partition, by the event time in
    ``time`` when the watermark reaches them, or without it as they come, by processing time.

    If frames have all rows before a row, the state of a partition is that of a group. Then, as in Flink, a row is late
    behind the watermark. Otherwise the rows are kept that are in the frames of later ones, and a row is late if one of
    its time or later was given of its partition; those at or before 1970 are late, too. A partition of a frame with a
    length of time is forgotten when it has had no row for half as long again, as in Flink.
    """

    functions: OverFunctions
    time: str

    @classmethod
    def from_node(cls, node: OverAggregate, *, strict: bool = False) -> OverOperator:
        """The operator of a plan's node that is ordered by time."""
        functions = OverFunctions.from_node(node, strict=strict)
        return cls(node.uid, (functions.given,), functions.schema, functions, node.time)

    @property
    def kept_groups(self) -> KeptGroups | None:
        functions = self.functions
        return replace(functions.aggregates.kept_groups, last=functions.numbers.kept_calls) if self._running else None

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME if self.time else TimeDomain.PROCESSING_TIME

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def ordered(self) -> bool:
        return True

    @property
    def times(self) -> tuple[str, ...]:
        return (self.time,)

    def places_by_time(self, rows: pa.RecordBatch) -> RowIndices:
        return places_of(rows.column(self.time)) if self.time else np.arange(len(rows))

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,), key = self.inputs, self.inputs[0].key_schema
        side = None if self._length is not None else 0
        found = []
        if self._running:
            found += [TableSpec(GROUPS, key, self.functions.state_schema, "keyed", exact=True)]
            found += [table for each in self.functions.accumulators for table in each.tables]
        else:
            found.append(TableSpec(_FRAMES, key, _stored_schema(given), "multiset", side=side))
        if self.time or not self._running:
            found.append(TableSpec(_POSITIONS, key, _POSITION, "keyed", side=side))
        if self.time:
            found.append(TableSpec(_WAITING, key, _stored_schema(given), "multiset", side=None, parted=True))
        if self._length is not None:
            found.append(timers_table(given))
        return tuple(found)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        state, clock = context.state, context.clock
        after = clock.after
        # A row behind the watermark that is not late waits for it to move on, as in Flink.
        due = [each for each in self._times(state) if each <= after] if clock.moves else []
        waiting = [state.part(each).multiset(_WAITING).everything() for each in due] if self.time else []
        timers = [state.part(each).keyed(TIMERS).everything() for each in due] if self._length is not None else []
        stored = [*waiting, *timers]
        hashes = np.concatenate([hashes_of(batch), *(each.hashes for each in stored)])
        if not len(hashes):
            return
        keys = [batch.select(self._given.keys).columns, *(list(each.keys) for each in stored)]
        groups = Groups.by_key(hashes, concat_columns(keys, self._given.key_schema, len(hashes)))
        positions = self._positions(state, groups)
        new, late = self._new(batch, groups, positions, clock)
        known = sum(map(len, waiting))
        before = self._stored(groups, groups.index[len(batch) : len(batch) + known], [each.values for each in waiting])
        for each in due:
            state.drop(each)
        every = new.with_rows(before)
        reached = (every.times <= after) & clock.moves if self.time else np.ones(len(every), np.bool_)
        self._wait(every.at(~reached), groups, state, after)
        given = every.at(reached)
        gone = self._note(groups, new, given, positions, state, clock)
        context.count_late(late)
        context.emit(self._given_rows(given, groups, gone, state))

    # --- rows that come ---------------------------------------------------------------------------------------

    @property
    def _given(self) -> Input:
        return self.inputs[0]

    @property
    def _running(self) -> bool:
        return self.functions.frame.running

    @property
    def _length(self) -> int | None:
        """The length of frames in milliseconds; None for others."""
        frame = self.functions.frame
        return None if frame.rows or frame.start is None else -int(frame.start)

    def _times(self, state: StateStore) -> list[int]:
        """The times of all parts."""
        found = set(state.times(_WAITING)) if self.time else set()
        return sorted(found | set(state.times(TIMERS) if self._length is not None else ()))

    def _positions(self, state: StateStore, groups: Groups) -> dict[str, npt.NDArray[np.int64]]:
        """The columns of positions of the groups; a group without any has passed the beginning of 1970, as in Flink."""
        if self._running and not self.time:
            return {each.name: np.zeros(len(groups), np.int64) for each in _POSITION}
        _, values = state.keyed(_POSITIONS).get(groups)
        return {name: _numbers(column) for name, column in zip(_POSITION.names, values.columns, strict=True)}

    def _new(
        self, batch: pa.RecordBatch, groups: Groups, positions: dict[str, npt.NDArray[np.int64]], clock: Clock
    ) -> tuple[_Rows, int]:
        """The rows of a batch that are not late, and the number of the others."""
        index = groups.index[: len(batch)]
        times, kept = np.full(len(batch), clock.now), np.ones(len(batch), np.bool_)
        if self.time:
            times, valid = millis_of(batch.column(self.time))
            kept = valid & (times > (clock.before if self._running else positions["passed"][index]))
        rows = np.repeat(np.arange(len(batch)), np.where(kept, weights_of(batch), 0))
        arrivals = positions["arrived"][index[rows]] + _ranks(index[rows])
        found = _Rows(take_rows(batch.select(self._given.schema.names), rows), index[rows], times[rows], arrivals)
        if ARRIVED in batch.schema.names and not self.time:
            found = found.at(np.argsort(arrivals_of(batch)[rows], kind="stable"))
        return found, int(np.count_nonzero(~kept))

    def _stored(self, groups: Groups, index: RowIndices, values: Sequence[Sequence[pa.Array]]) -> _Rows:
        """Rows of a table, of these groups."""
        schema = _stored_schema(self._given)
        whole = concat_columns([*values, [pa.nulls(0, each.type) for each in schema]], schema, len(index))
        rows = whole_rows(self._given, take_rows(groups.keys, index), whole.select(self._given.value_schema.names))
        times, arrivals = (np.asarray(fixed_values(whole.column(name)), np.int64) for name in (_TIME, _ARRIVAL))
        return _Rows(rows, index, times, arrivals)

    def _wait(self, rows: _Rows, groups: Groups, state: StateStore, after: int) -> None:
        if not len(rows):
            return
        parts = parts_of(rows.times, after)
        for each in np.unique(parts).tolist():
            part = rows.at(parts == each)
            self._add(part, groups, np.ones(len(part), np.int64), state.part(each).multiset(_WAITING))

    def _add(self, rows: _Rows, groups: Groups, weights: npt.NDArray[np.int64], table: Any) -> None:
        hashes: Hashes = groups.hashes[rows.groups]
        table.add(hashes, take_rows(groups.keys, rows.groups), rows.stored(self._given), weights)

    # --- rows that are given ------------------------------------------------------------------------------------

    def _given_rows(self, rows: _Rows, groups: Groups, gone: Flags, state: StateStore) -> pa.RecordBatch:
        """The rows with their results, by time. The groups that are ``gone`` are forgotten then."""
        chosen = gone.copy()
        chosen[rows.groups] = True
        if not chosen.any():
            return Delta.nothing(self.schema)
        some = select_groups(groups, chosen)
        rows = replace(rows, groups=(np.cumsum(chosen) - 1)[rows.groups])
        if self._running:
            found, order = self._running_results(rows, some, state)
        else:
            found, order = self._framed(rows, some, gone[chosen], state)
        # As they were given before they were sorted: by time, and of one time as they came.
        places = np.argsort(rows.times[order], kind="stable") if self.time else np.argsort(order, kind="stable")
        return Delta(take_rows(found, places), np.ones(len(found), np.int64), np.zeros(len(found), np.uint64)).output()

    def _sorted(self, rows: _Rows) -> tuple[_Rows, RowIndices, Partitions]:
        """The rows in order, their places before, and their partitions."""
        order = np.lexsort((rows.arrivals, rows.times, rows.groups))
        found = rows.at(order)
        by_row = self.processing and self._length is None
        by = np.arange(len(order)) if by_row else found.times
        return found, order, Partitions.from_rows(found.groups, [by])

    def _running_results(self, rows: _Rows, groups: Groups, state: StateStore) -> tuple[pa.RecordBatch, RowIndices]:
        ordered, order, partitions = self._sorted(rows)
        table = state.keyed(GROUPS)
        _, old = table.get(groups)
        carried = Carried(groups, old, state)
        framed = self.functions.framed(ordered.rows, partitions, carried=carried, by_row=self.processing)
        found, states = self.functions.results(framed)
        table.put(groups, self.functions.kept(framed, states), np.ones(len(groups), np.bool_))
        return found, order

    def _framed(self, rows: _Rows, groups: Groups, gone: Flags, state: StateStore) -> tuple[pa.RecordBatch, RowIndices]:
        """The results of rows with limited frames, and the places of these rows before they were sorted."""
        table = state.multiset(_FRAMES)
        index, values, weights = table.get(groups)
        before = self._stored(groups, index, [values.columns])
        ordered, order, partitions = self._sorted(before.with_rows(rows))
        by = None if self._length is None else OrderValues.from_millis(ordered.times)
        found, _ = self.functions.results(self.functions.framed(ordered.rows, partitions, values=by))
        new = order >= len(before)
        kept = self._kept(ordered, partitions) & ~gone[ordered.groups]
        stored = np.concatenate([weights, np.zeros(len(rows), np.int64)])[order]
        stays = int(table.spec.timed)  # a row that stays is written again, which keeps it alive
        change = np.where(kept, np.where(new, 1, stays), -stored)
        written = change != 0
        self._add(ordered.at(written), groups, change[written], table)
        return take_rows(found, np.flatnonzero(new)), order[new] - len(before)

    def _kept(self, rows: _Rows, partitions: Partitions) -> Flags:
        """Which rows are in the frames of later ones."""
        length = self._length
        if length is not None:
            last = rows.times[partitions.ends - 1]
            return np.asarray(rows.times >= last - length, np.bool_)
        count = -rows_within(self.functions.frame.start or 0, len(rows))
        return np.asarray(np.arange(len(rows)) >= partitions.ends - count, np.bool_)

    # --- positions -----------------------------------------------------------------------------------------------

    def _note(
        self,
        groups: Groups,
        new: _Rows,
        given: _Rows,
        positions: dict[str, npt.NDArray[np.int64]],
        state: StateStore,
        clock: Clock,
    ) -> Flags:
        """Note how far the groups have come. Returns which of them had no row for long, and are forgotten."""
        gone = np.zeros(len(groups), np.bool_)
        if self._running and not self.time:
            return gone
        latest, passed, arrived = (positions[name].copy() for name in _POSITION.names)
        np.maximum.at(latest, new.groups, new.times)
        np.maximum.at(passed, given.groups, given.times)
        arrived += np.bincount(new.groups, minlength=len(groups))
        columns = [pa.array(each) for each in (latest, passed, arrived)]
        touched = np.zeros(len(groups), np.bool_)
        touched[new.groups] = touched[given.groups] = True
        if self._length is not None:
            end = latest + self._length + self._length // 2 + 1
            gone = (end <= clock.after) & clock.moves
            live = np.flatnonzero(touched & ~gone)
            if len(live):
                set_timers(state, groups, live, parts_of(end[live], clock.after))
        written = touched | gone
        which = np.flatnonzero(written)
        values = take_rows(batch_of(columns, _POSITION, len(groups)), which)
        state.keyed(_POSITIONS).put(select_groups(groups, written), values, ~gone[which])
        return gone


def _stored_schema(given: Input) -> pa.Schema:
    return pa.schema([*given.value_schema, *_PLACE])


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    values: Any = fixed_values(column)
    return np.where(valid_of(column), values, 0)


def _ranks(index: RowIndices) -> RowIndices:
    """How many rows of its group are before each row."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    firsts = np.searchsorted(ordered, ordered)
    found = np.empty(len(index), np.int64)
    found[order] = np.arange(len(index)) - firsts
    return found


def _operator(node: OverAggregate, facts: JobFacts) -> OverOperator | OverRowsOperator:
    if node.by_time and not facts.batch:
        return OverOperator.from_node(node, strict=facts.session.strict)
    return OverRowsOperator.from_node(node, batch=facts.batch, strict=facts.session.strict)


OVER = NodeOperator(OverAggregate, _operator)
