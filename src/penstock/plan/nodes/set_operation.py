"""Rows compared with those of another table."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from penstock.plan.nodes.node import TwoInputs


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
class SetOperation(TwoInputs):
    """Rows of ``left`` that are, or are not, rows of ``right`` too, whose columns correspond by position and have the
    same types. The schema is that of ``left``."""

    kind: SetKind
