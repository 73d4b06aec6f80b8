"""Schemas of messages told apart, and the decimals of Kafka Connect, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.decimals import HIGH_POWERS, LOW_POWERS, write_decimal, write_wide_decimal

#: The most bytes of a number of 128 bits.
_WIDEST = 16
_SIGN, _ALL_ONES = 128, 255
_U0, _U1, _BYTE, _TOP = np.uint64(0), np.uint64(1), np.uint64(8), np.uint64(56)


@compiled
def number_texts(text: Vector, starts: Vector, ends: Vector, codes: Vector, firsts: Vector) -> int:
    """Number the different texts of these spans: ``codes`` gets the number of each, and ``firsts`` the first span of
    each number. How many there are. It is quick if they are few."""
    text = borrow(text)
    count, last = 0, 0
    for row in range(len(starts)):
        start, size, code = starts[row], ends[row] - starts[row], -1
        for step in range(count):
            tried = (last + step) % count  # most have the text of the one before
            first = firsts[tried]
            if ends[first] - starts[first] == size and same_bytes(text, start, text, starts[first], size):
                code = tried
                break
        if code < 0:
            code = count
            firsts[count] = row
            count += 1
        codes[row] = last = code
    return count


@compiled
def read_unscaled(
    data: Vector, offsets: Vector, valid: Vector, precision: int, values: Vector, outside: Vector
) -> None:
    """Whole numbers in two's complement, the highest byte first, to the low and high 64 bits of each in ``values``.
    ``outside`` is 1 for one without bytes, of more than 128 bits, or of more than ``precision`` digits, unless that is
    0. Where it is, and where ``valid`` is 0, the value is 0."""
    data = borrow(data)
    for row in range(len(valid)):
        values[row, 0] = values[row, 1] = 0
        outside[row] = 0
        if valid[row] == 0:
            continue
        start, end = offsets[row], offsets[row + 1]
        if start == end:
            outside[row] = 1
            continue
        negative = data[start] >= _SIGN
        fill = _ALL_ONES if negative else 0
        while end - start > _WIDEST and data[start] == fill:
            start += 1
        if end - start > _WIDEST or (data[start] >= _SIGN) != negative:
            outside[row] = 1
            continue
        low = ~_U0 if negative else _U0
        high = low
        for pos in range(start, end):
            high = high << _BYTE | low >> _TOP
            low = low << _BYTE | np.uint64(data[pos])
        if precision > 0:
            least, most = low, high
            if negative:
                least = ~low + _U1
                most = ~high + (_U1 if least == _U0 else _U0)
            limit = HIGH_POWERS[precision]
            if most > limit or (most == limit and least >= LOW_POWERS[precision]):
                outside[row] = 1
                continue
        values[row, 0], values[row, 1] = np.int64(low), np.int64(high)


@compiled
def write_decimals(values: Vector, scales: Vector, valid: Vector, out: Vector, offsets: Vector) -> None:
    """The texts of decimals without an exponent, one behind the other: those of the low and high 64 bits in ``values``,
    each with its own scale. ``offsets`` gets where each begins, and the end."""
    at = 0
    offsets[0] = 0
    for row in range(len(valid)):
        if valid[row]:
            low, high, scale = values[row, 0], values[row, 1], scales[row]
            if low == 0 and high == 0:
                at = write_decimal(out, at, 0, max(scale, 0), True)
            else:
                at = write_wide_decimal(out, at, low, high, scale, True)
        offsets[row + 1] = at
