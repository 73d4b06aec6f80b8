"""Jobs whose reading tasks compute and write all rows, and which jobs these are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import SchemaError, UnsupportedError
from penstock.flow.graph.dataflow import BatchInstructions, Dataflow
from penstock.flow.graph.exchange import EdgeId, EdgeKind, Receiver
from penstock.flow.graph.outlets import Target
from penstock.flow.graph.routes import describe_route, plan_reading
from penstock.flow.kernels.session import UNKNOWN as SESSION
from penstock.plan.nodes import (
    AssignWatermarks,
    DeadLetters,
    Filter,
    Job,
    MapRows,
    Project,
    Scan,
    Sink,
    Union,
    row_of,
    scans,
)
from penstock.spi import DEAD_LETTER, HIDDEN, KIND, Task, WriterFactory, pickle_text
from penstock.sql import parse_condition, parse_projection
from penstock.types import parse_columns
from tests.tables import FINITE, TAKES_ALL, Read, Written
from tests.unit.flow.driver import PASSING, Passing, by_edge

ROW = parse_columns("id BIGINT, name STRING, at TIMESTAMP(3)")
READ = FINITE
SCAN = Scan(ROW, "orders", "memory", Read("orders", READ))
LETTERS = parse_columns("`value` BYTES")
LETTER = pa.struct({"value": pa.binary()})


def where(sql, below=SCAN):
    return Filter(below.schema, below, parse_condition(sql, below.schema))


def select(sql, below=SCAN):
    items = parse_projection(sql, below.schema)
    return Project(row_of(items), below, items)


def sink(node, columns="", table="copies"):
    schema = parse_columns(columns) if columns else node.schema
    return Sink(schema, node, table, "memory", Written(table, schema, TAKES_ALL))


def rows(letters=(None, None, None), names=("a", "b", "c")) -> pa.RecordBatch:
    given = {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": pa.array(names),
        "at": pa.array([0, 1, 2], pa.timestamp("us")),
        HIDDEN.names[0]: pa.array([7] * 3, pa.int32()),
        HIDDEN.names[1]: pa.array([100, 101, 102], pa.int64()),
        KIND: pa.array([0, 2, 3], pa.int8()),
    }
    if any(letters):
        given[DEAD_LETTER] = pa.array(letters, LETTER)
    return pa.RecordBatch.from_pydict(given)


def planned(sinks) -> Dataflow | None:
    job = Job("job", tuple(sinks))
    return plan_reading(job, scans(*job.sinks), SESSION)


def taken(sinks, *batches: pa.RecordBatch) -> list[list[tuple[object, ...]]]:
    """The rows that each sink takes from batches that pickled tasks read, with their offsets and kinds."""
    flow = planned(sinks)
    assert flow is not None
    flow = replace(flow, targets=tuple(Target((number,), PASSING) for number in range(len(sinks))))
    task = Task(0, 1, pickle_text(BatchInstructions("", 1, 1, False, writers=(None,) * len(sinks))))
    sent = list(pickle.loads(pickle.dumps(flow.stage(0))).run(task, iter(batches)))
    edges = by_edge(sent)
    result = []
    for number, each in enumerate(sinks):
        edge = EdgeId(EdgeKind.ENCODED, number)
        made = Receiver().batches(edges[edge]) if edge in edges else ()
        names = [*each.schema.names, HIDDEN.names[1], KIND]
        result.append([tuple(row[name] for name in names) for rows in made for row in rows.to_pylist()])
    return result


def test_rows_of_one_sink_are_filtered_computed_and_cast():
    node = select("name, id * 2 AS twice", where("id > 1"))
    assert taken((sink(node, "title VARCHAR(9), twice STRING"),), rows()) == [[("b", "4", 101, 2), ("c", "6", 102, 3)]]


def test_columns_that_are_only_picked_are_the_scan_s_own():
    flow = planned((sink(select("name AS a, id AS b, name AS c")),))
    assert flow is not None
    (branch,) = flow.branches
    given = rows()
    made = branch.calc.batch(given)
    assert [made.column(i).buffers()[1].address for i in range(3)] == [
        given.column(name).buffers()[1].address for name in ("name", "id", "name")
    ]


def test_sinks_that_take_the_same_rows_have_columns_of_their_own():
    below = where("id <> 2")
    sinks = (sink(select("id", below)), sink(select("name, id + 1 AS id", below), table="names"))
    assert taken(sinks, rows()) == [[(1, 100, 0), (3, 102, 3)], [("a", 2, 100, 0), ("c", 4, 102, 3)]]


def test_sinks_may_filter_differently():
    sinks = (
        sink(select("id", where("id <> 2"))),
        sink(select("name", where("id > 1")), table="names"),
        sink(SCAN, table="all"),
    )
    assert [[row[:-2] for row in each][:2] for each in taken(sinks, rows(), rows())[:2]] == [
        [(1,), (3,)],
        [("b",), ("c",)],
    ]
    assert [len(each) for each in taken(sinks, rows(), rows())] == [4, 4, 6]


def test_many_sinks_take_the_rows_of_several_batches_at_once():
    sinks = tuple(sink(select("id", where(f"id = {number}")), table=f"t{number}") for number in range(100))
    flow = planned(sinks)
    assert flow is not None

    class Counting(Passing):
        def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            written.append((output, rows.num_rows))
            yield rows

    written: list[tuple[int, int]] = []
    flow = replace(flow, targets=(Target(tuple(range(100)), WriterFactory(Counting, pa.schema([]))),))
    instructions = BatchInstructions("", 1, 1, False, writers=(None,))
    sent = list(flow.read(flow.readings[0], instructions, Task(0, 1), [rows(), rows()]))
    assert written == [(1, 2), (2, 2), (3, 2)]
    assert len([rows for each in sent for rows in Receiver().batches(each)]) == 3


@pytest.mark.parametrize("apart", [False, True])
def test_dead_letters_go_to_their_sink_and_to_no_other(apart):
    letters = sink(DeadLetters(LETTERS, SCAN), "`value` BYTES", "letters")
    sinks = [sink(select("CAST(name AS INT) AS n", where("id > 0"))), letters]
    if apart:
        sinks.append(sink(select("id", where("id > 2")), table="ids"))
    given = rows((None, {"value": b"x"}, None), ("1", "not a number", "3"))
    found = taken(tuple(sinks), given)
    assert found[:2] == [[(1, 100, 0), (3, 102, 3)], [(b"x", 101, 0)]]
    assert found[2:] == ([[(3, 102, 3)]] if apart else [])


def twice(given):
    for number, name, _ in given:
        if number != 2:
            yield (name, number)
            yield (name, -number)


PAIR = parse_columns("name STRING, number BIGINT")


def test_functions_are_called_between_expressions():
    called = MapRows(PAIR, where("id > 0"), twice)
    below = where("number > -3", called)
    assert taken((sink(select("number, name AS title", below)),), rows(), rows()) == [
        [(1, "a", 100, 0), (-1, "a", 100, 0), (3, "c", 102, 3)] * 2
    ]


def test_functions_see_no_dead_letters():
    letters = sink(DeadLetters(LETTERS, SCAN), "`value` BYTES", "letters")
    given = rows((None, None, {"value": b"x"}))
    assert taken((sink(MapRows(PAIR, SCAN, twice)), letters), given) == [
        [("a", 1, 100, 0), ("a", -1, 100, 0)],
        [(b"x", 102, 0)],
    ]


def test_a_job_may_keep_dead_letters_only():
    letters = sink(DeadLetters(LETTERS, SCAN), "`value` BYTES", "letters")
    assert taken((letters,), rows(({"value": b"x"}, None, None))) == [[(b"x", 100, 0)]]


TIME = parse_projection("at", ROW)[0].expression


@pytest.mark.parametrize(
    ("sinks", "whole"),
    [
        ((sink(SCAN),), True),
        ((sink(AssignWatermarks(ROW, SCAN, "at", TIME)),), True),
        ((sink(MapRows(ROW, SCAN, iter)),), True),
        ((sink(MapRows(ROW, AssignWatermarks(ROW, SCAN, "at", TIME), iter)),), True),
        ((sink(MapRows(ROW, SCAN, iter)), sink(MapRows(ROW, SCAN, list))), True),
        ((sink(MapRows(ROW, Union(ROW, (SCAN, SCAN)), iter)),), False),
        ((sink(Union(ROW, (SCAN, SCAN))),), False),
        ((sink(SCAN), sink(replace(SCAN, table="others"))), False),
    ],
)
def test_reading_tasks_do_everything_for_one_source_without_state(sinks, whole):
    assert (planned(sinks) is not None) == whole


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (SCAN, "rows are computed where they are read"),
        (Union(ROW, (SCAN, SCAN)), "rows are computed where they are read"),
    ],
)
def test_who_computes_the_rows_of_a_job_is_named(node, line):
    assert describe_route(Job("job", (sink(node),))) == line


UNKNOWN = "REGEXP(name, '\\X') AS u"


@pytest.mark.parametrize(
    "sinks",
    [
        (sink(select(UNKNOWN)),),
        (sink(MapRows(ROW, select(UNKNOWN), iter)),),
        (sink(MapRows(ROW, SCAN, iter)), sink(MapRows(ROW, select(UNKNOWN), list))),
        (sink(select(UNKNOWN)), sink(replace(SCAN, table="others"))),
        (sink(Union(select(UNKNOWN).schema, (select(UNKNOWN),))),),
    ],
)
def test_what_has_no_kernel_is_refused_before_the_job_starts(sinks):
    with pytest.raises(UnsupportedError, match=r"line 1, column 1: REGEXP\(STRING, '\\X'\) is not supported"):
        describe_route(Job("job", sinks))


def test_a_sink_is_given_as_many_columns_as_it_has():
    with pytest.raises(SchemaError, match="has 1 columns but is given 3"):
        planned((sink(SCAN, "id BIGINT"),))
    with pytest.raises(SchemaError, match="has 1 columns but is given 3"):
        describe_route(Job("job", (sink(SCAN), sink(Union(ROW, (SCAN, SCAN)), "id BIGINT"))))
