"""Traversal of plans: ``fold`` and ``rewrite``, which visit each node once, inputs first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from penstock.plan.expressions import Expression
from penstock.plan.nodes import (
    STATEFUL,
    AssignWatermarks,
    DeadLetters,
    Filter,
    InWindows,
    Join,
    MapRows,
    Node,
    Project,
    Scan,
)
from penstock.plan.scalar_functions import is_deterministic

T = TypeVar("T")
N = TypeVar("N", bound=Node)


def fold(roots: Iterable[Node], visit: Callable[[Node, tuple[T, ...]], T]) -> tuple[T, ...]:
    """The results of ``visit`` for the roots. It is called once for each node object, with the results for the node's
    inputs."""
    made: dict[int, T] = {}

    def of(node: Node) -> T:
        if id(node) not in made:
            made[id(node)] = visit(node, tuple(of(each) for each in node.inputs))
        return made[id(node)]

    return tuple(of(root) for root in tuple(roots))


def rewrite(roots: Iterable[N], change: Callable[[Node], Node]) -> tuple[N, ...]:
    """The roots with every node replaced by the result of ``change``, which gets a node whose inputs are replaced
    already. Shared nodes stay shared. The replacement of a root has the root's class."""
    return cast("tuple[N, ...]", fold(roots, lambda node, inputs: change(node.with_inputs(inputs))))


def scans(*roots: Node) -> tuple[Scan, ...]:
    """The scans that feed these nodes, each once."""
    found: dict[Scan, None] = {}

    def visit(node: Node, _: tuple[None, ...]) -> None:
        if isinstance(node, Scan):
            found.setdefault(node)

    fold(roots, visit)
    return tuple(found)


def keeps_state(*roots: Node) -> bool:
    """Whether a node that feeds these keeps state."""

    def visit(node: Node, below: tuple[bool, ...]) -> bool:
        return isinstance(node, STATEFUL) or any(below)

    found: tuple[bool, ...] = fold(roots, visit)
    return any(found)


def base(node: Node) -> Node:
    """The nearest node at or below this one that does not only compute expressions: branches of one group share it."""
    while isinstance(node, AssignWatermarks | DeadLetters | Filter | Project):
        node = node.input
    return node


def calculations(node: Node) -> tuple[AssignWatermarks | Filter | Project, ...]:
    """The expressions between :func:`base` and ``node``, in this order."""
    found = []
    while isinstance(node, AssignWatermarks | Filter | Project):
        found.append(node)
        node = node.input
    return tuple(reversed(found))


def repeatable(node: Node) -> bool:
    """Whether several readers of ``node`` see the same rows: what is computed above steps with state and scans follows
    from the rows alone."""
    if isinstance(node, STATEFUL):
        return True
    own = not isinstance(node, MapRows) and all(is_deterministic(each) for each in expressions_of(node))
    return own and all(map(repeatable, node.inputs))


def expressions_of(node: Node) -> tuple[Expression, ...]:
    """The expressions that a node itself computes."""
    match node:
        case Filter(condition=condition):
            return (condition,)
        case Project(items=items):
            return tuple(each.expression for each in items)
        case AssignWatermarks(watermark=watermark):
            return (watermark,)
        case Join(condition=Expression() as condition):
            return (condition,)
        case InWindows(inner=inner):
            return expressions_of(inner)
    return ()
