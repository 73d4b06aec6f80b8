"""Numbers as text, inside compiled loops.

The loops refuse any case that they cannot decide; the format's exact reader decides it.
"""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.bytes import HIGH_BITS, NONE, eight_bytes, first_mark
from penstock.loops.compiled import Vector, Word, compiled, inlined
from penstock.loops.digits import digit_count, put_two_digits
from penstock.loops.floats import double_bits, to_double
from penstock.loops.type_roots import BIGINT, DECIMAL, DOUBLE

#: Returned by scanners instead of a position, for text that they refuse.
FAILED = -1

_LONGEST_NUMBER, _LARGEST_EXPONENT = 300, 9999
POWERS_OF_TEN = np.array([10**each for each in range(19)], np.int64)
_ZEROS, _BEYOND_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_TEN, _HUNDRED = np.uint64(10), np.uint64(100)
_EVERY_FOURTH, _U8, _U16, _U32 = np.uint64(0x000000FF000000FF), np.uint64(8), np.uint64(16), np.uint64(32)
_TO_EVEN, _TO_ODD = np.uint64(100 + (1_000_000 << 32)), np.uint64(1 + (10_000 << 32))
_LEAST = np.array([-(2**7), -(2**15), -(2**31), -(2**63)], np.int64)
_MOST = np.array([2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1], np.int64)


@inlined
def _more_digits(text: Vector, at: int, end: int, value: Word) -> tuple[int, Word]:
    """The end of the digits at ``at``, and the number that they form after the digits of ``value``; it may wrap.

    Reads eight digits at a time: their count is hard to predict, and a mispredicted branch costs more than the rest.
    """
    while at + 8 <= end:
        word = eight_bytes(text, at) ^ _ZEROS
        marks = ((word & ~HIGH_BITS) + _BEYOND_NINE | word) & HIGH_BITS
        if marks == NONE:
            value = value * 100_000_000 + _eight_digits(word)
            at += 8
            continue
        count = first_mark(marks)
        if count > 0:
            value = value * POWERS_OF_TEN[count] + _eight_digits(word << np.uint64(64 - 8 * count))
        return at + count, value
    while at < end and chars.ZERO <= text[at] <= chars.NINE:
        value = value * 10 + (text[at] - chars.ZERO)
        at += 1
    return at, value


@inlined
def _eight_digits(word: Word) -> Word:
    """The number in eight bytes of 0 to 9, the first one lowest: pairs of digits first, then pairs of pairs."""
    pairs = word * _TEN + (word >> _U8)
    even = (pairs & _EVERY_FOURTH) * _TO_EVEN
    odd = (pairs >> _U16 & _EVERY_FOURTH) * _TO_ODD
    return np.int64(even + odd >> _U32)


@inlined
def scan_number(text: Vector, at: int, end: int) -> tuple[int, Word, int, bool]:
    """Read a number in JSON's grammar: its end, its digits without point, its power of ten, and whether it is whole.

    The end is FAILED if it is malformed; the digits are FAILED if they exceed 63 bits.
    """
    start = at
    if at < end and text[at] == chars.MINUS:
        at += 1
    if at >= end or text[at] < chars.ZERO or text[at] > chars.NINE:
        return FAILED, 0, 0, False
    power, whole = 0, True
    if text[at] == chars.ZERO and at + 1 < end and chars.ZERO <= text[at + 1] <= chars.NINE:
        return FAILED, 0, 0, False
    first = at
    at, digits = _more_digits(text, at, end, np.int64(0))
    count = at - first
    if at < end and text[at] == chars.POINT:
        whole = False
        at += 1
        first = at
        at, digits = _more_digits(text, at, end, digits)
        power = first - at
        count -= power
        if power == 0:
            return FAILED, 0, 0, False
    last = at
    if at < end and text[at] | chars.LOWER_CASE == chars.LOWER_E:
        whole = False
        at += 1
        negative = False
        if at < end and (text[at] == chars.PLUS or text[at] == chars.MINUS):
            negative = text[at] == chars.MINUS
            at += 1
        first, given = at, 0
        while at < end and chars.ZERO <= text[at] <= chars.NINE:
            if given < 100000:
                given = given * 10 + (text[at] - chars.ZERO)
            at += 1
        if at == first or given > _LARGEST_EXPONENT:
            return FAILED, 0, 0, False
        power += -given if negative else given
    if at - start > _LONGEST_NUMBER:
        return FAILED, 0, 0, False
    if count > 18:
        while start < last and (text[start] < chars.ONE or text[start] > chars.NINE):
            count -= 1 if text[start] == chars.ZERO else 0
            start += 1
        if count > 19 or digits < 0:  # 19 digits fit into 64 bits, so a negative number has overflowed 63
            digits = np.int64(FAILED)
    return at, digits, power, whole


@compiled
def _single_is_safe(value: float, bits: int) -> bool:
    """Whether rounding this double to a float gives the float that is nearest to the original text."""
    return value == 0.0 or (1.2e-38 <= abs(value) <= 3.4e38 and bits & 0x1FFFFFFF != 0x10000000)


@compiled
def _scale(digits: Word, power: int, scale: int, precision: int) -> int:
    """``digits * 10**power`` at ``scale``, rounded half up, or FAILED where 18 digits or ``precision`` are too few."""
    shift = power + scale
    if shift >= 0:
        if digits and (shift > 18 or digits >= POWERS_OF_TEN[18 - shift]):
            return FAILED
        digits = digits * POWERS_OF_TEN[shift] if digits else digits
    elif shift < -18:
        digits = np.int64(0)
    else:
        unit = POWERS_OF_TEN[-shift]
        rest = digits % unit
        digits = digits // unit + (1 if rest >= unit - rest else 0)
    return digits if digits < POWERS_OF_TEN[min(precision, 18)] else FAILED


@inlined
def fits_integer(root: int, negative: bool, digits: Word) -> bool:
    """Whether a whole number is in the range of an integer type."""
    return bool(digits >= 0 and _LEAST[root] <= (-digits if negative else digits) <= _MOST[root])


@inlined
def number_value(
    root: int, negative: bool, digits: Word, power: int, whole: bool, scale: int, precision: int
) -> tuple[bool, Word]:
    """The 64 bits of a number in a numeric column; False if the exact reader must decide."""
    if digits < 0:
        return False, digits
    if root <= BIGINT:
        return whole and fits_integer(root, negative, digits), -digits if negative else digits
    if root == DECIMAL:
        value = _scale(digits, power, scale, precision)
        return value >= 0, -value if negative else value
    real = to_double(digits, power)
    if np.isnan(real):
        return False, digits
    bits = double_bits(-real if negative else real)
    return root == DOUBLE or _single_is_safe(real, bits), bits


@inlined
def magnitude(value: int) -> Word:
    """The absolute value as an unsigned number."""
    return np.uint64(-(value + 1)) + np.uint64(1) if value < 0 else np.uint64(value)


@inlined
def write_integer(out: Vector, at: int, value: int) -> int:
    """Write a signed 64-bit number; returns the position after it."""
    rest = magnitude(value)
    if value < 0:
        out[at] = chars.MINUS
        at += 1
    end = at + digit_count(rest)
    pos = end
    while rest >= _HUNDRED:
        pos -= 2
        put_two_digits(out, pos, rest % _HUNDRED)
        rest = rest // _HUNDRED
    if rest >= _TEN:
        put_two_digits(out, at, rest)
    else:
        out[at] = np.uint64(chars.ZERO) + rest
    return end
