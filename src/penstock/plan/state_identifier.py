"""The parts of the identity of a step with state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import Expression
from penstock.plan.kept_state import KeptGroups, KeptValue
from penstock.plan.lineage import HasOrigins, Lineage
from penstock.plan.origins import depends_on_zone, describe_window, display_text, meaning, text_at
from penstock.plan.sort_column import SortColumn
from penstock.plan.step_identity import KIND_OF_ROWS, Column, Fact, StepIdentity
from penstock.plan.windowing import Attached, Windowing
from penstock.types import BIGINT

#: The kinds of rows that a step takes, where what it keeps depends on that.
TAKEN_BACK, ADDED = Fact.from_text("rows that may be taken back"), Fact.from_text("rows that are only added")


@dataclass
class StateIdentifier:
    """Makes the parts of one identity, and notes all that they depend on."""

    lineage: Lineage
    _read: list[Expression] = field(default_factory=list)

    @property
    def zoned(self) -> bool:
        """Whether something depends on the session's time zone."""
        return any(map(depends_on_zone, self._read))

    def columns(self, node: HasOrigins, names: Sequence[str]) -> tuple[Column, ...]:
        """Columns of the rows of ``node``."""
        found = []
        for each in node.schema.select(tuple(names)).fields:
            value = self._note_read(self.lineage.column(node, each.name))
            type_ = each.type.with_nullability(True).text()
            found.append(Column(each.name, type_, meaning(value), display_text(value)))
        return tuple(found)

    def others(self, node: HasOrigins, names: Sequence[str]) -> tuple[Column, ...]:
        """The columns of the rows of ``node`` that are not among ``names``."""
        return self.columns(node, [each for each in node.schema.names if each not in names])

    def fact(self, node: HasOrigins, name: str) -> Fact:
        """A column as a fact."""
        value = self._note_read(self.lineage.column(node, name))
        return Fact(meaning(value), display_text(value))

    def window(self, node: HasOrigins, windowing: Windowing | Attached) -> Fact:
        """The windows of the rows of ``node``."""
        value = self._note_read(self.lineage.window(node, windowing))
        return Fact(meaning(value), describe_window(value))

    def order(self, node: HasOrigins, order: Sequence[SortColumn], first: Sequence[Fact] = ()) -> Fact:
        """The order of the rows of ``node``, by these facts, then by columns."""
        found = list(first)
        for each in order:
            value = self.fact(node, each.name)
            way = f"{' DESC' if each.descending else ''}{'' if each.nulls_first else ' NULLS LAST'}"
            found.append(Fact(f"{value.meaning}{way}", f"{value.shown}{each.direction}"))
        return join_facts(found)

    def identify_rows(
        self,
        step: str,
        node: HasOrigins,
        keys: Sequence[str],
        facts: Mapping[str, Fact] | None = None,
        *,
        growing: bool = True,
    ) -> StepIdentity:
        """The identity of a step that keeps the rows of ``node`` by keys; ``growing``: they may have more columns
        later."""
        rows = {"": self.others(node, keys)}
        sides = frozenset({""} if growing else ())
        return StepIdentity(step=step, facts=facts or {}, keys={"": self.columns(node, keys)}, rows=rows, growing=sides)

    def identify_groups(
        self, step: str, node: HasOrigins, keys: Sequence[str], calls: Sequence[AggregateCall], kept: KeptGroups
    ) -> StepIdentity:
        """The identity of a step that keeps the states of groups of the rows of ``node``."""
        facts = {} if kept.retracts is None else {KIND_OF_ROWS: TAKEN_BACK if kept.retracts else ADDED}
        last = (self._identify_last_rows(node, name, each) for name, each in kept.last.items())
        return StepIdentity(
            step=step,
            facts=facts,
            keys={"": self.columns(node, keys)},
            aggregates=(*(self._identify_kept_value(node, each) for each in kept.columns), *last),
            tables=tuple(self._identify_kept_value(node, each) for each in kept.tables),
            calls=self._describe_calls(node, calls),
        )

    def _identify_kept_value(self, node: HasOrigins, given: KeptValue) -> Column:
        """What is kept of the values that are aggregated."""
        found = None if given.column is None else node.schema.field(given.column)
        kind = BIGINT if found is None else found.type.with_nullability(True)
        call = AggregateCall("", given.function, kind, given.column, given.distinct, given.filter)
        value = self.lineage.aggregate(node, call)
        self._note_read(value)
        argument = "" if value.argument is None else display_text(value.argument)
        return Column(given.name, kind.text(), meaning(value), argument)

    def _identify_last_rows(self, node: HasOrigins, name: str, call: AggregateCall) -> Column:
        """What is kept for a function that only OVER has."""
        if call.argument is None:
            return Column(name, BIGINT.text(), call.function, f"{call.function}()")
        (column,) = self.columns(node, (call.argument,))
        count = f"the last {call.rows_kept} values of"
        return Column(name, f"ARRAY<{column.type}>", f"{count} {column.meaning}", f"{count} {column.shown}")

    def _describe_calls(self, node: HasOrigins, calls: Sequence[AggregateCall]) -> str:
        """The aggregates as they are written."""
        texts = (text_at(call.place) or display_text(self.lineage.aggregate(node, call)) for call in calls)
        return ", ".join(dict.fromkeys(texts))

    def _note_read(self, value: Expression) -> Expression:
        self._read.append(value)
        return value


def join_facts(facts: Iterable[Fact]) -> Fact:
    """Several facts as one."""
    every = list(facts)
    return Fact(", ".join(each.meaning for each in every), ", ".join(each.shown for each in every))
