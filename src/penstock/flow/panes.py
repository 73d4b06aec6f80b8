"""States of groups in slices put together to those in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.flow.accumulators import Accumulators, counts_of
from penstock.flow.equality import Rows, fixed_values
from penstock.flow.hashing import Groups, Hashes
from penstock.flow.ordinals import ordinals, valid_of
from penstock.flow.segments import Segment
from penstock.flow.sums import smallest, sums
from penstock.flow.wide_decimals import added, limbs_of, wide_column
from penstock.formats.columns.buffers import batch_of

_MERGEABLE = frozenset({"COUNT", "SUM", "MIN", "MAX"})


@dataclass(frozen=True, eq=False)
class Pane:
    """The groups of a slice or a window: their keys, with hashes, and their states."""

    hashes: Hashes
    keys: pa.RecordBatch
    states: pa.RecordBatch

    @classmethod
    def of(cls, stored: Segment) -> Pane:
        """The groups of a table."""
        count = len(stored)
        keys, states = stored.spec.key, stored.spec.value
        return cls(
            stored.hashes, batch_of(list(stored.keys), keys, count), batch_of(list(stored.values), states, count)
        )


def mergeable(accumulators: Sequence[Accumulators]) -> bool:
    """Whether states can be put together: all that is known of a group stands in its row."""
    return all(not each.tables and each.needs <= _MERGEABLE for each in accumulators)


def together(panes: Sequence[Pane]) -> Pane:
    """One pane of several, whose states are :func:`mergeable`."""
    if len(panes) == 1:
        return panes[0]
    hashes = np.concatenate([each.hashes for each in panes])
    groups = Groups.of(hashes, pa.concat_batches([each.keys for each in panes]))
    states = pa.concat_batches([each.states for each in panes])
    columns = [_merged(name, states.column(name), groups) for name in states.schema.names]
    return Pane(groups.hashes, groups.keys, batch_of(columns, states.schema, len(groups)))


def _merged(name: str, column: pa.Array, groups: Groups) -> pa.Array:
    """The states of a column of groups, from those of their rows."""
    function, _, _ = name.partition(" ")
    if function in ("MIN", "MAX"):
        order = ordinals(column)
        rows: Rows = np.flatnonzero(valid_of(column))
        chosen = smallest(groups.index, rows, ~order if function == "MAX" else order, len(groups))
        return column.take(pa.array(chosen, mask=chosen < 0))
    if pa.types.is_decimal(column.type):
        return _decimals(column, groups)
    values: Any = counts_of(column) if pa.types.is_int64(column.type) else fixed_values(column)
    with np.errstate(over="ignore", invalid="ignore"):
        return pa.array(sums(groups.index, values, len(groups)), column.type)


def _decimals(column: pa.Array, groups: Groups) -> pa.Array:
    """Sums of wide decimals: the first rows of all groups, then the second ones, and so on."""
    limbs = limbs_of(column)
    total = np.zeros((len(limbs), len(groups)), np.int64)
    rank = np.empty(len(column), np.int64)
    rank[groups.order] = np.arange(len(column)) - np.repeat(groups.starts, np.diff(groups.starts, append=len(column)))
    for at in range(int(rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(rank == at)
        which = groups.index[rows]
        total[:, which] = added(total[:, which], limbs[:, rows])
    return wide_column(total, column.type.scale)
