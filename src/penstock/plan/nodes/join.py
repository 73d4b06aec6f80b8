"""Pairs of rows of two tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta

from penstock.plan.expressions import Expression
from penstock.plan.node import Stateful, TwoInputs
from penstock.plan.row_traits import Key, Traits
from penstock.spi import CHANGES, INSERTIONS


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
    left, then those of the right, under names of its own. ``left_ttl`` and ``right_ttl`` are the times to live of the
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

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        left, right = inputs
        bounded = left.bounded and right.bounded
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return Traits(kinds=CHANGES, bounded=bounded, upsert_keys=left.upsert_keys, stateful=True)
        plain = self.kind is JoinKind.INNER and not left.changing and not right.changing
        kinds = INSERTIONS if plain else CHANGES
        return Traits(kinds=kinds, bounded=bounded, upsert_keys=self._upsert_keys(left, right), stateful=True)

    def _upsert_keys(self, left: Traits, right: Traits) -> tuple[Key, ...]:
        """The keys of the rows. As in Flink, the rows of a join key are at one place, so only keys with the join key in
        them keep their order."""
        names, count = self.schema.names, len(self.left.schema.names)
        lefts = dict(zip(self.left.schema.names, names[:count], strict=True))
        rights = dict(zip(self.right.schema.names, names[count:], strict=True))
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
