"""Compiled loops over hashes and keys: mixing, sorting, comparing, searching."""

from __future__ import annotations

import numpy as np

from penstock.formats.loops.bytes import eight_bytes, same_bytes
from penstock.formats.loops.compiled import Vector, Word, compiled, inlined

# Odd numbers whose bits look random. They are part of the state's format: hashes are kept in segments.
_SEED = np.uint64(0x8C5F0B9D3A6E42F7)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_LEFT = np.uint64(0xBF58476D1CE4E5B9)
_RIGHT = np.uint64(0x94D049BB133111EB)

#: What stands for NULL, and what the hash of a list begins with.
NULL_WORD = np.uint64(0x6E1F4C93A7D02B85)
LIST_WORD = np.uint64(0x27B4A8D5C3916EF1)
START = np.uint64(0x51ED270B9F3A68CD)


@inlined
def _mixed(word: Word) -> Word:
    """A bijection of 64 bits in which each bit of the result depends on all bits of ``word``: the last steps of
    SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * _LEFT
    word = (word ^ (word >> np.uint64(27))) * _RIGHT
    return word ^ (word >> np.uint64(31))


@inlined
def _folded(state: Word, word: Word) -> Word:
    """``state`` after one more word; for one state, different words give different results."""
    return _mixed(((state << np.uint64(29)) | (state >> np.uint64(35))) * _STEP ^ word)


@compiled
def fold_words(states: Vector, words: Vector) -> None:
    """Add one word to each of ``states``."""
    for row in range(len(states)):
        states[row] = _folded(states[row], words[row])


@compiled
def fold_lists(offsets: Vector, words: Vector, out: Vector) -> None:
    """A word per list from the words of its elements, which stand between its offsets."""
    for row in range(len(out)):
        state = _folded(LIST_WORD, np.uint64(offsets[row + 1] - offsets[row]))
        for at in range(offsets[row], offsets[row + 1]):
            state = _folded(state, words[at])
        out[row] = state


@compiled
def fold_bytes(data: Vector, offsets: Vector, out: Vector) -> None:
    """A word per string of bytes: its size, then eight bytes at a time, the last ones filled up with zeros."""
    for row in range(len(out)):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        state = _SEED ^ np.uint64(end - at)
        while end - at >= 8:
            state = (state ^ eight_bytes(data, at)) * _STEP
            state ^= state >> np.uint64(32)
            at += 8
        if at < end:
            tail = np.uint64(0)
            for pos in range(end - 1, at - 1, -1):
                tail = tail << np.uint64(8) | np.uint64(data[pos])
            state = (state ^ tail) * _STEP
        out[row] = _mixed(state)


@compiled
def compare_bytes(
    data: Vector, offsets: Vector, rows: Vector, others: Vector, other_offsets: Vector, other_rows: Vector, out: Vector
) -> None:
    """Whether the strings of bytes at ``rows`` equal those at ``other_rows`` of another column."""
    for pair in range(len(out)):
        left, right = rows[pair], other_rows[pair]
        start, first = int(offsets[left]), int(other_offsets[right])
        size = int(offsets[left + 1]) - start
        out[pair] = size == int(other_offsets[right + 1]) - first and same_bytes(data, start, others, first, size)
