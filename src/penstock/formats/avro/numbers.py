"""Avro's encoding of numbers, inside compiled loops.

Reading follows Avro's Java library: an int has at most five bytes and a long ten, and excess bits are cut off.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.avro.read_reasons import CUT_SHORT, TOO_LONG
from penstock.loops.compiled import Vector, Word, compiled
from penstock.loops.decimals import HIGH_POWERS, LOW_POWERS

_U0, _U1, _U7, _U8, _U56, _U127 = (np.uint64(each) for each in (0, 1, 7, 8, 56, 127))
_ONES, _LOW_32 = np.uint64(2**64 - 1), np.uint64(2**32 - 1)


@compiled
def read_number(text: Vector, at: int, end: int, most: int) -> tuple[Word, int]:
    """An int or long of at most ``most`` bytes, and the position after it. A negative position is the reason why the
    number cannot be read."""
    value, shift = _U0, _U0
    for pos in range(at, at + most):
        if pos >= end:
            return np.int64(0), -CUT_SHORT
        each = np.uint64(text[pos])
        value |= (each & _U127) << shift
        if each <= _U127:
            if most == 5:
                value &= _LOW_32
            return np.int64(value >> _U1) ^ -np.int64(value & _U1), pos + 1
        shift += _U7
    return np.int64(0), -TOO_LONG


@compiled
def read_decimal(text: Vector, start: int, size: int, digits: int) -> tuple[bool, Word, Word]:
    """Whether a number of ``size`` bytes has at most ``digits`` digits, and its lower and upper 64 bits."""
    negative = text[start] >= 128
    sign = 255 if negative else 0
    while size > 16:
        if text[start] != sign:
            return False, np.int64(0), np.int64(0)
        start += 1
        size -= 1
    if (text[start] >= 128) != negative:
        return False, np.int64(0), np.int64(0)
    low = high = _ONES if negative else _U0
    for pos in range(start, start + size):
        high = high << _U8 | low >> _U56
        low = low << _U8 | np.uint64(text[pos])
    if negative:
        absolute = ~low + _U1
        above = ~high + (_U1 if absolute == _U0 else _U0)
    else:
        absolute, above = low, high
    limit = HIGH_POWERS[digits]
    fits = above < limit or (above == limit and absolute < LOW_POWERS[digits])
    return fits, np.int64(low), np.int64(high)


@compiled
def write_number(out: Vector, at: int, value: int) -> int:
    """Write a number in zigzag encoding, seven bits per byte; returns the position after it."""
    rest = np.uint64(value << 1 ^ value >> 63)
    while rest > _U127:
        out[at] = np.uint8(rest & _U127) | np.uint8(128)
        at += 1
        rest >>= _U7
    out[at] = np.uint8(rest)
    return at + 1


@compiled
def byte_at(low: int, high: int, pos: int) -> int:
    """Byte ``pos`` of the 16 bytes of a number, counted from the least significant one."""
    return (low >> 8 * pos if pos < 8 else high >> 8 * (pos - 8)) & 255


@compiled
def decimal_size(low: int, high: int) -> int:
    """The least number of bytes that hold a number of 128 bits and its sign."""
    sign = 255 if high < 0 else 0
    size = 16
    while size > 1 and byte_at(low, high, size - 1) == sign and byte_at(low, high, size - 2) & 128 == sign & 128:
        size -= 1
    return size
