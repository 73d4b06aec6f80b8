"""A full changelog from upserts and deletions by key, or from a changelog whose changes may be repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.columns.equality import Flags, RowIndices, fixed_values, same_rows
from penstock.columns.hashing import Groups, take_rows
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext
from penstock.flow.operators.deltas import last_rows, make_replacements, make_whole_rows, select_groups
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.rows.envelope import ARRIVED, WEIGHT, arrivals_of, hashes_of
from penstock.flow.state.store import KeyedState, TableSpec
from penstock.plan.nodes import Normalize
from penstock.spi import KIND
from penstock.types import RowKind, arrow_schema

#: The name of the table of the one row of each key.
ROWS = "rows"


@dataclass(frozen=True)
class NormalizeOperator(OneInputOperator):
    """Keeps the newest row of each key. Of the rows of a batch the last one of a key counts.

    INSERT and UPDATE_AFTER both put the row of a key; DELETE and UPDATE_BEFORE both remove it, whatever their other
    columns are, as in Flink: after an UPDATE_BEFORE the row may come back under another key. Putting a row that is
    stored already, or removing one that is not, changes nothing.

    With ``every_change`` it gives what it would give if each row came in a separate batch, with the column
    :data:`ARRIVED`.
    """

    every_change: bool = False

    @classmethod
    def from_node(cls, node: Normalize) -> NormalizeOperator:
        """The operator of a plan's node."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys, kinds=True),), schema)

    @property
    def ordered(self) -> bool:
        return True

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return (make_rows_table(self.inputs[0]),)

    def with_every_change(self) -> NormalizeOperator:
        return replace(self, every_change=True)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        (given,) = self.inputs
        groups = Groups.by_key(hashes_of(batch), batch.select(given.keys))
        kinds = np.asarray(fixed_values(batch.column(KIND)))
        present = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
        last = last_rows(groups)
        rows = batch.select(given.schema.names)
        table = context.state.keyed(ROWS)
        stored = table.get(groups)
        net = replace_rows(table, given, groups, stored, take_rows(rows, last), present[last])
        if self.every_change:
            net = make_every_change(given, groups, stored, rows, present, arrivals_of(batch))
        context.emit(net)


def make_rows_table(given: Input) -> TableSpec:
    """The table of the one row of each key."""
    return TableSpec(ROWS, given.key_schema, given.value_schema, "keyed")


def replace_rows(
    table: KeyedState,
    given: Input,
    groups: Groups,
    stored: tuple[Flags, pa.RecordBatch],
    rows: pa.RecordBatch,
    present: Flags,
) -> pa.RecordBatch:
    """Put ``rows``, one per key, instead of those that are ``stored``, or remove them where ``present`` is false.

    Returns the rows that retract what is replaced and add what is new. Unchanged rows give nothing.
    """
    found, values = stored
    every = np.arange(len(groups))
    new = rows.select(given.value_schema.names)
    changed = (found != present) | (present & ~same_rows(values.columns, every, new.columns, every))
    written = changed | (present & table.spec.timed)  # a value that comes again stays
    which = np.flatnonzero(written)
    table.put(select_groups(groups, written), take_rows(new, which), present[which])
    old = make_whole_rows(given, groups.keys, values)
    return make_replacements(
        given.schema, old, np.flatnonzero(found & changed), rows, np.flatnonzero(present & changed)
    )


def make_every_change(
    given: Input,
    groups: Groups,
    stored: tuple[Flags, pa.RecordBatch],
    rows: pa.RecordBatch,
    present: Flags,
    places: RowIndices,
) -> pa.RecordBatch:
    """The changes when ``rows`` come one after the other: each replaces the row of its key, or removes it where
    ``present`` is false. ``places`` are their places in the order of arrival."""
    found, values = stored
    count = len(groups)
    states = pa.concat_batches([make_whole_rows(given, groups.keys, values), rows])
    there = np.concatenate([found, present])
    new = count + groups.order
    old = np.empty(len(new), np.int64)
    old[1:] = new[:-1]
    old[groups.starts] = np.arange(count)
    changed = there[old] != there[new]
    both = np.flatnonzero(there[old] & there[new])
    changed[both] = ~same_rows(states.columns, old[both], states.columns, new[both])
    gone, came = np.flatnonzero(changed & there[old]), np.flatnonzero(changed & there[new])
    chosen = np.concatenate([old[gone], new[came]])
    weights = np.repeat([-1, 1], [len(gone), len(came)])
    when = places[groups.order[np.concatenate([gone, came])]]
    order = np.argsort(when, kind="stable")  # of one row, the retraction comes first
    columns = [*take_rows(states, chosen[order]).columns, pa.array(weights[order]), pa.array(when[order])]
    return pa.RecordBatch.from_arrays(columns, names=[*given.schema.names, WEIGHT, ARRIVED])


NORMALIZE = NodeOperator(Normalize, lambda node, _: NormalizeOperator.from_node(node))
