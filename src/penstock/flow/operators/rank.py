"""The first rows of each key in an order (Top-N), with or without their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices
from penstock.columns.hashing import Groups, key_hashes, take_rows
from penstock.columns.ordinals import ordinals, sort_columns, valid_mask
from penstock.columns.sums import sums
from penstock.flow.operators.contract import Input, OneInputOperator, OperatorContext
from penstock.flow.operators.deltas import Delta, finer_hashes, make_whole_rows, select_groups
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.rows.envelope import ARRIVAL, hashes_of, weights_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.plan.nodes import Rank, Ranking, SortColumn
from penstock.types import arrow_schema

Weights: TypeAlias = npt.NDArray[np.int64]
_TOP, _REST = "first rows", "other rows"


@dataclass(frozen=True)
class RankOperator(OneInputOperator):
    """Keeps the rows of each key with the numbers from ``first`` to ``last``, in the order of columns.

    Rows that are only added are kept as far as they have one of the numbers up to ``last``. Equal ones are in the order
    in which they came; the last ones are before the others if they are ``latest``.

    Of rows that are retracted too, all are kept: apart from the first ones the others, which are read only for keys
    that lost one of the first. Equal ones are ordered by their other columns, so that their order is always the same.
    """

    order: tuple[SortColumn, ...]
    first: int
    last: int
    numbered: bool
    latest: bool
    retracts: bool
    ranking: Ranking

    @classmethod
    def from_node(cls, node: Rank, *, retracts: bool) -> RankOperator:
        """The operator of a plan's node. Without ``retracts`` its input never has negative weights."""
        return cls(
            node.uid,
            (Input(arrow_schema(node.input.schema), node.keys),),
            arrow_schema(node.schema),
            node.order,
            node.first,
            node.last,
            bool(node.number),
            node.latest,
            retracts,
            node.ranking,
        )

    @property
    def ordered(self) -> bool:
        return not self.retracts  # rows that are equal in the order are ordered by their values there

    @property
    def partition_keys(self) -> tuple[str, ...]:
        return self.inputs[0].keys

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        (given,) = self.inputs
        if self.retracts:
            return tuple(TableSpec(each, given.key_schema, given.value_schema, "multiset") for each in (_TOP, _REST))
        values = pa.schema([*given.value_schema, pa.field(ARRIVAL, pa.int64())])
        return (TableSpec(_TOP, given.key_schema, values, "multiset"),)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        state = context.state
        pool = self._pool_changed(batch, state) if self.retracts else self._pool_added(batch, state)
        before, after = pool.top, self._count_share(pool)
        self._keep(_TOP, pool, after - before, state)
        if self.retracts:
            self._keep(_REST, pool, pool.total - after - pool.rest, state)
        context.emit(self._make_output(pool, before, after))

    # --- the rows that matter -----------------------------------------------------------------------------------

    def _pool_added(self, batch: pa.RecordBatch, state: StateStore) -> Pool:
        """The stored first rows, and the rows of the batch, each as often as it came."""
        (given,) = self.inputs
        groups = Groups.by_key(hashes_of(batch), batch.select(given.keys))
        index, values, _ = state.multiset(_TOP).get(select_all_groups(groups))
        rows = batch.select(given.schema.names)
        new = groups.index
        weights = weights_of(batch)
        if (weights != 1).any():
            repeated = np.repeat(np.arange(len(weights)), weights)
            rows, new = take_rows(rows, repeated), new[repeated]
        arrived = np.asarray(values.column(ARRIVAL).to_numpy(), np.int64)
        newest = np.full(len(groups), -1, np.int64)
        np.maximum.at(newest, index, arrived)
        order = np.argsort(new, kind="stable")
        starts = np.searchsorted(new[order], np.arange(len(groups)))
        came = np.empty(len(new), np.int64)
        came[order] = np.arange(len(new)) - starts[new[order]]
        arrival = np.concatenate([arrived, newest[new] + 1 + came])
        stored = make_whole_rows(given, take_rows(groups.keys, index), values)
        both = pa.concat_batches([stored, rows]).append_column(ARRIVAL, pa.array(arrival))
        of = np.concatenate([index, new])
        pool = Pool(
            both,
            groups,
            of,
            _make_flags(len(index), len(new)),
            _make_flags(0, len(of)),
            1 - _make_flags(len(index), len(new)),
        )
        return pool.sort(self.order, [-arrival if self.latest else arrival])

    def _pool_changed(self, batch: pa.RecordBatch, state: StateStore) -> Pool:
        """The stored first rows, the changed rows, and for keys that would have too few of them, all others."""
        (given,) = self.inputs
        delta = Delta.from_batch(batch, given).cancel_out()
        groups = Groups.by_key(delta.hashes, delta.rows.select(given.keys))
        index, values, weights = state.multiset(_TOP).get(select_all_groups(groups))
        top = make_whole_rows(given, take_rows(groups.keys, index), values)
        pool = self._merge_rows(
            groups,
            pa.concat_batches([top, delta.rows]),
            np.concatenate([index, groups.index]),
            np.concatenate([weights, np.zeros(len(delta), np.int64)]),
            np.zeros(len(index) + len(delta), np.int64),
            np.concatenate([np.zeros(len(index), np.int64), delta.weights]),
        )
        lacking = self._find_lacking(pool)
        if not lacking.any():
            return pool
        found, values, weights = state.multiset(_REST).get(select_groups(groups, lacking))
        if not len(found):
            return pool
        index = np.flatnonzero(lacking)[found]
        rest = make_whole_rows(given, take_rows(groups.keys, index), values)
        none = np.zeros(len(index), np.int64)
        return self._merge_rows(
            groups,
            pa.concat_batches([pool.rows, rest]),
            np.concatenate([pool.index, index]),
            np.concatenate([pool.top, none]),
            np.concatenate([pool.rest, weights]),
            np.concatenate([pool.change, none]),
        )

    def _merge_rows(
        self, groups: Groups, rows: pa.RecordBatch, index: RowIndices, top: Weights, rest: Weights, change: Weights
    ) -> Pool:
        """The different rows among these, with the sums of their weights."""
        same = Groups.by_key(finer_hashes(groups.hashes[index], rows.columns), rows)
        firsts = same.order[same.starts]
        count = len(same)
        pool = Pool(
            same.keys,
            groups,
            index[firsts],
            sums(same.index, top, count),
            sums(same.index, rest, count),
            sums(same.index, change, count),
        )
        named = {each.name for each in self.order}
        ties = [_order_values(pool.rows.column(name)) for name in pool.rows.schema.names if name not in named]
        return pool.sort(self.order, [part for tie in ties for part in tie])

    def _find_lacking(self, pool: Pool) -> Flags:
        """The keys whose first rows were as many as there may be, and would be fewer without other stored rows."""
        count = len(pool.groups)
        full = sums(pool.index, pool.top, count) >= self.last
        # The rows up to the last of the former first ones are known.
        known = _find_last(pool, count)[pool.index] >= np.arange(len(pool.index))
        left = sums(pool.index, np.where(known, pool.top + pool.change, 0), count)
        return np.asarray(full & (left < self.last), np.bool_)

    # --- results ------------------------------------------------------------------------------------------------

    def _keep(self, name: str, pool: Pool, change: Weights, state: StateStore) -> None:
        changed = np.flatnonzero(change)
        table = state.multiset(name)
        rows = take_rows(pool.rows, changed)
        keys = rows.select(self.inputs[0].keys)
        hashes = pool.groups.hashes[pool.index[changed]]
        table.add(hashes, keys, rows.select(table.spec.value.names), change[changed])

    def _make_output(self, pool: Pool, before: Weights, after: Weights) -> pa.RecordBatch:
        hashes = pool.groups.hashes[pool.index]
        was, now = (self._find_window(pool, each) for each in (before, after))
        names = self.inputs[0].schema.names
        if not self.numbered:
            weights = now[1] - was[1]
            changed = np.flatnonzero(weights)
            rows = build_batch(take_rows(pool.rows, changed).select(names).columns, self.schema, len(changed))
            change = Delta(rows, weights[changed], hashes[changed])
            return (change if self.retracts else change.cancel_out()).output()
        parts, signs = [], []
        for (start, count), sign in ((was, -1), (now, 1)):
            places = np.repeat(np.arange(len(count)), count)
            within = np.arange(len(places)) - np.repeat(np.cumsum(count) - count, count)
            own = within if self.ranking is Ranking.ROW_NUMBER else 0  # equal rows have one number
            parts.append((places, start[places] + own + 1))
            signs.append(np.full(len(places), sign))
        places, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
        rows = take_rows(pool.rows, places).select(names)
        whole = build_batch([*rows.columns, pa.array(numbers)], self.schema, len(places))
        return Delta(whole, np.concatenate(signs), hashes[places]).cancel_out().output()

    # --- numbers ------------------------------------------------------------------------------------------------

    def _count_share(self, pool: Pool) -> Weights:
        """How many of each row are among the first of its key."""
        counts = np.maximum(pool.total, 0)
        before = self._count_before(pool, counts)
        if self.ranking is Ranking.ROW_NUMBER:
            return np.clip(self.last - before, 0, counts)
        return np.where(before < self.last, counts, 0)

    def _find_window(self, pool: Pool, counts: Weights) -> tuple[Weights, Weights]:
        """For each row, of which there are ``counts``, the number before its first wanted number, and how many of its
        numbers are wanted."""
        before = self._count_before(pool, counts)
        if self.ranking is not Ranking.ROW_NUMBER:
            return before, np.where((self.first <= before + 1) & (before < self.last), counts, 0)
        begin = np.maximum(before, self.first - 1)
        end = np.minimum(before + counts, self.last)
        return begin, np.maximum(end - begin, 0)

    def _count_before(self, pool: Pool, counts: Weights) -> Weights:
        """For each row of which there are ``counts``, the number before its own."""
        before = _sum_before(pool, counts)
        if self.ranking is Ranking.ROW_NUMBER:
            return before
        there = np.flatnonzero(counts)
        parts = [pool.index[there]]
        for each in self.order:
            parts += [part[there] for part in _order_values(pool.rows.column(each.name))]
        new = np.ones(len(there), np.bool_)  # the first of equal rows
        new[1:] = np.any([part[1:] != part[:-1] for part in parts], axis=0)
        starts = np.flatnonzero(new)[np.cumsum(new) - 1]
        found = np.zeros(len(counts), np.int64)
        if self.ranking is Ranking.RANK:
            found[there] = before[there][starts]
        else:
            ties = np.cumsum(new)
            found[there] = ties - ties[np.searchsorted(parts[0], parts[0])]
        return found


@dataclass(frozen=True, eq=False)
class Pool:
    """The rows that matter in a batch, by key and in their order.

    Row i, of the key ``groups[index[i]]``, was ``top[i]`` times among the first rows and ``rest[i]`` times among the
    others, as far as these were read, and ``change[i]`` is added to that.
    """

    rows: pa.RecordBatch
    groups: Groups
    index: RowIndices
    top: Weights
    rest: Weights
    change: Weights

    @property
    def total(self) -> Weights:
        """The weights after the batch."""
        return self.top + self.rest + self.change

    def sort(self, order: Sequence[SortColumn], ties: Sequence[Weights]) -> Pool:
        """The rows in the order of keys, of the columns ``order``, and of ``ties``."""
        by: list[npt.NDArray[np.generic]] = [self.index]
        by += [*sort_columns(self.rows, order), *ties]
        places = np.lexsort(by[::-1])
        parts = (each[places] for each in (self.index, self.top, self.rest, self.change))
        return Pool(take_rows(self.rows, places), self.groups, *parts)


def _sum_before(pool: Pool, counts: Weights) -> Weights:
    """The sum of the counts of the rows of the key that come before each row."""
    every = np.cumsum(counts) - counts
    starts = np.searchsorted(pool.index, pool.index)
    return np.asarray(every - every[starts], np.int64)


def _find_last(pool: Pool, count: int) -> RowIndices:
    """Of each key, the last of its former first rows; -1 without one."""
    result = np.full(count, -1, np.int64)
    places = np.flatnonzero(pool.top > 0)
    result[pool.index[places]] = places  # of equal indices, numpy keeps the last value
    return result


def _order_values(column: pa.Array) -> tuple[Weights, ...]:
    """Numbers that order the values of a column in some way; by their hashes where they have no order."""
    if pa.types.is_nested(column.type):
        return (key_hashes([column]).view(np.int64),)
    valid = valid_mask(column)
    return valid.astype(np.int64), np.where(valid, ordinals(column), 0)


def select_all_groups(groups: Groups) -> Groups:
    """All groups, as if each had one row."""
    return select_groups(groups, np.ones(len(groups), np.bool_))


def _make_flags(first: int, second: int) -> Weights:
    """``first`` ones, then ``second`` zeros."""
    return np.concatenate([np.ones(first, np.int64), np.zeros(second, np.int64)])


RANK = NodeOperator(Rank, lambda node, facts: RankOperator.from_node(node, retracts=facts.retracts))
