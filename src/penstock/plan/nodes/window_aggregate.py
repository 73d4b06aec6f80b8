"""GROUP BY of windows of time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import Traits, Windowed
from penstock.plan.windowing import Attached, WindowColumns, Windowing
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class WindowAggregate(Stateful, Step):
    """Groups the rows of each window by the columns ``keys``, and gives its groups when it closes. ``schema`` has the
    keys, then the ``calls``, then the ``columns`` of the window."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    windowing: Windowing | Attached
    columns: WindowColumns

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        columns, processing = self.columns, self.windowing.processing
        return Traits(
            kinds=INSERTIONS,
            bounded=below.bounded,
            rowtimes=() if processing else (columns.time,),
            proctimes=(columns.time,) if processing else (),
            window=Windowed(columns, self.windowing),
            upsert_keys=((*self.keys, columns.start, columns.end),),
            stateful=True,
        )
