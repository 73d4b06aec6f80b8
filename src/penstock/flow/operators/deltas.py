"""The rows between operators: changes of a multiset of rows, with a weight per row.

A row of weight 1 is added, one of weight -1 is retracted; weights of larger magnitude do so several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, Hashes, key_hashes, take_rows
from penstock.columns.sums import sums
from penstock.flow.operators.contract import Input
from penstock.flow.rows.envelope import ARRIVED, WEIGHT, hashes_of, weights_of

#: Owners of keys are ranges of the upper half of the hash; the lower half is free to distinguish rows of one key.
_UPPER_HALF = np.uint64(0xFFFFFFFF00000000)


@dataclass(frozen=True, eq=False)
class Delta:
    """Rows with their weights and the hashes of their keys, and with their places in the order of arrival where an
    operator passes those on."""

    rows: pa.RecordBatch
    weights: npt.NDArray[np.int64]
    hashes: Hashes
    arrivals: RowIndices | None = None

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch, given: Input) -> Delta:
        """The rows of an input's batch."""
        return cls(batch.select(given.schema.names), weights_of(batch), hashes_of(batch))

    @staticmethod
    def make_empty(schema: pa.Schema) -> pa.RecordBatch:
        """An empty result of an operator with this schema."""
        return _append_weights([pa.nulls(0, each.type) for each in schema], schema, np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.weights)

    def at(self, rows: RowIndices | Flags) -> Delta:
        """Some of the rows."""
        indices: RowIndices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        arrivals = None if self.arrivals is None else self.arrivals[indices]
        return Delta(take_rows(self.rows, indices), self.weights[indices], self.hashes[indices], arrivals)

    def cancel_out(self, *, ordered: bool = False) -> Delta:
        """The same change in which no row cancels another. Rows that are only added are unchanged; with ``ordered`` all
        stay in order, each where it came last."""
        negative = self.weights < 0
        if not negative.any():
            return self if self.weights.all() else self.at(self.weights != 0)
        both = np.isin(self.hashes, self.hashes[negative])
        changing = self if both.all() else self.at(both)
        groups = Groups.by_key(finer_hashes(changing.hashes, changing.rows.columns), changing.rows)
        weights = sums(groups.index, changing.weights, len(groups))
        left = np.flatnonzero(weights)
        lasts, weights = last_rows(groups)[left], weights[left]
        if ordered:
            order = np.argsort(lasts)
            lasts, weights = lasts[order], weights[order]
        net = replace(changing.at(lasts), weights=weights)
        if changing is self:
            return net
        whole = _concat_deltas(self.at(~both), net)
        places = np.concatenate([np.flatnonzero(~both), np.flatnonzero(both)[lasts]])
        return whole.at(np.argsort(places)) if ordered else whole

    def output(self) -> pa.RecordBatch:
        """The rows as an operator gives them: retractions first, with ``WEIGHT`` (and ``ARRIVED``), without
        hashes."""
        negative = self.weights < 0
        first = np.count_nonzero(negative)
        ordered = self if negative[:first].all() else self.at(np.argsort(~negative, kind="stable"))
        output = _append_weights(ordered.rows.columns, ordered.rows.schema, ordered.weights)
        return output if ordered.arrivals is None else output.append_column(ARRIVED, pa.array(ordered.arrivals))


def _concat_deltas(one: Delta, other: Delta) -> Delta:
    rows = pa.concat_batches([one.rows, other.rows])
    weights, hashes = np.concatenate([one.weights, other.weights]), np.concatenate([one.hashes, other.hashes])
    if one.arrivals is None or other.arrivals is None:
        return Delta(rows, weights, hashes)
    return Delta(rows, weights, hashes, np.concatenate([one.arrivals, other.arrivals]))


def finer_hashes(hashes: Hashes, columns: Sequence[pa.Array]) -> Hashes:
    """Hashes of keys and ``columns`` together, which belong to the same owner as the hashes of the keys alone."""
    if not columns:
        return hashes
    return (hashes & _UPPER_HALF) | (key_hashes([pa.array(hashes), *columns]) & ~_UPPER_HALF)


def last_rows(groups: Groups) -> RowIndices:
    """The row of each group that came last."""
    return groups.order[np.append(groups.starts[1:], len(groups.order)) - 1] if len(groups) else groups.starts


def select_groups(groups: Groups, chosen: Flags) -> Groups:
    """Some of the groups, each with one row."""
    which = np.flatnonzero(chosen)
    each = np.arange(len(which))
    return Groups(groups.hashes[which], take_rows(groups.keys, which), each, each, each)


def make_whole_rows(given: Input, keys: pa.RecordBatch, values: pa.RecordBatch) -> pa.RecordBatch:
    """Whole rows from their keys and their other columns."""
    columns = dict(zip(given.key_schema.names, keys.columns, strict=True))
    columns |= dict(zip(values.schema.names, values.columns, strict=True))
    return build_batch([columns[name] for name in given.schema.names], given.schema, len(keys))


def concat_columns(parts: Sequence[Sequence[pa.Array]], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """The batches concatenated, column by column."""
    columns = [pa.concat_arrays(each) for each in zip(*parts, strict=True)]
    return build_batch(columns, schema, rows)


def make_replacements(
    schema: pa.Schema, old: pa.RecordBatch, retracted: RowIndices, new: pa.RecordBatch, added: RowIndices
) -> pa.RecordBatch:
    """Output rows that retract these rows of ``old`` and add those of ``new``."""
    parts = [take_rows(old, retracted), take_rows(new, added)]
    columns = [pa.concat_arrays([part.column(at) for part in parts]) for at in range(len(schema))]
    weights = np.concatenate([np.full(len(retracted), -1), np.full(len(added), 1)])
    return _append_weights(columns, schema, weights)


def _append_weights(columns: Sequence[pa.Array], schema: pa.Schema, weights: npt.NDArray[np.int64]) -> pa.RecordBatch:
    fields = [*schema, pa.field(WEIGHT, pa.int64(), nullable=False)]
    return build_batch([*columns, pa.array(weights, pa.int64())], pa.schema(fields), len(weights))
