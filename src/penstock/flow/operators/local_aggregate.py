"""The first half of aggregates: rows become groups with states before they are sent to the owners of their keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import build_batch
from penstock.columns.hashing import Groups, Hashes, repeats_often, take_rows
from penstock.flow.operators.contract import Input
from penstock.flow.operators.deltas import finer_hashes
from penstock.flow.operators.group_states import GroupStates, Pane
from penstock.flow.rows.envelope import HASH, SLICE, STATE, WEIGHT, hashes_of, weights_of
from penstock.flow.time.windows import AttachedSlices, Slices, time_column
from penstock.flow.time.zones import Millis


@dataclass(frozen=True)
class LocalAggregate:
    """Groups rows that are only added, and gives the groups with their states, which are mergeable, as rows.

    With ``slices`` there is a group for each slice of event time, and rows without a time are left out.
    """

    given: Input
    states: GroupStates
    slices: Slices | AttachedSlices | None = None

    @property
    def input(self) -> Input:
        """The groups as an input of the operator."""
        slices = [pa.field(SLICE, pa.int64())] if self.slices else []
        states = [each.with_name(f"{STATE}{each.name}") for each in self.states.schema]
        return Input(pa.schema([*self.given.key_schema, *slices, *states]), self.given.keys, combiner=self)

    def combine(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """The groups of rows of the input; None if they would hardly be fewer."""
        if not repeats_often(hashes_of(rows)) or self._lacks_times(rows):
            return None
        prepared, hashes = self._prepare_rows(rows)
        return self._group_rows(prepared, hashes) if self.slices is None or repeats_often(hashes) else None

    def join_rows(self, groups: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Groups as :meth:`combine` gives them, and those of other rows of the input."""
        return pa.concat_batches([groups, self._group_rows(*self._prepare_rows(rows))]) if rows.num_rows else groups

    def pane(self, groups: pa.RecordBatch) -> Pane:
        """The groups of :meth:`join_rows`, of which some may be there several times."""
        schema = self.states.schema
        states = [groups.column(f"{STATE}{each.name}") for each in schema]
        return Pane(hashes_of(groups), groups.select(self.given.keys), build_batch(states, schema, len(groups)))

    def ends(self, groups: pa.RecordBatch) -> Millis:
        """The ends of the slices of the groups of :meth:`join_rows`."""
        return np.asarray(groups.column(SLICE).to_numpy(), np.int64)

    def _lacks_times(self, rows: pa.RecordBatch) -> bool:
        """Whether some rows have no time: the operator counts them."""
        return self.slices is not None and rows.column(time_column(self.slices.windowing)).null_count > 0

    def _prepare_rows(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, Hashes]:
        """Rows with the ends of their slices, and the hashes of their groups."""
        if self.slices is None:
            return rows, hashes_of(rows)
        ends, valid = self.slices.assign(rows, 0)
        if not valid.all():
            rows, ends = take_rows(rows, np.flatnonzero(valid)), ends[valid]
        column = pa.array(ends)
        return rows.append_column(SLICE, column), finer_hashes(hashes_of(rows), [column])

    def _group_rows(self, rows: pa.RecordBatch, hashes: Hashes) -> pa.RecordBatch:
        names = [*self.given.keys, *([SLICE] if self.slices else [])]
        groups = Groups.by_key(hashes, rows.select(names))
        states = self.states.from_batch(rows, weights_of(rows), groups)
        ones: npt.NDArray[np.int64] = np.ones(len(groups), np.int64)
        owners = hashes_of(rows)[groups.order[groups.starts]]
        fields = [*self.input.schema, pa.field(WEIGHT, pa.int64()), pa.field(HASH, pa.uint64())]
        columns = [*groups.keys.columns, *states.columns, pa.array(ones), pa.array(owners)]
        return build_batch(columns, pa.schema(fields), len(groups))
