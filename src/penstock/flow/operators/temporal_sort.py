"""Rows in the order of time: by event time when the watermark reaches them, or within each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Groups, Hashes, take_rows
from penstock.columns.ordinals import sort_columns
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext, TimeDomain, places_of
from penstock.flow.operators.deltas import Delta, concat_columns
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.operators.timers import parts_of
from penstock.flow.rows.envelope import ARRIVAL, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import NEVER, Clock, millis_of
from penstock.plan.nodes import Sort, SortColumn, TemporalSort
from penstock.types import arrow_schema

_WAITING, _PASSED = "waiting rows", "passed"
#: The event time of the last row that was given, and how many rows have come.
_POSITION = pa.schema([pa.field("time", pa.int64()), pa.field("arrived", pa.int64())])


@dataclass(frozen=True)
class TemporalSortOperator(OneInputOperator):
    """Keeps rows until the watermark reaches the timestamps in ``time``, and gives them in that order; of equal ones in
    the order of other columns, and then in the order of arrival. The rows are never retracted.

    As in Flink, a row is late once a row of its time or a later one was emitted. So is one without a timestamp. There
    are no keys: all rows come to one task. Rows wait in parts of a table, by the time when they are checked, which is
    earlier the further away they are: rows that are not due then move to another part.
    """

    time: str
    order: tuple[SortColumn, ...]

    @classmethod
    def from_node(cls, node: TemporalSort) -> TemporalSortOperator:
        """The operator of a plan's node that has a column of event time."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, ()),), schema, node.time, node.order)

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME

    @property
    def ordered(self) -> bool:
        return True

    @property
    def times(self) -> tuple[str, ...]:
        return (self.time,)

    def places_by_time(self, rows: pa.RecordBatch) -> RowIndices:
        return places_of(rows.column(self.time))

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        return (
            TableSpec(_PASSED, given.key_schema, _POSITION, "keyed"),
            TableSpec(_WAITING, given.key_schema, _add_arrived(self.schema), "multiset", parted=True),
        )

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        state, clock = context.state, context.clock
        due = [each for each in state.times(_WAITING) if each <= clock.after]
        waiting = [state.part(each).multiset(_WAITING).read_all() for each in due]
        hashes = np.concatenate([hashes_of(batch), *(each.hashes for each in waiting)])
        if not len(hashes):
            return
        owner = Groups.by_key(hashes[:1], build_batch([], self.inputs[0].key_schema, 1))
        found, position = state.keyed(_PASSED).get(owner)
        last, arrived = (each.to_numpy(zero_copy_only=False)[0] if found[0] else None for each in position.columns)
        last, arrived = NEVER if last is None else int(last), int(arrived or 0)
        times, valid = millis_of(batch.column(self.time))
        kept = valid & (times > last)
        rows = _repeat_rows(batch.select(self.schema.names), weights_of(batch), kept)
        new = [*rows.columns, pa.array(np.arange(arrived, arrived + len(rows)))]
        parts = [new, *(list(each.values) for each in waiting)]
        every = concat_columns(parts, _add_arrived(self.schema), len(rows) + sum(map(len, waiting)))
        for each in due:
            state.drop(each)
        given = self._take_due(every, hashes[0], state, clock)
        latest = max([last, *millis_of(given.column(self.time))[0][-1:].tolist()])
        values = build_batch([pa.array([each]) for each in (latest, arrived + len(rows))], _POSITION, 1)
        state.keyed(_PASSED).put(owner, values, np.ones(1, np.bool_))
        context.count_late(int(np.count_nonzero(~kept)))
        context.emit(_make_additions(given))

    def _take_due(self, rows: pa.RecordBatch, owner: np.uint64, state: StateStore, clock: Clock) -> pa.RecordBatch:
        """The rows that the watermark has reached, in their order; the others wait."""
        times, _ = millis_of(rows.column(self.time))
        reached = times <= clock.after
        live = np.flatnonzero(~reached)
        if len(live):
            parts = parts_of(times[live], clock)
            for each in np.unique(parts).tolist():
                part = take_rows(rows, live[parts == each])
                hashes: Hashes = np.full(len(part), owner)
                keys = build_batch([], self.inputs[0].key_schema, len(part))
                state.part(each).multiset(_WAITING).add(hashes, keys, part, np.ones(len(part), np.int64))
        given = take_rows(rows, np.flatnonzero(reached))
        by = [times[reached], *sort_columns(given, self.order), given.column(ARRIVAL).to_numpy()]
        return take_rows(given.select(self.schema.names), np.lexsort(by[::-1]))


@dataclass(frozen=True)
class BatchSortOperator(OneInputOperator):
    """Gives the rows of each batch in the order of some columns, equal ones in the order of arrival. It keeps nothing:
    the batch is the only one, or the first column is the processing time, which all of its rows share."""

    order: tuple[SortColumn, ...]

    @classmethod
    def from_node(cls, node: TemporalSort | Sort) -> BatchSortOperator:
        """The operator of a plan's node without event time."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, ()),), schema, node.order)

    @property
    def ordered(self) -> bool:
        return True

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        rows = _repeat_rows(batch.select(self.schema.names), weights_of(batch), np.ones(len(batch), np.bool_))
        context.emit(_make_additions(take_rows(rows, np.lexsort(sort_columns(rows, self.order)[::-1]))))


def _add_arrived(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, pa.field(ARRIVAL, pa.int64())])


def _repeat_rows(rows: pa.RecordBatch, weights: npt.NDArray[np.int64], kept: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows that are ``kept``, each as often as its weight says."""
    return take_rows(rows, np.repeat(np.arange(len(rows)), np.where(kept, weights, 0)))


def _make_additions(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows as output of an operator that only adds rows."""
    return Delta(rows, np.ones(len(rows), np.int64), np.zeros(len(rows), np.uint64)).output()


TEMPORAL_SORT = NodeOperator(
    TemporalSort,
    lambda node, _: TemporalSortOperator.from_node(node) if node.time else BatchSortOperator.from_node(node),
)
SORT = NodeOperator(Sort, lambda node, _: BatchSortOperator.from_node(node))
