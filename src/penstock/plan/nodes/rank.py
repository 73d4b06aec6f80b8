"""The first rows of each key in an order (Top-N)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.plan.nodes.node import Step
from penstock.plan.nodes.sort import SortColumn


class Ranking(enum.Enum):
    """How rows are numbered: each by its own number, or equal ones by the same, after which numbers are skipped, or
    not."""

    ROW_NUMBER = "row number"
    RANK = "rank"
    DENSE_RANK = "dense rank"


@dataclass(frozen=True)
class Rank(Step):
    """Orders the rows of each key by the columns ``order``, and keeps those from the number ``first`` to ``last``, both
    counted from 1, by this ``ranking``. Rows that are equal there are in the order of arrival, with ``latest`` in
    reverse. ``schema`` has the input's columns, then, if it has a name, the ``number``."""

    keys: tuple[str, ...]
    order: tuple[SortColumn, ...]
    first: int
    last: int
    number: str = ""
    latest: bool = False
    ranking: Ranking = Ranking.ROW_NUMBER
