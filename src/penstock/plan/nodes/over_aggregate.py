"""Functions with OVER."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.node import Stateful, Step
from penstock.plan.row_traits import UPDATES, Traits
from penstock.plan.sort_column import SortColumn
from penstock.spi import INSERTIONS


@dataclass(frozen=True)
class Frame:
    """The rows that an aggregate with OVER is over: from the offset ``start`` to the offset ``end`` of a row, which are
    below 0 before it; None without a bound. Offsets of ``rows`` count rows. Others are of the values that rows are
    ordered by, in milliseconds where that is a time: at 0 begin, or end, the rows that are equal to the row."""

    rows: bool = False
    start: int | Decimal | None = None
    end: int | Decimal | None = 0

    def describe(self) -> str:
        """The frame as SQL has it, without its unit of time."""
        ends = f"{_bound(self.start, 'PRECEDING')} AND {_bound(self.end, 'FOLLOWING')}"
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {ends}"

    @property
    def running(self) -> bool:
        """Whether it has all rows before the row."""
        return self.start is None and self.end == 0


def _bound(offset: int | Decimal | None, way: str) -> str:
    if offset is None:
        return f"UNBOUNDED {way}"
    if not offset:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


@dataclass(frozen=True)
class OverCall(AggregateCall):
    """A function with OVER: an aggregate, or one that only OVER has (``ROW_NUMBER``, ``RANK``, ``DENSE_RANK``,
    ``PERCENT_RANK``, ``CUME_DIST``, ``NTILE``, ``LAG``, ``LEAD``). ``number`` is that of groups of NTILE, or how many
    rows LAG and LEAD go back or forward; where there is no such row they give the column ``default``, or NULL."""

    number: int = 1
    default: str | None = None


@dataclass(frozen=True)
class OverAggregate(Stateful, Step):
    """Gives each row with the results of ``calls`` for its ``frame`` among the rows with its ``keys``, which are in
    this ``order``, equal ones as they came. ``schema`` has the columns of the input, then the calls.

    With the event time in ``time``, or by ``processing`` time, which the order begins with then, rows are only added: a
    result is final. Otherwise the results of other rows change with each row, unless all rows are there at once."""

    keys: tuple[str, ...]
    order: tuple[SortColumn, ...]
    calls: tuple[OverCall, ...]
    frame: Frame
    time: str = ""
    processing: bool = False

    @property
    def by_time(self) -> bool:
        """Whether results are final."""
        return bool(self.time) or self.processing

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        if self.by_time:
            return replace(below, stateful=True)
        keys = tuple(key for key in below.upsert_keys if set(self.keys) <= set(key))
        return replace(below, kinds=below.kinds | INSERTIONS | UPDATES, upsert_keys=keys, stateful=True)
