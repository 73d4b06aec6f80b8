"""Traversal of plans: each node once, inputs first, and what is shared stays shared."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.plan.expressions import Literal
from penstock.plan.nodes import Filter, Node, Scan
from penstock.plan.walk import fold, rewrite, scans
from penstock.types import BIGINT, BOOLEAN, Field, RowType

SCHEMA = RowType((Field("n", BIGINT),))
TRUE = Literal(True, type=BOOLEAN)


@dataclass(frozen=True)
class Both(Node):
    """A node with two inputs, as a join is."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)

    def with_inputs(self, inputs):
        left, right = inputs
        return replace(self, left=left, right=right)


def scan(table: str) -> Scan:
    return Scan(SCHEMA, table, "values", None)


def shared() -> tuple[Both, Filter]:
    """Two branches of one filter meet."""
    below = Filter(SCHEMA, scan("a"), TRUE)
    return Both(SCHEMA, Filter(SCHEMA, below, TRUE), Both(SCHEMA, below, scan("b"))), below


def test_fold_visits_each_node_once_and_inputs_first() -> None:
    root, below = shared()
    visited: list[Node] = []

    def visit(node: Node, inputs: tuple[int, ...]) -> int:
        visited.append(node)
        return 1 + max(inputs, default=0)

    assert fold((root, below), visit) == (4, 2)
    assert len(visited) == 6
    for node in visited:
        assert all(visited.index(each) < visited.index(node) for each in node.inputs)


def test_rewrite_replaces_nodes_and_keeps_what_is_shared_shared() -> None:
    root, _ = shared()
    (made,) = rewrite((root,), lambda node: scan("c") if isinstance(node, Scan) and node.table == "a" else node)
    assert [each.table for each in scans(made)] == ["c", "b"]
    assert isinstance(made.left, Filter)
    assert isinstance(made.right, Both)
    assert made.left.input is made.right.left


def test_rewrite_without_a_change_gives_the_same_objects() -> None:
    _, below = shared()
    assert rewrite((below,), lambda node: node)[0] is below


def test_scans_are_given_once_though_they_are_different_objects() -> None:
    assert scans(Both(SCHEMA, scan("a"), scan("a")), scan("b")) == (scan("a"), scan("b"))
