"""INTERSECT and EXCEPT, and the rows of one table that have, or do not have, an equal row in another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.hashing import Groups, take_rows
from penstock.columns.sums import sums
from penstock.flow.operators.accumulators import counts_of
from penstock.flow.operators.contract import Input, Operator, OperatorContext
from penstock.flow.operators.deltas import Delta, select_groups
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.state.store import TableSpec
from penstock.plan.nodes import SetKind, SetOperation
from penstock.types import arrow_schema

Counts: TypeAlias = npt.NDArray[np.int64]
_ROWS, _LEFT, _RIGHT = "rows", "left", "right"


@dataclass(frozen=True)
class SetOperator(Operator):
    """Counts how often each row is in either input; how often it is in the result follows from both numbers. NULL is
    equal to NULL here."""

    uid: str
    inputs: tuple[Input, Input]
    kind: SetKind

    @classmethod
    def from_node(cls, node: SetOperation) -> SetOperator:
        """The operator of a plan's node."""
        left, right = (arrow_schema(each.schema) for each in node.inputs)
        return cls(node.uid, (Input(left, tuple(left.names)), Input(right, tuple(right.names))), node.kind)

    @property
    def schema(self) -> pa.Schema:
        return self.inputs[0].schema

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        counts = pa.schema([pa.field(_LEFT, pa.int64()), pa.field(_RIGHT, pa.int64())])
        return (TableSpec(_ROWS, self.schema, counts, "keyed", exact=True),)

    def keys_of(self, rows: pa.RecordBatch, given: Input) -> Sequence[pa.Array]:
        return [rows.column(at) for at in range(len(given.keys))]

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        left, right = (Delta.from_batch(*each) for each in zip(inputs, self.inputs, strict=True))
        rows = pa.concat_batches([left.rows, right.rows.rename_columns(self.schema.names)])
        groups = Groups.by_key(np.concatenate([left.hashes, right.hashes]), rows)
        table = context.state.keyed(_ROWS)
        _, stored = table.get(groups)
        before = counts_of(stored.column(_LEFT)), counts_of(stored.column(_RIGHT))
        count = len(groups)
        added = (
            sums(groups.index[: len(left)], left.weights, count),
            sums(groups.index[len(left) :], right.weights, count),
        )
        after = before[0] + added[0], before[1] + added[1]
        changed = (added[0] != 0) | (added[1] != 0)
        new = pa.RecordBatch.from_arrays([pa.array(each[changed]) for each in after], names=[_LEFT, _RIGHT])
        present = (after[0][changed] != 0) | (after[1][changed] != 0)
        table.put(select_groups(groups, changed), new, present)
        weights = self._count_result(*after) - self._count_result(*before)
        kept = np.flatnonzero(weights)
        context.emit(Delta(take_rows(groups.keys, kept), weights[kept], groups.hashes[kept]).output())

    def _count_result(self, left: Counts, right: Counts) -> Counts:
        """The count of rows in the result, from their counts in the inputs."""
        left, right = np.maximum(left, 0), np.maximum(right, 0)
        once = np.minimum(left, 1)
        results = {
            SetKind.INTERSECT: np.minimum(once, right),
            SetKind.INTERSECT_ALL: np.minimum(left, right),
            SetKind.EXCEPT: np.where(right > 0, 0, once),
            SetKind.EXCEPT_ALL: np.maximum(left - right, 0),
            SetKind.SEMI: np.where(right > 0, left, 0),
            SetKind.ANTI: np.where(right > 0, 0, left),
        }
        return np.asarray(results[self.kind], np.int64)


SET_OPERATION = NodeOperator(SetOperation, lambda node, _: SetOperator.from_node(node))
