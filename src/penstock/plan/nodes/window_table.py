"""Rows in windows of time."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step
from penstock.plan.windowing import WindowColumns, Windowing


@dataclass(frozen=True)
class WindowTable(Step):
    """Gives each row once for each window of event time that it is in. ``schema`` has the columns of the input, then
    the ``columns`` of the window."""

    windowing: Windowing
    columns: WindowColumns


@dataclass(frozen=True)
class SessionTable(WindowTable):
    """The same for sessions: rows are given when their session closes."""
