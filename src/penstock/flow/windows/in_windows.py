"""Operators that run for each window separately and give its result when it closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import build_batch
from penstock.columns.equality import RowIndices
from penstock.columns.hashing import key_hashes, take_rows
from penstock.flow.kernels.moments.local import local_zone
from penstock.flow.operators.contract import Input, Operator, OperatorContext, TimeDomain, places_of
from penstock.flow.operators.deduplicate import DeduplicateOperator
from penstock.flow.operators.deltas import Delta
from penstock.flow.operators.nested import run_nested
from penstock.flow.operators.node_operators import JobFacts, NodeOperator, make_operator
from penstock.flow.rows.envelope import HASH, WEIGHT, hashes_of, weights_of
from penstock.flow.state.segments import Segment
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.missing_times import count_without_time
from penstock.flow.time.watermarks import Clock
from penstock.flow.time.windows import AttachedSlices, time_column
from penstock.flow.time.zones import Zone
from penstock.flow.windows.window_join import WindowJoinOperator
from penstock.plan.kept_state import KeptState
from penstock.plan.nodes import Deduplicate, InWindows, Join
from penstock.plan.windowing import Attached

_RESULT = "result"


@dataclass(frozen=True)
class InWindowsOperator(Operator):
    """Runs ``inner`` for the rows of each window.

    An operator with one input runs in each batch, on the window's own state, and the net result is kept. For a join
    that would keep pairs: instead the rows of both sides are kept, and joined when the window closes.
    """

    inner: Operator
    windows: tuple[AttachedSlices, ...]

    @classmethod
    def from_operator(cls, inner: Operator, windows: Sequence[Attached], *, zone: str) -> InWindowsOperator:
        """The operator that runs ``inner`` in the windows of each input, in a session with this time ``zone``."""
        return cls(inner, tuple(AttachedSlices(each, Zone(zone if each.zoned else "")) for each in windows))

    def describe_state(self) -> KeptState:
        return self.inner.describe_state()

    @property
    def uid(self) -> str:
        return self.inner.uid

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.inner.inputs

    @property
    def schema(self) -> pa.Schema:
        return self.inner.schema

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    @property
    def times(self) -> tuple[str, ...]:
        return tuple(time_column(each.windowing) for each in self.windows)

    def places_by_time(self, rows: pa.RecordBatch) -> RowIndices:
        given, windows = self.inputs, self.windows
        column = rows.column(given[0].schema.get_field_index(windows[0].windowing.end))
        if rows.num_columns > sum(len(each.schema) for each in given) > len(given[0].schema):
            other = len(given[0].schema) + given[1].schema.get_field_index(windows[1].windowing.end)
            column = pc.coalesce(column, rows.column(other))  # a row of the right side without a match
        return places_of(column)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        if self._joins:
            return tuple(
                TableSpec(f"rows {number}", _number_keys(each), each.value_schema, "multiset", side=number, parted=True)
                for number, each in enumerate(self.inputs)
            )
        keys = self.inputs[0].key_schema
        values = pa.schema([each for each in self.schema if each.name not in keys.names])
        result = TableSpec(_RESULT, keys, values, "multiset", parted=True)
        return (*(replace(each, parted=True) for each in self.inner.tables), result)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        state, clock = context.state, context.clock
        for number, batch in enumerate(inputs):
            if not batch.num_rows:
                continue
            found, valid = self.windows[number].assign(batch, clock.now)
            ends, of = np.unique(found, return_inverse=True)
            closed = (self.windows[number].closing(ends) <= clock.before)[of]
            context.count_late(int(np.count_nonzero(valid & closed)) + count_without_time(batch, self.times[number]))
            kept = np.flatnonzero(valid & ~closed)
            order = kept[np.argsort(of[kept], kind="stable")]
            bounds = np.searchsorted(of[order], np.arange(len(ends) + 1))
            for at, end in enumerate(ends.tolist()):
                if bounds[at] < bounds[at + 1]:
                    self._take(number, take_rows(batch, order[bounds[at] : bounds[at + 1]]), state, end)
        context.emit(self._close_windows(state, clock))

    @property
    def _joins(self) -> bool:
        return len(self.inputs) > 1

    def _take(self, number: int, rows: pa.RecordBatch, state: StateStore, end: int) -> None:
        """Take rows of an input into a window."""
        part, given = state.part(end), self.inputs[number]
        if self._joins:
            keys = build_batch([rows.column(each) for each in given.keys], _number_keys(given), len(rows))
            values = rows.select(given.value_schema.names)
            part.multiset(f"rows {number}").add(hashes_of(rows), keys, values, weights_of(rows))
            return
        change = run_nested(self.inner, [rows], part)
        keys = change.select(given.keys)
        values = change.select([name for name in self.schema.names if name not in given.keys])
        part.multiset(_RESULT).add(key_hashes(keys.columns, len(keys)), keys, values, weights_of(change))

    def _close_windows(self, state: StateStore, clock: Clock) -> pa.RecordBatch:
        """The results of the windows that close."""
        ends = np.array(sorted({end for each in self.tables for end in state.times(each.name)}), np.int64)
        results = []
        for end in ends[self.windows[0].closing(ends) <= clock.after].tolist():
            part = state.part(end)
            if self._joins:
                rows = [
                    _read_rows(part.multiset(f"rows {number}").read_all(), each)
                    for number, each in enumerate(self.inputs)
                ]
                results.append(run_nested(self.inner, rows, StateStore.empty(self.inner.tables)))
            else:
                results.append(_append_weights(part.multiset(_RESULT).read_all(), self.schema))
            state.drop(end)
        return pa.concat_batches(results) if results else Delta.make_empty(self.schema)


def _number_keys(given: Input) -> pa.Schema:
    """The columns of keys, which have the same names for both inputs."""
    return pa.schema([pa.field(f"key{number}", each.type) for number, each in enumerate(given.key_schema)])


def _read_rows(whole: Segment, given: Input) -> pa.RecordBatch:
    """The rows of an input, as an operator takes them."""
    columns = dict(zip(given.keys, whole.keys, strict=True))
    columns |= dict(zip(given.value_schema.names, whole.values, strict=True))
    fields = [*given.schema, pa.field(WEIGHT, pa.int64()), pa.field(HASH, pa.uint64())]
    arrays = [*(columns[name] for name in given.schema.names), whole.marks, pa.array(whole.hashes)]
    return build_batch(arrays, pa.schema(fields), len(whole))


def _append_weights(whole: Segment, schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(whole.spec.key.names, whole.keys, strict=True))
    columns |= dict(zip(whole.spec.value.names, whole.values, strict=True))
    fields = [*schema, pa.field(WEIGHT, pa.int64(), nullable=False)]
    return build_batch([*(columns[name] for name in schema.names), whole.marks], pa.schema(fields), len(whole))


def _make_operator(node: InWindows, facts: JobFacts) -> Operator:
    own = replace(node.inner, uid=node.uid)
    inner: Operator
    if isinstance(own, Deduplicate):  # what is first by event time is known when the window closes
        inner = DeduplicateOperator.from_node(own)
    elif isinstance(own, Join) and own.condition is not None:
        inner = WindowJoinOperator.from_node(own, facts.session)
    else:
        inner = make_operator(own, replace(facts, expires=False))
    return InWindowsOperator.from_operator(inner, node.windows, zone=local_zone(facts.session))


IN_WINDOWS = NodeOperator(InWindows, _make_operator)
