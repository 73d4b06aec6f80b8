"""Protobuf's wire encoding of numbers, inside compiled loops, as its official parsers read it.

A number has at most ten bytes, and bits beyond 64 are cut off. Tags and lengths have at most five bytes; the parser for
Java accepts longer ones.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.protobuf.read_reasons import BAD_LENGTH, CUT_SHORT, TOO_LONG
from penstock.loops.bytes import read_little_endian
from penstock.loops.compiled import Vector, Word, compiled
from penstock.loops.floats import double_bits, float_value

#: Wire types.
VARINT, I64, LEN, SGROUP, EGROUP, I32 = 0, 1, 2, 3, 4, 5
#: The types of fields, with the numbers of descriptors.
TYPE_DOUBLE, TYPE_FLOAT, TYPE_INT64, TYPE_UINT64, TYPE_INT32, TYPE_FIXED64, TYPE_FIXED32 = range(1, 8)
TYPE_BOOL, TYPE_STRING, TYPE_GROUP, TYPE_MESSAGE = range(8, 12)
TYPE_BYTES, TYPE_UINT32, TYPE_ENUM, TYPE_SFIXED32, TYPE_SFIXED64, TYPE_SINT32, TYPE_SINT64 = range(12, 19)
#: The wire type of each type.
WIRES = np.array([9, 1, 5, 0, 0, 0, 1, 5, 0, 2, 3, 2, 2, 0, 0, 5, 1, 0, 0], np.int64)

_U0, _U7, _U127, _U128 = np.uint64(0), np.uint64(7), np.uint64(127), np.uint64(128)
_LOW_32 = np.int64(2**32 - 1)
_SHORT = 5


@compiled
def read_varint(text: Vector, at: int, end: int) -> tuple[Word, int]:
    """A number, and the position after it; a negative position is the reason why it cannot be read."""
    value, shift = _U0, _U0
    for pos in range(at, at + 10):
        if pos >= end:
            return np.int64(0), -CUT_SHORT
        each = np.uint64(text[pos])
        value |= (each & _U127) << shift
        if each < _U128:
            return np.int64(value), pos + 1
        shift += _U7
    return np.int64(0), -TOO_LONG


@compiled
def read_short(text: Vector, at: int, end: int, most: int) -> tuple[Word, int]:
    """A tag or a length up to ``most``, and the position after it; a negative position is the reason why it cannot be
    read."""
    value: Word = np.int64(0)
    for pos in range(at, at + _SHORT):
        if pos >= end:
            return np.int64(0), -CUT_SHORT
        each = np.int64(text[pos])
        value |= (each & 127) << 7 * (pos - at)
        if each < 128:
            return (value, pos + 1) if value <= most else (np.int64(0), -BAD_LENGTH)
    return np.int64(0), -TOO_LONG


@compiled
def _low_32(value: Word) -> Word:
    """The lower 32 bits, with their sign."""
    return np.int64(np.int32(value & _LOW_32))


@compiled
def read_number(text: Vector, at: int, end: int, field_type: int) -> tuple[Word, int]:
    """A value of a numeric type in the form of its column, and the position after it; as :func:`read_varint`.

    Unsigned numbers keep their bits, as in Java.
    """
    wire = WIRES[field_type]
    if wire == VARINT:
        if at < end and text[at] < 128:
            value: Word = np.int64(text[at])
            at += 1
        else:
            value, at = read_varint(text, at, end)
        if field_type in (TYPE_INT64, TYPE_UINT64):
            return value, at
        if field_type == TYPE_BOOL:
            return np.int64(value != 0), at
        if field_type == TYPE_SINT64:
            return np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & 1), at
        if field_type == TYPE_SINT32:
            value &= _LOW_32
            return value >> 1 ^ -(value & 1), at
        return _low_32(value), at
    size = 8 if wire == I64 else 4
    if size > end - at:
        return np.int64(0), -CUT_SHORT
    value = read_little_endian(text, at, size)
    if field_type == TYPE_FLOAT:
        value = double_bits(np.float64(float_value(value)))
    elif size == 4:
        value = _low_32(value)
    return value, at + size


@compiled
def write_varint(out: Vector, at: int, value: Word) -> int:
    """Write a number that ends before ``at``; returns where it begins."""
    if 0 <= value < 128:
        out[at - 1] = value
        return at - 1
    rest, size = np.uint64(value), 0
    while rest >= _U128:
        rest >>= _U7
        size += 1
    at -= size + 1
    rest = np.uint64(value)
    for pos in range(size):
        out[at + pos] = rest & _U127 | _U128
        rest >>= _U7
    out[at + size] = rest
    return at
