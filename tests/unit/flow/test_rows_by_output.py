"""Rows that are divided among many takers in one pass: each gets the rows of its own condition, computed."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.errors import RecordError
from penstock.flow.rows.calc import Calc, calc_of
from penstock.flow.rows.rows_by_output import divide_rows
from penstock.plan.nodes import Filter, Project, Scan, row_of
from penstock.spi import HIDDEN
from penstock.sql import parse_condition, parse_projection
from penstock.types import parse_columns
from tests.tables import Read

ROW = parse_columns("id BIGINT, kind STRING, small TINYINT, day DATE, sure BOOLEAN, price DOUBLE, text STRING")
SCAN = Scan(ROW, "orders", "memory", Read("orders"))
DAYS = pa.array([19_000, 19_001, None] * 20, pa.int32()).cast(pa.date32())
ROWS = pa.RecordBatch.from_pydict(
    {
        "id": pa.array(range(60), pa.int64()),
        "kind": pa.array(["a", "b", None, "", "a", "c"] * 10),
        "small": pa.array([1, 2, 3, None, -1] * 12, pa.int8()),
        "day": DAYS,
        "sure": pa.array([True, False, None, True] * 15),
        "price": pa.array([0.5, None, -0.0] * 20),
        "text": pa.array(["1", "x"] * 30),
        HIDDEN.names[0]: pa.array([7] * 60, pa.int32()),
        HIDDEN.names[1]: pa.array(range(100, 160), pa.int64()),
    }
)


def calc(where: str, select: str = "id, kind") -> Calc:
    rows = Filter(ROW, SCAN, parse_condition(where, ROW))
    items = parse_projection(select, ROW)
    found = calc_of(Project(row_of(items), rows, items))
    assert isinstance(found, Calc), found
    return found


def divided(*calcs: Calc) -> tuple[dict[int, list[dict[str, object]]], set[int]]:
    """The rows of those who have any, and who is in a division at all."""
    divisions = pickle.loads(pickle.dumps(divide_rows(dict(enumerate(calcs)))))
    takers = [taker for each in divisions for takers in each.takers for taker in takers]
    found: dict[int, list[dict[str, object]]] = {}
    for division in divisions:
        for taker, rows in division.divide(ROWS):
            found.setdefault(taker, []).extend(rows.to_pylist())
    return found, set(takers)


@pytest.mark.parametrize(
    "conditions",
    [
        ["kind = 'a'", "kind = 'b'", "'c' = kind", "kind = ''", "kind = 'never'"],
        ["id % 7 = 0", "id % 7 = 1", "id % 7 = 2", "id % 7 = 9"],
        ["small = 1", "small = -1", "small = 300", "small = 2"],
        ["day = DATE '2022-01-08'", "day = DATE '2022-01-09'", "day = DATE '1970-01-01'"],
        ["kind IN ('a', 'b')", "kind IN ('c', 'd')", "kind = 'x'"],
        ["id % 3 = 0 AND price > 0", "id % 3 = 1 AND sure", "id % 3 = 2 AND kind = 'a' AND small > 0"],
        ["price > 0", "price > 0", "id > 50", "id > 50"],
        ["kind = 'a'", "kind = 'a'", "kind = 'b'"],
        ["sure = TRUE", "sure = FALSE", "sure = TRUE"],
        ["CHAR_LENGTH(kind) = 1", "CHAR_LENGTH(kind) = 0", "CHAR_LENGTH(kind) = 2"],
    ],
)
@pytest.mark.parametrize("select", ["id, kind", "UPPER(kind) AS kind, id + 1 AS id, id AS old"])
def test_each_taker_gets_what_it_would_filter_for_itself(conditions, select):
    calcs = [calc(each, select) for each in conditions]
    found, takers = divided(*calcs)
    assert takers == set(range(len(conditions)))
    expected = {number: each.batch(ROWS).to_pylist() for number, each in enumerate(calcs)}
    assert found == {number: rows for number, rows in expected.items() if rows}
    assert found


def test_takers_of_one_value_may_compute_different_columns():
    calcs = [calc("kind = 'a'", "id"), calc("kind = 'b'", "id"), calc("kind = 'c'", "id")]
    calcs += [calc("kind = 'a'", "kind"), calc("kind = 'b'", "kind"), calc("kind = 'c'", "id + 1 AS id")]
    found, takers = divided(*calcs)
    assert takers == set(range(6))
    assert found == {number: each.batch(ROWS).to_pylist() for number, each in enumerate(calcs)}


@pytest.mark.parametrize(
    "conditions",
    [
        ["id > 1", "id > 2", "id > 3"],
        ["kind = 'a'", "kind = 'b'"],  # two filters are as fast
        ["price = 0", "price = 1", "price = 2"],  # -0.0 is 0.0
        ["RAND() > 0.5", "RAND() > 0.5", "RAND() > 0.5"],
        ["kind = text", "kind = text || 'a'", "kind = text || 'b'"],
        ["id = NULL", "id = CAST(NULL AS BIGINT)", "id = 1"],
    ],
)
def test_others_filter_for_themselves(conditions):
    assert divide_rows({number: calc(each) for number, each in enumerate(conditions)}) == ()


def test_random_values_are_computed_for_each_taker():
    """Takers of one value filter for themselves, and those of several share the division only."""
    assert divide_rows({number: calc("kind = 'a'", "RAND() AS number") for number in range(3)}) == ()
    (division,) = divide_rows(
        {number: calc(f"kind = '{each}'", "RAND() AS number") for number, each in enumerate("abc")}
    )
    assert len({id(each) for each in division.calcs}) == 3
    assert {taker for taker, _ in division.divide(ROWS)} == {0, 1, 2}


def test_a_condition_that_fails_names_the_row():
    calcs = [calc(f"CAST(text AS INT) = {number}") for number in range(4)]
    (division,) = divide_rows(dict(enumerate(calcs)))
    with pytest.raises(RecordError) as raised:
        list(division.divide(ROWS))
    with pytest.raises(RecordError) as alone:
        calcs[0].batch(ROWS)
    assert (raised.value.partition, raised.value.offset) == (alone.value.partition, alone.value.offset) == (7, 101)
    assert str(raised.value) == str(alone.value)


def test_a_column_that_fails_names_the_row_and_only_rows_that_somebody_takes_are_computed():
    calcs = [calc(f"id = {number}", "CAST(text AS INT) AS number") for number in (0, 2, 4)]
    found, _ = divided(*calcs)
    assert found == {number: each.batch(ROWS).to_pylist() for number, each in enumerate(calcs)}
    (division,) = divide_rows({number: calc(f"id = {number}", "CAST(text AS INT) AS number") for number in (0, 2, 3)})
    with pytest.raises(RecordError) as raised:
        list(division.divide(ROWS))
    assert (raised.value.partition, raised.value.offset) == (7, 103)
