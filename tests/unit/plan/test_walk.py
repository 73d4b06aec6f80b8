"""Traversal of plans: each node once, inputs first, and what is shared stays shared."""

from __future__ import annotations

from penstock.plan.expressions import Literal
from penstock.plan.nodes import Filter, Node, Scan, SetKind, SetOperation, scans
from penstock.plan.walk import fold, rewrite
from penstock.types import BIGINT, BOOLEAN, Field, RowType

SCHEMA = RowType((Field("n", BIGINT),))
TRUE = Literal(True, type=BOOLEAN)


def both(left: Node, right: Node) -> SetOperation:
    """A node with two inputs."""
    return SetOperation(SCHEMA, left, right, SetKind.SEMI)


def scan(table: str) -> Scan:
    return Scan(SCHEMA, table, "values", None)


def shared() -> tuple[SetOperation, Filter]:
    """Two branches of one filter meet."""
    below = Filter(SCHEMA, scan("a"), TRUE)
    return both(Filter(SCHEMA, below, TRUE), both(below, scan("b"))), below


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
    assert isinstance(made.right, SetOperation)
    assert made.left.input is made.right.left


def test_rewrite_without_a_change_gives_the_same_objects() -> None:
    _, below = shared()
    assert rewrite((below,), lambda node: node)[0] is below


def test_scans_are_given_once_though_they_are_different_objects() -> None:
    assert scans(both(scan("a"), scan("a")), scan("b")) == (scan("a"), scan("b"))
