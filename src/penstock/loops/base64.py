"""Base64 to bytes and back, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.compiled import Vector, compiled
from penstock.loops.numbers import FAILED

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_SEXTETS = np.full(256, 255, np.uint8)
_SEXTETS[_ALPHABET] = np.arange(64)


@compiled
def base64_size(text: Vector, start: int, end: int) -> int:
    """The number of bytes that the base64 text encodes, or FAILED if it is not plain, padded base64."""
    size = end - start
    if size % 4:
        return FAILED
    padding = 0
    if size and text[end - 1] == chars.EQUALS:
        padding = 2 if text[end - 2] == chars.EQUALS else 1
    for at in range(start, end - padding):
        if _SEXTETS[text[at]] == 255:
            return FAILED
    return size // 4 * 3 - padding


@compiled
def gather_base64(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Decode base64 strings one after the other to ``out`` at ``offsets``."""
    for row in range(len(valid)):
        if not valid[row]:
            continue
        at, last, start = offsets[row], offsets[row + 1], spans[row, 0]
        while at < last:
            word = (
                np.int64(_SEXTETS[text[start]]) << 18
                | np.int64(_SEXTETS[text[start + 1]]) << 12
                | (np.int64(_SEXTETS[text[start + 2]]) & 63) << 6
                | np.int64(_SEXTETS[text[start + 3]]) & 63
            )
            for shift in (16, 8, 0):
                if at < last:
                    out[at] = word >> shift & 255
                    at += 1
            start += 4


@compiled
def write_base64(out: Vector, at: int, data: Vector, start: int, end: int) -> int:
    """Write ``data[start:end]`` in padded base64; returns the position after it."""
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
        out[at + 2] = _ALPHABET[word >> 6 & 63] if start + 1 < end else chars.EQUALS
        out[at + 3] = chars.EQUALS
        at += 4
    return at
