"""GROUP BY of windows of time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.aggregate_call import AggregateCall
from penstock.plan.nodes.node import Step
from penstock.plan.windowing import Attached, WindowColumns, Windowing


@dataclass(frozen=True)
class WindowAggregate(Step):
    """Groups the rows of each window by the columns ``keys``, and gives its groups when it closes. ``schema`` has the
    keys, then the ``calls``, then the ``columns`` of the window."""

    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    windowing: Windowing | Attached
    columns: WindowColumns
