"""Filters and projections of a plan on Arrow batches, with the columns that go along."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.errors import RecordError, UnsupportedError
from penstock.flow.kernels.session import UNKNOWN, Session
from penstock.flow.rows.calc import Calc, calc_of
from penstock.plan.nodes import AssignWatermarks, Filter, Project, Scan, row_of
from penstock.spi import HIDDEN, KIND
from penstock.sql import parse_condition, parse_projection
from penstock.types import BIGINT, STRING, arrow_schema, parse_columns
from tests.tables import FINITE, Read

ROW = parse_columns("id BIGINT, name STRING, price INT")
SCAN = Scan(ROW, "orders", "memory", Read("orders"))
LETTER = pa.struct({"value": pa.binary()})


def where(node, sql):
    return Filter(node.schema, node, parse_condition(sql, node.schema))


def select(node, sql):
    items = parse_projection(sql, node.schema)
    return Project(row_of(items), node, items)


def made(node, session=UNKNOWN) -> Calc:
    found = calc_of(node, session)
    assert isinstance(found, Calc), found
    return found


def rows(ids=(1, 2, 3), names=("a", "b", None), prices=(10, None, 30), **more) -> pa.RecordBatch:
    """A batch as reading tasks make it: of partition 7, from offset 100 on."""
    given = {"id": pa.array(ids, pa.int64()), "name": pa.array(names), "price": pa.array(prices, pa.int32())}
    place = [pa.array([7] * len(ids), pa.int32()), pa.array(range(100, 100 + len(ids)), pa.int64())]
    return pa.RecordBatch.from_pydict({**given, **dict(zip(HIDDEN.names, place, strict=True)), **more})


def test_a_chain_is_computed_and_other_columns_go_along():
    node = where(
        select(where(SCAN, "price > 5 OR name = 'b'"), "name, price + 1 AS more, id"), "more IS NULL OR id > 1"
    )
    kinds = pa.array([0, 1, None], pa.int8())
    found = made(node).batch(rows(**{KIND: kinds}))
    assert found.schema.names == ["name", "more", "id", *HIDDEN.names, KIND]
    assert found.to_pylist() == [
        {"name": "b", "more": None, "id": 2, HIDDEN.names[0]: 7, HIDDEN.names[1]: 101, KIND: 1},
        {"name": None, "more": 31, "id": 3, HIDDEN.names[0]: 7, HIDDEN.names[1]: 102, KIND: None},
    ]
    assert found.schema.types[:3] == arrow_schema(node.schema).types


def test_a_pickled_calc_does_the_same():
    calc = pickle.loads(pickle.dumps(made(where(SCAN, "id = 2"))))
    found = [calc.batch(each) for each in (rows(), rows(ids=(4, 5, 6)), rows(ids=(2, 2, 2)))]
    assert [each.column("id").to_pylist() for each in found] == [[2], [], [2, 2, 2]]


def test_columns_that_are_only_picked_are_not_copied():
    given = rows()
    found = made(select(SCAN, "price, id AS key")).batch(given)
    assert found.schema.names[:2] == ["price", "key"]
    assert found.column("key").buffers()[1].address == given.column("id").buffers()[1].address


def test_columns_are_cast_from_the_types_that_tasks_read():
    row = parse_columns("id INT, name STRING")
    scan = Scan(row, "orders", "memory", Read("orders", replace(FINITE, native=(("id", BIGINT), ("name", STRING)))))
    found = made(where(scan, "id > 1")).batch(rows())
    assert (found.column("id").type, found.column("id").to_pylist()) == (pa.int32(), [2, 3])
    with pytest.raises(RecordError, match="3000000000 of type BIGINT is beyond the range of INT"):
        made(scan, Session(strict=True)).batch(rows(ids=(1, 2, 3_000_000_000)))


def test_event_time_changes_nothing():
    assert (
        made(AssignWatermarks(ROW, SCAN, "id", parse_projection("id", ROW)[0].expression)).batch(rows()).num_rows == 3
    )


def test_an_error_has_the_place_of_its_record():
    calc = made(select(where(SCAN, "id <> 1"), "CAST(name AS INT) AS n"))
    with pytest.raises(RecordError) as caught:
        calc.batch(rows(names=("a", "2", "c")))
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("", 7, 102)
    assert error.reason == "[CAST_INVALID_INPUT] 'c' of type STRING is not a value of type INT"
    with pytest.raises(RecordError) as caught:
        made(where(SCAN, "CAST(name AS INT) > 1")).batch(rows().drop_columns(list(HIDDEN.names)))
    assert (caught.value.partition, caught.value.offset) == (-1, -1)


def test_what_filters_leave_out_does_not_fail():
    node = where(select(SCAN, "id, CAST(name AS INT) AS n"), "id < 1")
    assert made(node).batch(rows(names=("x", "y", "z"))).num_rows == 0


def test_a_plan_without_kernels_says_which_it_lacks():
    with pytest.raises(UnsupportedError, match=r"line 1, column 5: REGEXP\(STRING, '\\X'\) is not supported"):
        calc_of(select(where(SCAN, "id > 1"), "id, REGEXP(name, '\\X') AS u"))


def test_a_batch_may_have_no_rows():
    empty = rows(ids=(), names=(), prices=())
    assert made(select(where(SCAN, "id > 1"), "price * 2 AS p")).batch(empty).column("p").type == pa.int32()
