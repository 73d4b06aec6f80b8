"""Functions of the user among the works of a dataflow: below state, above it, and for several sinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.outlets import Target
from penstock.flow.graph.planner import Planner
from penstock.flow.graph.routes import outputs_of
from penstock.flow.rows.calls import FunctionCall, FunctionStage, TaskFunctions
from penstock.plan.nodes import Filter, Job, MapRows, Node, Sink, scans
from penstock.spi import CHANGES, Guarantee, SinkCapabilities, Task
from penstock.sql import parse_condition
from penstock.types import RowKind
from tests.tables import Written
from tests.unit.flow.driver import PASSING, Driver
from tests.unit.flow.test_dataflow import ORDERS, encoded, scan, total

CALLED: list[tuple[Any, ...]] = []
ROWS = [(RowKind.INSERT, (number, "ab"[number % 2], number)) for number in range(6)]


def noted(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same rows, whose calls are counted."""
    for row in rows:
        CALLED.append(row)
        yield row


def run(folder: Path, nodes: list[Node], owners: int) -> list[list[tuple[Any, ...]]]:
    """The rows of a sink for each node."""
    CALLED.clear()
    takes = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)
    sinks = [
        Sink(each.schema, each, f"out{at}", "values", Written(f"out{at}", each.schema, takes))
        for at, each in enumerate(nodes)
    ]
    planner = Planner(scans(*sinks))
    for number, sink in enumerate(sinks):
        planner.add(sink, number)
    outputs = outputs_of(Job("job", tuple(sinks)))
    targets = tuple(Target((at,), PASSING) for at in range(len(sinks)))
    flow = Dataflow(tuple(planner.branches), planner.ordered(), outputs, str(folder), targets)
    driver = Driver(flow)
    driver.run([(0, [encoded(ROWS[:3], ORDERS, 0), encoded(ROWS[3:], ORDERS, 0)])] * owners, owners)
    return [
        [
            tuple(row.values())
            for each in driver.results(at)
            for row in each.select(list(outputs[at].schema.names)).to_pylist()
        ]
        for at in range(len(sinks))
    ]


def where(below: Node, sql: str) -> Filter:
    return Filter(below.schema, below, parse_condition(sql, below.schema))


def test_sinks_share_the_calls_of_a_function(tmp_path: Path) -> None:
    called = MapRows(ORDERS, scan("orders", ORDERS), noted)
    even, odd = run(tmp_path, [where(called, "id % 2 = 0"), where(called, "id % 2 = 1")], 1)
    assert (len(even), len(odd)) == (3, 3)
    assert [row for _, row in ROWS] == CALLED


def test_two_functions_of_a_table_are_called_apart(tmp_path: Path) -> None:
    orders = scan("orders", ORDERS)
    found = run(tmp_path, [MapRows(ORDERS, orders, noted), MapRows(ORDERS, where(orders, "id > 3"), noted)], 1)
    assert [len(each) for each in found] == [6, 2]
    assert len(CALLED) == 8


@pytest.mark.parametrize("owners", [1, 2])
def test_functions_are_called_below_and_above_state(tmp_path: Path, owners: int) -> None:
    below = MapRows(ORDERS, scan("orders", ORDERS), noted)
    grouped = total(below, "customer", "amount")
    (found,) = run(tmp_path, [MapRows(grouped.schema, grouped, noted)], owners)
    assert sorted(found) == [("a", 3 * owners, 6 * owners), ("b", 3 * owners, 9 * owners)]
    assert len(CALLED) == 6 * owners + 2


def test_a_function_above_state_gets_the_rows_of_each_part_of_the_keys(tmp_path: Path) -> None:
    """An owner of many rows does one part of its keys after the other."""
    grouped = total(scan("orders", ORDERS), "id", "amount")
    node = MapRows(grouped.schema, grouped, noted)
    takes = SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE)
    sink = Sink(node.schema, node, "out", "values", Written("out", node.schema, takes))
    planner = Planner(scans(sink))
    planner.add(sink, 0)
    outputs = outputs_of(Job("job", (sink,)))
    driver = Driver(Dataflow(tuple(planner.branches), planner.ordered(), outputs, str(tmp_path)))
    driver.batch = 1  # those with odd numbers have small parts
    given = [encoded([(RowKind.INSERT, (number, "a", 1)) for number in range(5000)], ORDERS, 0)]
    found = driver.run([(0, given), (0, [])], 2)
    rows = [tuple(row.values())[:3] for each in found for row in each.to_pylist()]
    assert sorted(rows) == [(number, 1, 1) for number in range(5000)]


def test_all_functions_are_closed_where_one_raises():
    closed = []

    class Opened:
        def __init__(self, number: int):
            self.number = number

        def __call__(self, columns: Any) -> Any:
            return list(columns), np.arange(len(columns[0]))

        def close(self) -> None:
            closed.append(self.number)
            if self.number == 1:
                raise ValueError("cannot be closed")

    class Function:
        def __init__(self, number: int):
            self.number = number

        def open(self, task: Task) -> Opened:
            return Opened(self.number)

    schema = pa.schema({"a": pa.int64()})
    rows = pa.RecordBatch.from_pydict({"a": [1]}, schema=schema)
    functions = TaskFunctions(Task(0, 1))
    for number in range(3):
        functions.batch(FunctionCall(number, FunctionStage(Function(number), ("a",), schema)), rows)
    with pytest.raises(ValueError, match="cannot be closed"):
        functions.__exit__(None, None, None)
    assert sorted(closed) == [0, 1, 2]
