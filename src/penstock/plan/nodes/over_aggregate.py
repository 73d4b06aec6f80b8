"""Functions with OVER."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import Call, Expression, Literal
from penstock.plan.flink_sql import quote_names
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, KeyOrder, Names, Node, Stateful, Step
from penstock.plan.nodes.project import narrow
from penstock.plan.row_traits import UPDATES, Traits
from penstock.plan.sort_column import SortColumn
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import Fact, StepIdentity
from penstock.spi import INSERTIONS
from penstock.types import STRING, Field, RowType, quote_name


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
        ends = f"{_show_bound(self.start, 'PRECEDING')} AND {_show_bound(self.end, 'FOLLOWING')}"
        return f"{'ROWS' if self.rows else 'RANGE'} BETWEEN {ends}"

    @property
    def running(self) -> bool:
        """Whether it has all rows before the row."""
        return self.start is None and self.end == 0


def _show_bound(offset: int | Decimal | None, way: str) -> str:
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

    @property
    def rows_kept(self) -> int:
        return self.number

    @property
    def columns(self) -> tuple[str, ...]:
        return (*super().columns, *([] if self.default is None else [self.default]))

    @property
    def more_arguments(self) -> str:
        if self.function in ("LAG", "LEAD"):
            return f", {self.number}" + ("" if self.default is None else f", {quote_name(self.default)}")
        return super().more_arguments


@dataclass(frozen=True)
class OverAggregate(Stateful, Step):
    """Gives each row with the results of ``calls`` for its ``frame`` among the rows with its ``keys``, which are in
    this ``order``, equal ones in the order of arrival. ``schema`` has the columns of the input, then the calls.

    With the event time in ``time``, or by ``processing`` time, which the order begins with then, rows are only added: a
    result is final. Otherwise the results of other rows change with each row, unless all rows exist at once."""

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

    @property
    def step_name(self) -> str:
        return "over"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return (self.keys,)

    def lifetimes(self, default: timedelta | None) -> tuple[timedelta | None, ...]:
        if self.by_time and not self.frame.rows and self.frame.start is not None:
            return (None,)  # it forgets with time
        return super().lifetimes(default)

    def describe_state(self) -> str:
        if not self.by_time:
            return "all rows of each key"
        found = "each group" if self.frame.running else "the rows of each key that are in frames of later ones"
        return f"{found}, and the rows that the watermark has not reached" if self.time else found

    def explain_step(self) -> list[str]:
        by = ["processing time"] if self.processing else [quote_name(self.time)] if self.time else []
        order = ", ".join([*by, *(each.describe() for each in self.order)]) or "no order"
        of = f" of each {quote_names(self.keys)}" if self.keys else ""
        unit = " (milliseconds)" if self.by_time and not self.frame.rows and self.frame.start is not None else ""
        head = f"functions over {self.frame.describe()}{unit}{of}, by {order}"
        return [head, *(f"  {each.describe()}" for each in self.calls)]

    def flink_attributes(self) -> Attributes:
        by = ["PROCTIME ASC"] if self.processing else [f"{self.time} ASC"] if self.time else []
        found = {
            "partitionBy": ", ".join(self.keys),
            "orderBy": ", ".join([*by, *(each.flink_text() for each in self.order)]),
            "window": f" {self.frame.describe()}",
            "select": ", ".join((*self.input.schema.names, *(each.flink_text() for each in self.calls))),
        }
        return tuple((name, value) for name, value in found.items() if value)

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        passing = wanted - {each.name for each in self.calls}
        own = (*self.keys, *([self.time] if self.time else []), *(each.name for each in self.order))
        arguments = (name for each in self._wanted_calls(wanted) for name in each.columns)
        return (frozenset((*passing, *own, *arguments)),)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        below, calls = narrow(inputs[0], *self.columns_read(wanted)), self._wanted_calls(wanted)
        fields = (*below.schema.fields, *(Field(each.name, each.type) for each in calls))
        return replace(self, schema=RowType(fields, nullable=False), input=below, calls=calls)

    def _wanted_calls(self, wanted: Names) -> tuple[OverCall, ...]:
        """The functions that are wanted; at least one."""
        return tuple(each for each in self.calls if each.name in wanted) or self.calls[:1]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        call = next((each for each in self.calls if each.name == name), None)
        if call is None:
            return lineage.column(self.input, name)
        names = (*self.keys, *([self.time] if self.time else []), *(each.name for each in self.order))
        frame = Literal(self.frame.describe(), type=STRING)
        result = lineage.aggregate(self.input, call)
        return Call("OVER", (result, *(lineage.column(self.input, each) for each in names), frame), type=call.type)

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        first = [identifier.fact(self.input, self.time)] if self.time else []
        first += [Fact.from_text("processing time")] if self.processing else []
        facts = {
            "order": identifier.order(self.input, self.order, first),
            "frame": Fact.from_text(self.frame.describe()),
        }
        rows = identifier.identify_rows("OVER", self.input, self.keys, facts)
        if kept.groups is None:
            return rows  # functions of what is in them may change
        found = identifier.identify_groups("OVER", self.input, self.keys, self.calls, kept.groups)
        waiting = rows.rows if self.time else {}
        return replace(found, facts={**found.facts, **facts}, rows=waiting, growing=rows.growing)

    def arrange_keys(self, order: KeyOrder) -> Node:
        return replace(self, keys=tuple(self.keys[at] for at in order(self.input, self.keys, "")))

    @property
    def title(self) -> str:
        return "OVER"

    @property
    def needs_event_time(self) -> bool:
        return bool(self.time)

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        (below,) = inputs
        if self.by_time:
            return replace(below, stateful=True)
        keys = tuple(key for key in below.upsert_keys if set(self.keys) <= set(key))
        return replace(below, kinds=below.kinds | INSERTIONS | UPDATES, upsert_keys=keys, stateful=True)
