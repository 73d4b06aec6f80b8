"""Pairs of rows of two tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta

from penstock.plan.expressions import Expression
from penstock.plan.nodes.node import TwoInputs


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
class Join(TwoInputs):
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
