"""What computes the steps between scans and nodes with state, beside expressions: the module of a work has a
:class:`RowWork` for its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from penstock.flow.kernels.session import Session
from penstock.flow.rows.calls import BatchTransform, FunctionCall
from penstock.flow.rows.registered import registered_by_node
from penstock.plan.nodes import Node, Step

N = TypeVar("N", bound=Node)

#: The packages whose modules have works.
_PACKAGES = ("penstock.flow.rows", "penstock.flow.windows")


@dataclass(frozen=True)
class PathFacts:
    """What a work depends on beside its node: the ``session`` of the job; whether rows without an event time are kept
    (``keeps``); and the number of the call, which is one for all paths that share it (``call_number``)."""

    session: Session
    keeps: bool
    call_number: Callable[[], int]


@dataclass(frozen=True)
class RowWork(Generic[N]):
    """Makes the works of one kind of ``node``."""

    node: type[N]
    make: Callable[[N, PathFacts], BatchTransform | FunctionCall]


@cache
def row_works() -> Mapping[type[Node], RowWork[Any]]:
    """What makes works, by the kind of node. Raises TypeError if there are two for one kind."""
    return registered_by_node(RowWork, _PACKAGES)


def make_work(step: Step, facts: PathFacts) -> BatchTransform | FunctionCall | None:
    """The work of a step; None for one that is only expressions. Raises UnsupportedError for what the work cannot
    do."""
    found = row_works().get(type(step))
    return None if found is None else found.make(step, facts)
