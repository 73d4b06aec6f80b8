"""What an operator may do: emit several batches, into side outputs too, with and without rows, and report."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.hashing import Groups, take_rows
from penstock.flow import operators
from penstock.flow.graph.dataflow import Branch, Dataflow, Edge, Vertex
from penstock.flow.graph.exchange import EdgeId, EdgeKind, Receiver
from penstock.flow.kernels.session import Session
from penstock.flow.operators.changes import ChangelogWriter, Mode
from penstock.flow.operators.contract import Input, OneInputOperator, Operator, OperatorContext, TimeDomain
from penstock.flow.operators.nested import run_nested
from penstock.flow.operators.node_operators import JobFacts, make_operator, node_operators
from penstock.flow.rows.envelope import WEIGHT, hashes_of
from penstock.flow.state.store import StateStore, TableSpec
from penstock.flow.time.watermarks import NEVER, Clock
from penstock.flow.windows.assigning import Chain
from penstock.plan import nodes
from penstock.plan.nodes import Node, Stateful
from penstock.spi import CHANGES, HIDDEN, Guarantee, Output, SinkCapabilities
from penstock.types import BIGINT, Field, RowType
from tests.changelogs import record_batch
from tests.tables import Written, given_rows
from tests.unit.flow.driver import Driver

COLUMNS = RowType((Field("key", BIGINT), Field("number", BIGINT)), nullable=False)
SCHEMA = pa.schema({"key": pa.int64(), "number": pa.int64()})
GIVEN = Input(SCHEMA, ("key",))
LATE = "late"


@dataclass(frozen=True)
class Ascending(OneInputOperator):
    """Gives each row on its own, and as a side output those that are not above all of the batches before."""

    side: bool = True

    @property
    def side_outputs(self) -> Mapping[str, pa.Schema]:
        return {LATE: self.schema} if self.side else {}

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        return (TableSpec("largest", GIVEN.key_schema, GIVEN.value_schema, "keyed"),)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        (batch,) = inputs
        groups = Groups.by_key(hashes_of(batch), batch.select(GIVEN.keys))
        table = context.state.keyed("largest")
        _, stored = table.get(groups)
        before = stored.column(0).fill_null(-1).to_numpy()
        numbers = batch.column("number").to_numpy()
        late = numbers <= before[groups.index]
        rows = batch.select([*SCHEMA.names, WEIGHT])
        for row in np.flatnonzero(~late):
            context.emit(rows.slice(row, 1))
        context.emit(take_rows(rows, np.flatnonzero(late)), LATE)
        context.count_late(int(np.count_nonzero(late)))
        largest = before.copy()
        np.maximum.at(largest, groups.index, numbers)
        table.put(groups, pa.RecordBatch.from_arrays([pa.array(largest)], schema=GIVEN.value_schema), largest >= 0)


@dataclass(frozen=True)
class Ticking(OneInputOperator):
    """Gives the processing time, also without rows, and asks to be woken a second later."""

    @property
    def time_domain(self) -> TimeDomain:
        return TimeDomain.PROCESSING_TIME

    @property
    def times(self) -> tuple[str, ...]:
        return ("",)

    def process(self, inputs: Sequence[pa.RecordBatch], context: OperatorContext) -> None:
        numbers = [len(inputs[0]), context.clock.now]
        context.emit(pa.RecordBatch.from_arrays([*([each] for each in numbers), [1]], names=[*SCHEMA.names, WEIGHT]))
        context.wake_at(context.clock.now + 1000)


def flow_of(operator: Operator, tags: Sequence[str], storage: Path) -> Dataflow:
    """A job whose operator has an output for each of the ``tags``."""
    writers = [ChangelogWriter(f"sink {tag}", SCHEMA, None, Mode.INSERTIONS) for tag in tags]
    edges = [Edge(1 + at, SCHEMA, 1 + at, 0, (), tag=tag) for at, tag in enumerate(tags)]
    vertices = [
        Vertex(0, 1, operator, tuple((None, edge) for edge in edges)),
        *(Vertex(1 + at, 2, writer, output=at) for at, writer in enumerate(writers)),
    ]
    spec = Written("out", COLUMNS, SinkCapabilities(kinds=CHANGES, guarantee=Guarantee.NONE))
    outputs = [Output(at, "out", spec, COLUMNS) for at in range(len(tags))]
    branch = Branch(0, Chain(()), Edge(0, SCHEMA, 0, 0, GIVEN.keys))
    return Dataflow((branch,), tuple(vertices), tuple(outputs), str(storage))


def scanned(*rows: tuple[int, int]) -> pa.RecordBatch:
    columns = [pa.array([row[at] for row in rows], pa.int64()) for at in range(2)]
    hidden = [pa.array([0] * len(rows), pa.int32()), pa.array(range(len(rows)), pa.int64())]
    return pa.RecordBatch.from_arrays([*columns, *hidden], names=[*SCHEMA.names, *HIDDEN.names])


def written(driver: Driver, batch: Sequence[pa.RecordBatch], owners: int = 1) -> list[list[tuple[int, int]]]:
    """The rows of each output after a batch of rows that one task reads."""
    driver.run([(0, batch)], owners)
    return [
        sorted((row["key"], row["number"]) for each in driver.results(number) for row in each.to_pylist())
        for number in range(len(driver.flow.outputs))
    ]


@pytest.mark.parametrize("owners", [1, 3])
def test_edges_take_the_side_output_that_they_name(owners: int, tmp_path: Path) -> None:
    driver = Driver(flow_of(Ascending("rows", (GIVEN,), SCHEMA), ["", LATE, LATE], tmp_path))
    first = written(driver, [scanned((1, 5), (2, 5), (3, 5), (1, 4))], owners)
    assert first == [[(1, 4), (1, 5), (2, 5), (3, 5)], [], []]
    second = written(driver, [scanned((1, 5), (1, 6), (2, 1), (4, 1))], owners)
    assert second == [[(1, 6), (4, 1)], [(1, 5), (2, 1)], [(1, 5), (2, 1)]]


def test_an_edge_cannot_take_a_side_output_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the operator 'rows' has no side output 'late'"):
        flow_of(Ascending("rows", (GIVEN,), SCHEMA, side=False), [LATE], tmp_path)


def test_rows_cannot_be_emitted_into_a_side_output_that_there_is_not() -> None:
    operator = Ascending("rows", (GIVEN,), SCHEMA, side=False)
    context = OperatorContext(StateStore.empty(operator.tables), Clock(NEVER, NEVER), operator.side_outputs)
    with pytest.raises(ValueError, match="no side output 'late'"):
        operator.process([record_batch([((1, -1), 1)], GIVEN)], context)


def test_the_result_of_an_operator_in_another_one_is_one_batch() -> None:
    operator = Ascending("rows", (GIVEN,), SCHEMA)
    changes = [((1, 5), 1), ((2, 5), 1)]
    found = run_nested(operator, [record_batch(changes, GIVEN)], StateStore.empty(operator.tables))
    assert found.to_pylist() == [{"key": key, "number": 5, WEIGHT: 1} for key in (1, 2)]
    nothing = run_nested(operator, [record_batch([], GIVEN)], StateStore.empty(operator.tables))
    assert (len(nothing), nothing.schema.names) == (0, [*SCHEMA.names, WEIGHT])


def test_an_operator_that_depends_on_time_runs_without_rows_and_reports(tmp_path: Path) -> None:
    driver = Driver(flow_of(Ticking("ticks", (GIVEN,), SCHEMA), [""], tmp_path))
    for now in (5_000, 7_000):
        driver.now_ms = now
        rows = [scanned((1, 1))] if now == 5_000 else []
        assert written(driver, rows) == [[(len(rows), now)]]
        (report,) = (json.loads(bytes(each)) for each in Receiver().data(driver.edges[EdgeId(EdgeKind.REPORTS)]))
        assert report == {"uid": "ticks", "late": 0, "watermark": NEVER, "wake": now + 1_000}


def test_late_rows_of_all_parts_are_counted() -> None:
    context = OperatorContext(StateStore.empty(()), Clock(NEVER, NEVER))
    context.count_late(2)
    context.count_late(3)
    assert context.late == 5


def test_a_forgotten_part_of_an_operator_is_an_error() -> None:
    @dataclass(frozen=True)
    class Forgetful(OneInputOperator):
        """Does nothing with its rows."""

    with pytest.raises(TypeError, match="process"):
        Forgetful("rows", (GIVEN,), SCHEMA)  # type: ignore[abstract]


TOY = """
from dataclasses import dataclass

from penstock.flow.operators.contract import Input, OneInputOperator
from penstock.flow.operators.node_operators import NodeOperator
from penstock.flow.rows.envelope import WEIGHT
from penstock.plan.nodes import Step
from penstock.types import arrow_schema


@dataclass(frozen=True)
class Toy(Step):
    keys: tuple[str, ...]

    def own_traits(self, inputs):
        return inputs[0]

    def explain_step(self):
        return ["toys"]

    def find_origin(self, name, lineage):
        return lineage.column(self.input, name)


class ToyOperator(OneInputOperator):
    def process(self, inputs, context):
        context.emit(inputs[0].select([*self.schema.names, WEIGHT]))


def _operator(node, facts):
    schema = arrow_schema(node.schema)
    return ToyOperator(node.uid, (Input(schema, node.keys),), schema)


{registers}
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A node in a module of operators that is nowhere else: it registers as the test says."""
    (tmp_path / "toy.py").write_text(TOY.format(registers=request.param))
    monkeypatch.setattr(operators, "__path__", [*operators.__path__, str(tmp_path)])
    node_operators.cache_clear()
    yield importlib.import_module("penstock.flow.operators.toy").Toy(COLUMNS, given_rows(COLUMNS), ("key",), uid="toys")
    del sys.modules["penstock.flow.operators.toy"]
    node_operators.cache_clear()


@pytest.mark.parametrize("toy", ["TOY = NodeOperator(Toy, _operator)"], indirect=True)
def test_an_operator_is_found_by_the_node_in_its_module(toy: Any, tmp_path: Path) -> None:
    operator = make_operator(toy, JobFacts(Session()))
    driver = Driver(flow_of(operator, [""], tmp_path))
    assert written(driver, [scanned((1, 5), (2, 6))], 2) == [[(1, 5), (2, 6)]]


@pytest.mark.parametrize("toy", [""], indirect=True)
def test_a_node_without_an_operator_is_an_error(toy: Any) -> None:
    with pytest.raises(TypeError, match="the plan node Toy has no operator: add a NodeOperator"):
        make_operator(toy, JobFacts(Session()))


@pytest.mark.parametrize("toy", ["ONE, TWO = NodeOperator(Toy, _operator), NodeOperator(Toy, print)"], indirect=True)
def test_a_node_with_two_operators_is_an_error(toy: Any) -> None:
    with pytest.raises(TypeError, match="there are two operators for the plan node Toy"):
        make_operator(toy, JobFacts(Session()))


def test_every_node_that_keeps_state_has_an_operator() -> None:
    def kinds(of: type[Node]) -> Iterator[type[Node]]:
        for each in of.__subclasses__():
            yield each
            yield from kinds(each)

    known = (each for each in kinds(Stateful) if each.__module__.startswith(nodes.__name__) and not isabstract(each))
    assert set(node_operators()) == set(known)
