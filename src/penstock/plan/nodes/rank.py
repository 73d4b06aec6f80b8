"""The first rows of each key in an order (Top-N)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import DELETIONS, UPDATES, Traits
from penstock.plan.sort_column import SortColumn
from penstock.spi import INSERTIONS


class Ranking(enum.Enum):
    """How rows are numbered: each by its own number, or equal ones by the same, after which numbers are skipped, or
    not."""

    ROW_NUMBER = "row number"
    RANK = "rank"
    DENSE_RANK = "dense rank"


@dataclass(frozen=True)
class Rank(Stateful, Step):
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

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """Those of one key are at one place."""
        (below,) = inputs
        found = [key for key in below.upsert_keys if set(self.keys) <= set(key)]
        if self.ranking is not Ranking.ROW_NUMBER:  # several rows have one number
            pass
        elif self.first == self.last:
            found.insert(0, self.keys)
        elif self.number:
            found.append((*self.keys, self.number))
        keys = tuple(dict.fromkeys(found))
        if not (self.order or self.latest or below.changing):  # the first rows to arrive are never replaced
            return replace(below, upsert_keys=keys, stateful=True)
        # Without changes below, a number stays with its row, unless several rows have it.
        stays = self.number and self.ranking is Ranking.ROW_NUMBER and not below.changing
        gone = INSERTIONS if stays else DELETIONS
        return replace(below, kinds=INSERTIONS | UPDATES | gone, upsert_keys=keys, stateful=True)
