"""OVER in the order of time: rows with aggregates of those before them, which are final when they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.ordinals import valid_mask
from penstock.columns.sums import ranges
from penstock.flow.operators.accumulators import ORDERED
from penstock.flow.operators.aggregate import GROUPS
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext, TimeDomain, places_of
from penstock.flow.operators.deltas import Delta, concat_columns, make_whole_rows, select_groups
from penstock.flow.operators.node_operators import JobFacts, NodeOperator
from penstock.flow.operators.over_frames import OrderValues, Partitions, rows_within
from penstock.flow.operators.over_functions import OverFunctions
from penstock.flow.operators.over_rows import OverRowsOperator
from penstock.flow.operators.over_values import Carried, FramedRows, Line
from penstock.flow.operators.timers import TIMERS, make_timers_table, parts_of, set_timers
from penstock.flow.rows.envelope import APPEARED, ARRIVAL, ARRIVED, TIME, arrivals_of, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import Clock, millis_of
from penstock.flow.time.zones import Millis
from penstock.plan.kept_state import KeptGroups
from penstock.plan.nodes import OverAggregate

_WAITING, _FRAMES, _POSITIONS = "waiting rows", "rows of frames", "positions"
#: For each key: the latest time of its rows, and the time of the last row that was given; how many rows have come, and
#: how many were given, which is the place of the next one; and the place of the first row that is kept for frames.
_POSITION = pa.schema([pa.field(name, pa.int64()) for name in ("latest", "passed", "arrived", "given", "first")])
Positions: TypeAlias = dict[str, npt.NDArray[np.int64]]


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
            appeared = [pa.field(name, pa.int64()) for name in self._appearing.values()]
            values = pa.schema([*given.value_schema, pa.field(TIME, pa.int64()), *appeared])
            found.append(TableSpec(_FRAMES, key, values, "ordered", side=side))
        if self.time or not self._running:
            found.append(TableSpec(_POSITIONS, key, _POSITION, "keyed", side=side))
        if self.time:
            found.append(TableSpec(_WAITING, key, _make_waiting_schema(given), "multiset", side=None, parted=True))
        if self._length is not None:
            found.append(make_timers_table(given))
        return tuple(found)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        state, clock = context.state, context.clock
        after = clock.after
        # A row behind the watermark that is not late waits for it to move on, as in Flink.
        due = [each for each in self._list_times(state) if each <= after] if clock.moves else []
        waiting = [state.part(each).multiset(_WAITING).read_all() for each in due] if self.time else []
        timers = [state.part(each).keyed(TIMERS).read_all() for each in due] if self._length is not None else []
        stored = [*waiting, *timers]
        hashes = np.concatenate([hashes_of(batch), *(each.hashes for each in stored)])
        if not len(hashes):
            return
        keys = [batch.select(self._given.keys).columns, *(list(each.keys) for each in stored)]
        groups = Groups.by_key(hashes, concat_columns(keys, self._given.key_schema, len(hashes)))
        positions = self._positions(state, groups)
        new, late = self._take_new(batch, groups, positions, clock)
        known = sum(map(len, waiting))
        before = self._make_stored(
            groups, groups.index[len(batch) : len(batch) + known], [each.values for each in waiting]
        )
        for each in due:
            state.drop(each)
        every = new.with_rows(before)
        reached = (every.times <= after) & clock.moves if self.time else np.ones(len(every), np.bool_)
        self._wait(every.at(~reached), groups, state, clock)
        context.count_late(late)
        for rows in self._give(every.at(reached), new, groups, positions, state, clock):
            context.emit(rows)

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

    def _list_times(self, state: StateStore) -> list[int]:
        """The times of all parts."""
        found = set(state.times(_WAITING)) if self.time else set()
        return sorted(found | set(state.times(TIMERS) if self._length is not None else ()))

    @property
    def _appearing(self) -> dict[str, str]:
        """The columns of kept rows with the places where values of DISTINCT appeared, by the argument."""
        arguments = [each.argument for each in self.functions.accumulators if each.needs & ORDERED]
        return {str(each): f"{APPEARED}{each}" for each in arguments if each.distinct}

    def _positions(self, state: StateStore, groups: Groups) -> Positions:
        """The columns of positions of the groups. A group without positions has passed the beginning of
        1970, as in Flink."""
        if self._running and not self.time:
            return {each.name: np.zeros(len(groups), np.int64) for each in _POSITION}
        _, values = state.keyed(_POSITIONS).get(groups)
        return {name: _read_numbers(column) for name, column in zip(_POSITION.names, values.columns, strict=True)}

    def _take_new(self, batch: pa.RecordBatch, groups: Groups, positions: Positions, clock: Clock) -> tuple[_Rows, int]:
        """The rows of a batch that are not late, and the number of the others."""
        index = groups.index[: len(batch)]
        times, kept = np.full(len(batch), clock.now), np.ones(len(batch), np.bool_)
        if self.time:
            times, valid = millis_of(batch.column(self.time))
            kept = valid & (times > (clock.before if self._running else positions["passed"][index]))
        rows = np.repeat(np.arange(len(batch)), np.where(kept, weights_of(batch), 0))
        arrivals = positions["arrived"][index[rows]] + _rank_rows(index[rows])
        found = _Rows(take_rows(batch.select(self._given.schema.names), rows), index[rows], times[rows], arrivals)
        if ARRIVED in batch.schema.names and not self.time:
            found = found.at(np.argsort(arrivals_of(batch)[rows], kind="stable"))
        return found, int(np.count_nonzero(~kept))

    def _make_stored(self, groups: Groups, index: RowIndices, values: Sequence[Sequence[pa.Array]]) -> _Rows:
        """Rows of the table of waiting rows, of these groups."""
        schema = _make_waiting_schema(self._given)
        whole = concat_columns([*values, [pa.nulls(0, each.type) for each in schema]], schema, len(index))
        rows = make_whole_rows(self._given, take_rows(groups.keys, index), whole.select(self._given.value_schema.names))
        return _Rows(rows, index, _read_numbers(whole.column(TIME)), _read_numbers(whole.column(ARRIVAL)))

    def _wait(self, rows: _Rows, groups: Groups, state: StateStore, clock: Clock) -> None:
        if not len(rows):
            return
        parts = parts_of(rows.times, clock)
        schema = _make_waiting_schema(self._given)
        for each in np.unique(parts).tolist():
            part = rows.at(parts == each)
            values = part.rows.select(self._given.value_schema.names).columns
            stored = build_batch([*values, pa.array(part.times), pa.array(part.arrivals)], schema, len(part))
            hashes, keys = groups.hashes[part.groups], take_rows(groups.keys, part.groups)
            state.part(each).multiset(_WAITING).add(hashes, keys, stored, np.ones(len(part), np.int64))

    # --- rows that are given ------------------------------------------------------------------------------------

    def _give(
        self, rows: _Rows, new: _Rows, groups: Groups, positions: Positions, state: StateStore, clock: Clock
    ) -> Iterator[pa.RecordBatch]:
        """The rows that are due with their results, by time; what is kept of their groups changes, and of those that
        the ``new`` rows of the batch have."""
        gone = self._note(rows, new, groups, positions, clock)
        touched = gone.copy()
        touched[rows.groups] = True
        some = select_groups(groups, touched)
        rows = replace(rows, groups=(np.cumsum(touched) - 1)[rows.groups])
        order = np.lexsort((rows.arrivals, rows.times, rows.groups))
        if self._running:
            framed = self._frame_all(rows.at(order), some, state)
        else:
            own = {name: each[touched] for name, each in positions.items()}
            framed = self._frame_limited(rows.at(order), some, own, state)
        states = self.functions.compute_states(framed)
        if self._running:
            values = self.functions.make_state(framed, states)
            state.keyed(GROUPS).put(some, values, np.ones(len(some), np.bool_))
        else:
            self._keep(framed, some, own, gone[touched], state)
            for name in ("given", "first"):
                positions[name][touched] = own[name]
        touched[new.groups] = True
        if self.time or not self._running:
            self._put_positions(groups, positions, touched, gone, state, clock)
        places = np.argsort(rows.times[order] if self.time else order, kind="stable")
        for each in self.functions.compute_results(framed, states, places):
            yield Delta(each, np.ones(len(each), np.int64), np.zeros(len(each), np.uint64)).output()

    def _make_partitions(self, rows: _Rows) -> Partitions:
        by_row = self.processing and self._length is None
        return Partitions.from_rows(rows.groups, [np.arange(len(rows)) if by_row else rows.times])

    def _frame_all(self, rows: _Rows, groups: Groups, state: StateStore) -> FramedRows:
        """Sorted rows with frames of all rows before them."""
        _, old = state.keyed(GROUPS).get(groups)
        carried = Carried(groups, old, state)
        return self.functions.frame_rows(
            rows.rows, self._make_partitions(rows), carried=carried, by_row=self.processing
        )

    def _frame_limited(self, rows: _Rows, groups: Groups, positions: Positions, state: StateStore) -> FramedRows:
        """Sorted rows with limited frames, behind those that are kept for them."""
        given, first = positions["given"], positions["first"]
        asked = np.zeros(len(groups), np.bool_)
        asked[rows.groups] = True
        index, places, values = state.ordered(_FRAMES).get(groups, first, np.where(asked, given, first))
        kept = make_whole_rows(
            self._given, take_rows(groups.keys, index), values.select(self._given.value_schema.names)
        )
        every = _Rows(kept, index, _read_numbers(values.column(TIME)), places)
        every = every.with_rows(replace(rows, arrivals=given[rows.groups] + _rank_rows(rows.groups)))
        order = np.lexsort((every.arrivals, every.groups))
        appeared = {}
        for argument, name in self._appearing.items():
            known = np.concatenate([_read_numbers(values.column(name), -1), np.full(len(rows), -1, np.int64)])
            appeared[argument] = known[order]
        every, wanted = every.at(order), np.flatnonzero(order >= len(index))
        by = None if self._length is None else OrderValues.from_millis(every.times)
        line = Line(every.arrivals, every.times, appeared)
        return self.functions.frame_rows(every.rows, self._make_partitions(every), wanted=wanted, values=by, line=line)

    def _keep(self, framed: FramedRows, groups: Groups, positions: Positions, gone: Flags, state: StateStore) -> None:
        """Keep the rows that are in frames of later ones, the last of each group, and drop the others. Those that are
        ``gone`` keep none."""
        line, index = framed.line, framed.partitions.index
        assert line is not None  # noqa: S101
        table, before, former = state.ordered(_FRAMES), positions["given"], positions["first"]
        given = before + np.bincount(index[framed.wanted], minlength=len(groups))
        kept = self._find_kept(line, framed.partitions) & ~gone[index]
        first = np.where(given > before, given - np.bincount(index[kept], minlength=len(groups)), former)
        first[gone] = given[gone]
        # A row that stays is written again where that keeps it alive.
        written = np.flatnonzero(kept if table.spec.timed else kept & (line.places >= before[index]))
        sizes = np.maximum(np.minimum(first, before) - former, 0)
        dropped = ranges(former, sizes)
        values = take_rows(framed.rows.select(self._given.value_schema.names), written).columns
        more = [line.times, *(line.appeared[each] for each in self._appearing)]
        stored = [*values, *(pa.array(each[written]) for each in more)]
        schema = table.spec.value
        columns = [pa.concat_arrays([each, pa.nulls(len(dropped), each.type)]) for each in stored]
        of = np.concatenate([index[written], np.repeat(np.arange(len(groups)), sizes)])
        places = np.concatenate([line.places[written], dropped])
        table.put(groups, of, places, build_batch(columns, schema, len(of)), np.arange(len(of)) < len(written))
        positions["given"], positions["first"] = given, first

    def _find_kept(self, line: Line, partitions: Partitions) -> Flags:
        """Which rows are in the frames of later ones."""
        length = self._length
        if length is not None:
            last = line.times[partitions.ends - 1]
            return np.asarray(line.times >= last - length, np.bool_)
        count = -rows_within(self.functions.frame.start or 0, len(partitions))
        return np.asarray(np.arange(len(partitions)) >= partitions.ends - count, np.bool_)

    # --- positions -----------------------------------------------------------------------------------------------

    def _note(self, rows: _Rows, new: _Rows, groups: Groups, positions: Positions, clock: Clock) -> Flags:
        """Note how far groups have come. Returns the groups that had no rows for long, and are forgotten."""
        np.maximum.at(positions["latest"], new.groups, new.times)
        np.maximum.at(positions["passed"], rows.groups, rows.times)
        positions["arrived"] += np.bincount(new.groups, minlength=len(groups))
        if self._length is None:
            return np.zeros(len(groups), np.bool_)
        return np.asarray((self._find_ends(positions) <= clock.after) & clock.moves, np.bool_)

    def _find_ends(self, positions: Positions) -> Millis:
        """When groups are forgotten."""
        length = self._length or 0
        return positions["latest"] + length + length // 2 + 1

    def _put_positions(
        self, groups: Groups, positions: Positions, touched: Flags, gone: Flags, state: StateStore, clock: Clock
    ) -> None:
        live = np.flatnonzero(touched & ~gone)
        if self._length is not None and len(live):
            set_timers(state, groups, live, parts_of(self._find_ends(positions)[live], clock))
        which = np.flatnonzero(touched)
        columns = [pa.array(positions[each.name]) for each in _POSITION]
        values = take_rows(build_batch(columns, _POSITION, len(groups)), which)
        state.keyed(_POSITIONS).put(select_groups(groups, touched), values, ~gone[which])


def _make_waiting_schema(given: Input) -> pa.Schema:
    """The columns of waiting rows: their values, their time and their place in the order of arrival."""
    return pa.schema([*given.value_schema, pa.field(TIME, pa.int64()), pa.field(ARRIVAL, pa.int64())])


def _read_numbers(column: pa.Array, otherwise: int = 0) -> npt.NDArray[np.int64]:
    """The numbers of a column, ``otherwise`` for nulls."""
    values: Any = fixed_values(column)
    return np.where(valid_mask(column), values, otherwise)


def _rank_rows(index: RowIndices) -> RowIndices:
    """How many rows of its group are before each row."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    firsts = np.searchsorted(ordered, ordered)
    found = np.empty(len(index), np.int64)
    found[order] = np.arange(len(index)) - firsts
    return found


def _make_operator(node: OverAggregate, facts: JobFacts) -> OverOperator | OverRowsOperator:
    if node.by_time and not facts.batch:
        return OverOperator.from_node(node, strict=facts.session.strict)
    return OverRowsOperator.from_node(node, batch=facts.batch, strict=facts.session.strict)


OVER = NodeOperator(OverAggregate, _make_operator)
