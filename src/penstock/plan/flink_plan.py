"""A job in the sections of Flink's EXPLAIN: the query, the steps with their changelog modes, and the steps as they
share their rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.plan.expressions import conjuncts
from penstock.plan.flink_sql import flink_sql
from penstock.plan.node import Attributes, Calculation, Node, Stateful
from penstock.plan.nodes import Scan, Sink
from penstock.plan.traits import traits
from penstock.plan.walk import fold
from penstock.types import RowKind

_T = TypeVar("_T")

_MODES = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}


def flink_explain(
    written: Sequence[Node], planned: Sequence[Node], details: Collection[str] = (), *, batch: bool = False
) -> str:
    """The text of EXPLAIN for queries as they were ``written`` and as they are ``planned``. With the detail
    JSON_EXECUTION_PLAN the steps come in JSON too. The steps of a ``batch`` have no changelog modes."""
    execution = _Execution.from_roots(planned)
    sections = {
        "Abstract Syntax Tree": [_draw_tree(each, _show_logical) for each in written],
        "Optimized Physical Plan": [
            _draw_tree(each, _show_batch_step if batch else _show_physical) for each in map(_make_step, planned)
        ],
        "Optimized Execution Plan": [_draw_tree(each, execution.show_step) for each in map(_make_step, planned)],
    }
    texts = [f"== {title} ==\n" + "\n\n".join("\n".join(each) for each in found) for title, found in sections.items()]
    if "JSON_EXECUTION_PLAN" in details:
        texts.append("== Physical Execution Plan ==\n" + json.dumps({"nodes": _steps_to_json(planned)}, indent=2))
    return "\n\n".join(texts) + "\n"


# --- trees --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """A step of the plan: ``nodes`` that are one step in Flink, the highest first, or an exchange without any."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    inputs: tuple[_Step, ...]
    node: Node

    @property
    def text(self) -> str:
        """The step without its mode."""
        return f"{self.name}({', '.join(f'{key}=[{value}]' for key, value in self.attributes)})"

    @property
    def ship_strategy(self) -> str:
        """How the rows of the step get to the next one."""
        if self.name != "Exchange":
            return "FORWARD"
        return "GLOBAL" if self.attributes == (("distribution", "single"),) else "HASH"


def _draw_tree(root: _T, shown: Callable[[_T], tuple[str, Sequence[_T]]]) -> list[str]:
    """The lines of a tree, the root first, as Flink draws them."""
    text, inputs = shown(root)
    lines = [text]
    for number, each in enumerate(inputs):
        first, *rest = _draw_tree(each, shown)
        last = number == len(inputs) - 1
        lines += [f"{'+-' if last else ':-'} {first}", *(f"{'   ' if last else ':  '}{line}" for line in rest)]
    return lines


def _show_logical(node: Node) -> tuple[str, Sequence[Node]]:
    attributes = ", ".join(f"{key}=[{value}]" for key, value in (*node.logical_attributes(), *_describe_state(node)))
    return f"Logical{node.logical_name}({attributes})", node.inputs


def _show_physical(step: _Step) -> tuple[str, Sequence[_Step]]:
    kinds = traits(step.node).kinds
    mode = "NONE" if isinstance(step.node, Sink) else ",".join(_MODES[kind] for kind in sorted(kinds))
    return f"{step.text[:-1]}, changelogMode=[{mode}])", step.inputs


def _show_batch_step(step: _Step) -> tuple[str, Sequence[_Step]]:
    return step.text, step.inputs


def _make_step(node: Node) -> _Step:
    """The step that a node is, with those below it."""
    if isinstance(node, Calculation) and node.flink_name == "Calc":
        return _make_calc(node)
    inputs = [_make_step(each) for each in node.inputs]
    if isinstance(node, Stateful):
        inputs = [_make_exchange(each, keys) for each, keys in zip(inputs, node.shuffle_keys, strict=True)]
    return _Step(node.flink_name, (*node.flink_attributes(), *_describe_state(node)), tuple(inputs), node)


def _describe_state(node: Node) -> Attributes:
    """What a step keeps, and its uid."""
    if not isinstance(node, Stateful) or not node.uid:
        return ()
    return (("state", f"{node.uid}: {node.describe_state()}"),)


def _make_exchange(below: _Step, keys: tuple[str, ...]) -> _Step:
    to = f"hash[{', '.join(keys)}]" if keys else "single"
    return _Step("Exchange", (("distribution", to),), (below,), below.node)


def _make_calc(node: Calculation) -> _Step:
    """A projection and the conditions below it as one step."""
    items = [
        name if flink_sql(value) == f"`{name}`" else f"{flink_sql(value)} AS {name}"
        for name, value in (node.computed or {}).items()
    ]
    below: Node = node if node.computed is None else node.input
    conditions = []
    while isinstance(below, Calculation) and below.kept_if is not None:
        conditions += [flink_sql(each) for each in conjuncts(below.kept_if)]
        below = below.input
    attributes = [("select", ", ".join(items or node.schema.names))]
    if conditions:
        attributes.append(("where", " AND ".join(conditions)))
    return _Step("Calc", tuple(attributes), (_make_step(below),), node)


# --- as they share their rows ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Execution:
    """Steps with state whose rows several others read, and which are shown once: ``uses`` counts their readers by
    node, ``known`` has their numbers."""

    uses: Counter[int]
    known: dict[int, int] = field(default_factory=dict)

    @classmethod
    def from_roots(cls, roots: Sequence[Node]) -> _Execution:
        """The steps of these queries, of which none has been shown."""
        uses = Counter[int]()

        def visit(node: Node, _: tuple[None, ...]) -> None:
            uses.update(id(each) for each in node.inputs)

        fold(roots, visit)
        return cls(uses)

    def show_step(self, step: _Step) -> tuple[str, Sequence[_Step]]:
        """A step and what it reads, unless that was shown before."""
        node = id(step.node)
        if not isinstance(step.node, Stateful) or step.name == "Exchange" or self.uses[node] < 2:
            return step.text, step.inputs
        if node in self.known:
            return f"Reused(reference_id=[{self.known[node]}])", ()
        self.known[node] = len(self.known) + 1
        return f"{step.text}(reuse_id=[{self.known[node]}])", step.inputs


def _steps_to_json(roots: Sequence[Node]) -> list[dict[str, Any]]:
    """The steps with their predecessors, as Flink's web interface takes them."""
    found: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}

    def add(step: _Step) -> int:
        if id(step.node) in numbers:
            return numbers[id(step.node)]
        predecessors = []
        for below in step.inputs:
            (source,) = below.inputs if below.name == "Exchange" else (below,)
            predecessors.append({"id": add(source), "ship_strategy": below.ship_strategy})
        kind = {Scan: "Data Source", Sink: "Data Sink"}.get(type(step.node), "Operator")
        numbers[id(step.node)] = len(found) + 1
        made = {"id": len(found) + 1, "type": step.name, "pact": kind, "contents": step.text}
        found.append(made | ({"predecessors": predecessors} if predecessors else {}))
        return numbers[id(step.node)]

    for each in roots:
        add(_make_step(each))
    return found
