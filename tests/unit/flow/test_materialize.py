"""The last row of each key, against a plain recomputation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from penstock.flow.operators.materialize import MaterializeOperator
from penstock.plan.nodes import Materialize
from penstock.types import INT, STRING, Field, RowType
from tests.changelogs import SEEDS, Change, Example, Row, Runner, check, random_changes
from tests.tables import given_rows

TABLE = RowType((Field("k", INT), Field("v", INT), Field("name", STRING)))


def materialize() -> MaterializeOperator:
    return MaterializeOperator.from_node(Materialize(TABLE, given_rows(TABLE), ("k",), uid="last"))


def last_rows(changes: Sequence[Change]) -> Counter[Row]:
    """The last row of each key; what is taken back is the first one that is equal."""
    rows: dict[object, list[Row]] = {}
    for row, weight in changes:
        own = rows.setdefault(row[0], [])
        if weight > 0:
            own.append(row)
        elif row in own:
            own.remove(row)
    return Counter(own[-1] for own in rows.values() if own)


def random_row(rng: random.Random) -> Row:
    return rng.choice([None, 1, 2]), rng.choice([None, 1, 2, 3, 4]), rng.choice([None, "a", "b"])


@pytest.mark.parametrize("seed", SEEDS)
def test_of_different_rows_the_last_one_stays(seed: int) -> None:
    rng = Example(seed)
    numbers = iter(range(1000))
    drained = rng.random() < 0.3
    changes = random_changes(
        rng, lambda: (rng.choice([None, 1, 2]), next(numbers), "a"), rng.randrange(40), drained=drained
    )
    check(materialize(), rng, [changes], last_rows(changes), empty=drained)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_equal_rows_that_come_and_go_the_last_one_stays(seed: int) -> None:
    rng = Example(seed)
    changes = random_changes(rng, lambda: random_row(rng), rng.randrange(40))
    check(materialize(), rng, [changes], last_rows(changes))


def test_a_row_that_was_replaced_comes_back() -> None:
    runner = Runner(materialize(), random.Random(1))
    runner.run([((1, 1, "a"), 1)])
    assert runner.run([((1, 2, "b"), 1)]) == [((1, 1, "a"), -1), ((1, 2, "b"), 1)]
    assert runner.run([((1, 2, "b"), -1)]) == [((1, 2, "b"), -1), ((1, 1, "a"), 1)]
    assert runner.run([((1, 5, "c"), -1)]) == []
    assert runner.run([((1, 1, "a"), -1)]) == [((1, 1, "a"), -1)]
    assert runner.stored() == {"rows": 0}


def test_one_batch_may_move_a_row_from_key_to_key() -> None:
    """The changes of two upsert keys that have one primary key, in the wrong order."""
    runner = Runner(materialize(), random.Random(1))
    runner.run([((1, 1, "a"), 1)])
    assert runner.run([((1, 2, "b"), 1), ((1, 1, "a"), -1)]) == [((1, 1, "a"), -1), ((1, 2, "b"), 1)]
    assert runner.stored() == {"rows": 1}
