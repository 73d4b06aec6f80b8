"""A job in the sections of Flink's EXPLAIN: the query, the steps with their changelog modes, and the steps as they
share their rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.plan.explain import more_arguments, shuffled_by, state_of, step_lines
from penstock.plan.expressions import conjuncts
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import (
    AggregateCall,
    AssignWatermarks,
    Deduplicate,
    Filter,
    GroupAggregate,
    Join,
    Node,
    Normalize,
    OverAggregate,
    Project,
    Scan,
    Sink,
    Sort,
    SortColumn,
    Stateful,
    TemporalSort,
    Union,
    Unnest,
)
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
#: Flink's names of steps, where they are not those of the nodes.
_NAMES: dict[type[Node], str] = {
    AssignWatermarks: "WatermarkAssigner",
    Filter: "Calc",
    Normalize: "ChangelogNormalize",
    Project: "Calc",
    Scan: "TableSourceScan",
    Unnest: "Correlate",
}
_LOGICAL: dict[type[Node], str] = {
    AssignWatermarks: "WatermarkAssigner",
    GroupAggregate: "Aggregate",
    Scan: "TableScan",
    Unnest: "Correlate",
}


def flink_explain(written: Sequence[Node], planned: Sequence[Node], details: Collection[str] = ()) -> str:
    """The text of EXPLAIN for queries as they were ``written`` and as they are ``planned``. With the detail
    JSON_EXECUTION_PLAN the steps come in JSON too."""
    execution = _Execution.from_roots(planned)
    sections = {
        "Abstract Syntax Tree": [_tree(each, _logical) for each in written],
        "Optimized Physical Plan": [_tree(each, _physical) for each in map(_step, planned)],
        "Optimized Execution Plan": [_tree(each, execution.show_step) for each in map(_step, planned)],
    }
    texts = [f"== {title} ==\n" + "\n\n".join("\n".join(each) for each in found) for title, found in sections.items()]
    if "JSON_EXECUTION_PLAN" in details:
        texts.append("== Physical Execution Plan ==\n" + json.dumps({"nodes": _json(planned)}, indent=2))
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


def _tree(root: _T, shown: Callable[[_T], tuple[str, Sequence[_T]]]) -> list[str]:
    """The lines of a tree, the root first, as Flink draws them."""
    text, inputs = shown(root)
    lines = [text]
    for number, each in enumerate(inputs):
        first, *rest = _tree(each, shown)
        last = number == len(inputs) - 1
        lines += [f"{'+-' if last else ':-'} {first}", *(f"{'   ' if last else ':  '}{line}" for line in rest)]
    return lines


def _logical(node: Node) -> tuple[str, Sequence[Node]]:
    attributes = ", ".join(f"{key}=[{value}]" for key, value in _attributes(node))
    if isinstance(node, Project):
        attributes = ", ".join(f"{each.name}=[{flink_sql(each.expression)}]" for each in node.items)
    if isinstance(node, Filter):
        attributes = f"condition=[{flink_sql(node.condition)}]"
    name = _LOGICAL.get(type(node), type(node).__name__)
    return f"Logical{name}({attributes})", node.inputs


def _physical(step: _Step) -> tuple[str, Sequence[_Step]]:
    kinds = traits(step.node).kinds
    mode = "NONE" if isinstance(step.node, Sink) else ",".join(_MODES[kind] for kind in sorted(kinds))
    return f"{step.text[:-1]}, changelogMode=[{mode}])", step.inputs


def _step(node: Node) -> _Step:
    """The step that a node is, with those below it."""
    if isinstance(node, Project | Filter):
        return _calc(node)
    inputs = [_step(each) for each in node.inputs]
    if isinstance(node, Stateful):
        inputs = [_exchange(each, keys) for each, keys in zip(inputs, shuffled_by(node), strict=True)]
    return _Step(_NAMES.get(type(node), type(node).__name__), _attributes(node), tuple(inputs), node)


def _exchange(below: _Step, keys: tuple[str, ...]) -> _Step:
    to = f"hash[{', '.join(keys)}]" if keys else "single"
    return _Step("Exchange", (("distribution", to),), (below,), below.node)


def _calc(node: Project | Filter) -> _Step:
    """A projection and the conditions below it as one step."""
    items = [
        each.name if flink_sql(each.expression) == f"`{each.name}`" else f"{flink_sql(each.expression)} AS {each.name}"
        for each in (node.items if isinstance(node, Project) else ())
    ]
    below: Node = node.input if isinstance(node, Project) else node
    conditions = []
    while isinstance(below, Filter):
        conditions += [flink_sql(each) for each in conjuncts(below.condition)]
        below = below.input
    attributes = [("select", ", ".join(items or node.schema.names))]
    if conditions:
        attributes.append(("where", " AND ".join(conditions)))
    return _Step("Calc", tuple(attributes), (_step(below),), node)


# --- attributes ---------------------------------------------------------------------------------------------------


def _attributes(node: Node) -> tuple[tuple[str, str], ...]:
    """What a step says about itself, under Flink's names where it has them."""
    fields = ("fields", ", ".join(node.schema.names))
    match node:
        case Scan(table=table):
            return ("table", f"[{table}]"), fields
        case Sink(table=table):
            return ("table", table), fields
        case AssignWatermarks(column=column, watermark=watermark):
            return ("rowtime", column), ("watermark", flink_sql(watermark))
        case Union():
            return ("all", "true"), ("union", ", ".join(node.schema.names))
    return (*_stateful(node), *((("state", _kept(node)),) if isinstance(node, Stateful) and node.uid else ()))


def _stateful(node: Node) -> tuple[tuple[str, str], ...]:
    match node:
        case GroupAggregate(keys=keys, calls=calls):
            select = ", ".join((*keys, *(f"{_call(each)} AS {each.name}" for each in calls)))
            return (*((("groupBy", ", ".join(keys)),) if keys else ()), ("select", select))
        case Join(kind=kind, left_keys=left, right_keys=right):
            pairs = " AND ".join(f"{a} = {b}" for a, b in zip(left, right, strict=True)) or "true"
            specs = ("leftInputSpec", _spec(node.left, left)), ("rightInputSpec", _spec(node.right, right))
            return ("joinType", kind.value), ("where", pairs), ("select", ", ".join(node.schema.names)), *specs
        case OverAggregate(keys=keys, order=columns, calls=calls, frame=frame):
            by = ["PROCTIME ASC"] if node.processing else [f"{node.time} ASC"] if node.time else []
            order = ", ".join([*by, *map(_sort, columns)])
            select = ", ".join((*node.input.schema.names, *(f"{_call(each)} AS {each.name}" for each in calls)))
            partition = (("partitionBy", ", ".join(keys)),) if keys else ()
            window = ("window", f" {frame.describe()}")
            return *partition, *((("orderBy", order),) if order else ()), window, ("select", select)
        case Normalize(keys=keys):
            return (("key", ", ".join(keys)),)
        case TemporalSort(time=event_time, order=columns):
            by = [f"{event_time} ASC"] if event_time else ["PROCTIME"]
            return (("orderBy", ", ".join([*by, *map(_sort, columns)])),)
        case Sort(order=columns):
            return (("orderBy", ", ".join(map(_sort, columns))),)
        case Deduplicate(keys=keys, order=order, last=last):
            time = "ROWTIME" if order else "PROCTIME"
            keep = "LastRow" if last else "FirstRow"
            return ("keep", keep), ("key", ", ".join(keys)), ("order", time)
    return (("step", "; ".join(line.strip() for line in step_lines(node))),)


def _sort(column: SortColumn) -> str:
    text = f"{column.name} {'DESC' if column.descending else 'ASC'}"
    return (
        text if column.nulls_first != column.descending else f"{text} NULLS {'FIRST' if column.nulls_first else 'LAST'}"
    )


def _kept(node: Node) -> str:
    return f"{node.uid}: {state_of(node)}"


def _spec(side: Node, keys: tuple[str, ...]) -> str:
    """What is known of the keys of one side of a join."""
    unique = traits(side).upsert_keys
    if any(set(key) <= set(keys) for key in unique):
        return "JoinKeyContainsUniqueKey"
    return "HasUniqueKey" if unique else "NoUniqueKey"


def _call(call: AggregateCall) -> str:
    condition = f" FILTER {call.filter}" if call.filter else ""
    argument = f"{call.argument or '*'}{more_arguments(call)}"
    return f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument}){condition}"


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


def _json(roots: Sequence[Node]) -> list[dict[str, Any]]:
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
        add(_step(each))
    return found
