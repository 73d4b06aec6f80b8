"""Joins, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from penstock.errors import SchemaError
from penstock.flow.operators.join import JoinOperator
from penstock.plan.nodes import Join, JoinKind
from penstock.types import BIGINT, DOUBLE, INT, STRING, ArrayType, Field, RowType
from tests.changelogs import SEEDS, Example, Row, Runner, check, multiset, random_changes
from tests.tables import given_rows

LEFT = RowType((Field("a", INT), Field("b", STRING), Field("c", BIGINT)))
RIGHT = RowType((Field("x", STRING), Field("y", INT), Field("z", ArrayType(DOUBLE))))
BOTH = RowType((*LEFT.fields, *RIGHT.fields))


def join(kind: JoinKind, left_keys: tuple[str, ...] = ("a",), right_keys: tuple[str, ...] = ("y",)) -> JoinOperator:
    return JoinOperator.from_node(
        Join(BOTH, given_rows(LEFT), given_rows(RIGHT), kind, left_keys, right_keys, uid="pairs")
    )


def recomputed(operator: JoinOperator, left: Mapping[Row, int], right: Mapping[Row, int]) -> Counter[Row]:
    left_keys = [LEFT.names.index(each) for each in operator.left.input.keys]
    right_keys = [RIGHT.names.index(each) for each in operator.right.input.keys]
    result: Counter[Row] = Counter()
    matched: set[Row] = set()
    for one, times in left.items():
        for other, count in right.items():
            key = [one[at] for at in left_keys]
            if None not in key and key == [other[at] for at in right_keys]:
                result[(*one, *other)] += times * count
                matched |= {(0, *one), (1, *other)}
    for one, times in left.items() if operator.left.kept else ():
        result[(*one, None, None, None)] += times * ((0, *one) not in matched)
    for other, times in right.items() if operator.right.kept else ():
        result[(None, None, None, *other)] += times * ((1, *other) not in matched)
    return +result


#: Those that are joined without windows.
KINDS = (JoinKind.INNER, JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)


@pytest.mark.parametrize("seed", SEEDS)
def test_pairs_are_those_of_a_recomputation(seed: int) -> None:
    rng = Example(seed)
    kind = KINDS[seed % len(KINDS)]
    width = rng.choice([2, 4, 20])

    def left() -> Row:
        return rng.choice([None, *range(width)]), rng.choice([None, "", "s", "t"]), rng.choice([None, 1, 2])

    def right() -> Row:
        return rng.choice([None, "s", "t"]), rng.choice([None, *range(width)]), rng.choice([None, (), (1.5, None)])

    keys = rng.choice(
        [(("a",), ("y",)), (("a", "b"), ("y", "x")), (("a", "a"), ("y", "y")), (("b",), ("x",)), ((), ())]
    )
    operator = join(kind, *keys)
    drained = rng.random() < 0.3
    sides = [
        random_changes(rng, row, rng.randrange(30), retracts=rng.random() < 0.8 or drained, drained=drained)
        for row in (left, right)
    ]
    expected = recomputed(operator, *(multiset(each) for each in sides))
    check(operator, rng, sides, expected, empty=drained)


def test_a_row_of_nulls_that_comes_as_one_goes_on_the_other_side_changes_nothing() -> None:
    runner = Runner(join(JoinKind.FULL), random.Random(1))
    assert runner.run([((None, None, None), 1)], [((None, 1, None), 1)])
    assert runner.run([((None, None, None), -1)], [((None, None, None), 1)]) == []
    assert len(runner.run([((None, None, None), 1)], [((None, None, None), -2)])) == 1


def test_a_change_of_one_row_does_not_repeat_the_pairs_of_others() -> None:
    runner = Runner(join(JoinKind.FULL), random.Random(1))
    left = [((1, name, None), 1) for name in "abcd"]
    right = [((name, 1, None), 1) for name in "wxyz"]
    assert len(runner.run(left, right)) == 16
    changes = runner.run([((1, "a", None), -1), ((1, "a", 5), 1)], [(("w", 1, None), -1)])
    assert len(changes) == 4 + 3 + 3


def test_a_row_without_a_match_is_retracted_by_its_first_match_and_comes_back_after_the_last() -> None:
    runner = Runner(join(JoinKind.LEFT), random.Random(1))
    left, padded = (1, "a", None), (1, "a", None, None, None, None)
    first, second = ("x", 1, None), ("y", 1, None)
    assert runner.run([(left, 1)], []) == [(padded, 1)]
    assert runner.run([], [(first, 1)]) == [(padded, -1), ((*left, *first), 1)]
    assert runner.run([], [(second, 1), (first, -1)]) == [((*left, *first), -1), ((*left, *second), 1)]
    assert runner.run([], [(second, -1)]) == [((*left, *second), -1), (padded, 1)]
    assert runner.run([(left, -1)], []) == [(padded, -1)]


def test_keys_of_different_types_are_refused() -> None:
    with pytest.raises(SchemaError, match="'c' is int64 and 'y' is int32"):
        join(JoinKind.INNER, ("c",), ("y",))


def test_a_row_of_nulls_that_matches_replaces_the_nulls_of_a_row_without_a_match() -> None:
    runner = Runner(join(JoinKind.RIGHT, (), ()), random.Random(1))
    left, right = (None, None, None), ("x", 1, None)
    assert runner.run([], [(right, 1)]) == [((*left, *right), 1)]
    assert runner.run([(left, 1)], []) == []
    assert runner.run([(left, 1)], []) == [((*left, *right), 1)]
