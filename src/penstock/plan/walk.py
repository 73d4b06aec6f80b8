"""Traversal of plans: ``fold`` and ``rewrite``, which visit each node once, inputs first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from penstock.plan.node import Calculation, Node, Stateful, Step

T = TypeVar("T")
N = TypeVar("N", bound=Node)


def fold(roots: Iterable[Node], visit: Callable[[Node, tuple[T, ...]], T]) -> tuple[T, ...]:
    """The results of ``visit`` for the roots. It is called once for each node object, with the results for the node's
    inputs."""
    made: dict[int, T] = {}

    def visit_once(node: Node) -> T:
        if id(node) not in made:
            made[id(node)] = visit(node, tuple(visit_once(each) for each in node.inputs))
        return made[id(node)]

    return tuple(visit_once(root) for root in tuple(roots))


def rewrite(roots: Iterable[N], change: Callable[[Node], Node]) -> tuple[N, ...]:
    """The roots with every node replaced by the result of ``change``, which gets a node whose inputs are replaced
    already. Shared nodes stay shared. The replacement of a root has the root's class."""
    return cast("tuple[N, ...]", fold(roots, lambda node, inputs: change(node.with_inputs(inputs))))


def keeps_state(*roots: Node) -> bool:
    """Whether a node that feeds these keeps state."""

    def visit(node: Node, below: tuple[bool, ...]) -> bool:
        return isinstance(node, Stateful) or any(below)

    found: tuple[bool, ...] = fold(roots, visit)
    return any(found)


def base(node: Node) -> Node:
    """The nearest node at or below this one that does not only compute expressions: branches of one group share it."""
    while isinstance(node, Step) and not node.is_base:
        node = node.input
    return node


def calculations(node: Node) -> tuple[Calculation, ...]:
    """The expressions between :func:`base` and ``node``, in this order."""
    found = []
    while isinstance(node, Calculation):
        found.append(node)
        node = node.input
    return tuple(reversed(found))


def repeatable(node: Node) -> bool:
    """Whether several readers of ``node`` see the same rows: what is computed above steps with state and scans follows
    from the rows alone."""
    return isinstance(node, Stateful) or (node.deterministic and all(map(repeatable, node.inputs)))
