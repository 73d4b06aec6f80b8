"""Whether a map has a key twice, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.formats.compiled import Vector, Word, compiled

__all__ = ["MOST_KEYS", "repeats"]

#: How many keys of a map are looked at, how many are compared each with each, and how many of them may get in the way
#: of one: messages can be made so that all do.
MOST_KEYS = 1 << 15
_FEW_KEYS = 4
_MOST_PROBES = 64
_FNV_START, _FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
_MIXER, _U32 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(32)


@compiled
def _same(text: Vector, words: Vector, one: int, other: int) -> bool:
    """Whether the strings whose (start, size) is at ``words[one]`` and ``words[other]`` are the same."""
    if words[one + 1] != words[other + 1]:
        return False
    place, stop = words[one], words[one] + words[one + 1]
    shift = words[other] - place
    while place < stop and text[place] == text[place + shift]:
        place += 1
    return bool(place == stop)


@compiled
def repeats(text: Vector, words: Vector, first: int, last: int, places: Vector) -> bool:
    """Whether two of the strings whose (start, size) is in ``words[first:last]`` are the same, or may be.

    Few are compared with one another, more by a table of hashes in ``places``, which has room for twice MOST_KEYS
    numbers; more than MOST_KEYS are not looked at.
    """
    if last - first <= 2 * _FEW_KEYS:
        for one in range(first, last, 2):
            for other in range(first, one, 2):
                if _same(text, words, one, other):
                    return True
        return False
    if last - first > len(places):
        return True
    mask = 1
    while mask < last - first:
        mask *= 2
    mask -= 1
    for empty in range(mask + 1):
        places[empty] = -1
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
