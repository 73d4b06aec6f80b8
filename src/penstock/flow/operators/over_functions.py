"""The functions of OVER: their results, from rows in order and the frames of these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import RowIndices
from penstock.columns.hashing import take_rows
from penstock.flow.operators.accumulators import Accumulators
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.contract import Input
from penstock.flow.operators.over_frames import OrderValues, Partitions, frames_of
from penstock.flow.operators.over_numbers import OverNumbers, arrange_columns, split_calls
from penstock.flow.operators.over_values import Carried, FramedRows, FrameStates, Line
from penstock.plan.nodes import Frame, GroupAggregate, OverAggregate, SortColumn
from penstock.types import Field, RowType, arrow_schema


@dataclass(frozen=True)
class OverFunctions:
    """The functions of a node over the rows of the input ``given``: those of ``aggregates``, and ``numbers``.
    ``schema`` has the columns of the rows with the results."""

    given: Input
    schema: pa.Schema
    frame: Frame
    order: tuple[SortColumn, ...]
    aggregates: GroupAggregateOperator
    numbers: OverNumbers

    @classmethod
    def from_node(cls, node: OverAggregate, *, strict: bool) -> OverFunctions:
        """The functions of a plan's node; ``strict``: a sum that its type cannot hold fails the job. Raises
        UnsupportedError for unknown ones."""
        calls, numbers = split_calls(node.calls)
        given = Input(arrow_schema(node.input.schema), node.keys)
        fields = (*node.input.schema.select(node.keys).fields, *(Field(each.name, each.type) for each in calls))
        group = GroupAggregate(RowType(fields, nullable=False), node.input, node.keys, calls, uid=node.uid)
        aggregates = replace(GroupAggregateOperator.from_node(group, retracts=False, strict=strict), inputs=(given,))
        schema = arrow_schema(node.schema)
        return cls(given, schema, node.frame, node.order, aggregates, OverNumbers(numbers, given.schema))

    @property
    def accumulators(self) -> tuple[Accumulators, ...]:
        """What is kept of the arguments of aggregates."""
        return self.aggregates.states.accumulators

    @property
    def state_schema(self) -> pa.Schema:
        """The columns of the state of a group, if frames have all rows before a row."""
        return pa.schema([*self.aggregates.states.schema, *self.numbers.fields])

    def frame_rows(
        self,
        rows: pa.RecordBatch,
        partitions: Partitions,
        *,
        wanted: RowIndices | None = None,
        values: OrderValues | None = None,
        carried: Carried | None = None,
        line: Line | None = None,
        by_row: bool = False,
    ) -> FramedRows:
        """Sorted rows with their frames, of which some are ``wanted`` (None: all). ``values`` are the values that a
        frame by value needs; ``by_row``: no two rows are equal in the order."""
        frame = replace(self.frame, rows=True) if by_row else self.frame
        wanted = np.arange(len(rows)) if wanted is None else wanted
        keys = rows.select(self.given.keys)
        return FramedRows(rows, keys, partitions, frames_of(frame, partitions, values), wanted, carried, line)

    def compute_states(self, framed: FramedRows) -> FrameStates:
        """The states of the frames of the rows that are wanted."""
        return framed.compute_states(self.aggregates.states)

    def compute_results(self, framed: FramedRows, states: FrameStates, order: RowIndices) -> Iterator[pa.RecordBatch]:
        """The rows that are wanted with their results, in this ``order``, in batches of limited size."""
        numbers = self.numbers.compute_columns(framed)
        for part in states.parts(order):
            which = framed.wanted[part]
            rows = take_rows(framed.rows.select(self.given.schema.names), which)
            found = self.aggregates.compute_results(take_rows(framed.keys, which), states.at(part))
            columns = dict(zip(found.schema.names, found.columns, strict=True))
            columns |= dict(zip(rows.schema.names, rows.columns, strict=True))
            columns |= {name: each.take(pa.array(which)) for name, each in numbers.items()}
            yield build_batch([columns[each.name].cast(each.type) for each in self.schema], self.schema, len(which))

    def make_state(self, framed: FramedRows, states: FrameStates) -> pa.RecordBatch:
        """The state of each partition after its rows, all of which are wanted."""
        last = states.at(framed.partitions.lasts)
        columns = dict(zip(last.schema.names, last.columns, strict=True)) | self.numbers.make_state(framed)
        return build_batch(arrange_columns(columns, self.state_schema), self.state_schema, len(last))
