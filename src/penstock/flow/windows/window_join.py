"""Joins of the rows of one window, on equal keys and any other condition: all rows are known when the window closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups
from penstock.errors import Problem, RecordError, UnsupportedError
from penstock.flow.kernels.session import Session
from penstock.flow.operators.contract import Input, Operator, OperatorContext
from penstock.flow.operators.deltas import Delta
from penstock.flow.operators.join import find_complete, find_pair_places
from penstock.flow.rows.expressions import Evaluator, NoKernel, compile_expressions
from penstock.plan.nodes import Join, JoinKind
from penstock.spi import locate_error
from penstock.types import arrow_schema

#: The kinds that give rows of the left side, and of the right side, without a match, beside pairs.
_KEEPS_LEFT = (JoinKind.LEFT, JoinKind.FULL)
_KEEPS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)


@dataclass(frozen=True)
class WindowJoinOperator(Operator):
    """Joins rows whose keys are equal and not NULL and that meet the ``condition``, on the columns of both sides. It
    keeps nothing: each of its inputs is all rows of one window, which are only added."""

    uid: str
    schema: pa.Schema
    inputs: tuple[Input, Input]
    kind: JoinKind
    condition: Evaluator

    @classmethod
    def from_node(cls, node: Join, session: Session) -> WindowJoinOperator:
        """The operator of a plan's node. Raises UnsupportedError for a condition that has no kernel."""
        assert node.condition is not None  # noqa: S101
        left, right = (arrow_schema(each.schema) for each in node.inputs)
        condition = compile_expressions((node.condition,), pa.schema([*left, *right]), session)
        if isinstance(condition, NoKernel):
            reason = f"{condition.function} in the condition of a join of windows is not supported"
            where = str(condition.place or "")
            raise UnsupportedError((Problem(reason, where=where, hint="compute it in a subquery below the join"),))
        inputs = Input(left, node.left_keys), Input(right, node.right_keys)
        return cls(node.uid, arrow_schema(node.schema), inputs, node.kind, condition)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        left, right = (Delta.from_batch(*each) for each in zip(inputs, self.inputs, strict=True))
        context.emit(self._make_pairs(left, right))

    def _make_pairs(self, left: Delta, right: Delta) -> pa.RecordBatch:
        lefts, rights = self._find_matches(left, right)
        if self.kind is JoinKind.SEMI:
            return left.at(np.unique(lefts)).output()
        lone_left, lone_right = _find_others(lefts, len(left)), _find_others(rights, len(right))
        if self.kind is JoinKind.ANTI:
            return left.at(lone_left).output()
        lone_left = lone_left if self.kind in _KEEPS_LEFT else lone_left[:0]
        lone_right = lone_right if self.kind in _KEEPS_RIGHT else lone_right[:0]
        weights = [left.weights[lefts] * right.weights[rights], left.weights[lone_left], right.weights[lone_right]]
        lefts = np.concatenate([lefts, lone_left, np.full(len(lone_right), -1)])
        rights = np.concatenate([rights, np.full(len(lone_left), -1), lone_right])
        columns = [*_take_columns(left.rows, lefts), *_take_columns(right.rows, rights)]
        rows = build_batch(columns, self.schema, len(lefts))
        return Delta(rows, np.concatenate(weights), np.zeros(len(lefts), np.uint64)).output()

    def _find_matches(self, left: Delta, right: Delta) -> tuple[RowIndices, RowIndices]:
        """The places of the rows of pairs that match."""
        left_keys, right_keys = (
            each.rows.select(given.keys) for each, given in zip((left, right), self.inputs, strict=True)
        )
        keys = pa.concat_batches([left_keys, right_keys.rename_columns(left_keys.schema.names)])
        groups = Groups.by_key(np.concatenate([left.hashes, right.hashes]), keys)
        of = np.where(find_complete(keys), groups.index, -1)
        every = np.arange(len(left)), np.arange(len(right))
        lefts, rights = find_pair_places(of[: len(left)], every[0], of[len(left) :], every[1], len(groups))
        columns = [*_take_columns(left.rows, lefts), *_take_columns(right.rows, rights)]
        pairs = build_batch(columns, self.condition.schema, len(lefts))
        met = _evaluate_flags(self.condition, pairs)
        return lefts[met], rights[met]


def _find_others(places: RowIndices, count: int) -> RowIndices:
    """The places below ``count`` that are not among ``places``."""
    alone = np.ones(count, np.bool_)
    alone[places] = False
    return np.flatnonzero(alone)


def _take_columns(rows: pa.RecordBatch, places: RowIndices) -> list[pa.Array]:
    """The columns of the rows at these places, nulls at -1."""
    indices = pa.array(places, mask=places < 0)
    return [column.take(indices) for column in rows.columns]


def _evaluate_flags(condition: Evaluator, rows: pa.RecordBatch) -> Flags:
    """Whether a condition is true for each row. Raises RecordError for a row that cannot be computed."""
    try:
        found = condition.column(rows)
    except RecordError as error:
        raise locate_error(error, rows, error.offset) from None
    return np.asarray(found.fill_null(False), np.bool_)
