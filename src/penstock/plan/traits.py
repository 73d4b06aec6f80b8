"""Facts about a node's rows, from the capabilities of the scans that feed it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import ColumnRef
from penstock.plan.nodes import AssignWatermarks, DeadLetters, Filter, Node, Project, Scan, Sink, Step
from penstock.plan.walk import fold
from penstock.spi import INSERTIONS
from penstock.types import RowKind


@dataclass(frozen=True, kw_only=True)
class Traits:
    """``kinds`` are the row kinds that a node gives. ``bounded``: whether its rows end. ``event_time`` is the column
    that is the time attribute, empty without one."""

    kinds: frozenset[RowKind]
    bounded: bool
    event_time: str = ""


def traits(node: Node) -> Traits:
    """The traits of the rows of ``node``."""
    return fold((node,), _traits)[0]


def _traits(node: Node, inputs: tuple[Traits, ...]) -> Traits:
    match node, inputs:
        case Scan(), ():
            return Traits(kinds=node.spec.capabilities.kinds, bounded=node.spec.capabilities.bounded)
        case AssignWatermarks(column=column), (below,):
            return replace(below, event_time=column)
        case DeadLetters(), (below,):
            return Traits(kinds=INSERTIONS, bounded=below.bounded)
        case ((Filter() | Sink()), (below,)):
            return below
        case Project(items=items), (below,):
            refs = ((each.expression, each.name) for each in reversed(items))  # of equal ones, the first column counts
            unchanged = {value.name: name for value, name in refs if isinstance(value, ColumnRef)}
            return replace(below, event_time=unchanged.get(below.event_time, ""))
        case Step(), (below,):
            return replace(below, event_time="")
    raise TypeError(f"unknown plan node {type(node).__name__}")
