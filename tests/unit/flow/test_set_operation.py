"""INTERSECT, EXCEPT and comparisons of two changing tables, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from penstock.flow.operators.set_operation import SetOperator
from penstock.plan.nodes import SetKind, SetOperation
from penstock.types import INT, STRING, Field, RowType
from tests.changelogs import SEEDS, Example, Row, check, multiset, random_changes
from tests.tables import given_rows

LEFT = RowType((Field("k", INT), Field("v", STRING)))
RIGHT = RowType((Field("a", INT), Field("b", STRING)))


def random_row(rng: random.Random) -> Row:
    return rng.choice([None, 1, 2]), rng.choice([None, "a", "b"])


def kept(kind: SetKind, left: int, right: int) -> int:
    """How often a row is in the result that is so often on the left and on the right side."""
    return {
        SetKind.INTERSECT: int(left > 0 and right > 0),
        SetKind.INTERSECT_ALL: min(left, right),
        SetKind.EXCEPT: int(left > 0 and not right),
        SetKind.EXCEPT_ALL: max(left - right, 0),
        SetKind.SEMI: left if right else 0,
        SetKind.ANTI: 0 if right else left,
    }[kind]


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_two_tables_are_compared(seed: int) -> None:
    rng = Example(seed)
    kind = list(SetKind)[seed % len(SetKind)]
    operator = SetOperator.from_node(SetOperation(LEFT, given_rows(LEFT), given_rows(RIGHT), kind, uid="compare"))
    drained = rng.random() < 0.3
    left, right = (random_changes(rng, lambda: random_row(rng), rng.randrange(20), drained=drained) for _ in range(2))
    rows, others = multiset(left), multiset(right)
    expected = Counter({row: kept(kind, count, others[row]) for row, count in rows.items()})
    check(operator, rng, [left, right], +expected, empty=drained)
