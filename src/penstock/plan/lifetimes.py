"""How long steps with state keep rows that nobody has written since."""

from __future__ import annotations

from datetime import timedelta

from penstock.plan.nodes import (
    STATEFUL,
    GroupAggregate,
    InWindows,
    Join,
    Node,
    SessionTable,
    Sort,
    TemporalSort,
    WindowAggregate,
)


def lifetimes(node: Node, default: timedelta | None) -> tuple[timedelta | None, ...]:
    """The times to live of the rows that a step keeps of each of its inputs: those of its hints, else the ``default``
    of the job; None for rows that are kept forever."""
    match node:
        case Join(left_ttl=left, right_ttl=right):
            given: tuple[timedelta | None, ...] = (left, right)
        case GroupAggregate(ttl=ttl):
            given = (ttl,)
        case (
            WindowAggregate() | SessionTable() | InWindows() | TemporalSort() | Sort()
        ):  # which forget with the watermark
            return tuple(None for _ in node.inputs)
        case _:
            given = tuple(None for _ in node.inputs)
    if not isinstance(node, STATEFUL):
        return tuple(None for _ in node.inputs)
    found = (default if each is None else each for each in given)
    return tuple(each or None for each in found)
