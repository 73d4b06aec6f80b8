"""OVER in any order: of all rows at once, or of rows that come and go and so change the results of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.large import narrow, widen
from penstock.columns.ordinals import sort_columns
from penstock.flow.operators.contract import OneInputOperator, OperatorContext
from penstock.flow.operators.deltas import Delta, finer_hashes, make_whole_rows
from penstock.flow.operators.over_frames import OrderValues, Partitions
from penstock.flow.operators.over_functions import OverFunctions
from penstock.flow.rows.envelope import ARRIVAL, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.plan.nodes import OverAggregate

_ROWS = "rows"


@dataclass(frozen=True, eq=False)
class _Results:
    """Rows with their results, in parts, and the group of each."""

    parts: Iterator[pa.RecordBatch]
    index: RowIndices


@dataclass(frozen=True)
class OverRowsOperator(OneInputOperator):
    """Gives rows with the results of functions over their partitions, in the order of columns, equal ones in the order
    of arrival.

    All rows are in the one batch; or it keeps them, and with each change gives the changed results of others. A
    retraction takes the first of equal rows.
    """

    functions: OverFunctions
    #: Whether more rows come in later batches.
    keeps: bool

    @classmethod
    def from_node(cls, node: OverAggregate, *, batch: bool, strict: bool = False) -> OverRowsOperator:
        """The operator of a plan's node that is not ordered by time, or of one that gets all rows in one ``batch``."""
        functions = OverFunctions.from_node(node, strict=strict)
        return cls(node.uid, (functions.given,), functions.schema, functions, not batch)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def ordered(self) -> bool:
        return True

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        return (TableSpec(_ROWS, given.key_schema, self._stored, "multiset"),) if self.keeps else ()

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,), (given,), state = inputs, self.inputs, context.state
        rows, weights = batch.select(given.schema.names), weights_of(batch)
        groups = Groups.by_key(hashes_of(batch), rows.select(given.keys))
        if not self.keeps:
            each = np.repeat(np.arange(len(rows)), weights)
            for part in self._compute_results(take_rows(rows, each), groups.index[each], np.arange(len(each))).parts:
                context.emit(Delta(part, np.ones(len(part), np.int64), np.zeros(len(part), np.uint64)).output())
            return
        before, index, arrivals, stored = self._read_before(groups, state)
        next_arrival = int(arrivals.max(initial=-1)) + 1
        new = np.repeat(np.arange(len(rows)), np.maximum(weights, 0))
        every = pa.concat_batches([before, take_rows(rows, new)])
        every_index = np.concatenate([index, groups.index[new]])
        every_arrival = np.concatenate([arrivals, next_arrival + np.arange(len(new))])
        gone = np.flatnonzero(weights < 0)
        stays = self._find_remaining(
            groups, every, every_index, take_rows(rows, gone), groups.index[gone], -weights[gone]
        )
        self._store(groups, every, every_index, every_arrival, stored, stays, state)
        kept = np.flatnonzero(stays)
        old = self._compute_results(before, index, arrivals)
        now = self._compute_results(take_rows(every, kept), every_index[kept], every_arrival[kept])
        hashes = groups.hashes[np.concatenate([old.index, now.index])]
        signs = np.repeat([-1, 1], [len(old.index), len(now.index)])
        both = pa.concat_batches([widen(part) for part in (*old.parts, *now.parts)])
        # Where a sink keeps one row of several, the last one of the order is the last, as in Flink.
        output = Delta(both, signs, hashes).cancel_out(ordered=True).output()
        for part in narrow(output, self.schema):
            context.emit(part)

    @property
    def _stored(self) -> pa.Schema:
        return pa.schema([*self.inputs[0].value_schema, pa.field(ARRIVAL, pa.int64())])

    def _read_before(
        self, groups: Groups, state: StateStore
    ) -> tuple[pa.RecordBatch, RowIndices, RowIndices, npt.NDArray[np.int64]]:
        """The rows that are kept of groups, the group of each, its place in the order of arrival, and its weight."""
        index, values, weights = state.multiset(_ROWS).get(groups)
        arrivals = np.asarray(fixed_values(values.column(ARRIVAL)), np.int64)
        order = np.argsort(arrivals, kind="stable")
        given = self.inputs[0]
        found = values.select(given.value_schema.names)
        rows = make_whole_rows(given, take_rows(groups.keys, index[order]), take_rows(found, order))
        return rows, index[order], arrivals[order], weights[order]

    def _find_remaining(
        self,
        groups: Groups,
        rows: pa.RecordBatch,
        index: RowIndices,
        gone: pa.RecordBatch,
        gone_index: RowIndices,
        times: npt.NDArray[np.int64],
    ) -> Flags:
        """Which rows of groups stay, in the order of arrival, when rows are retracted this many ``times``."""
        if not len(gone):
            return np.ones(len(rows), np.bool_)
        both = pa.concat_batches([rows, gone])
        hashes = groups.hashes[np.concatenate([index, gone_index])]
        same = Groups.by_key(finer_hashes(hashes, both.columns), both)
        taken = np.zeros(len(same), np.int64)
        np.add.at(taken, same.index[len(rows) :], times)
        ranks = np.empty(len(both), np.int64)
        ranks[same.order] = np.arange(len(both)) - np.repeat(same.starts, np.diff(same.starts, append=len(both)))
        return np.asarray(ranks[: len(rows)] >= taken[same.index[: len(rows)]], np.bool_)

    def _store(
        self,
        groups: Groups,
        rows: pa.RecordBatch,
        index: RowIndices,
        arrivals: RowIndices,
        stored: npt.NDArray[np.int64],
        stays: Flags,
        state: StateStore,
    ) -> None:
        table = state.multiset(_ROWS)
        new = np.arange(len(rows)) >= len(stored)
        weights = np.concatenate([stored, np.zeros(len(rows) - len(stored), np.int64)])
        again = int(table.spec.timed)  # a row that stays is written again, which keeps it alive
        change = np.where(stays, np.where(new, 1, again), -weights)
        which = np.flatnonzero(change)
        values = [*take_rows(rows.select(self.inputs[0].value_schema.names), which).columns, pa.array(arrivals[which])]
        hashes, keys = groups.hashes[index[which]], take_rows(groups.keys, index[which])
        table.add(hashes, keys, build_batch(values, self._stored, len(which)), change[which])

    def _compute_results(self, rows: pa.RecordBatch, index: RowIndices, arrivals: RowIndices) -> _Results:
        """The rows with their results, by partition and in order."""
        by = sort_columns(rows, self.functions.order)
        order = np.lexsort([arrivals, *by[::-1], index])
        partitions = Partitions.from_rows(index[order], [each[order] for each in by])
        ordered = take_rows(rows, order)
        framed = self.functions.frame_rows(ordered, partitions, values=self._read_values(ordered))
        states = self.functions.compute_states(framed)
        return _Results(self.functions.compute_results(framed, states, np.arange(len(rows))), index[order])

    def _read_values(self, rows: pa.RecordBatch) -> OrderValues | None:
        frame = self.functions.frame
        if frame.rows or not (frame.start or frame.end):
            return None
        (by,) = self.functions.order
        return OrderValues.from_column(rows.column(by.name), by)
