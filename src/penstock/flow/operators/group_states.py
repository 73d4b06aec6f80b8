"""The states of groups: how rows change them, and how states of one group are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.equality import Flags, RowIndices, fixed_values
from penstock.columns.hashing import Groups, Hashes, take_rows
from penstock.columns.ordinals import ordinals, valid_mask
from penstock.columns.sums import smallest, sums
from penstock.columns.wide_decimals import add_limbs, to_limbs, wide_column
from penstock.flow.operators.accumulators import Accumulators, check_sums, counts_of
from penstock.flow.state.segments import Segment
from penstock.flow.state.store import KeyedState, MultisetState, Tables
from penstock.plan.kept_state import KeptGroups

#: The column with the number of a group's rows.
ROWS = "rows"
_MERGEABLE = frozenset({"COUNT", "SUM", "MIN", "MAX"})


@dataclass(frozen=True)
class GroupStates:
    """The state of groups: the number of their rows, and ``accumulators``."""

    accumulators: tuple[Accumulators, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of a state."""
        return pa.schema([pa.field(ROWS, pa.int64()), *(field for each in self.accumulators for field in each.fields)])

    @property
    def kept(self) -> KeptGroups:
        """What is kept of groups, without how it is stored."""
        every = self.accumulators
        return KeptGroups(
            columns=tuple(kept for each in every for kept in each.kept_columns),
            tables=tuple(kept for each in every for kept in each.kept_tables),
            retracts=every[0].retracts if any(each.depends_on_kinds for each in every) else None,
        )

    @property
    def mergeable(self) -> bool:
        """Whether states of one group can be merged: a group's whole state is in its row."""
        return all(not each.tables and each.needs <= _MERGEABLE for each in self.accumulators)

    def update(
        self,
        old: pa.RecordBatch,
        batch: pa.RecordBatch,
        weights: npt.NDArray[np.int64],
        groups: Groups,
        tables: Tables,
    ) -> pa.RecordBatch:
        """The states after the rows of a batch, from those before, which are null for new groups."""
        rows = counts_of(old.column(ROWS)) + sums(groups.index, weights, len(groups))
        columns = {ROWS: pa.array(rows)}
        for each in self.accumulators:
            columns |= each.update(old, batch, weights, groups, tables)
        return build_batch([columns[name] for name in self.schema.names], self.schema, len(groups))

    def from_batch(self, batch: pa.RecordBatch, weights: npt.NDArray[np.int64], groups: Groups) -> pa.RecordBatch:
        """The states of the groups of a batch alone, which are :attr:`mergeable`."""
        none = [pa.nulls(len(groups), each.type) for each in self.schema]
        return self.update(build_batch(none, self.schema, len(groups)), batch, weights, groups, _NoTables())


class _NoTables:
    """The tables of states that are mergeable."""

    def keyed(self, name: str) -> KeyedState:
        raise KeyError(name)

    def multiset(self, name: str) -> MultisetState:
        raise KeyError(name)


@dataclass(frozen=True, eq=False)
class Pane:
    """Groups: their keys, with hashes, and their states."""

    hashes: Hashes
    keys: pa.RecordBatch
    states: pa.RecordBatch

    @classmethod
    def from_segment(cls, stored: Segment) -> Pane:
        """The groups of a table."""
        count = len(stored)
        keys, states = stored.spec.key, stored.spec.value
        return cls(
            stored.hashes, build_batch(list(stored.keys), keys, count), build_batch(list(stored.values), states, count)
        )

    def at(self, rows: RowIndices) -> Pane:
        """Some of the groups."""
        return Pane(self.hashes[rows], take_rows(self.keys, rows), take_rows(self.states, rows))

    @property
    def groups(self) -> Groups:
        """The groups, each once."""
        each = np.arange(len(self.hashes))
        return Groups(self.hashes, self.keys, each, each, each)


def merge_panes(panes: Sequence[Pane], *, strict: bool = False) -> Pane:
    """One pane with each group of these panes once, in the order of :class:`Groups`. The states are mergeable. Raises
    RecordError for a sum that leaves 64 bits, if they are ``strict``."""
    hashes = np.concatenate([each.hashes for each in panes])
    groups = Groups.by_key(hashes, pa.concat_batches([each.keys for each in panes]))
    states = pa.concat_batches([each.states for each in panes])
    columns = [_merge_column(name, states.column(name), groups, strict=strict) for name in states.schema.names]
    return Pane(groups.hashes, groups.keys, build_batch(columns, states.schema, len(groups)))


def merge_into(
    table: KeyedState, given: Pane, *, strict: bool = False
) -> tuple[Groups, Flags, pa.RecordBatch, pa.RecordBatch]:
    """The groups of a pane; whether each is in the table, with its state there, null where it is not; and its state
    after the pane's state was added."""
    given = merge_panes([given], strict=strict)
    groups = given.groups
    found, old = table.get(groups)
    if not found.any():
        return groups, found, old, given.states
    return groups, found, old, merge_panes([Pane(groups.hashes, groups.keys, old), given], strict=strict).states


def _merge_column(name: str, column: pa.Array, groups: Groups, *, strict: bool) -> pa.Array:
    """The states of groups in a column, from the states of their rows."""
    function, _, _ = name.partition(" ")
    if function in ("MIN", "MAX"):
        order = ordinals(column)
        rows: RowIndices = np.flatnonzero(valid_mask(column))
        chosen = smallest(groups.index, rows, ~order if function == "MAX" else order, len(groups))
        return column.take(pa.array(chosen, mask=chosen < 0))
    if pa.types.is_decimal(column.type):
        return _sum_decimals(column, groups)
    given: Any = fixed_values(column)
    values: Any = np.where(valid_mask(column), given, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        total = pa.array(sums(groups.index, values, len(groups)), column.type)
    if strict and function == "SUM" and pa.types.is_integer(column.type):
        check_sums(total, sums(groups.index, values.astype(np.float64), len(groups)), groups.keys, name)
    return total


def _sum_decimals(column: pa.Array, groups: Groups) -> pa.Array:
    """Sums of wide decimals: the first rows of all groups, then the second ones, and so on."""
    limbs = to_limbs(column)
    total = np.zeros((len(limbs), len(groups)), np.int64)
    rank = np.empty(len(column), np.int64)
    rank[groups.order] = np.arange(len(column)) - np.repeat(groups.starts, np.diff(groups.starts, append=len(column)))
    for at in range(int(rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(rank == at)
        which = groups.index[rows]
        total[:, which] = add_limbs(total[:, which], limbs[:, rows])
    return wide_column(total, column.type.scale)
