"""The first row of each key by event time, which is given once: when the watermark reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, take_rows
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext, TimeDomain, places_of
from penstock.flow.operators.deduplicate import SEEN, DeduplicateOperator, find_leading, make_seen_table
from penstock.flow.operators.deltas import Delta, concat_columns, make_whole_rows, select_groups
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.operators.normalize import ROWS, make_rows_table
from penstock.flow.operators.timers import TIMERS, find_woken_groups, make_timers_table, parts_of, set_timers
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import Clock, millis_of
from penstock.plan.nodes import Deduplicate
from penstock.types import arrow_schema


@dataclass(frozen=True)
class FirstRowOperator(OneInputOperator):
    """Keeps the first row of each key by the timestamps in ``order``, of rows that are never retracted, until the
    watermark reaches it; of equal ones the one that came first. After that it emits no other row of the key.

    Rows before the watermark are late, as in Flink, and so are those without a timestamp. Rows that wait have no time
    to live; the record that a key was emitted has one.

    Timers are parts of a table that name keys, by the time when they are looked at. The time is coarser the further
    away a row is, but never after the row's own. A key whose row is not due then gets another timer; one whose row was
    replaced by an earlier one, or emitted, is left alone.
    """

    order: str

    @classmethod
    def from_node(cls, node: Deduplicate) -> FirstRowOperator:
        """The operator of a plan's node that keeps first rows by event time."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys),), schema, node.order)

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME

    @property
    def ordered(self) -> bool:
        return True

    @property
    def times(self) -> tuple[str, ...]:
        return (self.order,)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    def places_by_time(self, rows: pa.RecordBatch) -> RowIndices:
        return places_of(rows.column(self.order))

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        return (
            make_seen_table(given),
            replace(make_rows_table(given), side=None),
            make_timers_table(given),
        )

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        (given,) = self.inputs
        state, clock = context.state, context.clock
        times, valid = millis_of(batch.column(self.order))
        kept = valid & (times >= clock.before)
        context.count_late(int(np.count_nonzero(~kept)))
        batch = batch if kept.all() else take_rows(batch, np.flatnonzero(kept))
        due = [each for each in state.times(TIMERS) if each <= clock.after]
        groups = find_woken_groups(batch, given, state, due)
        woken = np.zeros(len(groups), np.bool_)
        woken[groups.index[len(batch) :]] = True
        context.emit(self._take_due(groups, batch.select(given.schema.names), woken, state, clock))
        for each in due:
            state.drop(each)

    def _take_due(
        self, groups: Groups, rows: pa.RecordBatch, woken: Flags, state: StateStore, clock: Clock
    ) -> pa.RecordBatch:
        """The first rows that the watermark has reached, of the groups of ``rows`` and of the ``woken`` groups."""
        (given,) = self.inputs
        seen, waiting = state.keyed(SEEN), state.keyed(ROWS)
        unseen = ~seen.get(groups)[0]
        found, values = waiting.get(groups)
        stored = make_whole_rows(given, groups.keys, values)
        order = rows.column(self.order), found, stored.column(self.order)
        best = find_leading(groups.index[: len(rows)], *order, last=False)
        newer = unseen & (best >= 0)
        every = concat_columns([stored.columns, rows.columns], given.schema, len(groups) + len(rows))
        first = take_rows(every, np.where(newer, len(groups) + best, np.arange(len(groups))))
        times, _ = millis_of(first.column(self.order))
        held = unseen & (found | newer)
        reached = held & (times <= clock.after)
        live = np.flatnonzero(held & ~reached & (newer | woken))
        if len(live):
            set_timers(state, groups, live, parts_of(times[live], clock))
        changed = (newer & ~reached) | (found & reached)
        which = np.flatnonzero(changed)
        values = take_rows(first.select(given.value_schema.names), which)
        waiting.put(select_groups(groups, changed), values, ~reached[which])
        done = select_groups(groups, reached)
        seen.put_keys(done)
        return Delta(take_rows(first, np.flatnonzero(reached)), np.ones(len(done), np.int64), done.hashes).output()


DEDUPLICATE = NodeOperator(
    Deduplicate,
    lambda node, _: FirstRowOperator.from_node(node) if node.by_watermark else DeduplicateOperator.from_node(node),
)
