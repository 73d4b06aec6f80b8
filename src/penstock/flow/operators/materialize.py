"""The last row of each key of a table that keeps one, of changes that come in some order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import RowIndices
from penstock.columns.hashing import Groups, take_rows
from penstock.columns.sums import sums
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext
from penstock.flow.operators.deltas import Delta, finer_hashes, make_replacements, make_whole_rows
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.operators.rank import select_all_groups
from penstock.flow.rows.envelope import ARRIVAL
from penstock.flow.state.store import TableSpec
from penstock.plan.nodes import Materialize
from penstock.types import arrow_schema

_ROWS = "rows"


@dataclass(frozen=True)
class MaterializeOperator(OneInputOperator):
    """Keeps all rows of each key in the order in which they came, and gives the last one. A retraction removes the
    first row that is equal to it, perhaps with other values in the columns ``decided``, or nothing."""

    decided: tuple[str, ...] = ()

    @classmethod
    def from_node(cls, node: Materialize) -> MaterializeOperator:
        """The operator of a plan's node."""
        schema = arrow_schema(node.schema)
        return cls(node.uid, (Input(schema, node.keys),), schema, node.decided)

    @property
    def ordered(self) -> bool:
        return True

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        values = pa.schema([*given.value_schema, pa.field(ARRIVAL, pa.int64())])
        return (TableSpec(_ROWS, given.key_schema, values, "multiset"),)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (given,) = self.inputs
        delta = Delta.from_batch(inputs[0], given)
        groups = Groups.by_key(delta.hashes, delta.rows.select(given.keys))
        table = context.state.multiset(_ROWS)
        index, values, weights = table.get(select_all_groups(groups))
        stored = len(index)
        arrived = np.asarray(values.column(ARRIVAL).to_numpy(), np.int64)
        newest = np.full(len(groups), -1, np.int64)
        np.maximum.at(newest, index, arrived)
        arrival = np.concatenate([arrived, newest[groups.index] + 1 + np.arange(len(delta))])
        rows = pa.concat_batches([make_whole_rows(given, take_rows(groups.keys, index), values), delta.rows])
        of = np.concatenate([index, groups.index])
        hashes = groups.hashes[of]
        compared = rows.select([each for each in rows.schema.names if each not in self.decided])
        same = Groups.by_key(finer_hashes(hashes, compared.columns), compared)

        # Retracted rows are removed from the first ones on, those of this batch after the stored ones.
        added = np.flatnonzero(delta.weights > 0)
        entries = np.concatenate([np.arange(stored), stored + added])
        counts = np.concatenate([weights, delta.weights[added]])
        removals = sums(same.index[stored:], np.maximum(-delta.weights, 0), len(same))
        kept = counts - _count_removed(same.index[entries], arrival[entries], counts, removals)
        before = _find_last(of[:stored], arrived, np.arange(stored), len(groups))
        alive = kept > 0
        after = _find_last(of[entries[alive]], arrival[entries[alive]], entries[alive], len(groups))

        changes = kept - np.concatenate([weights, np.zeros(len(added), np.int64)])
        moved = entries[changes != 0]
        whole = [*take_rows(rows, moved).select(given.value_schema.names).columns, pa.array(arrival[moved])]
        table.add(
            hashes[moved],
            take_rows(rows, moved).select(given.keys),
            build_batch(whole, table.spec.value, len(moved)),
            changes[changes != 0],
        )
        differs = np.append(same.index, -1)[before] != np.append(same.index, -1)[after]
        gone, came = before[differs & (before >= 0)], after[differs & (after >= 0)]
        context.emit(make_replacements(self.schema, rows, gone, rows, came))


def _count_removed(classes: RowIndices, arrived: RowIndices, weights: RowIndices, removals: RowIndices) -> RowIndices:
    """How many of each row are removed, if ``removals`` of each class of equal rows are, the first rows first."""
    order = np.lexsort((arrived, classes))
    sorted_classes, counts = classes[order], weights[order]
    ends = np.cumsum(counts)
    starts = ends - counts
    within = starts - starts[np.searchsorted(sorted_classes, sorted_classes)]
    result = np.empty(len(order), np.int64)
    result[order] = np.clip(removals[sorted_classes] - within, 0, counts)
    return result


def _find_last(groups: RowIndices, arrival: RowIndices, places: RowIndices, count: int) -> RowIndices:
    """The place of the row of each group that came last; -1 without one."""
    result = np.full(count, -1, np.int64)
    order = np.argsort(arrival, kind="stable")
    result[groups[order]] = places[order]  # of equal indices, numpy keeps the last value
    return result


MATERIALIZE = NodeOperator(Materialize, lambda node, _: MaterializeOperator.from_node(node))
