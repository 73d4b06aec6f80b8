"""How long steps with state keep rows after their last change."""

from __future__ import annotations

from datetime import timedelta

from penstock.plan.nodes import (
    GroupAggregate,
    InWindows,
    Job,
    Join,
    Node,
    OverAggregate,
    SessionTable,
    Sort,
    Stateful,
    TemporalSort,
    WindowAggregate,
    scans,
)
from penstock.plan.walk import fold


def kept_forever(job: Job) -> tuple[str, ...]:
    """A warning for each join that keeps rows forever, of tables that do not end: its state grows with them. Joins in
    windows forget with the watermark."""
    found: list[str] = []

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if not isinstance(node, Join):
            return
        sides = [
            side
            for side, each, ttl in zip(
                ("left", "right"), node.inputs, lifetimes(node, job.settings.state_ttl), strict=True
            )
            if ttl is None and not all(scan.spec.capabilities.bounded for scan in scans(each))
        ]
        if sides:
            rows = "the rows of both tables" if len(sides) == 2 else f"the rows of its {sides[0]} table"
            found.append(
                f"step '{node.uid}' keeps {rows} forever, so its state grows with them; set 'table.exec.state.ttl', "
                "give a STATE_TTL hint, or join in windows, if rows may be forgotten"
            )

    if not job.settings.batch and not job.settings.once:
        fold(job.sinks, visit)
    return tuple(found)


def lifetimes(node: Node, default: timedelta | None) -> tuple[timedelta | None, ...]:
    """The times to live of the rows that a step keeps of each of its inputs: those of its hints, else the ``default``
    of the job; None for rows that are kept forever."""
    match node:
        case Join(left_ttl=left, right_ttl=right):
            given: tuple[timedelta | None, ...] = (left, right)
        case GroupAggregate(ttl=ttl):
            given = (ttl,)
        case OverAggregate(frame=frame) if node.by_time and not frame.rows and frame.start is not None:
            return (None,)  # it forgets with time
        case (
            WindowAggregate() | SessionTable() | InWindows() | TemporalSort() | Sort()
        ):  # which forget with the watermark
            return tuple(None for _ in node.inputs)
        case _:
            given = tuple(None for _ in node.inputs)
    if not isinstance(node, Stateful):
        return tuple(None for _ in node.inputs)
    found = (default if each is None else each for each in given)
    return tuple(each or None for each in found)
