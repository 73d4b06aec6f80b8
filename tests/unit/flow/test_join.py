"""Joins, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from penstock.flow.join import JoinOperator
from penstock.plan.nodes import Join, JoinKind, Node
from penstock.types import BIGINT, DOUBLE, INT, STRING, ArrayType, Field, RowType
from tests.changelogs import SEEDS, Row, check, multiset, random_changes

LEFT = RowType((Field("a", INT), Field("b", STRING), Field("c", BIGINT)))
RIGHT = RowType((Field("x", STRING), Field("y", INT), Field("z", ArrayType(DOUBLE))))
BOTH = RowType((*LEFT.fields, *RIGHT.fields))


def join(kind: JoinKind, left_keys: tuple[str, ...] = ("a",), right_keys: tuple[str, ...] = ("y",)) -> JoinOperator:
    return JoinOperator.of(Join(BOTH, Node(LEFT), Node(RIGHT), kind, left_keys, right_keys, uid="pairs"))


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


@pytest.mark.parametrize("seed", range(SEEDS))
def test_pairs_are_those_of_a_recomputation(seed: int) -> None:
    rng = random.Random(seed)
    kind = list(JoinKind)[seed % len(JoinKind)]
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
