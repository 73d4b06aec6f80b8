"""Decimals of up to 128 bits, inside compiled loops and one by one."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.exact import numbers
from penstock.loops.decimals import wide_decimal, write_wide_decimal
from penstock.types import DecimalType

ENOUGH = Context(prec=100)
TYPES = st.integers(1, 38).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most)))
DIGITS = st.text("0123456789", max_size=45)
EXPONENTS = st.sampled_from(["", "", "", "e1", "E-3", "e+20", "e-40", "e0", "e0007", "e9999", "e-9999"])
NUMBERS = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole.lstrip('0') or '0'}{fraction and '.' + fraction}{exponent}",
    st.sampled_from(["", "-"]),
    DIGITS,
    DIGITS,
    EXPONENTS,
)


def read(text: str, precision: int, scale: int) -> Decimal | None:
    ok, low, high = wide_decimal(np.frombuffer(text.encode(), np.uint8), 0, len(text), scale, precision)
    return Decimal(high * 2**64 + (low & (2**64 - 1))).scaleb(-scale, ENOUGH) if ok else None


@settings(max_examples=1500, deadline=None)
@given(NUMBERS, TYPES)
def test_decimals_are_read_as_by_the_exact_reader(text: str, kind: tuple[int, int]) -> None:
    assert read(text, *kind) == numbers.to_decimal(numbers.parse_decimal(text), DecimalType(*kind))


@pytest.mark.parametrize("text", ["", "-", "1.", "01", "+1", "1e", "x", " 1", "1 ", "1" * 301])
def test_invalid_numbers_are_left_to_the_exact_reader(text: str) -> None:
    assert read(text, 38, 0) is None


@settings(max_examples=1500, deadline=None)
@given(st.integers(1 - 10**38, 10**38 - 1).filter(bool), st.integers(0, 38), st.integers(0, 38), st.booleans())
def test_decimals_are_written_as_by_the_exact_writer(number: int, zeros: int, scale: int, plain: bool) -> None:
    number = number // 10**zeros * 10**zeros or 10**zeros
    number = number if abs(number) < 10**38 else 10**37
    out = np.zeros(64, np.uint8)
    low = np.uint64(number & (2**64 - 1)).view(np.int64)
    size = write_wide_decimal(out, 0, int(low), number >> 64, scale, plain)
    assert out[:size].tobytes().decode() == numbers.format_decimal(Decimal(number).scaleb(-scale, ENOUGH), plain)
