"""Doubles and floats as text and back, inside compiled loops."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.exact.numbers import format_double, format_float
from penstock.loops.floats import LONGEST_FLOAT, to_double, write_double, write_float


def written_double(value: float) -> str:
    out = np.zeros(LONGEST_FLOAT, np.uint8)
    return bytes(out[: write_double(out, 0, struct.unpack("<q", struct.pack("<d", value))[0], False)]).decode()


def written_float(value: float) -> str:
    out = np.zeros(LONGEST_FLOAT, np.uint8)
    return bytes(out[: write_float(out, 0, struct.unpack("<i", struct.pack("<f", value))[0], False)]).decode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.0e-3, "0.001"),
        (9.99e-4, "9.99E-4"),
        (123456.789, "123456.789"),
        (2e23, "2.0E23"),
        (9007199254740993.0, "9.007199254740992E15"),
        (4.9e-324, "4.9E-324"),
        (9.9e-324, "9.9E-324"),
        (4.9e-323, "4.9E-323"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert (written_double(value), format_double(value)) == (text, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.1"), (16777216.0, "1.6777216E7"), (1.4e-45, "1.4E-45"), (3.4028235e38, "3.4028235E38"), (1e10, "1.0E10")],
)
def test_floats_as_java_prints_them(value: float, text: str) -> None:
    single = float(np.float32(value))
    assert (written_float(single), format_float(single)) == (text, text)


@settings(max_examples=500, deadline=None)
@given(st.floats() | st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]))
def test_doubles_read_back(value: float) -> None:
    text = written_double(value)
    assert text == format_double(value)
    if math.isfinite(value):
        assert math.copysign(1, float(text)) == math.copysign(1, value)
        assert float(text) == value


@settings(max_examples=500, deadline=None)
@given(st.floats(width=32))
def test_floats_read_back(value: float) -> None:
    text = written_float(value)
    assert text == format_float(value)
    if math.isfinite(value):
        assert np.float32(text) == np.float32(value)


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 10**18 - 1), st.integers(-400, 400) | st.integers(-30, 30))
def test_digits_to_the_nearest_double_or_no_answer(digits: int, exponent: int) -> None:
    found = to_double(digits, exponent)
    assert math.isnan(found) or found == float(f"{digits}e{exponent}")


@pytest.mark.parametrize(("digits", "exponent"), [(9007199254740993, 0), (17976931348623157, 290), (5, -1), (1, 22)])
def test_common_numbers_have_an_answer(digits: int, exponent: int) -> None:
    assert to_double(digits, exponent) == float(f"{digits}e{exponent}")
