"""What an operator is, and the rows between operators: changes of a multiset of rows, with a weight per row.

A row of weight 1 is added, one of weight -1 is retracted; weights of larger magnitude do so several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.flow.equality import Flags, Rows, fixed_values
from penstock.flow.hashing import Groups, Hashes, key_hashes, taken
from penstock.flow.state import StateStore, TableSpec
from penstock.flow.sums import sums
from penstock.flow.times import Clock
from penstock.formats.columns.buffers import batch_of

#: Columns that rows have beside those of their node: int64, uint64 and int8 (a RowKind).
WEIGHT, HASH, KIND = "__weight", "__hash", "__kind"
#: The int64 column of rows that go to an operator whose result depends on the order of arrival, where it would be lost:
#: the place of the row that caused the change among those of its batch.
ARRIVED = "__arrived"

#: Owners of keys are ranges of the upper half of the hash; the lower half is free to tell rows of one key apart.
_UPPER_HALF = np.uint64(0xFFFFFFFF00000000)


class Combiner(Protocol):
    """Makes fewer rows of those of an operator's input, before they are sent to the owners of their keys. Picklable."""

    def combined(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The rows that an owner gets instead, with ``__weight`` and ``__hash``; None if they would hardly be fewer."""
        ...


@dataclass(frozen=True)
class Input:
    """The rows that an operator takes from one node.

    Batches have the columns of ``schema``, then ``__weight`` (with ``kinds`` instead ``__kind``, and rows of one key in
    the order of arrival), and ``__hash``, the hash of the columns ``keys``. All rows of a key come to one owner.

    With a ``combiner`` the rows are those that it made of rows of the input before this one.
    """

    schema: pa.Schema
    keys: tuple[str, ...]
    kinds: bool = False
    combiner: Combiner | None = None

    @property
    def key_schema(self) -> pa.Schema:
        """The columns of the keys, in their order."""
        return pa.schema([self.schema.field(each) for each in self.keys])

    @property
    def value_schema(self) -> pa.Schema:
        """The other columns."""
        return pa.schema([each for each in self.schema if each.name not in self.keys])


class KeepsState(Protocol):
    """A step with state: frozen and picklable, so that every batch may run it in another process.

    ``schema`` is that of its rows, without ``__weight``.
    """

    @property
    def uid(self) -> str: ...

    @property
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    def tables(self) -> tuple[TableSpec, ...]: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order in which the rows of a batch arrive."""
        ...


class Operator(KeepsState, Protocol):
    """A step with state that does not depend on time."""

    def process(self, inputs: Sequence[pa.RecordBatch], state: StateStore) -> pa.RecordBatch:
        """The change of the result that the rows of one batch and owner make, with ``__weight``: no two rows that
        cancel each other out, retractions before additions. Called once per batch and part of an owner's keys, with one
        batch per input.
        """
        ...


@dataclass(frozen=True, eq=False)
class Advance:
    """The output of a timed operator: rows as in :meth:`Operator.process`, the number of late rows dropped, and the
    processing time at which it has more to emit without input (None: never)."""

    rows: pa.RecordBatch
    late: int = 0
    wake: int | None = None


@runtime_checkable
class TimedOperator(KeepsState, Protocol):
    """A step with state that depends on time. It runs in batches without rows too, when the watermark moves. If it is
    ``processing``, processing time is its watermark."""

    @property
    def processing(self) -> bool: ...

    @property
    def times(self) -> tuple[str, ...]:
        """Of each plain input, the column with the event time, or with the end of the window, that a row needs; empty
        for processing time. Rows without one are late."""
        ...

    def advance(self, inputs: Sequence[pa.RecordBatch], state: StateStore, clock: Clock) -> Advance:
        """The result of the rows of one batch and owner, and then of the time that passes. Called once per batch and
        owner."""
        ...


@dataclass(frozen=True, eq=False)
class Delta:
    """Rows with their weights and the hashes of their keys, and with their places in the order of arrival where an
    operator passes those on."""

    rows: pa.RecordBatch
    weights: npt.NDArray[np.int64]
    hashes: Hashes
    arrivals: Rows | None = None

    @classmethod
    def of(cls, batch: pa.RecordBatch, given: Input) -> Delta:
        """The rows of an input's batch."""
        return cls(batch.select(given.schema.names), weights_of(batch), hashes_of(batch))

    @staticmethod
    def nothing(schema: pa.Schema) -> pa.RecordBatch:
        """No change of rows of this schema, as an operator gives it."""
        return _weighted([pa.nulls(0, each.type) for each in schema], schema, np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.weights)

    def at(self, rows: Rows | Flags) -> Delta:
        """Some of the rows."""
        indices: Rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        arrivals = None if self.arrivals is None else self.arrivals[indices]
        return Delta(taken(self.rows, indices), self.weights[indices], self.hashes[indices], arrivals)

    def netted(self, *, ordered: bool = False) -> Delta:
        """The same change in which no row cancels another. Rows that are only added stay as they are; with ``ordered``
        all stay in their order, each where it came last."""
        negative = self.weights < 0
        if not negative.any():
            return self if self.weights.all() else self.at(self.weights != 0)
        both = np.isin(self.hashes, self.hashes[negative])
        changing = self if both.all() else self.at(both)
        groups = Groups.of(finer_hashes(changing.hashes, changing.rows.columns), changing.rows)
        weights = sums(groups.index, changing.weights, len(groups))
        left = np.flatnonzero(weights)
        lasts, weights = last_rows(groups)[left], weights[left]
        if ordered:
            order = np.argsort(lasts)
            lasts, weights = lasts[order], weights[order]
        net = replace(changing.at(lasts), weights=weights)
        if changing is self:
            return net
        whole = _joined(self.at(~both), net)
        places = np.concatenate([np.flatnonzero(~both), np.flatnonzero(both)[lasts]])
        return whole.at(np.argsort(places)) if ordered else whole

    def output(self) -> pa.RecordBatch:
        """The rows as an operator gives them: retractions first, with ``__weight`` (and ``__arrived``), without
        hashes."""
        negative = self.weights < 0
        first = np.count_nonzero(negative)
        ordered = self if negative[:first].all() else self.at(np.argsort(~negative, kind="stable"))
        output = _weighted(ordered.rows.columns, ordered.rows.schema, ordered.weights)
        return output if ordered.arrivals is None else output.append_column(ARRIVED, pa.array(ordered.arrivals))


def _joined(one: Delta, other: Delta) -> Delta:
    rows = pa.concat_batches([one.rows, other.rows])
    weights, hashes = np.concatenate([one.weights, other.weights]), np.concatenate([one.hashes, other.hashes])
    if one.arrivals is None or other.arrivals is None:
        return Delta(rows, weights, hashes)
    return Delta(rows, weights, hashes, np.concatenate([one.arrivals, other.arrivals]))


def weights_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The weights of a batch's rows."""
    return np.asarray(fixed_values(batch.column(WEIGHT)), np.int64)


def arrivals_of(batch: pa.RecordBatch) -> Rows:
    """The places of a batch's rows in the order of arrival."""
    return np.asarray(fixed_values(batch.column(ARRIVED)), np.int64)


def hashes_of(batch: pa.RecordBatch) -> Hashes:
    """The hashes of the keys of a batch's rows."""
    return np.asarray(fixed_values(batch.column(HASH)), np.uint64)


def finer_hashes(hashes: Hashes, columns: Sequence[pa.Array]) -> Hashes:
    """Hashes of keys and ``columns`` together that belong to the same owner as those of the keys alone."""
    if not columns:
        return hashes
    return (hashes & _UPPER_HALF) | (key_hashes([pa.array(hashes), *columns]) & ~_UPPER_HALF)


def last_rows(groups: Groups) -> Rows:
    """The row of each group that came last."""
    return groups.order[np.append(groups.starts[1:], len(groups.order)) - 1] if len(groups) else groups.starts


def select_groups(groups: Groups, chosen: Flags) -> Groups:
    """Some of the groups, as if each had one row."""
    which = np.flatnonzero(chosen)
    each = np.arange(len(which))
    return Groups(groups.hashes[which], taken(groups.keys, which), each, each, each)


def whole_rows(given: Input, keys: pa.RecordBatch, values: pa.RecordBatch) -> pa.RecordBatch:
    """Whole rows from their keys and their other columns."""
    columns = dict(zip(given.key_schema.names, keys.columns, strict=True))
    columns |= dict(zip(values.schema.names, values.columns, strict=True))
    return batch_of([columns[name] for name in given.schema.names], given.schema, len(keys))


def stacked(parts: Sequence[Sequence[pa.Array]], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """One batch of columns that stand on one another."""
    columns = [pa.concat_arrays(each) for each in zip(*parts, strict=True)]
    return batch_of(columns, schema, rows)


def replacements(
    schema: pa.Schema, old: pa.RecordBatch, retracted: Rows, new: pa.RecordBatch, added: Rows
) -> pa.RecordBatch:
    """Output rows that retract these rows of ``old`` and add those of ``new``."""
    parts = [taken(old, retracted), taken(new, added)]
    columns = [pa.concat_arrays([part.column(at) for part in parts]) for at in range(len(schema))]
    weights = np.concatenate([np.full(len(retracted), -1), np.full(len(added), 1)])
    return _weighted(columns, schema, weights)


def _weighted(columns: Sequence[pa.Array], schema: pa.Schema, weights: npt.NDArray[np.int64]) -> pa.RecordBatch:
    fields = [*schema, pa.field(WEIGHT, pa.int64(), nullable=False)]
    return batch_of([*columns, pa.array(weights, pa.int64())], pa.schema(fields), len(weights))
