"""Joins of two changing tables on equal keys, inner and outer.

A change of the result is what the changes of both sides make of the stored rows: ``dL x R + (L + dL) x dR``. Stored
rows are read only for keys whose other side changed, and pairs of which neither row changed are never made.

Whether a row of an outer join has a match follows from the number of the other side's rows of its key. Where rows have
a time to live, these may be forgotten while their pairs remain: there each row that is kept has its own number of
matches, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, is_valid
from penstock.columns.hashing import Groups, Hashes, take_rows
from penstock.columns.sums import sums
from penstock.errors import Problem, SchemaError
from penstock.flow.operators.accumulators import counts_of
from penstock.flow.operators.contract import Input, Operator, OperatorContext
from penstock.flow.operators.deltas import Delta, finer_hashes, last_rows, select_groups
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.rows.envelope import ARRIVED, MATCHES, arrivals_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.plan.nodes import Join, JoinKind
from penstock.types import arrow_schema

Weights = npt.NDArray[np.int64]
_COUNT = "rows"


@dataclass(frozen=True)
class Side:
    """One side of a join: input number ``number``. ``kept``: whether its rows without a match are part of the result.
    ``counted``: each row's own number of matches is stored with it."""

    name: str
    number: int
    input: Input
    kept: bool
    counted: bool

    @property
    def key(self) -> pa.Schema:
        """The columns of keys in groups and in the state, which are the same for both sides."""
        return pa.schema([pa.field(f"key{at}", field.type) for at, field in enumerate(self.input.key_schema)])

    @property
    def rows(self) -> TableSpec:
        """The table of the side's rows by key."""
        value = self.input.value_schema
        if self.counted:
            value = value.append(pa.field(MATCHES, pa.int64()))
        return TableSpec(self.name, self.key, value, "multiset", exact=self.counted, side=self.number)

    @property
    def counts(self) -> TableSpec:
        """The table of the number of the side's rows by key, which says whether rows of the other side match."""
        return TableSpec(f"{self.name} counts", self.key, pa.schema([pa.field(_COUNT, pa.int64())]), "keyed")

    def keys_of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of keys."""
        columns = [rows.column(each) for each in self.input.keys]
        return build_batch(columns, self.key, len(rows))

    def make_rows(self, keys: pa.RecordBatch, values: pa.RecordBatch) -> pa.RecordBatch:
        """Whole rows from their keys and their other columns."""
        by_name = dict(zip(self.input.keys, keys.columns, strict=True)) | dict(
            zip(values.schema.names, values.columns, strict=True)
        )
        return build_batch([by_name[each] for each in self.input.schema.names], self.input.schema, len(keys))


@dataclass(frozen=True, eq=False)
class SideChanges:
    """The net change of a side in a batch: rows that may match, and, if rows without a match are kept, the ``lone``
    ones with a NULL in the key."""

    side: Side
    delta: Delta
    lone: Delta

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch, side: Side) -> SideChanges:
        """The change that the rows of a batch make."""
        delta = Delta.from_batch(batch, side.input)
        if ARRIVED in batch.schema.names:
            delta = replace(delta, arrivals=arrivals_of(batch))
        delta = delta.cancel_out(ordered=delta.arrivals is not None)
        valid = find_complete(side.keys_of(delta.rows))
        return cls(side, delta if valid.all() else delta.at(valid), delta.at(~valid & side.kept))

    @property
    def grows(self) -> bool:
        """Whether rows are only added, and their numbers of matches are not stored: equal ones need not be merged."""
        return not self.side.counted and bool((self.delta.weights > 0).all())

    @property
    def keys(self) -> pa.RecordBatch:
        """The keys of ``delta``."""
        return self.side.keys_of(self.delta.rows)

    def store(self, state: StateStore) -> None:
        """Add ``delta`` to the rows of the side."""
        values = self.delta.rows.select(self.side.input.value_schema.names)
        state.multiset(self.side.rows.name).add(self.delta.hashes, self.keys, values, self.delta.weights)


@dataclass(frozen=True, eq=False)
class SideRows:
    """The rows of a side that matter in a batch: those that changed, and stored ones of keys whose other side changed.
    Equal ones are one, unless all are added.

    Row i is ``batch[places[i]]`` of the key ``groups[i]``, -1 for one with a NULL. It had the weight ``weights[i]``, 0
    if that was not read because it does not matter, and ``changes[i]`` is added to it. ``matches[i]`` is the number of
    its matches where that is stored. Where the order of arrival is passed on, rows of a key are in that order, stored
    ones first, and ``arrivals`` has the place of each row of ``batch``, -1 for a stored one.
    """

    batch: pa.RecordBatch
    places: RowIndices
    groups: RowIndices
    weights: Weights
    changes: Weights
    matches: Weights
    arrivals: RowIndices | None = None

    @property
    def after(self) -> Weights:
        """The weights after the batch. A row that was forgotten may be retracted: it had none."""
        found: Weights = np.maximum(self.weights + self.changes, 0)
        return found


@dataclass(frozen=True)
class JoinOperator(Operator):
    """Joins by equal keys. NULL matches nothing, also not NULL."""

    uid: str
    schema: pa.Schema
    left: Side
    right: Side

    @classmethod
    def from_node(cls, node: Join, *, timed: bool = False) -> JoinOperator:
        """The operator of a plan's node; ``timed``: rows of a side have a time to live. Raises SchemaError if keys that
        are compared have different types."""
        left = Input(arrow_schema(node.left.schema), node.left_keys)
        right = Input(arrow_schema(node.right.schema), node.right_keys)
        for one, other in zip(left.key_schema, right.key_schema, strict=True):
            if one.type != other.type:
                reason = f"'{one.name}' is {one.type} and '{other.name}' is {other.type}, keys of a join have one type"
                raise SchemaError((Problem(reason, where=f"join '{node.uid}'", hint="cast one of them"),))
        keeps_left, keeps_right = (node.kind in (each, JoinKind.FULL) for each in (JoinKind.LEFT, JoinKind.RIGHT))
        return cls(
            node.uid,
            arrow_schema(node.schema),
            Side("left", 0, left, keeps_left, timed and keeps_left),
            Side("right", 1, right, keeps_right, timed and keeps_right),
        )

    @property
    def inputs(self) -> tuple[Input, Input]:
        return self.left.input, self.right.input

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        sides = ((self.left, self.right), (self.right, self.left))
        counts = [own.counts for own, other in sides if other.kept and not other.counted]
        return (self.left.rows, self.right.rows, *counts)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        state = context.state
        left, right = SideChanges.from_batch(inputs[0], self.left), SideChanges.from_batch(inputs[1], self.right)
        groups = Groups.by_key(
            np.concatenate([left.delta.hashes, right.delta.hashes]), pa.concat_batches([left.keys, right.keys])
        )
        index = groups.index[: len(left.delta)], groups.index[len(left.delta) :]
        by_left, by_right = (np.bincount(each, minlength=len(groups)) > 0 for each in index)
        grows = left.grows and right.grows
        lefts = _read_side(left, index[0], groups, by_left, by_right, grows, state)
        rights = _read_side(right, index[1], groups, by_right, by_left, grows, state)
        parts = [_find_pairs(lefts, rights, len(groups))]
        if self.left.kept:
            places, weights = self._pad_unmatched(left, lefts, rights, groups, by_right & ~by_left, state)
            parts.append((places, np.full(len(places), -1), weights))
        if self.right.kept:
            places, weights = self._pad_unmatched(right, rights, lefts, groups, by_left & ~by_right, state)
            parts.append((np.full(len(places), -1), places, weights))
        for each in (left, right):
            if not each.side.counted:
                each.store(state)
        places, others, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(weights > 0, kind="stable")
        context.emit(self._make_output(lefts, rights, len(groups), places[order], others[order], weights[order]))

    def _pad_unmatched(
        self, given: SideChanges, rows: SideRows, others: SideRows, groups: Groups, unread: Flags, state: StateStore
    ) -> tuple[RowIndices, Weights]:
        """The places and the changed weights of rows without a match. Updates the state that tells them."""
        if given.side.counted:
            return _find_unmatched_by_row(given.side, rows, others, groups, state)
        other = self.right if given.side is self.left else self.left
        return _find_unmatched(rows, *_update_counts(other, others, groups, unread, state))

    def _make_output(
        self, left: SideRows, right: SideRows, groups: int, lefts: RowIndices, rights: RowIndices, weights: Weights
    ) -> pa.RecordBatch:
        """Pairs of rows at these places, -1 for a row of nulls."""
        columns = []
        for side, places in ((left, lefts), (right, rights)):
            indices = pa.array(places, mask=places < 0)
            columns += [column.take(indices) for column in side.batch.columns]
        rows, hashes = build_batch(columns, self.schema, len(weights)), np.zeros(len(weights), np.uint64)
        change = Delta(rows, weights, hashes, _find_arrivals(left, right, groups, lefts, rights))
        if not self.left.input.keys:  # a row of nulls may match one that had no match
            change = change.cancel_out()
        elif self.left.kept and self.right.kept:
            change = _merge_null_rows(change)
        return change.output()


def _find_arrivals(
    left: SideRows, right: SideRows, groups: int, lefts: RowIndices, rights: RowIndices
) -> RowIndices | None:
    """The places of what caused pairs of rows: the later of both; of a stored row that lost its match or got one, the
    last place of its key. None where the order of arrival is not passed on."""
    if left.arrivals is None or right.arrivals is None:
        return None
    found: RowIndices = np.maximum(np.append(left.arrivals, -1)[lefts], np.append(right.arrivals, -1)[rights])
    stored = np.flatnonzero(found < 0)
    if len(stored):
        last = np.full(groups, -1)
        for side, arrivals in ((left, left.arrivals), (right, right.arrivals)):
            keyed = side.groups >= 0
            np.maximum.at(last, side.groups[keyed], arrivals[side.places[keyed]])
        for side, places in ((left, lefts[stored]), (right, rights[stored])):
            key = np.empty(len(side.batch), np.int64)
            key[side.places] = side.groups
            there = places >= 0
            found[stored[there]] = last[key[places[there]]]
    return found


def _merge_null_rows(change: Delta) -> Delta:
    """The same change with a single row of nulls: the rows of nulls of both sides of a FULL JOIN are equal."""
    nulls = np.ones(len(change), np.bool_)
    for column in change.rows.columns:
        valid = is_valid(column)
        if valid is None:
            return change
        nulls &= ~valid
    found = np.flatnonzero(nulls)
    if len(found) < 2:
        return change
    weights = change.weights.copy()
    weights[found] = 0
    weights[found[0]] = change.weights[found].sum()
    return replace(change, weights=weights).at(weights != 0)


def find_complete(keys: pa.RecordBatch) -> Flags:
    """Whether no key of a row is null."""
    result = np.ones(len(keys), np.bool_)
    for column in keys.columns:
        valid = is_valid(column)
        if valid is not None:
            result &= valid
    return result


def _read_side(
    given: SideChanges, index: RowIndices, groups: Groups, touched: Flags, read: Flags, grows: bool, state: StateStore
) -> SideRows:
    """The rows that matter: changes, of the keys ``index``, and stored rows of the keys ``read``. ``touched`` are the
    keys with changes. Equal rows are merged unless the join ``grows``: pairs of them cannot cancel out then."""
    side, delta, lone = given.side, given.delta, given.lone
    if side.counted:
        read = read | touched
    found, values, stored = state.multiset(side.rows.name).get(select_groups(groups, read))
    owners = np.flatnonzero(read)[found]
    rows = pa.concat_batches([side.make_rows(take_rows(groups.keys, owners), values), delta.rows, lone.rows])
    places = np.arange(len(owners) + len(delta))
    of_key = np.concatenate([owners, index])
    weights = np.concatenate([stored, np.zeros(len(delta), np.int64)])
    changes = np.concatenate([np.zeros(len(owners), np.int64), delta.weights])
    matches = np.zeros(len(weights), np.int64)
    if side.counted:
        matches[: len(owners)] = counts_of(values.column(MATCHES))
    both = (touched & read)[of_key]
    if both.any() and not grows:
        places, (weights, changes, matches) = _merge_rows(
            side, rows, groups.hashes[of_key], (weights, changes, matches), both
        )
        of_key = of_key[places]
    nothing = np.zeros(len(lone), np.int64)
    arrivals = None
    if delta.arrivals is not None and lone.arrivals is not None:
        arrivals = np.concatenate([np.full(len(owners), -1), delta.arrivals, lone.arrivals])
    return SideRows(
        rows,
        np.concatenate([places, len(owners) + len(delta) + np.arange(len(lone))]),
        np.concatenate([of_key, np.full(len(lone), -1)]),
        np.concatenate([weights, nothing]),
        np.concatenate([changes, lone.weights]),
        np.concatenate([matches, nothing]),
        arrivals,
    )


def _merge_rows(
    side: Side, rows: pa.RecordBatch, hashes: Hashes, numbers: Sequence[Weights], both: Flags
) -> tuple[RowIndices, list[Weights]]:
    """The places of different rows, in their order, each where it came last, with the sums of each of their
    ``numbers``; only rows in ``both`` may be equal."""
    some = np.flatnonzero(both)
    equal = take_rows(rows, some)
    values = equal.select(side.input.value_schema.names).columns
    same = Groups.by_key(finer_hashes(hashes[some], values), equal)
    if len(same) == len(some):
        return np.arange(len(both)), list(numbers)
    rest = np.flatnonzero(~both)
    places = np.concatenate([rest, some[last_rows(same)]])
    summed = [np.concatenate([each[rest], sums(same.index, each[some], len(same))]) for each in numbers]
    order = np.argsort(places)
    return places[order], [each[order] for each in summed]


def _update_counts(
    side: Side, rows: SideRows, groups: Groups, unread: Flags, state: StateStore
) -> tuple[Weights, Weights]:
    """How many rows of the side each key had before, and has after the batch, which is stored. ``unread`` are the keys
    with changes whose stored rows are not among ``rows``."""
    table = state.keyed(side.counts.name)
    matching = rows.groups >= 0
    index = rows.groups[matching]
    before = sums(index, rows.weights[matching], len(groups))
    before[unread] = counts_of(table.get(select_groups(groups, unread))[1].column(0))
    after = before + sums(index, rows.changes[matching], len(groups))
    changed = before != after
    new = after[changed]
    table.put(select_groups(groups, changed), pa.RecordBatch.from_arrays([pa.array(new)], names=[_COUNT]), new != 0)
    return before, after


def _find_unmatched(rows: SideRows, before: Weights, after: Weights) -> tuple[RowIndices, Weights]:
    """The places and the changed weights of rows without a match on the other side, which has ``before`` and ``after``
    rows by key."""
    once = np.where(np.append(before, 0)[rows.groups] <= 0, rows.weights, 0)
    now = np.where(np.append(after, 0)[rows.groups] <= 0, rows.weights + rows.changes, 0)
    kept = np.flatnonzero(now - once)
    return rows.places[kept], (now - once)[kept]


def _find_unmatched_by_row(
    side: Side, rows: SideRows, others: SideRows, groups: Groups, state: StateStore
) -> tuple[RowIndices, Weights]:
    """As :func:`_find_unmatched`, by the number of matches of each row, which is stored with it: an added row starts
    with the number of the other side's stored rows, and each of them that is added or removed changes it."""
    known = others.groups >= 0
    there, change = (
        np.append(sums(others.groups[known], each[known], len(groups)), 0)[rows.groups]
        for each in (others.weights, others.changes)
    )
    # First the rows of this side change, then those of the other.
    first = np.where(rows.changes > 0, there, rows.matches)
    padded = np.where(there == 0, rows.changes, 0)
    last = np.maximum(first + change, 0)
    padded += np.where(last == 0, rows.after, 0) - np.where(first == 0, rows.after, 0)
    stored = (rows.groups >= 0) & ((rows.changes != 0) | (last != rows.matches))
    _store_matches(side, rows, np.flatnonzero(stored), last, groups, state)
    kept = np.flatnonzero(padded)
    return rows.places[kept], padded[kept]


def _store_matches(
    side: Side, rows: SideRows, chosen: RowIndices, matches: Weights, groups: Groups, state: StateStore
) -> None:
    """Store these rows with their new weights and numbers of matches, instead of the old ones."""
    which = np.concatenate([chosen, chosen])
    weights = np.concatenate([-rows.weights[chosen], rows.after[chosen]])
    numbers = np.concatenate([rows.matches[chosen], matches[chosen]])
    some = weights != 0
    which, weights, numbers = which[some], weights[some], numbers[some]
    owners = rows.groups[which]
    values = take_rows(rows.batch, rows.places[which]).select(side.input.value_schema.names)
    values = values.append_column(pa.field(MATCHES, pa.int64()), pa.array(numbers))
    keys = take_rows(groups.keys, owners)
    state.multiset(side.rows.name).add(groups.hashes[owners], keys, values, weights)


def _find_pairs(left: SideRows, right: SideRows, groups: int) -> tuple[RowIndices, RowIndices, Weights]:
    """The places of the rows of pairs of equal keys, with the changes of the weights of the pairs."""
    changed, unchanged = np.flatnonzero(left.changes), np.flatnonzero(left.changes == 0)
    every, others = np.arange(len(right.changes)), np.flatnonzero(right.changes)
    first = find_pair_places(left.groups, changed, right.groups, every, groups)
    second = find_pair_places(left.groups, unchanged, right.groups, others, groups)
    lefts, rights = (np.concatenate(each) for each in zip(first, second, strict=True))
    made = left.changes[lefts] * right.weights[rights] + left.after[lefts] * right.changes[rights]
    kept = np.flatnonzero(made)
    return left.places[lefts[kept]], right.places[rights[kept]], made[kept]


def find_pair_places(
    left: RowIndices, lefts: RowIndices, right: RowIndices, rights: RowIndices, groups: int
) -> tuple[RowIndices, RowIndices]:
    """All pairs of ``lefts`` and ``rights`` of the same group; rows of the group -1 have none."""
    lefts, rights = lefts[left[lefts] >= 0], rights[right[rights] >= 0]
    rights = rights[np.argsort(right[rights], kind="stable")]
    sizes = np.bincount(right[rights], minlength=groups)
    starts = np.cumsum(sizes) - sizes
    owners = left[lefts]
    repeats = sizes[owners]
    within = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    return np.repeat(lefts, repeats), rights[np.repeat(starts[owners], repeats) + within]


JOIN = NodeOperator(Join, lambda node, facts: JoinOperator.from_node(node, timed=facts.expires))
