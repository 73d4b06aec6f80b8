"""The one way through a plan: ``fold`` and ``rewrite``, which visit each node once, inputs first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from penstock.plan.nodes import AssignWatermarks, DeadLetters, Filter, Node, Project, Scan

T = TypeVar("T")
N = TypeVar("N", bound=Node)
Steps = tuple[AssignWatermarks | Filter | Project, ...]


def fold(roots: Iterable[Node], visit: Callable[[Node, tuple[T, ...]], T]) -> tuple[T, ...]:
    """What ``visit`` makes of each root. It is called once for each of all nodes that are not the same object, with
    what it has made of the node's inputs."""
    made: dict[int, T] = {}

    def of(node: Node) -> T:
        if id(node) not in made:
            made[id(node)] = visit(node, tuple(of(each) for each in node.inputs))
        return made[id(node)]

    return tuple(of(root) for root in tuple(roots))


def rewrite(roots: Iterable[N], change: Callable[[Node], Node]) -> tuple[N, ...]:
    """The roots with every node replaced by what ``change`` gives for it, whose inputs are replaced already. Nodes that
    are shared stay shared. ``change`` gives a node of the same class for a root."""
    return cast("tuple[N, ...]", fold(roots, lambda node, inputs: change(node.with_inputs(inputs))))


def scans(*roots: Node) -> tuple[Scan, ...]:
    """The scans that feed these nodes, each once."""
    found: dict[Scan, None] = {}

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Scan):
            found.setdefault(node)

    fold(roots, visit)
    return tuple(found)


def base(node: Node) -> Node:
    """The nearest node below that is more than expressions: what the branches of one group share."""

    def visit(each: Node, below: tuple[Node, ...]) -> Node:
        return below[0] if isinstance(each, AssignWatermarks | DeadLetters | Filter | Project) else each

    return fold((node,), visit)[0]


def calculations(node: Node) -> tuple[AssignWatermarks | Filter | Project, ...]:
    """What is computed between :func:`base` and ``node``, in this order."""

    def visit(each: Node, below: tuple[Steps, ...]) -> Steps:
        return (*below[0], each) if isinstance(each, AssignWatermarks | Filter | Project) else ()

    return fold((node,), visit)[0]


def path(node: Node, below: Node) -> tuple[Node, ...]:
    """The nodes from ``node`` down to ``below``, without it, where each has one input."""
    found = []
    while node != below:
        found.append(node)
        (node,) = node.inputs
    return tuple(found)
