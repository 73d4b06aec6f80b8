"""Kinds of nodes are known to their own files, to what computes them, and to what makes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.plan import nodes
from penstock.plan.nodes import Calculation, Node, Scan, Sink, Stateful, Step, TwoInputs

SOURCE = Path(penstock.__file__).parent
#: What every node is, and the ends of every plan.
GENERAL = {each.__name__ for each in (Calculation, Node, Scan, Sink, Stateful, Step, TwoInputs)}
KINDS = {
    name for name in nodes.__all__ if isinstance(each := getattr(nodes, name), type) and issubclass(each, Node)
} - GENERAL
#: The nodes themselves, their operators and works, and the front ends.
ROOMS = ("plan/nodes", "flow/operators", "flow/windows", "flow/rows", "sql", "datastream", "ingest")
#: The rules that put nodes into plans: changes of upserts and last rows, random values that are kept, dead letters,
#: checks of values, windows.
RULES = {
    "plan/planning.py",
    "plan/decided_values.py",
    "plan/dead_letter_sinks.py",
    "plan/enforcing.py",
    "plan/windows.py",
}


def kinds_imported(text: str) -> Iterator[str]:
    """The kinds of nodes that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{nodes.__name__}."):
            yield from (each.name for each in node.names if each.name in KINDS)


def test_no_other_module_knows_a_kind_of_node() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        kinds = sorted(kinds_imported(path.read_text("utf-8")))
        if kinds and not place.startswith(ROOMS) and place not in RULES:
            found[place] = kinds
    assert found == {}


def test_rules_that_make_no_nodes_are_no_exceptions() -> None:
    assert {each for each in RULES if not list(kinds_imported((SOURCE / each).read_text("utf-8")))} == set()


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("from penstock.plan.nodes import Join, Node, project", ["Join"]),
        ("def late():\n    from penstock.plan.nodes.rank import Rank, Ranking", ["Rank"]),
        ("from penstock.plan.nodes import Scan, Sink, JoinKind", []),
    ],
)
def test_imports_of_kinds_are_found(text: str, kinds: list[str]) -> None:
    assert list(kinds_imported(text)) == kinds
