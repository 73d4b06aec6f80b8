"""The comparison of ``make capture`` notices what it is there for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pytest

from tests.capture.column_types import TYPES, literal
from tests.capture.comparison import Content, compare_copy, compare_origin, is_equal
from tests.capture.workload import Column, Row, Table, Value, Workload

#: A table whose column ``old`` was renamed to ``new`` after its first row was written, which has ``amount`` too.
TABLE = Table(
    "one_0",
    {"id": "integer"},
    [Column(1, "amount", "numeric(14,4)"), Column(2, "new", "timestamp")],
    {
        (1,): Row(
            {1: Value(Decimal("1.50"), "numeric(10,2)"), 2: Value(datetime(2026, 1, 2, 3), "timestamp")},
            {"amount": Value(Decimal("1.50"), "numeric(10,2)"), "old": Value(datetime(2026, 1, 2, 3), "timestamp")},
        ),
        (2,): Row(
            {1: Value(None, "numeric(14,4)"), 2: Value(datetime(2026, 5, 6), "timestamp")},
            {"amount": Value(None, "numeric(14,4)"), "new": Value(datetime(2026, 5, 6), "timestamp")},
        ),
    },
    {"old": "timestamp"},
)
COPY = Content(
    ("id", "amount", "old", "new"),
    (("1", "1.5", "2026-01-02T03:00:00Z", None), ("2", None, None, "2026-05-06 00:00:00")),
)
ORIGIN = Content(("id", "amount", "new"), (("1", "1.5000", "2026-01-02 03:00:00"), ("2", None, "2026-05-06 00:00:00")))


def test_a_copy_has_what_rows_had_when_they_were_written():
    assert compare_copy(TABLE, COPY) == []
    assert compare_origin(TABLE, ORIGIN) == []


def change(row: int, column: int, text: str | None) -> Content:
    rows = [list(each) for each in COPY.rows]
    rows[row][column] = text
    return replace(COPY, rows=tuple(map(tuple, rows)))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (replace(COPY, rows=COPY.rows[:1]), "(2,): no such row"),
        (replace(COPY, rows=(*COPY.rows, COPY.rows[0])), "(1,): there twice"),
        (replace(COPY, rows=(*COPY.rows, ("3", None, None, None))), "(3,): a row that there should not be"),
        (change(0, 1, "1.51"), "amount is '1.51', not Decimal('1.50')"),
        (change(0, 1, None), "amount is None"),
        (change(0, 1, "x"), "amount is 'x'"),
        (change(0, 2, None), "old is None"),
        (change(0, 3, "2026-01-02 03:00:00"), "new is '2026-01-02 03:00:00', not None"),
        (change(1, 2, "2026-05-06 00:00:00"), "old is '2026-05-06 00:00:00', not None"),
        (change(1, 3, "2026-05-06 00:00:00.001"), "new is"),
        (replace(COPY, names=("id", "amount", "old", "other")), "a column other that there never was"),
        (Content(("id", "amount"), tuple(each[:2] for each in COPY.rows)), "old is None"),
        (Content(("amount",), ()), "no columns id of the key"),
    ],
)
def test_every_difference_of_a_copy_is_told(found: Content, told: str):
    differences = compare_copy(TABLE, found)
    assert any(told in each for each in differences), differences


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (replace(ORIGIN, rows=ORIGIN.rows[1:]), "(1,): no such row"),
        (replace(ORIGIN, rows=(("1", "1.5000", None), ORIGIN.rows[1])), "new is None"),
        (COPY, "a column old that there never was"),
    ],
)
def test_every_difference_of_the_origin_is_told(found: Content, told: str):
    differences = compare_origin(TABLE, found)
    assert any(told in each for each in differences), differences


def test_a_workload_is_the_same_for_a_seed_and_has_changes_of_every_kind():
    first, second = Workload(7, 3000), Workload(7, 3000)
    texts = [(each.begin(), *each.transactions()) for each in (first, second)]
    assert texts[0] == texts[1]
    assert texts[0] != (Workload(8, 3000).begin(),)
    kinds = {"inserted", "updated", "moved", "deleted", "added", "widened", "dropped", "renamed", "tables"}
    assert kinds <= set(first.done), first.done
    assert sum(each.changes for each in texts[0][1:]) == 3000


@pytest.mark.parametrize("name", TYPES)
def test_values_are_what_is_read_from_their_texts(name: str):
    from random import Random

    random = Random(1)
    for _ in range(50):
        value = TYPES[name].make(random)
        text = literal(value, name).rpartition("::")[0][1:-1].replace("''", "'")
        if name == "boolean":
            text = str(value).lower()
        assert is_equal(TYPES[name].read(text), value)
