"""The identities of the steps of a job: what the meaning of their state depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.flow.kernels.moments.local import is_utc
from penstock.flow.kernels.session import Session
from penstock.flow.operators.accumulators import ORDERED, Accumulators
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.contract import Operator
from penstock.flow.operators.over import OverOperator
from penstock.flow.operators.over_numbers import kept_name
from penstock.flow.windows.in_windows import InWindowsOperator
from penstock.flow.windows.sessions import SessionOperator
from penstock.flow.windows.window_aggregate import WindowAggregateOperator
from penstock.options import DURATION
from penstock.plan.expressions import Expression
from penstock.plan.lineage import Lineage, depends_on_zone, describe_window, display_text, meaning, text_at
from penstock.plan.nodes import (
    AggregateCall,
    AssignWatermarks,
    Deduplicate,
    GroupAggregate,
    InWindows,
    Join,
    Materialize,
    Node,
    Normalize,
    OverAggregate,
    OverCall,
    Rank,
    SessionTable,
    SetOperation,
    Sort,
    SortColumn,
    Step,
    TemporalSort,
    WindowAggregate,
)
from penstock.plan.step_identity import KIND_OF_ROWS, SIDES, TIME_ZONE, Column, Fact, StepIdentity
from penstock.plan.traits import traits
from penstock.plan.walk import fold
from penstock.plan.windowing import Attached, Windowing, WindowKind
from penstock.types import BIGINT

#: What is kept for some aggregates depends on whether rows may be retracted.
_BY_ROWS = ORDERED | {"MIN", "MAX"}
#: The names of a window's columns in messages.
_BOUNDS = ("window_start", "window_end")
_TAKEN_BACK, _ADDED = Fact.from_text("rows that may be taken back"), Fact.from_text("rows that are only added")


@dataclass
class Identifier:
    """Finds the identity of a step. ``zone`` is the time zone of the job's session, empty if it is not known;
    ``lives`` are the times to live of the rows of each input, None for rows that are kept forever."""

    lineage: Lineage
    zone: str
    lives: Sequence[timedelta | None]
    #: All that the state depends on.
    _read: list[Expression] = field(default_factory=list)

    def identity(self, node: Node, operator: Operator) -> StepIdentity:
        """The identity of ``node``, which ``operator`` computes."""
        found = self._of(node, operator)
        facts = {**found.facts, **dict(self._lives(node, operator))}
        if any(map(depends_on_zone, self._read)):
            facts[TIME_ZONE] = Fact.from_text("UTC" if is_utc(Session(self.zone)) else self.zone)
        return replace(found, facts=facts, notes=dict(self._notes(node)))

    def _of(self, node: Node, operator: Operator) -> StepIdentity:
        match node:
            case InWindows(inner=inner, windows=windows):
                assert isinstance(operator, InWindowsOperator)  # noqa: S101
                return self._in_windows(inner, windows, operator)
            case WindowAggregate(windowing=Windowing() as windowing) if isinstance(operator, SessionOperator):
                # The rows are kept: aggregates of what is in them may change.
                keys = self._columns(node.input, windowing.keys)
                rows = self._others(node.input, windowing.keys)
                groups = _of_columns(self._columns(node.input, node.keys))
                facts = {"window": self._window(node.input, windowing), "key of groups": groups}
                if operator.ordered:
                    facts["order of its rows"] = Fact("arrival", "that of arrival")
                return StepIdentity(step="a window", facts=facts, keys={"": keys}, rows={"": rows})
            case WindowAggregate(windowing=windowing):
                assert isinstance(operator, WindowAggregateOperator)  # noqa: S101
                found = self._grouped(node, operator.groups, "a window")
                facts = {**found.facts, "window": self._window(node.input, windowing)}
                if isinstance(windowing, Windowing) and windowing.kind is not WindowKind.TUMBLE:
                    own = "in parts that windows share" if operator.shared else "of each window by itself"
                    facts["way in which rows are kept"] = Fact.from_text(own)
                return replace(found, facts=facts)
            case SessionTable(windowing=windowing):
                keys, rows = (
                    self._columns(node.input, windowing.keys),
                    self._others(node.input, windowing.keys),
                )
                facts = {"window": self._window(node.input, windowing)}
                return self._rows("a window", facts, keys, rows, growing=not traits(node.input).changing)
            case GroupAggregate():
                assert isinstance(operator, GroupAggregateOperator)  # noqa: S101
                return self._grouped(node, operator, "GROUP BY")
            case Join():
                return self._join(node)
            case SetOperation(kind=kind, left=left, right=right):
                sides = zip(SIDES, (left, right), strict=True)
                keys_of = {side: self._columns(each, each.schema.names) for side, each in sides}
                return StepIdentity(step="a comparison", facts={"comparison": Fact.from_text(kind.value)}, keys=keys_of)
            case Normalize(keys=keys):
                return self._kept("the changes of a table", node, keys, {}, growing=True)
            case Materialize(keys=keys, decided=decided):
                facts = {"random values": Fact.from_text("kept")} if decided else {}
                return self._kept("the last rows of a key", node, keys, facts, growing=False)
            case Deduplicate(keys=keys, order=order, last=last):
                by = self._fact(node.input, order) if order else Fact.from_text("arrival")
                which = "last" if last else "first"
                facts = {"row that stays": Fact(f"{which} by {by.meaning}", f"the {which} by {by.shown}")}
                if not (order or last):  # only the keys are kept
                    return StepIdentity(step="one row of each key", facts=facts, keys=self._keys(node.input, keys))
                return self._kept("one row of each key", node, keys, facts, growing=True)
            case Rank():
                return self._rank(node)
            case OverAggregate():
                return self._over(node, operator)
            case TemporalSort(time=time, order=order):
                first = [self._fact(node.input, time)] if time else []
                facts = {"order": _together([*first, *self._order(node.input, order)])}
                return self._kept("ORDER BY", node, (), facts, growing=True)
            case Sort(order=order):
                return StepIdentity(step="ORDER BY", facts={"order": _together(self._order(node.input, order))})
        raise TypeError(f"unknown plan node {type(node).__name__}")

    # --- kinds of steps -----------------------------------------------------------------------------------------

    def _grouped(
        self, node: GroupAggregate | WindowAggregate | OverAggregate, operator: GroupAggregateOperator, step: str
    ) -> StepIdentity:
        """The identity of a step that keeps the states of groups."""
        every, node_below = operator.states.accumulators, node.input
        facts = {}
        if any(each.tables or each.needs & _BY_ROWS for each in every):
            facts[KIND_OF_ROWS] = _TAKEN_BACK if every[0].retracts else _ADDED
        return StepIdentity(
            step=step,
            facts=facts,
            keys=self._keys(node_below, node.keys),
            aggregates=tuple(
                self._accumulated(node_below, each, each.column(need), need)
                for each in every
                for need in sorted(each.needs)
            ),
            tables=tuple(
                self._accumulated(node_below, each, table.name, "VALUES") for each in every for table in each.tables
            ),
            calls=self._calls(node_below, node.calls),
        )

    def _accumulated(self, node: Node, given: Accumulators, name: str, what: str) -> Column:
        """A column of the state of groups, or a table: ``what`` is kept of one argument."""
        of = given.argument
        found = None if of.column is None else node.schema.field(of.column)
        function = f"{what}{' WITH NULLS' if of.nulls else ''}"
        kind = BIGINT if found is None else found.type.with_nullability(True)
        call = AggregateCall("", function, kind, of.column, of.distinct, of.filter)
        value = self.lineage.aggregate(node, call)
        self._read.append(value)
        argument = "" if value.argument is None else display_text(value.argument)
        return Column(name, kind.text(), meaning(value), argument)

    def _calls(self, node: Node, calls: Sequence[AggregateCall]) -> str:
        """The aggregates as they are written."""
        texts = (text_at(call.place) or display_text(self.lineage.aggregate(node, call)) for call in calls)
        return ", ".join(dict.fromkeys(texts))

    def _join(self, node: Join) -> StepIdentity:
        sides = tuple(zip(SIDES, node.inputs, (node.left_keys, node.right_keys), strict=True))
        # In the state, the columns of keys have numbers.
        keys = {side: tuple(replace(each, name="") for each in self._columns(below, own)) for side, below, own in sides}
        rows = {side: self._others(below, own) for side, below, own in sides}
        growing = {side for side, below, _ in sides if not traits(below).changing}
        facts = {"kind of join": Fact.from_text(node.kind.value)}
        return StepIdentity(step="a join", facts=facts, keys=keys, rows=rows, growing=frozenset(growing))

    def _rank(self, node: Rank) -> StepIdentity:
        changing = traits(node.input).changing
        facts = {
            "order": _together(self._order(node.input, node.order)),
            "range of numbers": Fact.from_text(f"{node.first} to {node.last}"),
            "numbering": Fact.from_text(node.ranking.value),
            KIND_OF_ROWS: _TAKEN_BACK if changing else _ADDED,
        }
        if not changing:
            facts["order of equal rows"] = Fact.from_text("the latest first" if node.latest else "as they came")
        return self._kept("a ranking", node, node.keys, facts, growing=not changing)

    def _over(self, node: OverAggregate, operator: Operator) -> StepIdentity:
        first = [self._fact(node.input, node.time)] if node.time else []
        first += [Fact.from_text("processing time")] if node.processing else []
        facts = {
            "order": _together([*first, *self._order(node.input, node.order)]),
            "frame": Fact.from_text(node.frame.describe()),
        }
        kept = self._kept("OVER", node, node.keys, facts, growing=True)
        if not isinstance(operator, OverOperator) or not node.frame.running:
            return kept  # the rows are kept: functions of what is in them may change
        functions = operator.functions
        found = self._grouped(node, functions.aggregates, "OVER")
        numbers = tuple(self._number(node.input, each) for each in functions.numbers.kept_calls.values())
        rows = kept.rows if node.time else {}
        aggregates = (*found.aggregates, *numbers)
        return replace(found, facts={**found.facts, **facts}, rows=rows, aggregates=aggregates, growing=kept.growing)

    def _number(self, node: Node, call: OverCall) -> Column:
        """What is kept for a function that only OVER has."""
        if call.argument is None:
            return Column(kept_name(call), BIGINT.text(), call.function, f"{call.function}()")
        (column,) = self._columns(node, (call.argument,))
        name, count = kept_name(call), f"the last {call.number} values of"
        return Column(name, f"ARRAY<{column.type}>", f"{count} {column.meaning}", f"{count} {column.shown}")

    def _in_windows(self, inner: Node, windows: Sequence[Attached], operator: InWindowsOperator) -> StepIdentity:
        """The identity of a step that does its work in each window by itself."""
        found = self._of(inner, operator.inner)
        facts = [self._window(below, each) for below, each in zip(inner.inputs, windows, strict=True)]
        window = Fact(", ".join(each.meaning for each in facts), ", ".join(dict.fromkeys(x.shown for x in facts)))
        keys = {side: _without_windows(columns) for side, columns in found.keys.items()}
        return replace(found, step=f"{found.step} in windows", facts={**found.facts, "window": window}, keys=keys)

    def _kept(
        self, step: str, node: Step, keys: tuple[str, ...], facts: dict[str, Fact], *, growing: bool
    ) -> StepIdentity:
        """The identity of a step that keeps the rows of its input by keys."""
        columns = self._columns(node.input, keys), self._others(node.input, keys)
        return self._rows(step, facts, *columns, growing=growing)

    @staticmethod
    def _rows(
        step: str, facts: dict[str, Fact], keys: tuple[Column, ...], rows: tuple[Column, ...], *, growing: bool
    ) -> StepIdentity:
        sides = frozenset({""} if growing else ())
        return StepIdentity(step=step, facts=facts, keys={"": keys}, rows={"": rows}, growing=sides)

    # --- what they are made of ----------------------------------------------------------------------------------

    def _keys(self, node: Node, names: tuple[str, ...]) -> dict[str, tuple[Column, ...]]:
        return {"": self._columns(node, names)}

    def _columns(self, node: Node, names: Sequence[str]) -> tuple[Column, ...]:
        """Columns of the rows of ``node``."""
        found = []
        for field_ in node.schema.select(tuple(names)).fields:
            value = self.lineage.column(node, field_.name)
            self._read.append(value)
            found.append(
                Column(field_.name, field_.type.with_nullability(True).text(), meaning(value), display_text(value))
            )
        return tuple(found)

    def _others(self, node: Node, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns that are not among these."""
        return self._columns(node, [each for each in node.schema.names if each not in names])

    def _fact(self, node: Node, name: str) -> Fact:
        value = self.lineage.column(node, name)
        self._read.append(value)
        return Fact(meaning(value), display_text(value))

    def _window(self, node: Node, windowing: Windowing | Attached) -> Fact:
        value = self.lineage.window(node, windowing)
        self._read.append(value)
        return Fact(meaning(value), describe_window(value))

    def _order(self, node: Node, order: Sequence[SortColumn]) -> list[Fact]:
        found = []
        for each in order:
            value = self._fact(node, each.name)
            way = f"{' DESC' if each.descending else ''}{'' if each.nulls_first else ' NULLS LAST'}"
            plain = f"{' DESC' if each.descending else ''}"
            plain += "" if each.nulls_first != each.descending else f" NULLS {'FIRST' if each.nulls_first else 'LAST'}"
            found.append(Fact(f"{value.meaning}{way}", f"{value.shown}{plain}"))
        return found

    # --- times and notes ----------------------------------------------------------------------------------------

    def _lives(self, node: Node, operator: Operator) -> Iterator[tuple[str, Fact]]:
        """Whether tables with several rows per key have a time to live: it cannot be added or removed later."""
        several = {each.side for each in operator.tables if each.kind == "multiset" and each.side is not None}
        for number, life in enumerate(self.lives):
            if number in several and not isinstance(node, _BY_WATERMARK):
                of = f" of the {SIDES[number]} side" if len(self.lives) > 1 else ""
                yield f"time to live{of}", Fact.from_text("set" if life else "")

    def _notes(self, node: Node) -> Iterator[tuple[str, Fact]]:
        """What may change beside the state."""
        several = len(node.inputs) > 1
        for number, below in enumerate(node.inputs):
            of = f" of the {SIDES[number]} side" if several else ""
            conditions = self.lineage.conditions(below)
            if conditions:
                texts = [" AND ".join(map(text, conditions)) for text in (meaning, display_text)]
                yield f"condition of WHERE{of}", Fact(*texts)
        inner = node.inner if isinstance(node, InWindows) else node
        if isinstance(inner, Join) and inner.condition is not None:
            yield (
                "condition beside the keys",
                Fact.from_text(meaning(self.lineage.join_condition(inner, inner.condition))),
            )
        for number, life in enumerate(self.lives):
            if life is not None:
                of = f" of the {SIDES[number]} side" if several else ""
                yield f"time after which it forgets{of}", Fact.from_text(DURATION.show(life))
        watermarks = dict(fold((node,), self._watermarks)[0])
        if isinstance(node, _BY_WATERMARK) and watermarks:
            yield "watermark", _together(watermarks.values())

    def _watermarks(self, node: Node, below: tuple[tuple[tuple[str, Fact], ...], ...]) -> tuple[tuple[str, Fact], ...]:
        found = tuple(each for some in below for each in some)
        if isinstance(node, AssignWatermarks):
            value = self.lineage.expression(node.input, node.watermark)
            return (*found, (meaning(value), Fact(meaning(value), display_text(value))))
        return found


def _together(facts: Iterable[Fact]) -> Fact:
    """Several facts as one."""
    every = list(facts)
    return Fact(", ".join(each.meaning for each in every), ", ".join(each.shown for each in every))


def _without_windows(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Columns of a key, of which those of the window do not say which one it is."""
    return tuple(replace(each, meaning=each.shown) if each.shown in _BOUNDS else each for each in columns)


def _of_columns(columns: Sequence[Column]) -> Fact:
    return _together(Fact(each.meaning, each.shown) for each in columns)


#: The steps that forget with the watermark.
_BY_WATERMARK = WindowAggregate | SessionTable | InWindows | TemporalSort | Sort
