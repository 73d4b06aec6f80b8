"""The moments at which a job can be killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_CHANGES = (
    "before the DDL, by {}",
    "amid the DDL, by {}",
    "after the DDL, by {}",
    "the state has the versions, by {}",
)
#: All of them, in the order of a batch that shows other schemas, after a start with another definition.
POINTS = (
    *(each.format("the definition") for each in _CHANGES),
    "tasks have reported schemas",
    *(each.format("messages") for each in _CHANGES),
    "tasks have computed rows",
    "the manifest is written",
    "before publishing",
    "amid publishing",
    "before the commit",
    "after the commit",
    "the checkpoint has named the state",
    "Spark has logged the batch",
)


class Killed(BaseException):
    """The process is gone: nothing that a program does about an error is done."""


@dataclass
class KillPlan:
    """When one run of a job is killed: when it has reached a ``point`` for the ``turn``-th time; not at all without a
    point."""

    point: str = ""
    turn: int = 1
    #: How often each point was reached.
    reached: Counter[str] = field(default_factory=Counter)
    #: What the changes to schemas under way follow from: the definition, at a start, or messages.
    cause: str = "the definition"

    def reach(self, point: str) -> None:
        """Raise Killed if this is the moment."""
        assert point in POINTS, point
        self.reached[point] += 1
        if point == self.point and self.reached[point] == self.turn:
            raise Killed(point)
