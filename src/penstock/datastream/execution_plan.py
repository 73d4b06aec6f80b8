"""A program as JSON, in the shape of Flink's execution plans."""

from __future__ import annotations

import json
from typing import Any

from penstock.datastream.connectors.values import ValuesSource
from penstock.datastream.transformations import (
    PartitionStep,
    SideOutput,
    SinkStep,
    SourceStep,
    Steps,
    Transformation,
    UnionStep,
)


def plan_json(sinks: list[SinkStep], parallelism: int) -> str:
    """``nodes`` in the order of the data: id, type, pact, contents, parallelism, and predecessors with the strategy by
    which their values are shipped."""
    nodes: list[dict[str, Any]] = []
    ids: dict[int, int] = {}
    for step in Steps(sinks).order:
        if isinstance(step, UnionStep | PartitionStep | SideOutput):
            continue
        ids[id(step)] = number = len(nodes) + 1
        title = _title(step)
        node: dict[str, Any] = {
            "id": number,
            "type": title,
            "pact": "Data Source" if not step.inputs else "Data Sink" if isinstance(step, SinkStep) else "Operator",
            "contents": step.description or title,
            "parallelism": _parallelism(step, parallelism),
        }
        if step.inputs:
            node["predecessors"] = [
                {"id": ids[id(below)], "ship_strategy": strategy, "side": "second"}
                for below, strategy in _predecessors(step, parallelism)
            ]
        nodes.append(node)
    return json.dumps({"nodes": nodes}, indent=2)


def _title(step: Transformation) -> str:
    if isinstance(step, SourceStep):
        return f"Source: {step.name}"
    if isinstance(step, SinkStep):
        return f"Sink: {step.name or type(step.sink).__name__}"
    return step.name


def _parallelism(step: Transformation, parallelism: int) -> int:
    if isinstance(step, SourceStep) and isinstance(step.source, ValuesSource):
        return 1
    return step.parallelism or parallelism


def _predecessors(step: Transformation, parallelism: int) -> list[tuple[Transformation, str]]:
    """The steps that give the values of a step, through unions and partitionings, and how each ships them."""
    found: list[tuple[Transformation, str]] = []

    def visit(below: Transformation, strategy: str) -> None:
        if isinstance(below, PartitionStep):
            visit(below.inputs[0], strategy or below.strategy)
        elif isinstance(below, UnionStep | SideOutput):
            for each in below.inputs:
                visit(each, strategy)
        else:
            same = _parallelism(below, parallelism) == _parallelism(step, parallelism)
            found.append((below, strategy or ("FORWARD" if same else "REBALANCE")))

    for each in step.inputs:
        visit(each, "")
    return found
