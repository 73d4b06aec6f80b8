"""The first row of each key by event time, which is given once: when the watermark reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.flow.deduplicate import SEEN, leading, seen_table
from penstock.flow.equality import Flags
from penstock.flow.hashing import Groups, taken
from penstock.flow.normalize import ROWS, rows_table
from penstock.flow.operators import Advance, Delta, Input, hashes_of, select_groups, stacked
from penstock.flow.state import StateStore, TableSpec
from penstock.flow.times import Clock, millis_of
from penstock.flow.zones import Millis
from penstock.formats.columns.buffers import batch_of
from penstock.plan.nodes import Deduplicate
from penstock.types import arrow_schema

_TIMERS = "timers"
#: The width of a part of the timers, as the share 1 / 2 ** _SHARE of its distance from the watermark.
_SHARE = 3


@dataclass(frozen=True)
class FirstRowOperator:
    """Keeps the first row of each key by the timestamps in ``order``, of rows that are never retracted, until the
    watermark reaches it; of equal ones that which came first. It gives no other row of that key then.

    Rows before the watermark are late, and those without a timestamp are dropped, as in Flink. Rows that wait have no
    time to live; that a key was given is forgotten in time.

    Timers are parts of a table that name keys, by the time when they are looked at. The further away a row is, the
    coarser is that time: never after the row's own. A key whose row is not due then gets another timer; one whose row
    was replaced by an earlier one, or given, is left alone.
    """

    uid: str
    inputs: tuple[Input]
    schema: pa.Schema
    order: str

    @classmethod
    def of(cls, node: Deduplicate) -> FirstRowOperator:
        """The operator of a plan's node that keeps first rows by event time."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys),), schema, node.order)

    @property
    def processing(self) -> bool:
        return False

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        return (
            seen_table(given),
            replace(rows_table(given), side=None),
            TableSpec(_TIMERS, given.key_schema, pa.schema([]), "keyed", side=None, parted=True),
        )

    def advance(self, inputs: Sequence[pa.RecordBatch], state: StateStore, clock: Clock) -> Advance:
        (batch,) = inputs
        (given,) = self.inputs
        times, valid = millis_of(batch.column(self.order))
        kept = valid & (times >= clock.before)
        late = int(np.count_nonzero(valid & ~kept))
        batch = batch if kept.all() else taken(batch, np.flatnonzero(kept))
        due = [each for each in state.times(_TIMERS) if each <= clock.after]
        timers = [state.part(each).keyed(_TIMERS).everything() for each in due]
        hashes = np.concatenate([hashes_of(batch), *(each.hashes for each in timers)])
        keys = [batch.select(given.keys).columns, *(list(each.keys) for each in timers)]
        groups = Groups.of(hashes, stacked(keys, given.key_schema, len(hashes)))
        woken = np.zeros(len(groups), np.bool_)
        woken[groups.index[len(batch) :]] = True
        result = self._given(groups, batch.select(given.schema.names), woken, state, clock.after)
        for each in due:
            state.drop(each)
        return Advance(result, late)

    def _given(
        self, groups: Groups, rows: pa.RecordBatch, woken: Flags, state: StateStore, after: int
    ) -> pa.RecordBatch:
        """The first rows that the watermark has reached, of groups of ``rows`` and of those that were ``woken``."""
        (given,) = self.inputs
        seen, waiting = state.keyed(SEEN), state.keyed(ROWS)
        unseen = ~seen.get(groups)[0]
        found, values = waiting.get(groups)
        stored = dict(zip(given.keys, groups.keys.columns, strict=True))
        stored |= dict(zip(values.schema.names, values.columns, strict=True))
        best = leading(groups.index[: len(rows)], rows.column(self.order), found, stored[self.order], last=False)
        newer = unseen & (best >= 0)
        columns = [stored[name] for name in given.schema.names]
        every = stacked([columns, rows.columns], given.schema, len(groups) + len(rows))
        first = taken(every, np.where(newer, len(groups) + best, np.arange(len(groups))))
        times, _ = millis_of(first.column(self.order))
        held = unseen & (found | newer)
        reached = held & (times <= after)
        self._set_timers(groups, times, held & ~reached & (newer | woken), state, after)
        changed = (newer & ~reached) | (found & reached)
        which = np.flatnonzero(changed)
        values = taken(first.select(given.value_schema.names), which)
        waiting.put(select_groups(groups, changed), values, ~reached[which])
        done = select_groups(groups, reached)
        ones = np.ones(len(done), np.int64)
        seen.put(done, batch_of([], pa.schema([]), len(done)), ones.astype(np.bool_))
        return Delta(taken(first, np.flatnonzero(reached)), ones, done.hashes).output()

    @staticmethod
    def _set_timers(groups: Groups, times: Millis, which: Flags, state: StateStore, after: int) -> None:
        """Note when these groups, whose rows the watermark ``after`` this batch has not reached, are looked at."""
        if not which.any():
            return
        distances = times[which] - max(after, int(times[which].min()) - 1)
        widths = 1 << np.maximum(np.log2(distances).astype(np.int64) - _SHARE, 0)
        parts = times[which] // widths * widths
        for part in np.unique(parts).tolist():
            chosen = which.copy()
            chosen[which] = parts == part
            timed = select_groups(groups, chosen)
            nothing = batch_of([], pa.schema([]), len(timed))
            state.part(part).keyed(_TIMERS).put(timed, nothing, np.ones(len(timed), np.bool_))
