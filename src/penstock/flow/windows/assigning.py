"""Rows with the columns of their windows, once for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.columns.hashing import take_rows
from penstock.errors import Problem, UnsupportedError
from penstock.flow.kernels.moments.local import local_zone
from penstock.flow.rows.calls import BatchTransform, FunctionCall, TaskFunctions
from penstock.flow.rows.row_works import PathFacts, RowWork
from penstock.flow.time.missing_times import check_times
from penstock.flow.time.windows import Slices
from penstock.flow.time.zones import Zone
from penstock.plan.nodes import WindowTable
from penstock.plan.windowing import WindowColumns
from penstock.types import arrow_type


@dataclass(frozen=True)
class Chain:
    """A sequence of steps, and calls of user-defined functions."""

    works: Sequence[BatchTransform | FunctionCall]

    @property
    def reads_watermark(self) -> bool:
        """Whether one of them needs the present watermark."""
        return any(getattr(each, "reads_watermark", False) for each in self.works)

    @property
    def calls(self) -> bool:
        """Whether it calls functions of the user."""
        return any(isinstance(each, FunctionCall) or getattr(each, "calls", False) for each in self.works)

    def batch(self, given: pa.RecordBatch, functions: TaskFunctions | None = None) -> pa.RecordBatch:
        """The result for one batch; a task has its ``functions``."""
        for each in self.works:
            if isinstance(each, FunctionCall):
                assert functions is not None, "a task has functions"  # noqa: S101
                given = functions.batch(each, given)
            else:
                given = each.batch(given)
        return given


@dataclass(frozen=True)
class WindowAssigner:
    """Gives rows of TUMBLE, HOP and CUMULATE. A row without a time fails the job; with ``keeps`` it gets a window of
    nulls, and the operator above counts it as late."""

    slices: Slices
    columns: WindowColumns
    time: pa.DataType
    keeps: bool = False

    @classmethod
    def from_node(cls, node: WindowTable, zone: str, *, keeps: bool = False) -> WindowAssigner:
        """The work of a plan's node, in a session with this time ``zone``."""
        windowing = node.windowing
        time = node.schema.fields[-1].type
        return cls(Slices(windowing, Zone(zone if windowing.zoned else "")), node.columns, arrow_type(time), keeps)

    def batch(self, given: pa.RecordBatch) -> pa.RecordBatch:
        found, valid = self.slices.assign(given, 0)
        if not self.keeps:
            check_times(given, self.slices.windowing.time)
        ends, of = np.unique(found, return_inverse=True)
        windows = [self.slices.windows(end) for end in ends.tolist()]
        sizes = np.array([len(each) for each in windows], np.int64)
        flat = np.array([*(end for each in windows for end in each), 0], np.int64)
        repeats = np.where(valid, sizes[of], int(self.keeps))
        rows = np.repeat(np.arange(len(given)), repeats)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        missing = ~valid[rows]
        which = np.where(missing, 0, (np.cumsum(sizes) - sizes)[of[rows]] + within)
        starts = np.array([self.slices.start(end) for end in flat.tolist()], np.int64)
        made = take_rows(given, rows)
        plain = pa.timestamp("us")
        for name, times, kind in zip(
            self.columns.names, (starts, flat, self.slices.closing(flat)), (plain, plain, self.time), strict=True
        ):
            made = made.append_column(name, pa.array(times[which] * 1000, mask=missing).view(kind))
        return made


def _make_work(node: WindowTable, facts: PathFacts) -> WindowAssigner:
    if node.windowing.processing:
        reason = "a window of processing time without GROUP BY of its window is not supported"
        where = str(node.windowing.place or "")
        raise UnsupportedError((Problem(reason, where=where, hint="GROUP BY window_start, window_end"),))
    return WindowAssigner.from_node(node, local_zone(facts.session), keeps=facts.keeps)


WINDOW_TABLE = RowWork(WindowTable, _make_work)
