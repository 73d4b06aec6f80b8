"""Rows in windows of time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import Traits, Windowed
from penstock.plan.windowing import WindowColumns, Windowing
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class WindowTable(Step):
    """Gives each row once for each window of event time that it is in. ``schema`` has the columns of the input, then
    the ``columns`` of the window."""

    windowing: Windowing
    columns: WindowColumns

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        columns = self.columns
        keys = tuple((*key, columns.start, columns.end) for key in below.upsert_keys)
        found = replace(below, window=Windowed(columns, self.windowing), upsert_keys=keys, stateful=True)
        if self.windowing.processing:
            return replace(found, proctimes=(*below.proctimes, columns.time))
        return replace(found, rowtimes=(*below.rowtimes, columns.time))


@dataclass(frozen=True)
class SessionTable(Stateful, WindowTable):
    """The same for sessions: rows are given when their session closes."""

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        return replace(super().own_traits(inputs), kinds=INSERTIONS)
