"""Integers, decimals and base64 as text inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.formats.compiled import Vector, Word, compiled, inlined

__all__ = ["write_base64", "write_decimal", "write_integer"]

_U0, _U10 = np.uint64(0), np.uint64(10)
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)


@inlined
def _magnitude(value: int) -> Word:
    return np.uint64(-(value + 1)) + np.uint64(1) if value < 0 else np.uint64(value)


@inlined
def _width(value: Word) -> int:
    """How many decimal digits an unsigned number has."""
    count = 1
    while value >= _U10:
        value = value // _U10
        count += 1
    return count


@inlined
def write_integer(out: Vector, at: int, value: int) -> int:
    """A signed 64-bit number at ``out[at]``; the position after it."""
    rest = _magnitude(value)
    if value < 0:
        out[at] = 45
        at += 1
    end = at + _width(rest)
    for place in range(end - 1, at - 1, -1):
        out[place] = np.uint64(48) + rest % _U10
        rest = rest // _U10
    return end


@compiled
def write_decimal(out: Vector, at: int, value: int, scale: int, plain: bool) -> int:
    """``value / 10**scale`` at ``out[at]``: as ``BigDecimal.toPlainString`` if ``plain``, else as ``toString`` after
    ``stripTrailingZeros``.

    At most 60 bytes; the position after them.
    """
    rest = _magnitude(value)
    if rest == _U0 and not plain:
        out[at] = 48
        return at + 1
    if value < 0:
        out[at] = 45
        at += 1
    while not plain and rest % _U10 == _U0:
        rest = rest // _U10
        scale -= 1
    count = _width(rest)
    power = count - 1 - scale
    scientific = not plain and (scale < 0 or power < -6)
    if scientific:
        fraction = count - 1
    else:
        fraction = max(scale, 0)
        for _ in range(count, fraction + 1):  # leading zeros of 0.00x
            out[at] = 48
            at += 1
        if fraction >= count:
            at -= fraction + 1 - count
            count = fraction + 1
    end = at + count + (1 if fraction else 0)
    place = end - 1
    for done in range(count):
        if fraction and done == fraction:
            out[place] = 46
            place -= 1
        out[place] = np.uint64(48) + rest % _U10
        rest = rest // _U10
        place -= 1
    if scientific:
        out[end] = 69
        out[end + 1] = 45 if power < 0 else 43
        return write_integer(out, end + 2, abs(power))
    for _ in range(-scale):
        out[end] = 48
        end += 1
    return end


@compiled
def write_base64(out: Vector, at: int, data: Vector, start: int, end: int) -> int:
    """``data[start:end]`` in padded base64 at ``out[at]``; the position after it."""
    while start + 2 < end:
        word = np.int64(data[start]) << 16 | np.int64(data[start + 1]) << 8 | np.int64(data[start + 2])
        out[at], out[at + 1] = _ALPHABET[word >> 18], _ALPHABET[word >> 12 & 63]
        out[at + 2], out[at + 3] = _ALPHABET[word >> 6 & 63], _ALPHABET[word & 63]
        start += 3
        at += 4
    if start < end:
        word = np.int64(data[start]) << 16
        if start + 1 < end:
            word |= np.int64(data[start + 1]) << 8
        out[at], out[at + 1] = _ALPHABET[word >> 18], _ALPHABET[word >> 12 & 63]
        out[at + 2] = _ALPHABET[word >> 6 & 63] if start + 1 < end else 61
        out[at + 3] = 61
        at += 4
    return at
