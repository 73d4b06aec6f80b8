"""Sums and quotients of decimals beyond 128 bits, against Python's whole numbers."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext

import numpy as np
import pyarrow as pa
import pytest

from penstock.columns.wide_decimals import (
    add_limbs,
    decimal_column,
    quotients,
    to_limbs,
    weighted_limb_sums,
    wide_column,
)
from tests.changelogs import SEEDS


def column(values: list[int | None], kind: pa.DataType) -> pa.Array:
    with localcontext(prec=100):
        return pa.array([None if each is None else Decimal(each).scaleb(-kind.scale) for each in values], kind)


def unscaled(values: pa.Array) -> list[int | None]:
    with localcontext(prec=100):
        return [None if each is None else int(each.scaleb(values.type.scale)) for each in values.to_pylist()]


@pytest.mark.parametrize("precision", [1, 9, 18, 19, 38])
@pytest.mark.parametrize("seed", SEEDS[::5])
def test_sums_are_exact(seed: int, precision: int) -> None:
    rng = random.Random(seed)
    largest = 10**precision - 1
    values = [rng.choice([0, largest, -largest, rng.randint(-largest, largest)]) for _ in range(rng.randrange(30))]
    weights = [rng.choice([-1, 1, 2**20, -(2**20), 0]) for _ in values]
    index = [rng.randrange(4) for _ in values]
    given = column([None, *values], pa.decimal128(precision, precision // 2)).slice(1)
    limbs = weighted_limb_sums(np.array(index, np.int64), given, np.array(weights, np.int64), 4)
    old = column([rng.choice([None, 10**70, -(10**70), -1]) for _ in range(4)], pa.decimal256(76, precision // 2))
    expected = [
        (before or 0)
        + sum(value * weight for value, weight, at in zip(values, weights, index, strict=True) if at == group)
        for group, before in enumerate(unscaled(old))
    ]
    total = add_limbs(to_limbs(old), limbs)
    assert unscaled(wide_column(total, precision // 2)) == expected
    kind = pa.decimal128(38, 3)
    assert unscaled(decimal_column(total, kind, np.ones(4, np.bool_))) == [
        each if abs(each) < 10**38 else None for each in expected
    ]


@pytest.mark.parametrize("seed", SEEDS[::5])
def test_quotients_are_rounded_half_away_from_zero(seed: int) -> None:
    rng = random.Random(seed)
    numbers = [rng.choice([1, -1]) * rng.randrange(10 ** rng.randrange(1, 60)) for _ in range(20)] + [1, -1, 5, -5, 15]
    divisors = [rng.choice([1, 2, 3, 10, 2**31, 2**46 - 1]) for _ in numbers]
    shift = rng.choice([0, 1, 6])
    limbs = quotients(to_limbs(column(numbers, pa.decimal256(76, 0))), np.array(divisors), shift)
    expected = []
    for number, divisor in zip(numbers, divisors, strict=True):
        quotient = (2 * abs(number) * 10**shift + divisor) // (2 * divisor)
        expected.append(quotient if number >= 0 else -quotient)
    assert unscaled(wide_column(limbs, 0)) == expected


def test_what_stands_under_a_null_is_0() -> None:
    words = pa.py_buffer(np.full(8, 7, np.uint64))
    given = pa.Array.from_buffers(pa.decimal256(76, 2), 2, [pa.py_buffer(b"\x02"), words])
    first, second = unscaled(wide_column(to_limbs(given), 2))
    assert (first, second) == (0, sum(7 << 64 * at for at in range(4)))
