"""The first or the last row of each key, by arrival or by the order of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.ordinals import ordinals, valid_mask
from penstock.columns.sums import smallest
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext
from penstock.flow.operators.deltas import Delta, last_rows, select_groups
from penstock.flow.operators.normalize import ROWS, make_every_change, make_rows_table, replace_rows
from penstock.flow.rows.envelope import ARRIVED, arrivals_of, hashes_of
from penstock.flow.state.store import KeyedState, TableSpec
from penstock.plan.nodes import Deduplicate
from penstock.types import arrow_schema

#: The name of the table of the keys that were given.
SEEN = "seen"


@dataclass(frozen=True)
class DeduplicateOperator(OneInputOperator):
    """Keeps one row of each key. Its input never has retractions.

    By arrival the first row stays forever, and the last one is replaced by each that comes. By the column ``order`` a
    smaller row replaces the first one and an equal or larger row the last one, as in Flink; NULL is the smallest.

    With ``every_change`` it gives what it would give if each row came in a separate batch, with the column
    :data:`ARRIVED`.
    """

    order: str
    last: bool
    every_change: bool = False

    @property
    def ordered(self) -> bool:
        return True

    @classmethod
    def from_node(cls, node: Deduplicate) -> DeduplicateOperator:
        """The operator of a plan's node, whose input may only add rows."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys),), schema, node.order, node.last)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        if self.order or self.last:
            return (make_rows_table(given),)
        return (make_seen_table(given),)

    def with_every_change(self) -> DeduplicateOperator:
        return replace(self, every_change=True)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        (given,) = self.inputs
        groups = Groups.by_key(hashes_of(batch), batch.select(given.keys))
        rows = batch.select(given.schema.names)
        if not (self.order or self.last):
            firsts = self._keep_first(groups, context.state.keyed(SEEN))
            net = Delta(take_rows(rows, firsts), np.ones(len(firsts), np.int64), groups.hashes[:0]).output()
            if self.every_change:
                net = net.append_column(ARRIVED, pa.array(arrivals_of(batch)[firsts]))
            context.emit(net)
            return
        table = context.state.keyed(ROWS)
        found, values = table.get(groups)
        chosen, kept = last_rows(groups), values
        if self.order:
            # All rows of a key have one value.
            kept = groups.keys if self.order in given.keys else values
            chosen = find_leading(groups.index, rows.column(self.order), found, kept.column(self.order), last=self.last)
        newer = chosen >= 0
        stored = found[newer], take_rows(values, np.flatnonzero(newer))
        new = take_rows(rows, chosen[newer])
        net = replace_rows(table, given, select_groups(groups, newer), stored, new, np.ones(len(new), np.bool_))
        if not self.every_change:
            context.emit(net)
            return
        leads: RowIndices = np.arange(len(rows))
        if self.order:
            leads = find_leading_so_far(groups, rows.column(self.order), found, kept.column(self.order), last=self.last)
        context.emit(self._find_every_change(groups, take_rows(batch, leads), groups.index[leads], (found, values)))

    @staticmethod
    def _keep_first(groups: Groups, table: KeyedState) -> RowIndices:
        """The first rows of keys that were not seen before."""
        new = ~table.get(groups)[0]
        table.put_keys(select_groups(groups, new))
        return groups.order[groups.starts[new]]

    def _find_every_change(
        self, groups: Groups, batch: pa.RecordBatch, index: RowIndices, stored: tuple[Flags, pa.RecordBatch]
    ) -> pa.RecordBatch:
        """The changes when rows of the groups ``index`` replace one another and the ``stored`` ones."""
        (given,) = self.inputs
        own = Groups.by_key(hashes_of(batch), batch.select(given.keys))
        which = index[own.order[own.starts]]
        before = stored[0][which], take_rows(stored[1], which)
        present = np.ones(len(batch), np.bool_)
        return make_every_change(given, own, before, batch.select(given.schema.names), present, arrivals_of(batch))


def make_seen_table(given: Input) -> TableSpec:
    """The table of the keys that were given."""
    return TableSpec(SEEN, given.key_schema, pa.schema([]), "keyed")


def find_leading(index: RowIndices, new: pa.Array, found: Flags, stored: pa.Array, *, last: bool) -> RowIndices:
    """Per group, the position in ``new`` of the value that replaces the ``stored`` one: the first of the smallest, or
    with ``last`` the last of the largest; -1 if none does. ``index`` has the groups of ``new``; ``found``: a value is
    stored."""
    size = len(found)
    order = _order_values(pa.concat_arrays([stored, new]))
    candidates = np.concatenate([np.flatnonzero(found), size + np.arange(len(new))])
    groups = np.concatenate([np.arange(size), index])
    best = smallest(groups, candidates[::-1], ~order, size) if last else smallest(groups, candidates, order, size)
    return np.where(best < size, -1, best - size)


def find_leading_so_far(groups: Groups, new: pa.Array, found: Flags, stored: pa.Array, *, last: bool) -> RowIndices:
    """The rows, in order, whose value in ``new`` comes before (with ``last``, not before) all earlier ones of their
    group, including the ``stored`` one, if ``found``."""
    size = len(found)
    ranks = 1 + np.unique(_order_values(pa.concat_arrays([stored, new])), return_inverse=True)[1]
    ranks = ranks if last else len(ranks) + 1 - ranks
    ranks[:size][~found] = 0
    sequence = np.argsort(np.concatenate([np.arange(size), groups.index]), kind="stable")
    base = np.concatenate([np.arange(size), groups.index])[sequence] * (len(ranks) + 2)
    ranks = ranks[sequence]
    best = np.maximum.accumulate(base + ranks) - base  # up to this one; groups ascend
    before = np.concatenate([[0], best[:-1]])
    leads = (ranks >= before if last else ranks > before) & (sequence >= size)
    return np.sort(sequence[leads] - size)


def _order_values(column: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers that order the values of the column, nulls first."""
    order = ordinals(column)
    valid = valid_mask(column)
    if valid.all():
        return order
    positions = np.zeros(len(order), np.int64)
    positions[valid] = 1 + np.unique(order[valid], return_inverse=True)[1]
    return positions
