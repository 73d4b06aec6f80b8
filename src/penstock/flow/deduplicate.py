"""The first or the last row of each key, by arrival or by the order of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.flow.equality import Flags, Rows
from penstock.flow.hashing import Groups, taken
from penstock.flow.normalize import ROWS, last_rows, replaced, rows_table
from penstock.flow.operators import Delta, Input, hashes_of, select_groups
from penstock.flow.ordinals import ordinals, valid_of
from penstock.flow.state import KeyedState, StateStore, TableSpec
from penstock.flow.sums import smallest
from penstock.plan.nodes import Deduplicate
from penstock.types import arrow_schema

#: The name of the table of the keys that were given.
SEEN = "seen"


@dataclass(frozen=True)
class DeduplicateOperator:
    """Keeps one row of each key, of rows that are never retracted.

    By arrival the first row stays forever, and the last one is replaced by each that comes. By the column ``order`` a
    smaller row replaces the first one and an equal or larger row the last one, as in Flink; NULL is the smallest.
    """

    uid: str
    inputs: tuple[Input]
    schema: pa.Schema
    order: str
    last: bool

    @classmethod
    def of(cls, node: Deduplicate) -> DeduplicateOperator:
        """The operator of a plan's node, whose input may only add rows."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys),), schema, node.order, node.last)

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        if self.order or self.last:
            return (rows_table(given),)
        return (seen_table(given),)

    def process(self, inputs: Sequence[pa.RecordBatch], state: StateStore) -> pa.RecordBatch:
        (batch,) = inputs
        (given,) = self.inputs
        groups = Groups.of(hashes_of(batch), batch.select(given.keys))
        rows = batch.select(given.schema.names)
        if not (self.order or self.last):
            return self._first(groups, rows, state.keyed(SEEN))
        table = state.keyed(ROWS)
        found, values = table.get(groups)
        chosen = last_rows(groups)
        if self.order:
            # A key has one value in all its rows.
            kept = groups.keys if self.order in given.keys else values
            chosen = leading(groups.index, rows.column(self.order), found, kept.column(self.order), last=self.last)
        newer = chosen >= 0
        stored = found[newer], taken(values, np.flatnonzero(newer))
        new = taken(rows, chosen[newer])
        return replaced(table, given, select_groups(groups, newer), stored, new, np.ones(len(new), np.bool_))

    def _first(self, groups: Groups, rows: pa.RecordBatch, table: KeyedState) -> pa.RecordBatch:
        """The first rows of keys that were not seen before."""
        new = ~table.get(groups)[0]
        which = select_groups(groups, new)
        table.put_keys(which)
        firsts = groups.order[groups.starts[new]]
        return Delta(taken(rows, firsts), np.ones(len(firsts), np.int64), which.hashes).output()


def seen_table(given: Input) -> TableSpec:
    """The table of the keys that were given."""
    return TableSpec(SEEN, given.key_schema, pa.schema([]), "keyed")


def leading(index: Rows, new: pa.Array, found: Flags, stored: pa.Array, *, last: bool) -> Rows:
    """For each group the first (or ``last``) of the values ``new``, whose groups are ``index``, if it comes before (or
    not before) the ``stored`` one, where that is ``found``; else -1."""
    size = len(found)
    order = _positions(pa.concat_arrays([stored, new]))
    candidates = np.concatenate([np.flatnonzero(found), size + np.arange(len(new))])
    groups = np.concatenate([np.arange(size), index])
    best = smallest(groups, candidates[::-1], ~order, size) if last else smallest(groups, candidates, order, size)
    return np.where(best < size, -1, best - size)


def _positions(column: pa.Array) -> npt.NDArray[np.int64]:
    """Numbers that order the values of the column, nulls first."""
    order = ordinals(column)
    valid = valid_of(column)
    if valid.all():
        return order
    positions = np.zeros(len(order), np.int64)
    positions[valid] = 1 + np.unique(order[valid], return_inverse=True)[1]
    return positions
