"""Rows in an order."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.nodes.node import Step


@dataclass(frozen=True)
class SortColumn:
    """A column that rows are ordered by."""

    name: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class TemporalSort(Step):
    """Gives rows that are only added in the order of the event time in ``time``, when the watermark reaches them, and
    equal ones in the order of the columns ``order``; without ``time`` the rows of each batch in the order of ``order``.
    Rows that are equal there are in the order in which they came. The schema is the input's."""

    time: str
    order: tuple[SortColumn, ...]


@dataclass(frozen=True)
class Sort(Step):
    """Gives the rows of the only batch in the order of the columns ``order``, equal ones as they came. The schema is
    the input's."""

    order: tuple[SortColumn, ...]
