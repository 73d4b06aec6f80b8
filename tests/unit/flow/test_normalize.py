"""Upserts and changelogs with repeated changes, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from penstock.flow.operators.normalize import NormalizeOperator
from penstock.plan.nodes import Normalize
from penstock.types import DOUBLE, INT, STRING, Field, MapType, RowKind, RowType
from tests.changelogs import SEEDS, Change, Example, Row, Runner, check, comparable, random_upserts
from tests.tables import given_rows

TABLE = RowType((Field("id", INT), Field("name", STRING), Field("ratio", DOUBLE), Field("tags", MapType(STRING, INT))))
NORMALIZE = NormalizeOperator.from_node(Normalize(TABLE, given_rows(TABLE), ("id",), uid="newest"))


def last_rows(changes: Sequence[Change]) -> Counter[Row]:
    rows = {row[0]: row if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else None for row, kind in changes}
    return Counter(comparable(row) for row in rows.values() if row is not None)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_row_of_a_key_stays(seed: int) -> None:
    rng = Example(seed)

    def row(key: int) -> Row:
        tags = rng.choice([None, (), (("a", 1),), (("a", 1), ("b", None))])
        return key, rng.choice([None, "", "x"]), rng.choice([None, 0.5, float("nan"), float("inf")]), tags

    full, drained = rng.random() < 0.5, rng.random() < 0.3
    changes = random_upserts(rng, rng.choice([1, 3, 10]), row, rng.randrange(40), full=full, drained=drained)
    check(NORMALIZE, rng, [changes], last_rows(changes), empty=drained)


def run(*batches: list[Change]) -> list[list[Change]]:
    runner = Runner(NORMALIZE, random.Random(1))
    return [runner.run(each) for each in batches]


def test_a_row_that_stays_the_same_gives_nothing() -> None:
    row, other = (1, "a", float("nan"), (("x", 1),)), (1, "b", None, None)
    insert = (row, RowKind.INSERT)
    update = [(row, RowKind.UPDATE_BEFORE), (other, RowKind.UPDATE_AFTER)]
    assert run([insert], [insert, insert], [*update, insert]) == [[(comparable(row), 1)], [], []]


def test_a_deletion_retracts_the_whole_row_and_one_of_an_unknown_key_nothing() -> None:
    tombstone = ((1, None, None, None), RowKind.DELETE)
    row = (1, "a", 0.5, ())
    assert run([tombstone], [(row, RowKind.UPDATE_AFTER)], [tombstone], [tombstone]) == [
        [],
        [(row, 1)],
        [(row, -1)],
        [],
    ]


def test_an_update_that_moves_a_row_to_another_key_removes_the_former() -> None:
    old, new = (1, "a", None, None), (2, "a", None, None)
    update = [(old, RowKind.UPDATE_BEFORE), (new, RowKind.UPDATE_AFTER)]
    (_, changes) = run([(old, RowKind.INSERT)], update)
    assert sorted(changes) == [(old, -1), (new, 1)]
