"""Decimal digits inside compiled loops: how many a number has, and two at a time as text."""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.bytes import leading_zeros
from penstock.loops.compiled import Vector, Word, inlined

#: 00 to 99 as text, the first digit in the lower byte.
_PAIRS = np.array([chars.ZERO + each // 10 | (chars.ZERO + each % 10) << 8 for each in range(100)], np.uint16)
_POWERS = np.array([10**each for each in range(20)], np.uint64)
_ONE = np.uint64(1)


@inlined
def put_two_digits(out: Vector, at: int, value: Word) -> None:
    """Write a number from 0 to 99 with two digits."""
    pair = _PAIRS[value]
    out[at] = np.uint8(pair)
    out[at + 1] = np.uint8(pair >> 8)


@inlined
def digit_count(value: Word) -> int:
    """How many decimal digits an unsigned 64-bit number has."""
    value |= _ONE
    count = (64 - leading_zeros(value)) * 1233 >> 12  # the logarithm of 2 is 1233 / 4096, about
    return int(count + (1 if value >= _POWERS[count] else 0))
