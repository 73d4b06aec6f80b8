"""Grouping, against a plain recomputation."""

from __future__ import annotations

import pickle
import random
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pytest

from penstock.errors import ExecutionError, UnsupportedError
from penstock.flow.operators.aggregate import GroupAggregateOperator
from penstock.plan.nodes import AggregateCall, GroupAggregate
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TINYINT,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
)
from tests.changelogs import SEEDS, Change, Example, Row, Runner, check, comparable, multiset, random_changes
from tests.tables import given_rows

TABLE = RowType(
    (
        Field("k", INT),
        Field("name", STRING),
        Field("paid", BOOLEAN),
        Field("tiny", TINYINT),
        Field("number", INT),
        Field("big", BIGINT),
        Field("ratio", FLOAT),
        Field("wide", DOUBLE),
        Field("price", DecimalType(12, 3)),
        Field("total", DecimalType(38, 10)),
    )
)
#: Functions of the values in the order of their arrival.
ORDERED = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG")
SUMMED = ("tiny", "number", "big", "ratio", "wide", "price", "total")
_BITS = {"TINYINT": 8, "INT": 32, "BIGINT": 64}


def aggregate(keys: Sequence[str], calls: Sequence[AggregateCall], *, retracts: bool = True) -> GroupAggregateOperator:
    fields = [TABLE.field(each) for each in keys]
    schema = RowType((*(each for each in fields if each), *(Field(each.name, each.type) for each in calls)))
    return GroupAggregateOperator.from_node(
        GroupAggregate(schema, given_rows(TABLE), tuple(keys), tuple(calls), uid="groups"), retracts=retracts
    )


def type_of(function: str, column: str | None) -> DataType:
    """The type of a call as Flink has it."""
    if function == "COUNT" or column is None:
        return BIGINT
    found = TABLE.field(column)
    assert found is not None
    if function == "ARRAY_AGG":
        return ArrayType(found.type)
    if isinstance(found.type, DecimalType) and function in ("SUM", "AVG"):
        return DecimalType(38, found.type.scale if function == "SUM" else max(6, found.type.scale))
    return found.type


def random_row(rng: random.Random) -> Row:
    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    extreme = rng.random() < 0.1
    return (
        maybe(rng.randrange(4)),
        maybe(rng.choice(["", "a", "b", "ab", "ä", "\U0001f600", "z" * 20])),
        maybe(rng.random() < 0.6),
        maybe(rng.randrange(-128, 128)),
        maybe(rng.choice([2**31 - 1, -(2**31)]) if extreme else rng.randrange(-5, 6)),
        maybe(rng.choice([2**63 - 1, -(2**63)]) if extreme else rng.randrange(-(10**12), 10**12)),
        maybe(rng.randrange(-20, 20) / 4),
        maybe(rng.randrange(-20, 20) / 4),
        maybe(Decimal(rng.randrange(-(10**12) + 1, 10**12)).scaleb(-3)),
        maybe(scaled(rng.choice([1, -1]) * rng.randrange(10**38) // rng.choice([1, 1, 10**20]), 10)),
    )


def scaled(unscaled: int, scale: int) -> Decimal:
    with localcontext(prec=100):
        return Decimal(unscaled).scaleb(-scale)


def random_calls(rng: random.Random) -> list[AggregateCall]:
    calls = [AggregateCall("n", "COUNT", BIGINT)] if rng.random() < 0.6 else []
    for at in range(rng.randrange(1, 5)):
        function = rng.choice(["COUNT", "SUM", "AVG", "MIN", "MAX", *ORDERED, *ORDERED])
        column = rng.choice(SUMMED) if function in ("SUM", "AVG") else rng.choice(TABLE.names)
        column = "name" if function == "LISTAGG" else column
        condition = "paid" if rng.random() < 0.3 else None
        distinct = rng.random() < 0.4
        nulls = function == "ARRAY_AGG" and rng.random() < 0.5
        separator = rng.choice(["", ", "]) if function == "LISTAGG" else ""
        type_ = type_of(function, column)
        calls.append(AggregateCall(f"c{at}", function, type_, column, distinct, condition, nulls, separator))
    return calls


def wrapped(value: int, bits: int) -> int:
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def single(value: float) -> float:
    """A number rounded to FLOAT."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def arrived(call: AggregateCall, changes: Sequence[Change]) -> list[Any]:
    """The values of a group in the order of their arrival, with DISTINCT the different ones."""
    assert call.argument is not None
    names = TABLE.names
    found: list[Any] = []
    there: Counter[Any] = Counter()
    for row, weight in changes:
        value = row[names.index(call.argument)]
        if (call.filter is not None and not row[names.index(call.filter)]) or (value is None and not call.nulls):
            continue
        before = there[value]
        there[value] += weight
        if weight > 0 and not (call.distinct and before):
            found.append(value)
        elif weight < 0 and not (call.distinct and there[value]):
            found.remove(value)
    return found


def of_arrivals(call: AggregateCall, values: list[Any]) -> Any:
    """The result of a call that depends on the order of arrival."""
    match call.function:
        case "LISTAGG":
            return call.separator.join(values) if values else None
        case "ARRAY_AGG":
            return values or None
        case "FIRST_VALUE":
            return values[0] if values else None
    return values[-1] if values else None


def recomputed(call: AggregateCall, rows: Counter[Row], changes: Sequence[Change]) -> Any:
    """The result of a call over the rows of a group."""
    if call.function in ORDERED:
        return of_arrivals(call, arrived(call, changes))
    names = TABLE.names
    kept = [row for row in rows.elements() if call.filter is None or row[names.index(call.filter)]]
    if call.argument is None:
        return len(kept)
    values = [value for row in kept if (value := row[names.index(call.argument)]) is not None]
    if call.distinct:
        values = list(set(values))
    if call.function == "COUNT":
        return len(values)
    if not values:
        return None
    if call.function in ("MIN", "MAX"):
        key = (lambda value: value.encode()) if isinstance(values[0], str) else None
        return (min if call.function == "MIN" else max)(values, key=key)
    if isinstance(values[0], Decimal):
        return decimal_result(call, values)
    total = sum(values)
    if isinstance(values[0], float):
        result = total / len(values) if call.function == "AVG" else total
        return single(result) if str(call.type) == "FLOAT" else result
    if call.function == "AVG":
        total = wrapped(total, 64)
        total = abs(total) // len(values) * (1 if total >= 0 else -1)
    return wrapped(total, _BITS[str(call.type)])


def decimal_result(call: AggregateCall, values: list[Decimal]) -> Decimal | None:
    assert isinstance(call.type, DecimalType)
    with localcontext(prec=200):
        total = sum(values, Decimal(0))
        if call.function == "AVG":
            total = (total / len(values)).quantize(Decimal(1).scaleb(-call.type.scale), ROUND_HALF_UP)
        return total if abs(total.scaleb(call.type.scale)) < 10**38 else None


def expected(keys: Sequence[str], calls: Sequence[AggregateCall], changes: Sequence[Change]) -> Counter[Row]:
    groups: dict[Row, list[Change]] = defaultdict(list)
    for row, weight in changes:
        groups[tuple(row[TABLE.names.index(key)] for key in keys)].append((row, weight))
    live = {key: rows for key, own in groups.items() if (rows := multiset(own))}
    return Counter(
        comparable((*key, *(recomputed(call, rows, groups[key]) for call in calls))) for key, rows in live.items()
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_are_those_of_a_recomputation(seed: int) -> None:
    rng = Example(seed)
    keys = rng.choice([("k",), ("k", "name"), (), ("k",), ("paid", "k")])
    calls = random_calls(rng)
    retracts, drained = rng.random() < 0.7, rng.random() < 0.3
    changes = random_changes(
        rng, lambda: random_row(rng), rng.randrange(1, 40), retracts=retracts, drained=retracts and drained
    )
    result = expected(keys, calls, changes)
    operator = aggregate(keys, calls, retracts=retracts)
    check(operator, rng, [changes], result, empty=retracts and drained)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_may_be_combined_where_rows_are_read(seed: int) -> None:
    rng = Example(seed)
    keys = rng.choice([("k",), ("k", "name"), (), ("paid", "k")])
    functions = ("COUNT", "SUM", "AVG", "MIN", "MAX")
    calls = [
        AggregateCall(f"c{at}", name, type_of(name, column), column, filter=rng.choice([None, None, "paid"]))
        for at, (name, column) in enumerate((rng.choice(functions), rng.choice(SUMMED)) for _ in range(4))
    ]
    changes = random_changes(rng, lambda: random_row(rng), rng.randrange(1, 60), retracts=False)
    operator = aggregate(keys, calls, retracts=False)
    assert [each.combiner is None for each in operator.inputs] == [True, False]
    check(operator, rng, [changes], expected(keys, calls, changes))


def run(operator: GroupAggregateOperator, *changes: list[Change]) -> list[list[Change]]:
    runner = Runner(operator, random.Random(1))
    return [runner.run(batch) for batch in changes]


def row(**values: Any) -> Row:
    return tuple(values.get(name) for name in TABLE.names)


def test_a_result_that_stays_the_same_is_not_given_again() -> None:
    largest = aggregate(("k",), [AggregateCall("c", "MAX", INT, "number")])
    first, second = (row(k=1, number=5), 1), (row(k=1, number=3), 1)
    assert run(largest, [first], [second], [(first[0], -1)]) == [[((1, 5), 1)], [], [((1, 5), -1), ((1, 3), 1)]]


def test_the_only_group_without_keys_disappears_with_its_last_row() -> None:
    count = aggregate((), [AggregateCall("n", "COUNT", BIGINT)])
    assert run(count, [], [(row(), 2)], [(row(), -2)], []) == [[], [((2,), 1)], [((2,), -1)], []]


def test_a_sum_of_nulls_is_null_and_their_count_0() -> None:
    calls = [AggregateCall("t", "SUM", INT, "number"), AggregateCall("n", "COUNT", BIGINT, "number")]
    assert run(aggregate(("k",), calls), [(row(k=None), 1)]) == [[((None, None, 0), 1)]]


def test_a_decimal_sum_of_too_many_digits_is_null_until_values_are_retracted() -> None:
    kind = DecimalType(38, 10)
    total = aggregate((), [AggregateCall("t", "SUM", kind, "total"), AggregateCall("a", "AVG", kind, "total")])
    largest = scaled(10**38 - 1, 10)
    assert run(total, [(row(total=largest), 1)], [(row(total=largest), 5)], [(row(total=largest), -5)]) == [
        [((largest, largest), 1)],
        [((largest, largest), -1), ((None, largest), 1)],
        [((None, largest), -1), ((largest, largest), 1)],
    ]


def test_nan_is_the_largest_number_and_is_retracted() -> None:
    calls = [AggregateCall("a", "MIN", DOUBLE, "wide"), AggregateCall("b", "MAX", DOUBLE, "wide")]
    nan, one = row(wide=float("nan")), row(wide=1.0)
    for retracts in (True, False):
        assert run(aggregate((), calls, retracts=retracts), [(one, 1), (nan, 1)]) == [[((1.0, "NaN"), 1)]]
    assert run(aggregate((), calls), [(nan, 1)], [(one, 1)], [(nan, -1)]) == [
        [(("NaN", "NaN"), 1)],
        [(("NaN", "NaN"), -1), ((1.0, "NaN"), 1)],
        [((1.0, "NaN"), -1), ((1.0, 1.0), 1)],
    ]


def test_what_was_infinite_is_forgotten_with_the_last_value() -> None:
    total = aggregate(("k",), [AggregateCall("t", "SUM", FLOAT, "ratio")])
    infinite, one = row(k=1, ratio=float("inf")), row(k=1, ratio=1.0)
    assert run(total, [(infinite, 1), (row(k=1), 1)], [(infinite, -1)], [(one, 1)]) == [
        [((1, float("inf")), 1)],
        [((1, float("inf")), -1), ((1, None), 1)],
        [((1, None), -1), ((1, 1.0), 1)],
    ]


def test_extremes_of_rows_that_are_only_added_keep_no_values() -> None:
    calls = [AggregateCall("c", "MAX", INT, "number")]
    assert [table.name for table in aggregate(("k",), calls, retracts=False).tables] == ["groups"]
    assert len(aggregate(("k",), calls).tables) == 2


def test_calls_of_one_argument_share_their_state() -> None:
    calls = [
        AggregateCall("a", "SUM", INT, "number"),
        AggregateCall("b", "AVG", INT, "number"),
        AggregateCall("c", "COUNT", BIGINT, "number"),
        AggregateCall("d", "COUNT", BIGINT),
    ]
    (table,) = aggregate(("k",), calls).tables
    assert table.value.names == ["rows", "COUNT `number`", "SUM `number`"]


def test_first_and_last_values_of_rows_that_are_only_added_keep_no_others() -> None:
    calls = [AggregateCall("a", "FIRST_VALUE", INT, "number"), AggregateCall("b", "LAST_VALUE", INT, "number")]
    (table,) = aggregate(("k",), calls, retracts=False).tables
    assert table.value.names == ["rows", "FIRST `number`", "LAST `number`"]


def test_equal_multisets_are_equal_whatever_came_first() -> None:
    collected = aggregate(("k",), [AggregateCall("c", "COLLECT", MapType(STRING, INT), "name")])
    a, b, null = row(k=1, name="a"), row(k=1, name="b"), row(k=1)
    first, second, third = run(collected, [(a, 1), (b, 1), (a, 1)], [(a, -1), (a, 1)], [(a, -2), (b, -1), (null, 1)])
    (((_, counts), _),) = first
    assert (dict(counts), second) == ({"a": 2, "b": 1}, [])
    assert third == [((1, counts), -1), ((1, ()), 1)]


def test_a_single_value_may_be_null_and_a_second_one_is_an_error() -> None:
    single = aggregate((), [AggregateCall("c", "SINGLE_VALUE", INT, "number", nulls=True)])
    null, one = row(k=1), row(k=1, number=1)
    assert run(single, [(null, 1)], [(null, -1), (one, 1)]) == [[((None,), 1)], [((None,), -1), ((1,), 1)]]
    with pytest.raises(ExecutionError, match="returned several rows"):
        run(single, [(null, 1)], [(one, 1)])


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (AggregateCall("c", "MEDIAN", DOUBLE, "wide"), "there is no aggregate function MEDIAN (use COUNT,"),
        (AggregateCall("c", "SUM", STRING, "name"), "column 'name': SUM needs numbers, not string (CAST the argument)"),
    ],
)
def test_other_calls_are_refused(call: AggregateCall, problem: str) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(problem)):
        aggregate(("k",), [call])


def test_an_operator_is_pickled_for_each_batch() -> None:
    operator = aggregate(("k",), [AggregateCall("c", "MAX", STRING, "name", filter="paid")])
    assert pickle.loads(pickle.dumps(operator)) == operator
