"""Rows compared with those of another table."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.plan.node import Stateful, TwoInputs
from penstock.plan.row_traits import DELETIONS, Traits
from penstock.spi import INSERTIONS


class SetKind(enum.Enum):
    """Which rows of the left side are in a result, by the equal rows of the right side; NULL is equal to NULL.
    INTERSECT and EXCEPT give each row once, SEMI and ANTI as often as it is on the left side."""

    INTERSECT = "intersect"
    INTERSECT_ALL = "intersect all"
    EXCEPT = "except"
    EXCEPT_ALL = "except all"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class SetOperation(Stateful, TwoInputs):
    """Rows of ``left`` that are, or are not, rows of ``right`` too, whose columns correspond by position and have the
    same types. The schema is that of ``left``."""

    kind: SetKind

    def own_traits(self, inputs: tuple[Traits, ...]) -> Traits:
        """Rows are added and removed, and never updated."""
        left, right = inputs
        keeps = self.kind in (SetKind.INTERSECT, SetKind.INTERSECT_ALL, SetKind.SEMI)
        grows = keeps and not left.changing and not right.changing
        once = self.kind in (SetKind.INTERSECT, SetKind.EXCEPT)
        return Traits(
            kinds=INSERTIONS if grows else INSERTIONS | DELETIONS,
            bounded=left.bounded and right.bounded,
            upsert_keys=(self.schema.names,) if once else (),
            stateful=True,
        )
