"""Windows of sessions: rows of a key that follow one another without a gap, given when the session closes, as they are
or aggregated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, key_hashes, take_rows
from penstock.flow.kernels.moments.local import local_zone
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext, TimeDomain
from penstock.flow.operators.deltas import Delta, concat_columns, make_whole_rows, select_groups
from penstock.flow.operators.nested import run_nested
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.operators.timers import TIMERS, find_woken_groups, make_timers_table, set_timers
from penstock.flow.rows.envelope import ARRIVAL, END, HASH, NEXT, START, TIME, WEIGHT, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.missing_times import count_without_time
from penstock.flow.time.watermarks import Clock, millis_of
from penstock.flow.time.windows import time_column
from penstock.flow.time.zones import Millis, Zone
from penstock.loops.compiled import Vector, compiled
from penstock.plan.nodes import GroupAggregate, SessionTable, WindowAggregate, WindowTable
from penstock.plan.windowing import WindowColumns, Windowing
from penstock.types import BIGINT, Field, RowType, arrow_schema

_BOUNDS, _ROWS = "sessions", "rows"
#: The columns of a session.
_BOUND = pa.schema([pa.field(START, pa.int64()), pa.field(END, pa.int64())])
#: The shortest time that a part of the timers covers, in ms, and how many of them are in a gap.
_LEAST, _PARTS = 1000, 64


@compiled
def _number_sessions(groups: Vector, starts: Vector, ends: Vector, out: Vector) -> None:
    """The number of the session of each interval; these are sorted by group and start. Intervals that touch are one
    session."""
    session, last = -1, 0
    for at in range(len(groups)):
        if at == 0 or groups[at] != groups[at - 1] or starts[at] > last:
            session, last = session + 1, ends[at]
        elif ends[at] > last:
            last = ends[at]
        out[at] = session


@dataclass(frozen=True, eq=False)
class _Sessions:
    """Sessions of keys: the number of each one's group, its bounds, and whether a row of this batch changed it."""

    groups: RowIndices
    starts: Millis
    ends: Millis
    changed: Flags
    #: Of the stored sessions, then of the rows of the batch, the session that each is part of.
    of: RowIndices
    #: The places after all of their rows.
    nexts: RowIndices


@dataclass(frozen=True)
class SessionOperator(OneInputOperator):
    """Keeps the bounds of the open sessions of each key, and their rows, which it gives when the session closes: as
    ``groups``, if there are any.

    Timers are parts of a table, by the time at which a session may close; they name the keys. A session that grew has
    another timer, and its former one has no effect.
    """

    groups: GroupAggregateOperator | None
    windowing: Windowing
    zone: Zone

    @classmethod
    def from_aggregate(
        cls, node: WindowAggregate, *, retracts: bool, zone: str, strict: bool = False
    ) -> SessionOperator:
        """The operator of a plan's node, in a session with this time ``zone``. Raises UnsupportedError for unknown
        calls."""
        windowing = node.windowing
        assert isinstance(windowing, Windowing)  # noqa: S101
        bounds = tuple(Field(name, BIGINT) for name in _BOUND.names)
        below = RowType((*node.input.schema.fields, *bounds), nullable=False)
        calls = (Field(each.name, each.type) for each in node.calls)
        row = RowType((*node.input.schema.select(node.keys).fields, *bounds, *calls), nullable=False)
        source = node.input
        rows = WindowTable(below, source, windowing, WindowColumns(START, END, END))
        group = GroupAggregate(row, rows, (*node.keys, *_BOUND.names), node.calls, uid=node.uid)
        given = Input(arrow_schema(source.schema), windowing.keys)
        groups = replace(GroupAggregateOperator.from_node(group, retracts=retracts, strict=strict), local=None)
        return cls(
            node.uid, (given,), arrow_schema(node.schema), groups, windowing, Zone(zone if windowing.zoned else "")
        )

    @classmethod
    def from_table(cls, node: SessionTable, *, zone: str) -> SessionOperator:
        """The operator of a plan's node whose rows stay as they are."""
        windowing = node.windowing
        given = Input(arrow_schema(node.input.schema), windowing.keys)
        return cls(
            node.uid, (given,), arrow_schema(node.schema), None, windowing, Zone(zone if windowing.zoned else "")
        )

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.PROCESSING_TIME if self.windowing.processing else TimeDomain.EVENT_TIME

    @property
    def kept(self) -> Input:
        """The rows that are kept: the input's rows, with their time if that is processing time, and their place if the
        order of arrival matters."""
        (given,) = self.inputs
        more = [*([TIME] if self.processing else []), *([ARRIVAL] if self.ordered else [])]
        return Input(pa.schema([*given.schema, *(pa.field(each, pa.int64()) for each in more)]), given.keys)

    @property
    def ordered(self) -> bool:
        """Whether the order of rows of one time matters; others are in the order of time."""
        return self.groups is not None and self.groups.ordered

    @property
    def _bound(self) -> pa.Schema:
        """The columns of a session that are kept."""
        return _BOUND.append(pa.field(NEXT, pa.int64())) if self.ordered else _BOUND

    @property
    def times(self) -> tuple[str, ...]:
        return (time_column(self.windowing),)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        keys = self.inputs[0].keys
        return keys if self.groups is not None and self.groups.partition_keys == (*keys, *_BOUND.names) else ()

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        given = self.kept
        return (
            TableSpec(_BOUNDS, given.key_schema, self._bound, "multiset"),
            TableSpec(_ROWS, given.key_schema, given.value_schema, "multiset"),
            make_timers_table(given),
        )

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        given, state, clock = self.kept, context.state, context.clock
        if self.processing:
            batch = batch.append_column(TIME, pa.array(np.full(len(batch), clock.now)))
        context.count_late(count_without_time(batch, *self.times))
        local, valid = self._find_local_times(batch)
        batch = batch if valid.all() else take_rows(batch, np.flatnonzero(valid))
        local = local[valid]
        due = [each for each in state.times(TIMERS) if each <= clock.after]
        groups = find_woken_groups(batch, given, state, due)
        stored, bounds, _ = state.multiset(_BOUNDS).get(groups)
        nexts = np.zeros(len(groups), np.int64)
        if self.ordered:
            np.maximum.at(nexts, stored, bounds.column(NEXT).to_numpy())
            places = nexts[groups.index[: len(batch)]] + np.arange(len(batch))
            batch = batch.append_column(ARRIVAL, pa.array(places))
            nexts += len(batch)
        found = self._merge_sessions(groups.index[: len(batch)], local, stored, bounds, nexts)
        closing = self.zone.instants(found.ends - 1)
        late, closed = closing <= clock.before, closing <= clock.after
        rows = found.of[len(stored) :]
        kept = ~late[rows]
        new = take_rows(batch, np.flatnonzero(kept))
        context.emit(self._close_sessions(groups, found, closed & ~late, new, rows[kept], state))
        self._keep(groups, found, closed, stored, bounds, state)
        live = found.changed & ~closed
        set_timers(state, groups, found.groups[live], closing[live] // self._width * self._width)
        for each in due:
            if each + self._width <= clock.after + 1:
                state.drop(each)
        context.count_late(int(np.count_nonzero(~kept)))
        if self.processing:
            context.wake_at(self._find_wake_time(state, clock))

    # --- sessions --------------------------------------------------------------------------------------------

    def _find_local_times(self, batch: pa.RecordBatch) -> tuple[Millis, Flags]:
        if self.processing:
            return self.zone.local(batch.column(TIME).to_numpy()), np.ones(len(batch), np.bool_)
        instants, valid = millis_of(batch.column(self.windowing.time))
        return self.zone.local(instants), valid

    def _merge_sessions(
        self, groups: RowIndices, local: Millis, stored: RowIndices, bounds: pa.RecordBatch, nexts: RowIndices
    ) -> _Sessions:
        """The sessions that the stored ones, and rows of these groups and times, make up. ``nexts`` are places after
        the rows of each group."""
        of = np.concatenate([stored, groups])
        starts = np.concatenate([bounds.column(START).to_numpy(), local])
        ends = np.concatenate([bounds.column(END).to_numpy(), local + self.windowing.size])
        order = np.lexsort((starts, of))
        numbers = np.empty(len(order), np.int64)
        _number_sessions(of[order], starts[order], ends[order], numbers)
        count = int(numbers[-1]) + 1 if len(numbers) else 0
        session = np.empty(len(order), np.int64)
        session[order] = numbers
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        last = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(last, session, ends)
        changed = np.zeros(count, np.bool_)
        changed[session[len(stored) :]] = True
        found = of[order][firsts]
        return _Sessions(found, starts[order][firsts], last, changed, session, nexts[found])

    def _keep(
        self,
        groups: Groups,
        found: _Sessions,
        closed: Flags,
        stored: RowIndices,
        bounds: pa.RecordBatch,
        state: StateStore,
    ) -> None:
        """Replace the bounds of sessions that have changed or closed."""
        gone = np.flatnonzero((found.changed | closed)[found.of[: len(stored)]])
        new = np.flatnonzero(found.changed & ~closed)
        of = np.concatenate([stored[gone], found.groups[new]])
        values = [
            np.concatenate([bounds.column(name).to_numpy()[gone], each[new]])
            for name, each in zip(self._bound.names, (found.starts, found.ends, found.nexts), strict=False)
        ]
        weights = np.concatenate([np.full(len(gone), -1), np.full(len(new), 1)])
        columns = pa.RecordBatch.from_arrays([pa.array(each) for each in values], schema=self._bound)
        state.multiset(_BOUNDS).add(groups.hashes[of], take_rows(groups.keys, of), columns, weights)

    def _find_wake_time(self, state: StateStore, clock: Clock) -> int | None:
        """When all sessions of the next part of the timers have closed: when its last millisecond is over."""
        times = (each + self._width for each in state.times(TIMERS))
        return min((each for each in times if each > clock.after + 1), default=None)

    @property
    def _width(self) -> int:
        """The time that a part of the timers covers."""
        return max(_LEAST, self.windowing.size // _PARTS)

    # --- rows ------------------------------------------------------------------------------------------------

    def _close_sessions(
        self, groups: Groups, found: _Sessions, closed: Flags, batch: pa.RecordBatch, of: RowIndices, state: StateStore
    ) -> pa.RecordBatch:
        """The results of the sessions that close. The rows of ``batch`` are of the sessions ``of``; those of others are
        kept, and those of sessions that close are forgotten."""
        given = self.kept
        asked = np.zeros(len(groups), np.bool_)
        asked[found.groups[closed]] = True
        index, values, weights = state.multiset(_ROWS).get(select_groups(groups, asked))
        owners = np.flatnonzero(asked)[index]
        keys = take_rows(groups.keys, owners)
        old = make_whole_rows(given, keys, values)
        session = self._find_sessions(found, owners, self._find_local_times(old)[0])
        gone, stays = np.flatnonzero(closed[session]), np.flatnonzero(~closed[of])
        new = take_rows(batch, np.flatnonzero(closed[of])).select(given.schema.names)
        whole = concat_columns([take_rows(old, gone).columns, new.columns], given.schema, len(gone) + len(new))
        sessions = np.concatenate([session[gone], of[closed[of]]])
        change = np.concatenate([weights[gone], weights_of(batch)[closed[of]]])
        kept = take_rows(batch, stays)
        count = len(gone) + len(kept)
        state.multiset(_ROWS).add(
            np.concatenate([groups.hashes[owners[gone]], hashes_of(kept)]),
            concat_columns([take_rows(keys, gone).columns, kept.select(given.keys).columns], given.key_schema, count),
            concat_columns(
                [take_rows(values, gone).columns, kept.select(values.schema.names).columns], values.schema, count
            ),
            np.concatenate([-weights[gone], weights_of(kept)]),
        )
        return self._make_output(whole, change, found.starts[sessions], found.ends[sessions])

    @staticmethod
    def _find_sessions(found: _Sessions, groups: RowIndices, local: Millis) -> RowIndices:
        """The session of each row that is stored, by its group and its time: the last one that began before it."""
        order = np.lexsort((found.starts, found.groups))
        both = np.concatenate([found.groups[order], groups])
        times = np.concatenate([found.starts[order], local])
        kinds = np.concatenate([np.zeros(len(order), np.int64), np.ones(len(groups), np.int64)])
        mixed = np.lexsort((kinds, times, both))
        begun = np.cumsum(kinds[mixed] == 0) - 1
        result = np.empty(len(mixed), np.int64)
        result[mixed] = begun
        return order[result[len(order) :]]

    def _make_output(self, rows: pa.RecordBatch, weights: Millis, starts: Millis, ends: Millis) -> pa.RecordBatch:
        """The rows of whole sessions, or their groups."""
        if self.groups is not None:
            return self._aggregate_rows(self.groups, rows, weights, starts, ends)
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        net = Delta(
            self._append_windows(columns, starts, ends, len(rows)), weights, np.zeros(len(rows), np.uint64)
        ).cancel_out()
        return net.at(net.weights > 0).output()

    def _aggregate_rows(
        self, groups: GroupAggregateOperator, rows: pa.RecordBatch, weights: Millis, starts: Millis, ends: Millis
    ) -> pa.RecordBatch:
        """The groups of whole sessions. Their rows are in the order of their time, and those of one time as they
        arrived."""
        given = groups.inputs[0]
        if groups.ordered:
            order = np.lexsort((rows.column(ARRIVAL).to_numpy(), self._find_local_times(rows)[0]))
            rows, weights, starts, ends = take_rows(rows, order), weights[order], starts[order], ends[order]
        columns = [*rows.select(self.inputs[0].schema.names).columns, pa.array(starts), pa.array(ends)]
        plain = pa.RecordBatch.from_arrays(columns, schema=given.schema)
        hashes = key_hashes([plain.column(name) for name in given.keys], len(plain))
        whole = plain.append_column(WEIGHT, pa.array(weights)).append_column(HASH, pa.array(hashes))
        made = run_nested(groups, [whole], StateStore.empty(groups.tables))
        first, last = (made.column(name).to_numpy() for name in _BOUND.names)
        named = dict(zip(made.schema.names, made.columns, strict=True))
        result = self._append_windows(named, first, last, len(made))
        return Delta(result, weights_of(made), np.zeros(len(made), np.uint64)).output()

    def _append_windows(self, columns: dict[str, pa.Array], starts: Millis, ends: Millis, count: int) -> pa.RecordBatch:
        """Rows of these columns, with the columns of their session."""
        for name, times in zip(self.schema.names[-3:], (starts, ends, self.zone.instants(ends - 1)), strict=True):
            columns[name] = pa.array(times * 1000).view(self.schema.field(name).type)
        return build_batch([columns[name] for name in self.schema.names], self.schema, count)


SESSION_TABLE = NodeOperator(
    SessionTable, lambda node, facts: SessionOperator.from_table(node, zone=local_zone(facts.session))
)
