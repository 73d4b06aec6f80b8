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


#: A bucket of more rows is sorted by merging.
_FEW = 24


@compiled
def sort_rows(hashes: Vector, order: Vector, begins: Vector) -> None:
    """The rows by hash, and as they came within a hash, and whether each one's hash differs from the one before.

    Hashes are spread evenly over their range. So each row goes into one of as many buckets as there are rows, by the
    highest bits of its hash, and what is left to sort are buckets of a few rows.
    """
    rows = len(hashes)
    if rows == 0:
        return
    low, high, ascending = hashes[0], hashes[0], True
    for row in range(1, rows):
        ascending = ascending and hashes[row - 1] <= hashes[row]
        low, high = min(low, hashes[row]), max(high, hashes[row])
    if ascending:
        for row in range(rows):
            order[row] = row
            begins[row] = row == 0 or hashes[row] != hashes[row - 1]
        return
    shift = np.uint64(0)
    while ((high - low) >> shift) >= np.uint64(rows):
        shift += np.uint64(1)
    ends = np.zeros(np.int64((high - low) >> shift) + 2, np.int64)
    for row in range(rows):
        ends[np.int64((hashes[row] - low) >> shift) + 1] += 1
    for bucket in range(1, len(ends)):
        ends[bucket] += ends[bucket - 1]
    ordered = np.empty(rows, np.uint64)
    for row in range(rows):
        own: Word = np.int64((hashes[row] - low) >> shift)
        at = ends[own]
        ends[own] = at + 1
        ordered[at] = hashes[row]
        order[at] = row
    start = 0
    for bucket in range(len(ends) - 1):
        end = ends[bucket]
        if end - start > _FEW:
            _sort_by_merging(ordered, order, start, end)
        else:
            _sort_by_inserting(ordered, order, start, end)
        start = end
    begins[0] = True
    for row in range(1, rows):
        begins[row] = ordered[row] != ordered[row - 1]


@compiled
def sort_within(order: Vector, begins: Vector, hashes: Vector) -> None:
    """Sort the rows of each run, which begins where ``begins`` says, by a second hash, and set ``begins`` where it
    changes, too."""
    rows = len(order)
    ordered = hashes[order]
    start = 0
    while start < rows:
        end = start + 1
        while end < rows and not begins[end]:
            end += 1
        if end - start > _FEW:
            _sort_by_merging(ordered, order, start, end)
        else:
            _sort_by_inserting(ordered, order, start, end)
        for at in range(start + 1, end):
            begins[at] = ordered[at] != ordered[at - 1]
        start = end


@inlined
def _sort_by_inserting(ordered: Vector, order: Vector, start: int, end: int) -> None:
    for at in range(start + 1, end):
        key, row, to = ordered[at], order[at], at
        while to > start and ordered[to - 1] > key:
            ordered[to], order[to] = ordered[to - 1], order[to - 1]
            to -= 1
        ordered[to], order[to] = key, row


@compiled
def _sort_by_merging(ordered: Vector, order: Vector, start: int, end: int) -> None:
    by = np.argsort(ordered[start:end], kind="mergesort")
    ordered[start:end] = ordered[start:end][by]
    order[start:end] = order[start:end][by]


@inlined
def _filter_bits(hash: Word) -> Word:
    """Three of 64 bits, by the lowest bits of a hash."""
    one, six, mask = np.uint64(1), np.uint64(6), np.uint64(63)
    return one << (hash & mask) | one << (hash >> six & mask) | one << (hash >> six >> six & mask)


@compiled
def index_buckets(hashes: Vector, low: Word, shift: Word, filters: Vector, firsts: Vector) -> None:
    """For ascending hashes, the first row of each bucket, and which bits its hashes have."""
    bucket = -1
    for row in range(len(hashes)):
        own = np.int64((hashes[row] - low) >> shift)
        while bucket < own:
            bucket += 1
            firsts[bucket] = row
        filters[own] |= _filter_bits(hashes[row])
    while bucket < len(firsts) - 1:
        bucket += 1
        firsts[bucket] = len(hashes)


@compiled
def find_hashes(
    hashes: Vector,
    low: Word,
    shift: Word,
    filters: Vector,
    firsts: Vector,
    asked: Vector,
    which: Vector,
    found: Vector,
    starts: Vector,
    ends: Vector,
) -> int:
    """Look up the hashes ``asked[which]`` among the ascending ``hashes`` by their index. Writes which ones are there,
    and their rows: from where up to but not where. Returns how many are there."""
    count, most = 0, np.uint64(len(filters))
    for each in which:
        key = asked[each]
        bucket = (key - low) >> shift
        if key < low or bucket >= most:
            continue
        bits = _filter_bits(key)
        if filters[np.int64(bucket)] & bits != bits:
            continue
        start, end = np.int64(firsts[np.int64(bucket)]), np.int64(firsts[np.int64(bucket) + 1])
        while end - start > 32:  # some hashes have many rows
            middle = (start + end) >> 1
            if hashes[middle] < key:
                start = middle + 1
            else:
                end = middle
        while start < end and hashes[start] < key:
            start += 1
        if start == len(hashes) or hashes[start] != key:
            continue
        end = start + 1
        while end < len(hashes) and hashes[end] == key:
            end += 1
        found[count], starts[count], ends[count] = each, start, end
        count += 1
    return count
