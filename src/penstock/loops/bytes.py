"""Bytes inside compiled loops: compared, copied and read eight at a time, and little-endian numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from penstock.loops.compiled import Vector, Word, compiled, inlined

#: A one, and the highest bit, in each of eight bytes; no bit at all.
ONES, HIGH_BITS, NONE = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080), np.uint64(0)


@inlined
def same_bytes(text: Vector, start: int, other: Vector, first: int, size: int) -> bool:
    """Whether the ``size`` bytes from ``text[start]`` and from ``other[first]`` on are the same."""
    if size < 8:
        pos = 0
        while pos < size and text[start + pos] == other[first + pos]:
            pos += 1
        return bool(pos == size)
    for pos in range(0, size - 8, 8):
        if eight_bytes(text, start + pos) != eight_bytes(other, first + pos):
            return False
    return bool(eight_bytes(text, start + size - 8) == eight_bytes(other, first + size - 8))


@compiled
def copy_bytes(text: Vector, start: int, out: Vector, at: int, size: int) -> None:
    """Copy ``size`` bytes from ``text[start]`` to ``out[at]`` on."""
    if size < 8:
        for pos in range(size):
            out[at + pos] = text[start + pos]
        return
    for pos in range(0, size - 8, 8):
        put_eight_bytes(out, at + pos, eight_bytes(text, start + pos))
    put_eight_bytes(out, at + size - 8, eight_bytes(text, start + size - 8))


@intrinsic  # type: ignore[untyped-decorator]
def eight_bytes(_: Any, array: Any, at: Any) -> Any:
    """The eight bytes from ``array[at]`` on as an unsigned number, the first one lowest, for compiled code."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        pos = builder.gep(given.data, [arguments[1]])
        return builder.load(builder.bitcast(pos, context.get_value_type(types.uint64).as_pointer()), align=1)

    return types.uint64(array, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def put_eight_bytes(_: Any, array: Any, at: Any, word: Any) -> Any:
    """Write a number from :func:`eight_bytes` to ``array`` from ``array[at]`` on, for compiled code."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        pos = builder.gep(given.data, [arguments[1]])
        builder.store(arguments[2], builder.bitcast(pos, context.get_value_type(types.uint64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def first_mark(_: Any, marks: Any) -> Any:
    """The index of the first of eight bytes with a bit set, for compiled code; there must be one."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bit = builder.cttz(arguments[0], context.get_constant(types.boolean, True))
        return builder.lshr(bit, context.get_constant(types.uint64, 3))

    return types.int64(types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def leading_zeros(_: Any, value: Any) -> Any:
    """How many of the highest bits of an unsigned 64-bit number are zero, for compiled code."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], context.get_constant(types.boolean, False))

    return types.int64(types.uint64), build


@intrinsic  # type: ignore[untyped-decorator]
def high_product(_: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two unsigned 64-bit numbers, for compiled code."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = arguments[0].type
        wide = type(word)(2 * word.width)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        return builder.trunc(builder.lshr(product, wide(word.width)), word)

    return types.uint64(types.uint64, types.uint64), build


@inlined
def read_little_endian(data: Vector, at: int, size: int) -> Word:
    """The number in the ``size`` bytes from ``data[at]`` on, the least significant byte first."""
    value: Word = np.int64(0)
    for pos in range(size - 1, -1, -1):
        value = value << 8 | np.int64(data[at + pos])
    return value


@inlined
def write_little_endian(out: Vector, at: int, value: Word, size: int) -> int:
    """Write the lowest ``size`` bytes of a number, the least significant first; returns the position after them."""
    for _ in range(size):
        out[at] = value & 255
        value >>= 8
        at += 1
    return at
