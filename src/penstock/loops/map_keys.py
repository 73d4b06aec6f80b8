"""Detection of repeated map keys inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, Word, compiled, inlined

#: The most keys of a map that are compared pairwise, the most that are compared at all, and the most collisions of one
#: key in the hash table, because messages may be crafted so that all keys collide.
_FEW_KEYS = 4
MOST_KEYS = 1 << 15
_MOST_PROBES = 64
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIXER, _U32 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


@inlined
def _are_equal(text: Vector, words: Vector, one: int, other: int, are_texts: bool) -> bool:
    """Whether the keys at ``words[one]`` and ``words[other]`` are equal."""
    if not are_texts:
        return bool(words[one] == words[other])
    size = words[one + 1]
    return bool(words[other + 1] == size and same_bytes(text, words[one], text, words[other], size))


@inlined
def _hash(text: Vector, words: Vector, one: int, are_texts: bool) -> Word:
    if are_texts:
        key = _FNV_START
        for index in range(words[one], words[one] + words[one + 1]):
            key = (key ^ np.uint64(text[index])) * _FNV_PRIME
    else:
        key = (np.uint64(words[one]) + _FNV_START) * _FNV_PRIME
    return (key ^ key >> _U32) * _MIXER


@compiled
def _clear_places(places: Vector, count: int) -> int:
    """Clear the first places, at least two per key and a power of two; returns their number less one."""
    mask = 1
    while mask < 2 * count:
        mask *= 2
    for empty in range(mask):
        places[empty] = -1
    return mask - 1


@compiled
def keys_repeat(text: Vector, words: Vector, first: int, last: int, places: Vector, are_texts: bool) -> bool:
    """Whether two of the keys in ``words[first:last]`` are equal, or may be: numbers, or (start, size) of texts.

    A few keys are compared pairwise. More go through a hash table in ``places``, which has room for two places per key.
    Very many are not compared.
    """
    width = 2 if are_texts else 1
    count = (last - first) // width
    if count <= _FEW_KEYS:
        for one in range(first, last, width):
            for other in range(first, one, width):
                if _are_equal(text, words, one, other, are_texts):
                    return True
        return False
    if 2 * count > len(places):
        return True
    mask = _clear_places(places, count)
    for one in range(first, last, width):
        pos: Word = np.int64(_hash(text, words, one, are_texts) >> _U32) & mask
        probes = 0
        while places[pos] >= 0:
            probes += 1
            if probes > _MOST_PROBES or _are_equal(text, words, one, places[pos], are_texts):
                return True
            pos = (pos + 1) & mask
        places[pos] = one
    return False
