"""Detection of repeated map keys inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.formats.loops.compiled import Vector, Word, compiled

#: How many keys of a map are compared each with each, how many are looked at, and how many of them may get in the way
#: of one: messages can be made so that all do.
_FEW_KEYS = 4
MOST_KEYS = 1 << 15
_MOST_PROBES = 64
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIXER, _U32 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


@compiled
def _same(text: Vector, words: Vector, one: int, other: int) -> bool:
    """Whether the strings with (start, size) at ``words[one]`` and ``words[other]`` are equal."""
    if words[one + 1] != words[other + 1]:
        return False
    place, stop = words[one], words[one] + words[one + 1]
    shift = words[other] - place
    while place < stop and text[place] == text[place + shift]:
        place += 1
    return bool(place == stop)


@compiled
def _emptied(places: Vector, count: int) -> int:
    """Clear the first places, at least two per key and a power of two; returns their number less one."""
    mask = 1
    while mask < 2 * count:
        mask *= 2
    for empty in range(mask):
        places[empty] = -1
    return mask - 1


@compiled
def texts_repeat(text: Vector, words: Vector, first: int, last: int, places: Vector) -> bool:
    """Whether two of the strings with (start, size) in ``words[first:last]`` are equal, or may be.

    A few strings are compared pairwise. More go through a hash table in ``places``, which has room for two places per
    key. Very many are not compared.
    """
    count = (last - first) // 2
    if count <= _FEW_KEYS:
        for one in range(first, last, 2):
            for other in range(first, one, 2):
                if _same(text, words, one, other):
                    return True
        return False
    if 2 * count > len(places):
        return True
    mask = _emptied(places, count)
    for one in range(first, last, 2):
        key = _FNV_START
        for index in range(words[one], words[one] + words[one + 1]):
            key = (key ^ np.uint64(text[index])) * _FNV_PRIME
        key = (key ^ key >> _U32) * _MIXER
        place: Word = np.int64(key >> _U32) & mask
        probes = 0
        while places[place] >= 0:
            probes += 1
            if probes > _MOST_PROBES or _same(text, words, one, places[place]):
                return True
            place = (place + 1) & mask
        places[place] = one
    return False


@compiled
def numbers_repeat(words: Vector, first: int, last: int, places: Vector) -> bool:
    """Whether two of ``words[first:last]`` are equal, or may be; like :func:`texts_repeat`."""
    if last - first <= _FEW_KEYS:
        for one in range(first, last):
            for other in range(first, one):
                if words[one] == words[other]:
                    return True
        return False
    if 2 * (last - first) > len(places):
        return True
    mask = _emptied(places, last - first)
    for one in range(first, last):
        key = (np.uint64(words[one]) + _FNV_START) * _FNV_PRIME
        key = (key ^ key >> _U32) * _MIXER
        place: Word = np.int64(key >> _U32) & mask
        probes = 0
        while places[place] >= 0:
            probes += 1
            if probes > _MOST_PROBES or words[one] == words[places[place]]:
                return True
            place = (place + 1) & mask
        places[place] = one
    return False
