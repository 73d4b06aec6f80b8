"""The end of an output: the net changes of a batch as rows with kinds, in the way that the sink takes them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.hashing import Groups
from penstock.flow.operators.contract import Input, Operator, OperatorContext
from penstock.flow.operators.deltas import Delta
from penstock.spi import KIND
from penstock.types import RowKind

_INSERT, _BEFORE, _AFTER, _DELETE = map(int, RowKind)


class Mode(enum.Enum):
    """What a sink takes: rows that are added; the last row of each key, or its deletion; or every change, with the row
    before it."""

    INSERTIONS = "insertions"
    UPSERTS = "upserts"
    RETRACTIONS = "retractions"


@dataclass(frozen=True)
class ChangelogWriter(Operator):
    """Turns weights into kinds. Keeps no state.

    The ``keys`` are the sink's for UPSERTS; for RETRACTIONS they are the rows' upsert keys, or None without any: an
    addition and a retraction of one key are an update. With no column in the key there is at most one row.
    ``netting``: the input may have rows that cancel one another. ``ordered``: several rows may have one key of UPSERTS,
    and the one that came last counts.
    """

    uid: str
    schema: pa.Schema
    keys: tuple[str, ...] | None
    mode: Mode
    netting: bool = False
    ordered: bool = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        """One, by the keys."""
        return (Input(self.schema, self.keys or ()),)

    def is_local_to(self, partitioned: tuple[str, ...]) -> bool:
        """It keeps no state by hash: it needs all rows of a key, in any order, and without keys nothing."""
        keys = self.inputs[0].keys
        return not keys or (bool(partitioned) and set(partitioned) <= set(keys))

    def behind_every_change(self) -> ChangelogWriter:
        return replace(self, netting=True)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        """Emit the rows with the column :data:`KIND`."""
        context.emit(self._make_changes(Delta.from_batch(inputs[0], self.inputs[0])))

    def _make_changes(self, delta: Delta) -> pa.RecordBatch:
        if self.netting:
            delta = delta.cancel_out(ordered=self.ordered)
        rows, weights = delta.rows, delta.weights
        if self.mode is Mode.INSERTIONS or self.keys is None:
            order = np.argsort(weights > 0, kind="stable") if (weights < 0).any() else np.arange(len(weights))
            kinds = np.where(weights[order] > 0, _INSERT, _DELETE)
        else:
            groups = Groups.by_key(delta.hashes, rows.select(list(self.keys)))
            of, count = groups.index, len(groups.hashes)
            added, removed = (np.bincount(of, sign, count) > 0 for sign in (weights > 0, weights < 0))
            updated = added & removed
            if self.mode is Mode.UPSERTS:
                order, kinds = _make_upserts(of, count, weights, updated)
                return self._make_result(rows, order, kinds)
            order = np.lexsort((weights > 0, of))
            gone = weights[order] < 0
            change = updated[of[order]]
            kinds = np.where(gone, np.where(change, _BEFORE, _DELETE), np.where(change, _AFTER, _INSERT))
        times = np.abs(weights[order])
        if (times > 1).any():
            order, kinds = np.repeat(order, times), np.repeat(kinds, times)
        return self._make_result(rows, order, kinds)

    def _make_result(self, rows: pa.RecordBatch, order: NDArray[np.int64], kinds: NDArray[np.int64]) -> pa.RecordBatch:
        unchanged = len(order) == rows.num_rows and bool((order == np.arange(rows.num_rows)).all())
        chosen = rows if unchanged else rows.take(pa.array(order))
        return chosen.append_column(KIND, pa.array(kinds.astype(np.int8)))


def _make_upserts(
    of: NDArray[np.int64], count: int, weights: NDArray[np.int64], updated: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row of each group that expresses its change, and the kind: the last added row, else a retracted one."""
    last = np.full(count, -1, np.int64)
    gone, there = np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)
    last[of[gone]] = gone
    last[of[there]] = there  # of equal indices, numpy keeps the last value
    order = np.sort(last)
    groups = of[order]
    return order, np.where(weights[order] < 0, _DELETE, np.where(updated[groups], _AFTER, _INSERT))
