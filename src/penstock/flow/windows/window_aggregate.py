"""Aggregates of windows, which are given once: when the watermark closes the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, take_rows
from penstock.flow.kernels.moments.local import local_zone
from penstock.flow.operators.accumulators import counts_of
from penstock.flow.operators.aggregate import GROUPS, GroupAggregateOperator
from penstock.flow.operators.contract import Input, Operator, OperatorContext, TimeDomain
from penstock.flow.operators.deltas import Delta
from penstock.flow.operators.group_states import ROWS, Pane, merge_into, merge_panes
from penstock.flow.operators.local_aggregate import LocalAggregate
from penstock.flow.operators.node_operators import JobFacts, NodeOperator
from penstock.flow.rows.envelope import hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.missing_times import count_without_time
from penstock.flow.time.watermarks import Clock
from penstock.flow.time.windows import AttachedSlices, Slices, last_windows, time_column
from penstock.flow.time.zones import Millis, Zone
from penstock.flow.windows.sessions import SessionOperator
from penstock.plan.kept_state import KeptGroups, KeptState
from penstock.plan.nodes import GroupAggregate, WindowAggregate
from penstock.plan.windowing import Attached, Windowing, WindowKind
from penstock.types import Field, RowType, arrow_schema


@dataclass(frozen=True)
class WindowAggregateOperator(Operator):
    """Groups the rows of each window by keys.

    The state of a slice of time is in parts of the tables, by its end, and is dropped when its last window closes. A
    row is late when its last window is closed; it is left out of earlier ones. Where states cannot be merged, a
    slice is a window, and a row is in several.
    """

    uid: str
    inputs: tuple[Input, ...]
    schema: pa.Schema
    groups: GroupAggregateOperator
    slices: Slices | AttachedSlices

    @classmethod
    def from_node(
        cls, node: WindowAggregate, *, retracts: bool, zone: str, strict: bool = False
    ) -> WindowAggregateOperator:
        """The operator of a plan's node, in a session with this time ``zone``. Raises UnsupportedError for unknown
        calls."""
        windowing = node.windowing
        zone_of = Zone(zone if windowing.zoned else "")
        slices: Slices | AttachedSlices
        if isinstance(windowing, Attached):  # the groups of a window are those of its start too
            slices, keys = AttachedSlices(windowing, zone_of), (*node.keys, windowing.start)
        else:
            slices, keys = Slices(windowing, zone_of), node.keys
        fields = (*node.input.schema.select(keys).fields, *(Field(each.name, each.type) for each in node.calls))
        group = GroupAggregate(RowType(fields, nullable=False), node.input, keys, node.calls, uid=node.uid)
        groups = GroupAggregateOperator.from_node(group, retracts=retracts, strict=strict)
        inputs = groups.inputs
        if groups.local is not None and not windowing.processing:
            local = replace(groups.local, slices=slices)
            groups, inputs = replace(groups, local=local), (inputs[0], local.input)
        return cls(node.uid, inputs, arrow_schema(node.schema), groups, slices)

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.PROCESSING_TIME if self.slices.windowing.processing else TimeDomain.EVENT_TIME

    @property
    def ordered(self) -> bool:
        return self.groups.ordered

    @property
    def times(self) -> tuple[str, ...]:
        return (time_column(self.slices.windowing),)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return () if isinstance(self.slices, AttachedSlices) else self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return tuple(replace(each, parted=True) for each in self.groups.tables)

    @property
    def kept_groups(self) -> KeptGroups:
        return self.groups.kept_groups

    def describe_state(self) -> KeptState:
        return replace(super().describe_state(), shared=self.shared)

    @property
    def shared(self) -> bool:
        """Whether windows share slices."""
        return self.groups.states.mergeable

    def may_have(self, time: int) -> bool:
        """Whether the tables may have a part of a time."""
        return isinstance(self.slices, AttachedSlices) or self.slices.is_end(time, slices=self.shared)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        batch, *combined = inputs
        state, clock = context.state, context.clock
        if self.groups.local is not None and combined[0].num_rows:
            late = self._merge(self.groups.local, self.groups.local.join_rows(combined[0], batch), state, clock)
        else:
            late = self._take(batch, state, clock) if batch.num_rows else 0
        context.count_late(late + count_without_time(batch, *self.times))
        context.emit(self._close_windows(state, clock))
        if self.processing:
            context.wake_at(self._find_wake_time(state, clock))

    # --- rows ------------------------------------------------------------------------------------------------

    def _take(self, batch: pa.RecordBatch, state: StateStore, clock: Clock) -> int:
        """Take rows into their slices; the number of those that are late."""
        found, valid = self.slices.assign(batch, clock.now)
        ends, of, late = self._find_late(found, clock)
        for rows, end in self._divide_slices(ends, of, valid & ~late, clock):
            self._add(batch if len(rows) == len(batch) else take_rows(batch, rows), state, end)
        return int(np.count_nonzero(valid & late))

    def _merge(self, local: LocalAggregate, groups: pa.RecordBatch, state: StateStore, clock: Clock) -> int:
        """Take groups of rows into their slices; the number of rows that are late."""
        pane = local.pane(groups)
        found = self.slices.assign(groups, clock.now)[0] if self.processing else local.ends(groups)
        ends, of, late = self._find_late(found, clock)
        for rows, end in self._divide_slices(ends, of, ~late, clock):
            table = state.part(end).keyed(GROUPS)
            merged, _, _, new = merge_into(table, pane.at(rows), strict=self.groups.strict)
            table.put(merged, new, np.ones(len(merged), np.bool_))
        return int(counts_of(pane.states.column(ROWS))[late].sum())

    def _find_late(self, found: Millis, clock: Clock) -> tuple[Millis, RowIndices, Flags]:
        """The different slices of these rows, which of them each row is in, and whether it is late."""
        ends, of = np.unique(found, return_inverse=True)
        late = self.slices.closing(last_windows(self.slices, ends)) <= clock.before
        return ends, of, late[of]

    def _divide_slices(self, ends: Millis, of: Millis, kept: Flags, clock: Clock) -> list[tuple[Millis, int]]:
        """The rows that are ``kept`` by the slice that they are put into."""
        rows = np.flatnonzero(kept)
        order = rows[np.argsort(of[rows], kind="stable")]
        bounds = np.searchsorted(of[order], np.arange(len(ends) + 1))
        parts = [(order[bounds[at] : bounds[at + 1]], end) for at, end in enumerate(ends.tolist())]
        parts = [(rows, end) for rows, end in parts if len(rows)]
        if self.shared:
            return parts
        by_window: dict[int, list[Millis]] = {}
        for rows, end in parts:
            for window in self.slices.windows(end):
                by_window.setdefault(window, []).append(rows)
        windows = np.array(sorted(by_window), np.int64)
        alive = windows[self.slices.closing(windows) > clock.before].tolist()
        return [(np.sort(np.concatenate(by_window[each])), each) for each in alive]

    def _add(self, rows: pa.RecordBatch, state: StateStore, end: int) -> None:
        part = state.part(end)
        groups = Groups.by_key(hashes_of(rows), rows.select(self.inputs[0].keys))
        table = part.keyed(GROUPS)
        _, old = table.get(groups)
        new = self.groups.states.update(old, rows, weights_of(rows), groups, part)
        table.put(groups, new, counts_of(new.column(ROWS)) != 0)

    # --- windows ---------------------------------------------------------------------------------------------

    def _close_windows(self, state: StateStore, clock: Clock) -> pa.RecordBatch:
        """The results of the windows that close, which go with the slices that no other window needs."""
        times = state.times(GROUPS)
        found = {each: self.slices.windows(each) if self.shared else [each] for each in times}
        windows = np.array(sorted({window for each in found.values() for window in each}), np.int64)
        closing = self.slices.closing(windows)
        closed = windows[(closing > clock.before) & (closing <= clock.after)]
        panes: dict[int, Pane] = {}
        results = []
        for window in closed.tolist():
            parts = [each for each in times if window in found[each]]
            for each in parts:
                if each not in panes:
                    panes[each] = Pane.from_segment(state.part(each).keyed(GROUPS).read_all())
            slices = [panes[each] for each in parts]
            whole = slices[0] if len(slices) == 1 else merge_panes(slices, strict=self.groups.strict)
            results.append(self._make_result(whole, window))
        done = windows[closing <= clock.after]
        for each, own in found.items():
            if not len(own) or own[-1] in done:
                state.drop(each)
        if not results:
            return Delta.make_empty(self.schema)
        rows = pa.concat_batches(results)
        return Delta(rows, np.ones(len(rows), np.int64), np.zeros(len(rows), np.uint64)).output()

    def _find_wake_time(self, state: StateStore, clock: Clock) -> int | None:
        """When the next window closes that has rows: when its last millisecond is over."""
        found = {
            window for each in state.times(GROUPS) for window in (self.slices.windows(each) if self.shared else [each])
        }
        closing = self.slices.closing(np.array(sorted(found), np.int64))
        return min((each + 1 for each in closing.tolist() if each > clock.after), default=None)

    def _make_result(self, pane: Pane, window: int) -> pa.RecordBatch:
        there = np.flatnonzero(counts_of(pane.states.column(ROWS)) > 0)
        keys, count = take_rows(pane.keys, there), len(there)
        groups = self.groups.compute_results(keys, take_rows(pane.states, there))
        columns = dict(zip(self.groups.schema.names, groups.columns, strict=True))
        start, end, time = self.schema.names[-3:]
        closing = self.slices.closing(np.array([window], np.int64)).item()
        if isinstance(self.slices, AttachedSlices):
            columns[start] = columns.pop(self.slices.windowing.start)
        else:
            columns[start] = self._make_moments(start, self.slices.start(window), count)
        columns |= {end: self._make_moments(end, window, count), time: self._make_moments(time, closing, count)}
        return build_batch([columns[name] for name in self.schema.names], self.schema, count)

    def _make_moments(self, name: str, millis: int, count: int) -> pa.Array:
        """A column of one time."""
        return pa.repeat(pa.scalar(millis * 1000, pa.int64()), count).view(self.schema.field(name).type)


def _make_operator(node: WindowAggregate, facts: JobFacts) -> Operator:
    zone, strict = local_zone(facts.session), facts.session.strict
    if isinstance(node.windowing, Windowing) and node.windowing.kind is WindowKind.SESSION:
        return SessionOperator.from_aggregate(node, retracts=facts.retracts, zone=zone, strict=strict)
    return WindowAggregateOperator.from_node(node, retracts=facts.retracts, zone=zone, strict=strict)


WINDOW_AGGREGATE = NodeOperator(WindowAggregate, _make_operator)
