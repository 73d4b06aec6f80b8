"""The first rows of keys, against a plain recomputation."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.flow.operators.rank import RankOperator
from penstock.plan.nodes import Rank, SortColumn
from penstock.types import BIGINT, DOUBLE, INT, STRING, ArrayType, Field, RowType
from tests.changelogs import SEEDS, Change, Example, Row, Runner, check, comparable, multiset, random_changes
from tests.tables import given_rows

TABLE = RowType((Field("k", INT), Field("v", INT), Field("name", STRING), Field("ratio", DOUBLE)))


def rank(
    first: int, last: int, *order: SortColumn, number: str = "", latest: bool = False, retracts: bool = True
) -> RankOperator:
    numbered = (Field(number, BIGINT),) if number else ()
    schema = RowType((*TABLE.fields, *numbered))
    return RankOperator.from_node(
        Rank(schema, given_rows(TABLE), ("k",), order, first, last, number, latest, uid="first"), retracts=retracts
    )


def compared(one: Any, other: Any, nulls_first: bool = True) -> int:
    """By value, NaN last, NULL at one end."""
    if one is None or other is None:
        found = (other is None) - (one is None)
        return found if nulls_first else -found
    nan = [value == "NaN" or value != value for value in (one, other)]  # noqa: PLR0124
    if any(nan):
        return int(nan[0]) - int(nan[1])
    return (one > other) - (one < other)


def kept(
    rows: Sequence[Row], first: int, last: int, order: Sequence[SortColumn], *, number: bool, by_content: bool
) -> Counter[Row]:
    """The rows that stay, of ``rows`` in the order of arrival."""

    def before(one: Row, other: Row) -> int:
        for each in order:
            at = TABLE.names.index(each.name)
            null = (one[at] is None) != (other[at] is None)
            found = compared(one[at], other[at], each.nulls_first)
            if found:
                return -found if each.descending and not null else found
        contents = (compared(*pair) for pair in zip(one, other, strict=True))
        return next((each for each in contents if each), 0) if by_content else 0

    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    found: Counter[Row] = Counter()
    for members in groups.values():
        ordered = sorted(members, key=functools.cmp_to_key(before))
        for place, row in enumerate(ordered[:last], 1):
            if place >= first:
                found[comparable((*row, place) if number else row)] += 1
    return found


def random_row(rng: random.Random) -> Row:
    return (
        rng.choice([None, 1, 2]),
        rng.choice([None, 1, 2, 3, 4]),
        rng.choice([None, "", "a", "b"]),
        rng.choice([None, 0.5, -1.0, float("nan")]),
    )


def random_order(rng: random.Random) -> list[SortColumn]:
    names = rng.sample(TABLE.names[1:], rng.randrange(1, 3))
    return [SortColumn(name, rng.random() < 0.5, rng.random() < 0.5) for name in names]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_first_rows_of_a_key_stay(seed: int) -> None:
    rng = Example(seed)
    order, number = random_order(rng), rng.choice(["", "n"])
    first = rng.choice([1, 1, 2])
    last = first + rng.choice([0, 1, 4])
    changes = random_changes(rng, lambda: random_row(rng), rng.randrange(40), drained=rng.random() < 0.3)
    expected = kept([*multiset(changes).elements()], first, last, order, number=bool(number), by_content=True)
    check(rank(first, last, *order, number=number), rng, [changes], expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_rows_that_are_only_added_the_first_to_come_stay(seed: int) -> None:
    rng = Example(seed)
    order, number, latest = random_order(rng)[: rng.randrange(2)], rng.choice(["", "n"]), rng.random() < 0.3
    first = rng.choice([1, 1, 2])
    last = first + rng.choice([0, 1, 4])
    rows = [random_row(rng) for _ in range(rng.randrange(30))]
    arrived = rows[::-1] if latest else rows
    expected = kept(arrived, first, last, order, number=bool(number), by_content=False)
    operator = rank(first, last, *order, number=number, latest=latest, retracts=False)
    check(operator, rng, [[(each, 1) for each in rows]], expected)


def test_of_rows_that_are_only_added_no_more_are_kept_than_are_wanted() -> None:
    runner = Runner(rank(1, 2, SortColumn("v"), retracts=False), random.Random(1))
    for value in range(50):
        runner.run([((key, 50 - value, "a", 0.5), 1) for key in (1, 2, 3)])
    assert runner.stored() == {"first rows": 6}


def test_a_row_comes_up_when_one_of_the_first_is_taken_back() -> None:
    runner = Runner(rank(1, 2, SortColumn("v", descending=True), number="n"), random.Random(1))
    rows = [(1, value, "a", 0.5) for value in (1, 2, 3, 4)]
    runner.run([(each, 1) for each in rows])
    assert runner.live == Counter([(*rows[3], 1), (*rows[2], 2)])
    assert runner.run([(rows[3], -1)]) == [
        ((*rows[2], 2), -1),
        ((*rows[3], 1), -1),
        ((*rows[1], 2), 1),
        ((*rows[2], 1), 1),
    ] or runner.live == Counter([(*rows[2], 1), (*rows[1], 2)])
    runner.run([(each, -1) for each in rows[:3]])
    assert runner.stored() == {"first rows": 0, "other rows": 0}


def test_a_row_that_is_not_among_the_first_changes_nothing() -> None:
    runner = Runner(rank(1, 1, SortColumn("v")), random.Random(1))
    change: list[Change] = [((1, value, "a", 0.5), 1) for value in (1, 2)]
    runner.run(change)
    assert runner.run([((1, 3, "a", 0.5), 1)]) == []
    assert runner.run([((1, 2, "a", 0.5), -1)]) == []


def test_rows_of_one_order_with_an_array_are_told_apart() -> None:
    table = RowType((Field("k", INT), Field("v", INT), Field("many", ArrayType(INT))))
    node = Rank(table, given_rows(table), ("k",), (SortColumn("v"),), 1, 1, uid="first")
    rows = [(1, 1, [each]) for each in (1, 2, 3)]
    found = set()
    for order in (rows, rows[::-1]):
        runner = Runner(RankOperator.from_node(node, retracts=True), random.Random(1))
        for row in order:
            runner.run([(row, 1)])
        found.add(frozenset(runner.live))
    assert len(found) == 1


def test_rows_from_the_second_place_on_follow_those_before_them() -> None:
    """Flink 2.2 gives other rows from the second place on where rows are taken back."""
    runner = Runner(rank(2, 3, SortColumn("v", True), number="n"), random.Random(1))
    rows = {each: (1, each, "", 0.5) for each in (10, 20, 30, 40)}

    def changed(*changes: tuple[int, int]) -> list[tuple[Row, int]]:
        return sorted(runner.run([(rows[each], weight) for each, weight in changes]), key=lambda each: each[::-1])

    assert changed((30, 1)) == []
    assert changed((20, 1), (10, 1)) == [((*rows[10], 3), 1), ((*rows[20], 2), 1)]
    assert changed((40, 1)) == [
        *(((*rows[10], 3), -1), ((*rows[20], 2), -1), ((*rows[20], 3), 1), ((*rows[30], 2), 1)),
    ]
    assert changed((40, -1), (30, -1)) == [
        *(((*rows[20], 3), -1), ((*rows[30], 2), -1), ((*rows[10], 2), 1)),
    ]
    assert changed((20, -1)) == [((*rows[10], 2), -1)]
