"""Operators fed by operators, against a plain recomputation of the whole query."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.flow.operators.contract import Operator
from penstock.flow.operators.join import JoinOperator
from penstock.flow.operators.normalize import NormalizeOperator
from penstock.plan.nodes import AggregateCall, GroupAggregate, Join, JoinKind, Normalize
from penstock.types import BIGINT, INT, STRING, Field, RowKind, RowType
from tests.changelogs import (
    PROGRAM_SEEDS,
    Change,
    Example,
    Row,
    Runner,
    batches,
    cuts,
    multiset,
    random_changes,
    random_upserts,
)
from tests.tables import given_rows

ORDERS = RowType((Field("id", INT), Field("customer", INT), Field("amount", INT)))
CUSTOMERS = RowType((Field("cid", INT), Field("country", STRING)))
JOINED = RowType((*ORDERS.fields, *CUSTOMERS.fields))


@dataclass
class Chain:
    """Operators by name, each after those that feed it. An input is the name of another operator or of a source."""

    inputs: Mapping[str, Sequence[str]]
    runners: dict[str, Runner] = field(default_factory=dict)

    @classmethod
    def of(cls, rng: random.Random, steps: Mapping[str, tuple[Operator, Sequence[str]]]) -> Chain:
        return cls(
            {name: inputs for name, (_, inputs) in steps.items()},
            {name: Runner(operator, rng) for name, (operator, _) in steps.items()},
        )

    def run(self, sources: Mapping[str, list[Change]]) -> None:
        """One batch through all operators."""
        rows = dict(sources)
        for name, runner in self.runners.items():
            rows[name] = runner.run(*(rows[each] for each in self.inputs[name]))

    @property
    def result(self) -> Counter[Row]:
        """The rows of the last operator."""
        return list(self.runners.values())[-1].live


def check(
    rng: Example,
    steps: Mapping[str, tuple[Operator, Sequence[str]]],
    sources: Mapping[str, Sequence[Change]],
    expected: Counter[Row],
) -> None:
    ways = {name: cuts(rng, len(changes)) for name, changes in sources.items()}
    for way in range(rng.ways):
        chain = Chain.of(rng, steps)
        parts = {name: batches(changes, ways[name][way]) for name, changes in sources.items()}
        for step in range(max(map(len, parts.values()))):
            chain.run({name: each[step] if step < len(each) else [] for name, each in parts.items()})
        assert chain.result == expected


def aggregate(keys: tuple[str, ...], table: RowType, *calls: AggregateCall) -> GroupAggregateOperator:
    schema = RowType((*table.select(keys).fields, *(Field(each.name, each.type) for each in calls)))
    return GroupAggregateOperator.from_node(
        GroupAggregate(schema, given_rows(table), keys, calls, uid="groups"), retracts=True
    )


def join(left: RowType, right: RowType, kind: JoinKind, on: tuple[str, str]) -> JoinOperator:
    schema = RowType((*left.fields, *right.fields))
    return JoinOperator.from_node(Join(schema, given_rows(left), given_rows(right), kind, on[:1], on[1:], uid="pairs"))


def grouped(rows: Counter[Row], key: int, value: int, result: Callable[[list[int | None]], Row]) -> Counter[Row]:
    groups = defaultdict(list)
    for row in rows.elements():
        groups[row[key]].append(row[value])
    return Counter((key, *result(values)) for key, values in groups.items())


def total(values: list[int | None]) -> int | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


def joined(left: Counter[Row], right: Counter[Row], on: tuple[int, int], width: int) -> Counter[Row]:
    """A LEFT JOIN whose right side has ``width`` columns."""
    result: Counter[Row] = Counter()
    for row, times in left.items():
        matches = {
            other: count for other, count in right.items() if row[on[0]] is not None and row[on[0]] == other[on[1]]
        }
        for other, count in matches.items() or [((None,) * width, 1)]:
            result[(*row, *other)] += times * count
    return result


def random_order(rng: random.Random) -> Row:
    return rng.randrange(9), rng.choice([None, 1, 2, 3, 4]), rng.choice([None, 1, 2, 3])


def random_customer(rng: random.Random) -> Row:
    return rng.choice([1, 2, 3, 4, 5]), rng.choice([None, "at", "de"])


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_an_aggregate_of_a_join(seed: int) -> None:
    rng = Example(seed)
    orders = random_changes(rng, lambda: random_order(rng), rng.randrange(15))
    customers = random_changes(rng, lambda: random_customer(rng), rng.randrange(15))
    calls = [
        AggregateCall("n", "COUNT", BIGINT),
        AggregateCall("total", "SUM", INT, "amount"),
        AggregateCall("largest", "MAX", INT, "amount"),
        AggregateCall("buyers", "COUNT", BIGINT, "customer", distinct=True),
    ]
    steps: dict[str, tuple[Operator, Sequence[str]]] = {
        "join": (join(ORDERS, CUSTOMERS, JoinKind.LEFT, ("customer", "cid")), ["orders", "customers"]),
        "groups": (aggregate(("country",), JOINED, *calls), ["join"]),
    }
    rows = joined(multiset(orders), multiset(customers), (1, 0), 2)
    groups: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows.elements():
        groups[row[4]].append(row)
    expected: Counter[Row] = Counter()
    for country, members in groups.items():
        amounts = [row[2] for row in members if row[2] is not None]
        buyers = {row[1] for row in members} - {None}
        expected[(country, len(members), total(amounts), max(amounts, default=None), len(buyers))] += 1
    check(rng, steps, {"orders": orders, "customers": customers}, expected)


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_a_join_of_aggregates(seed: int) -> None:
    rng = Example(seed)
    orders = random_changes(rng, lambda: random_order(rng), rng.randrange(15))
    others = random_changes(rng, lambda: random_order(rng), rng.randrange(15))
    count = aggregate(("customer",), ORDERS, AggregateCall("n", "COUNT", BIGINT))
    extremes = aggregate(("amount",), ORDERS, AggregateCall("least", "MIN", INT, "customer"))
    counted = RowType((Field("customer", INT), Field("n", BIGINT)))
    least = RowType((Field("amount", INT), Field("least", INT)))
    steps: dict[str, tuple[Operator, Sequence[str]]] = {
        "counts": (count, ["orders"]),
        "extremes": (extremes, ["others"]),
        "join": (join(counted, least, JoinKind.LEFT, ("customer", "least")), ["counts", "extremes"]),
    }
    left = grouped(multiset(orders), 1, 0, lambda values: (len(values),))
    right = grouped(
        multiset(others), 2, 1, lambda values: (min((each for each in values if each is not None), default=None),)
    )
    check(rng, steps, {"orders": orders, "others": others}, joined(left, right, (0, 1), 2))


@pytest.mark.parametrize("seed", PROGRAM_SEEDS)
def test_an_aggregate_of_a_join_of_normalized_tables(seed: int) -> None:
    rng = Example(seed)
    orders = random_upserts(rng, 6, lambda key: (key, *random_order(rng)[1:]), rng.randrange(18), full=False)
    customers = random_upserts(rng, 5, lambda key: (key, random_customer(rng)[1]), rng.randrange(15), full=True)
    steps: dict[str, tuple[Operator, Sequence[str]]] = {
        "new orders": (
            NormalizeOperator.from_node(Normalize(ORDERS, given_rows(ORDERS), ("id",), uid="orders")),
            ["orders"],
        ),
        "new customers": (
            NormalizeOperator.from_node(Normalize(CUSTOMERS, given_rows(CUSTOMERS), ("cid",), uid="customers")),
            ["customers"],
        ),
        "join": (join(ORDERS, CUSTOMERS, JoinKind.LEFT, ("customer", "cid")), ["new orders", "new customers"]),
        "groups": (aggregate(("country",), JOINED, AggregateCall("total", "SUM", INT, "amount")), ["join"]),
    }
    rows = joined(newest(orders), newest(customers), (1, 0), 2)
    check(
        rng,
        steps,
        {"orders": orders, "customers": customers},
        grouped(rows, 4, 2, lambda values: (total(values),)),
    )


def newest(changes: Sequence[Change]) -> Counter[Row]:
    """The last row of each key."""
    rows = {row[0]: row if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else None for row, kind in changes}
    return Counter(row for row in rows.values() if row is not None)
