"""Pairs of rows of two tables."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from penstock.plan.expressions import Expression, columns_of
from penstock.plan.flink_sql import flink_sql
from penstock.plan.kept_state import KeptState
from penstock.plan.lineage import Lineage
from penstock.plan.node import Attributes, KeyOrder, Names, Node, Stateful, TwoInputs
from penstock.plan.nodes.project import narrow
from penstock.plan.nodes.scan import scans
from penstock.plan.origins import meaning
from penstock.plan.row_traits import Key, Traits
from penstock.plan.state_identifier import StateIdentifier
from penstock.plan.step_identity import SIDES, Fact, StepIdentity
from penstock.plan.traits import traits
from penstock.spi import CHANGES, INSERTIONS
from penstock.types import Field, RowType, quote_name


class JoinKind(enum.Enum):
    """Which rows without a match a join keeps; SEMI and ANTI give the left rows with a match, or without one, and no
    columns of the right."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Join(Stateful, TwoInputs):
    """Pairs the rows of ``left`` and ``right`` whose keys are equal and not null. ``schema`` has the columns of the
    left, then those of the right, under its own names. ``left_ttl`` and ``right_ttl`` are the times to live of the
    rows of each side, as of :class:`GroupAggregate`. Only within :class:`InWindows`, rows may have to meet a
    ``condition`` too, which reads columns of both sides by their own names, all of them different; and the kind may be
    SEMI or ANTI."""

    kind: JoinKind
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    condition: Expression | None = field(default=None, kw_only=True)
    left_ttl: timedelta | None = field(default=None, kw_only=True)
    right_ttl: timedelta | None = field(default=None, kw_only=True)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return () if self.condition is None else (self.condition,)

    @property
    def step_name(self) -> str:
        return "join"

    @property
    def shuffle_keys(self) -> tuple[tuple[str, ...], ...]:
        return self.left_keys, self.right_keys

    @property
    def ttls(self) -> tuple[timedelta | None, ...]:
        return self.left_ttl, self.right_ttl

    def describe_state(self) -> str:
        return "the rows of both tables"

    def explain_lifetimes(self, default: timedelta | None) -> list[str]:
        return super().explain_lifetimes(default) or ["never forgets them"]

    def warn_of_growing_state(self, default: timedelta | None) -> str | None:
        """Joins in windows forget with the watermark."""
        sides = [
            side
            for side, each, ttl in zip(("left", "right"), self.inputs, self.lifetimes(default), strict=True)
            if ttl is None and not all(scan.spec.capabilities.bounded for scan in scans(each))
        ]
        if not sides:
            return None
        rows = "the rows of both tables" if len(sides) == 2 else f"the rows of its {sides[0]} table"
        return (
            f"step '{self.uid}' keeps {rows} forever, so its state grows with them; set 'table.exec.state.ttl', "
            "give a STATE_TTL hint, or join in windows, if rows may be forgotten"
        )

    def explain_step(self) -> list[str]:
        keys = zip(self.left_keys, self.right_keys, strict=True)
        pairs = [f"{quote_name(left)} = {quote_name(right)}" for left, right in keys]
        pairs += [] if self.condition is None else [flink_sql(self.condition)]
        return [f"{self.kind.value} join on {' and '.join(pairs)}" if pairs else f"{self.kind.value} join of all pairs"]

    def flink_attributes(self) -> Attributes:
        pairs = zip(self.left_keys, self.right_keys, strict=True)
        return (
            ("joinType", self.kind.value),
            ("where", " AND ".join(f"{left} = {right}" for left, right in pairs) or "true"),
            ("select", ", ".join(self.schema.names)),
            ("leftInputSpec", _describe_unique_keys(self.left, self.left_keys)),
            ("rightInputSpec", _describe_unique_keys(self.right, self.right_keys)),
        )

    def columns_read(self, wanted: Names) -> tuple[Names, ...]:
        compared = frozenset[str]() if self.condition is None else columns_of(self.condition)
        found = []
        for side, keys, own in zip(self.inputs, self.shuffle_keys, self._own_names, strict=True):
            given = zip(side.schema.names, own, strict=False)  # SEMI and ANTI give no columns of the right
            read = (each for each, name in given if name in wanted)
            found.append(frozenset((*read, *keys, *(compared & set(side.schema.names)))))
        return tuple(found)

    def prune(self, inputs: Sequence[Node], wanted: Names) -> Node:
        """An unread column may have become a constant, of another type."""
        left, right = (narrow(each, read) for each, read in zip(inputs, self.columns_read(wanted), strict=True))
        lefts, rights = self._own_names
        fields: list[Field] = []
        for before, now, own, null in (
            (self.left, left, lefts, self.kind in (JoinKind.RIGHT, JoinKind.FULL)),
            (self.right, right, rights, self.kind in (JoinKind.LEFT, JoinKind.FULL)),
        ):
            made = dict(zip(before.schema.names, own, strict=False))
            types = ((each.name, each.type.with_nullability(each.type.nullable or null)) for each in now.schema.fields)
            fields += [Field(made[name], type_) for name, type_ in types if name in made]
        return replace(self, schema=RowType(tuple(fields), nullable=False), left=left, right=right)

    @property
    def _own_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names that the columns of each side have in the result."""
        names, count = self.schema.names, len(self.left.schema.names)
        return names[:count], names[count:]

    def find_origin(self, name: str, lineage: Lineage) -> Expression:
        at, lefts = self.schema.names.index(name), self.left.schema.names
        side = self.left if at < len(lefts) else self.right
        return lineage.column(side, (*lefts, *self.right.schema.names)[at])

    def identify_state(self, identifier: StateIdentifier, kept: KeptState) -> StepIdentity:
        sides = tuple(zip(SIDES, self.inputs, self.shuffle_keys, strict=True))
        keys = {side: identifier.columns(below, own) for side, below, own in sides}
        return StepIdentity(
            step="a join",
            facts={"kind of join": Fact.from_text(self.kind.value)},
            # In the state, the columns of keys have numbers.
            keys={side: tuple(replace(each, name="") for each in columns) for side, columns in keys.items()},
            rows={side: identifier.others(below, own) for side, below, own in sides},
            growing=frozenset(side for side, below, _ in sides if not traits(below).changing),
        )

    def state_notes(self, lineage: Lineage) -> Iterable[tuple[str, Fact]]:
        if self.condition is None:
            return ()
        condition = lineage.join_condition(self.left, self.right, self.condition)
        return (("condition beside the keys", Fact.from_text(meaning(condition))),)

    def arrange_keys(self, order: KeyOrder) -> Node:
        places = order(self.left, self.left_keys, SIDES[0])
        left, right = (tuple(each[at] for at in places) for each in self.shuffle_keys)
        return replace(self, left_keys=left, right_keys=right)

    @property
    def title(self) -> str:
        return "join"

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        left, right = inputs
        bounded = left.bounded and right.bounded
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return Traits(kinds=CHANGES, bounded=bounded, upsert_keys=left.upsert_keys, stateful=True)
        plain = self.kind is JoinKind.INNER and not left.changing and not right.changing
        kinds = INSERTIONS if plain else CHANGES
        return Traits(kinds=kinds, bounded=bounded, upsert_keys=self._find_upsert_keys(left, right), stateful=True)

    def _find_upsert_keys(self, left: Traits, right: Traits) -> tuple[Key, ...]:
        """The keys of the rows. As in Flink, the rows of a join key are at one place, so only keys with the join key in
        them keep their order."""
        of_sides = zip(self.inputs, self._own_names, strict=True)
        lefts, rights = (dict(zip(side.schema.names, own, strict=True)) for side, own in of_sides)
        of_left = [key for key in left.upsert_keys if set(key) >= set(self.left_keys)]
        of_right = [key for key in right.upsert_keys if set(key) >= set(self.right_keys)]
        keys: list[Key] = []
        if self.kind in (JoinKind.INNER, JoinKind.LEFT):
            # The columns of the right join key equal those of the left row.
            rest = [tuple(rights[each] for each in key if each not in self.right_keys) for key in of_right]
            keys += [(*(lefts[each] for each in key), *more) for key in of_left for more in rest]
            keys += [tuple(lefts[each] for each in key) for key in of_left if right.has_key(self.right_keys)]
        if self.kind in (JoinKind.INNER, JoinKind.RIGHT):
            rest = [tuple(lefts[each] for each in key if each not in self.left_keys) for key in of_left]
            keys += [(*more, *(rights[each] for each in key)) for more in rest for key in of_right]
            keys += [tuple(rights[each] for each in key) for key in of_right if left.has_key(self.left_keys)]
        if self.kind is JoinKind.FULL:
            pairs = [(one, other) for one in of_left for other in of_right]
            keys += [(*(lefts[each] for each in one), *(rights[each] for each in other)) for one, other in pairs]
        return tuple(dict.fromkeys(keys))


def _describe_unique_keys(side: Node, keys: tuple[str, ...]) -> str:
    """What Flink's plans say about the keys of one side."""
    known = traits(side)
    if known.has_key(keys):
        return "JoinKeyContainsUniqueKey"
    return "HasUniqueKey" if known.upsert_keys else "NoUniqueKey"
