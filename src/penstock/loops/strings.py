"""Strings inside compiled loops."""

from __future__ import annotations

from penstock.loops.bytes import copy_bytes
from penstock.loops.compiled import Vector, compiled


@compiled
def is_utf8(text: Vector, at: int, end: int) -> bool:
    """Whether the bytes are well-formed UTF-8."""
    while at < end:
        first = text[at]
        if first < 0x80:
            at += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more >= end:
            return False
        second = text[at + 1]
        low, high = 0x80, 0xBF
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
        elif first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
        if second < low or second > high:
            return False
        for pos in range(at + 2, at + more + 1):
            if text[pos] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@compiled
def gather_strings(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Copy strings one after the other to ``out`` at ``offsets``."""
    for row in range(len(valid)):
        if valid[row]:
            copy_bytes(text, spans[row, 0], out, offsets[row], spans[row, 1])
