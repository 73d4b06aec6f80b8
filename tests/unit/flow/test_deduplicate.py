"""First and last rows of keys, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from penstock.flow.operators.deduplicate import DeduplicateOperator
from penstock.plan.nodes import Deduplicate
from penstock.types import DOUBLE, INT, STRING, DecimalType, Field, RowType, TimestampType
from tests.changelogs import SEEDS, Change, Example, Row, Runner, check, comparable
from tests.tables import given_rows

TABLE = RowType(
    (
        Field("k", INT),
        Field("at", TimestampType(3)),
        Field("name", STRING),
        Field("ratio", DOUBLE),
        Field("price", DecimalType(20, 2)),
    )
)


def deduplicate(order: str, *, last: bool) -> DeduplicateOperator:
    return DeduplicateOperator.from_node(Deduplicate(TABLE, given_rows(TABLE), ("k",), order, last, uid="one"))


def position(value: Any) -> tuple[Any, ...]:
    """NULL first, NaN last."""
    if isinstance(value, str):
        value = value.encode()
    return (0,) if value is None else (2,) if value != value else (1, value)  # noqa: PLR0124


def kept(rows: list[Row], order: str, *, last: bool) -> Counter[Row]:
    found: dict[Any, Row] = {}
    for row in rows:
        if row[0] in found and order:
            at = TABLE.names.index(order)
            before, now = position(found[row[0]][at]), position(row[at])
            if now < before if last else now >= before:
                continue
        elif row[0] in found and not last:
            continue
        found[row[0]] = row
    return Counter(comparable(row) for row in found.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_one_row_of_a_key_stays(seed: int) -> None:
    rng, last = Example(seed), bool(seed % 2)
    order = rng.choice(["", *TABLE.names])

    def row() -> Row:
        return (
            rng.choice([None, 1, 2, 3]),
            rng.choice([None, *(datetime(2026, 1, day) for day in range(1, 9))]),
            rng.choice([None, "", "a", "ä", "\U0001f600", "\uffff"]),
            rng.choice([None, 0.5, -1.0, float("nan"), float("inf"), float("-inf")]),
            rng.choice([None, Decimal("-1.50"), Decimal("0.01"), Decimal("123456789012345678.90")]),
        )

    rows = [row() for _ in range(rng.randrange(40))]
    changes = [(each, 1) for each in rows]
    check(deduplicate(order, last=last), rng, [changes], kept(rows, order, last=last))


def test_rows_of_one_order_are_told_apart_by_arrival() -> None:
    rows: list[Change] = [((1, None, name, 0.5, None), 1) for name in "abc"]
    for last, expected in ((False, "a"), (True, "c")):
        for batches in ([rows], [[each] for each in rows], [rows[:2], rows[2:]]):
            runner = Runner(deduplicate("ratio", last=last), random.Random(1))
            for batch in batches:
                runner.run(batch)
            assert runner.live == {(1, None, expected, 0.5, None): 1}


def test_the_first_row_by_arrival_keeps_no_rows_in_the_state() -> None:
    assert [table.value.names for table in deduplicate("", last=False).tables] == [[]]
