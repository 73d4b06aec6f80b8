"""Decimals of up to 128 bits as text, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.compiled import Vector, Word, compiled
from penstock.loops.digits import digit_count
from penstock.loops.numbers import magnitude, scan_number, write_integer

_LONGEST = 38
_U0, _U1, _U10, _U32 = np.uint64(0), np.uint64(1), np.uint64(10), np.uint64(32)
_LOW_HALF, _GROUP = np.uint64(0xFFFFFFFF), np.uint64(10**9)
#: The lower and upper 64 bits of powers of ten.
LOW_POWERS = np.array([10**each & (2**64 - 1) for each in range(_LONGEST + 1)], np.uint64)
HIGH_POWERS = np.array([10**each >> 64 for each in range(_LONGEST + 1)], np.uint64)


@compiled
def _ten_times(low: Word, high: Word, digit: Word) -> tuple[Word, Word]:
    """Ten times an unsigned number of 128 bits, and a digit more."""
    first = (low & _LOW_HALF) * _U10 + digit
    second = (low >> _U32) * _U10 + (first >> _U32)
    return second << _U32 | first & _LOW_HALF, high * _U10 + (second >> _U32)


@compiled
def wide_decimal(text: Vector, start: int, end: int, scale: int, precision: int) -> tuple[bool, Word, Word]:
    """The low and high 64 bits of the number in ``text[start:end]`` at ``scale``, rounded half up.

    False if the text is not a JSON number, or if the result has more than ``precision`` digits.
    """
    low, high = _U0, _U0
    stop, _, power, _ = scan_number(text, start, end)
    if stop != end:
        return False, np.int64(0), np.int64(0)
    negative = text[start] == chars.MINUS
    at, digits = start, 0
    while at < end and text[at] | chars.LOWER_CASE != chars.LOWER_E:
        if chars.ZERO <= text[at] <= chars.NINE and (digits or text[at] != chars.ZERO):
            digits += 1
        at += 1
    kept = digits + power + scale
    if digits and kept > precision:
        return False, np.int64(0), np.int64(0)
    stop = at
    at, taken, next_digit = start, 0, np.uint64(0)
    while at < stop and kept >= 0:
        each = text[at]
        at += 1
        if each < chars.ZERO or each > chars.NINE or (taken == 0 and each == chars.ZERO):
            continue
        if taken == kept:
            next_digit = np.uint64(each - chars.ZERO)
            break
        low, high = _ten_times(low, high, np.uint64(each - chars.ZERO))
        taken += 1
    if digits:
        for _ in range(taken, kept):
            low, high = _ten_times(low, high, _U0)
    if next_digit > np.uint64(4):
        low += _U1
        high += _U1 if low == _U0 else _U0
    if high > HIGH_POWERS[precision] or (high == HIGH_POWERS[precision] and low >= LOW_POWERS[precision]):
        return False, np.int64(0), np.int64(0)
    if negative:
        low = ~low + _U1
        high = ~high + (_U1 if low == _U0 else _U0)
    return True, np.int64(low), np.int64(high)


@compiled
def write_wide_decimal(out: Vector, at: int, low: Word, high: Word, scale: int, plain: bool) -> int:
    """Write a decimal other than zero, as :func:`write_decimal` does; returns the position after it."""
    one, other = np.uint64(low), np.uint64(high)
    if high < 0:
        one = ~one + _U1
        other = ~other + (_U1 if one == _U0 else _U0)
        out[at] = chars.MINUS
        at += 1
    digits = np.empty(_LONGEST + 7, np.uint8)  # the last one first
    count = 0
    while one != _U0 or other != _U0:
        rest = other % _GROUP
        other //= _GROUP
        upper = rest << _U32 | one >> _U32
        rest = upper % _GROUP
        lower = rest << _U32 | one & _LOW_HALF
        one = (upper // _GROUP) << _U32 | lower // _GROUP
        rest = lower % _GROUP
        for _ in range(9):
            digits[count] = np.uint64(chars.ZERO) + rest % _U10
            rest //= _U10
            count += 1
    while digits[count - 1] == chars.ZERO:
        count -= 1
    first = 0
    while not plain and digits[first] == chars.ZERO:
        first += 1
        scale -= 1
    size = count - first
    power = size - 1 - scale
    scientific = not plain and (scale < 0 or power < -6)
    whole = 1 if scientific else size - scale  # The number of digits before the point
    if whole <= 0:
        out[at], out[at + 1] = chars.ZERO, chars.POINT
        at += 2
        for _ in range(-whole):
            out[at] = chars.ZERO
            at += 1
    for pos in range(size):
        if pos == whole and pos > 0:
            out[at] = chars.POINT
            at += 1
        out[at] = digits[count - 1 - pos]
        at += 1
    if scientific:
        out[at] = chars.UPPER_E
        out[at + 1] = chars.MINUS if power < 0 else chars.PLUS
        return write_integer(out, at + 2, abs(power))
    for _ in range(-scale):
        out[at] = chars.ZERO
        at += 1
    return at


@compiled
def write_decimal(out: Vector, at: int, value: int, scale: int, plain: bool) -> int:
    """``value / 10**scale`` at ``out[at]``: as ``BigDecimal.toPlainString`` if ``plain``, else as ``toString`` after
    ``stripTrailingZeros``.

    At most 60 bytes; the position after them.
    """
    rest = magnitude(value)
    if rest == _U0 and not plain:
        out[at] = chars.ZERO
        return at + 1
    if value < 0:
        out[at] = chars.MINUS
        at += 1
    while not plain and rest % _U10 == _U0:
        rest = rest // _U10
        scale -= 1
    count = digit_count(rest)
    power = count - 1 - scale
    scientific = not plain and (scale < 0 or power < -6)
    if scientific:
        fraction = count - 1
    else:
        fraction = max(scale, 0)
        for _ in range(count, fraction + 1):  # leading zeros of 0.00x
            out[at] = chars.ZERO
            at += 1
        if fraction >= count:
            at -= fraction + 1 - count
            count = fraction + 1
    end = at + count + (1 if fraction else 0)
    pos = end - 1
    for done in range(count):
        if fraction and done == fraction:
            out[pos] = chars.POINT
            pos -= 1
        out[pos] = np.uint64(chars.ZERO) + rest % _U10
        rest = rest // _U10
        pos -= 1
    if scientific:
        out[end] = chars.UPPER_E
        out[end + 1] = chars.MINUS if power < 0 else chars.PLUS
        return write_integer(out, end + 2, abs(power))
    for _ in range(-scale):
        out[end] = chars.ZERO
        end += 1
    return end
