"""Compiled loops over hashes and keys: mixing, sorting, comparing, searching."""

from __future__ import annotations

import numpy as np

from penstock.loops.bytes import eight_bytes, same_bytes
from penstock.loops.compiled import Vector, Word, compiled, inlined

# Odd numbers whose bits look random. They are part of the state's format: hashes are kept in segments.
_SEED = np.uint64(0x8C5F0B9D3A6E42F7)
_STEP = np.uint64(0xD6E8FEB86659FD93)
_LEFT = np.uint64(0xBF58476D1CE4E5B9)
_RIGHT = np.uint64(0x94D049BB133111EB)

#: The hash of NULL, and the initial value of a list's hash.
NULL_WORD = np.uint64(0x6E1F4C93A7D02B85)
LIST_WORD = np.uint64(0x27B4A8D5C3916EF1)
START = np.uint64(0x51ED270B9F3A68CD)


@inlined
def _mix_bits(word: Word) -> Word:
    """A bijection of 64 bits in which each bit of the result depends on all bits of ``word``: the last steps of
    SplitMix64."""
    word = (word ^ (word >> np.uint64(30))) * _LEFT
    word = (word ^ (word >> np.uint64(27))) * _RIGHT
    return word ^ (word >> np.uint64(31))


@inlined
def _fold_word(state: Word, word: Word) -> Word:
    """``state`` after one more word; for one state, different words give different results."""
    return _mix_bits(((state << np.uint64(29)) | (state >> np.uint64(35))) * _STEP ^ word)


@compiled
def fold_words(states: Vector, words: Vector) -> None:
    """Add one word to each of ``states``."""
    for row in range(len(states)):
        states[row] = _fold_word(states[row], words[row])


@compiled
def add_words(sums: Vector, seed: Word, words: Vector) -> None:
    """Mix one word with ``seed`` and add it to each of ``sums``, unless it is the hash of NULL."""
    for row in range(len(sums)):
        if words[row] != NULL_WORD:
            sums[row] += _fold_word(seed, words[row])


@compiled
def fold_lists(offsets: Vector, words: Vector, out: Vector) -> None:
    """A word per list from the words of its elements, which are between its offsets."""
    for row in range(len(out)):
        state = _fold_word(LIST_WORD, np.uint64(offsets[row + 1] - offsets[row]))
        for at in range(offsets[row], offsets[row + 1]):
            state = _fold_word(state, words[at])
        out[row] = state


@compiled
def fold_bytes(data: Vector, offsets: Vector, out: Vector) -> None:
    """A word per string of bytes: its size, then eight bytes at a time, the last ones filled up with zeros."""
    for row in range(len(out)):
        at, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        state = _mix_bits(_SEED + np.uint64(end - at))
        while end - at >= 8:
            state = (state ^ eight_bytes(data, at)) * _STEP
            state ^= state >> np.uint64(32)
            at += 8
        if at < end:
            tail = np.uint64(0)
            for pos in range(end - 1, at - 1, -1):
                tail = tail << np.uint64(8) | np.uint64(data[pos])
            state = (state ^ tail) * _STEP
        out[row] = _mix_bits(state)


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


#: The most rows that are sorted by insertion.
_FEW = 24


@compiled
def sort_rows(hashes: Vector, order: Vector, begins: Vector) -> None:
    """The rows by hash, stable within a hash, and whether each one's hash differs from the previous one's.

    Hashes are spread evenly over their range. So each row goes into one of as many buckets as there are rows, by the
    highest bits of its hash, and what is left to sort are buckets of a few rows.
    """
    rows = len(hashes)
    ascending = True
    for row in range(1, rows):
        ascending = ascending and hashes[row - 1] <= hashes[row]
    for row in range(rows):
        order[row] = row
    ordered = hashes
    if not ascending:
        ordered = hashes.copy()
        ends = _spread(ordered, order, 0, rows)
        start = 0
        for bucket in range(len(ends) - 1):
            if ends[bucket] - start > _FEW:
                _sort_many(ordered, order, start, ends[bucket])
            else:
                _sort_few(ordered, order, start, ends[bucket])
            start = ends[bucket]
    for row in range(rows):
        begins[row] = row == 0 or ordered[row] != ordered[row - 1]


@compiled
def _spread(ordered: Vector, order: Vector, start: int, end: int) -> Vector:
    """Move the rows from ``start`` to ``end`` (exclusive) into buckets, stably. Returns the ends of the buckets."""
    low, high = ordered[start], ordered[start]
    for at in range(start, end):
        low, high = min(low, ordered[at]), max(high, ordered[at])
    shift = np.uint64(0)
    while ((high - low) >> shift) >= np.uint64(end - start):
        shift += np.uint64(1)
    ends = np.zeros(np.int64((high - low) >> shift) + 2, np.int64)
    for at in range(start, end):
        ends[np.int64((ordered[at] - low) >> shift) + 1] += 1
    ends[0] = start
    for bucket in range(1, len(ends)):
        ends[bucket] += ends[bucket - 1]
    hashes, rows = ordered[start:end].copy(), order[start:end].copy()
    for at in range(end - start):
        own = np.int64((hashes[at] - low) >> shift)
        to = ends[own]
        ends[own] = to + 1
        ordered[to], order[to] = hashes[at], rows[at]
    return ends


@compiled
def _sort_many(ordered: Vector, order: Vector, start: int, end: int) -> None:
    """Sort the rows from ``start`` to ``end`` (exclusive), which have one hash, or hashes in small parts of the range,
    as one key with many values has."""
    same = True
    for at in range(start + 1, end):
        same = same and ordered[at] == ordered[start]
    if same:
        return
    ends = _spread(ordered, order, start, end)
    for bucket in range(len(ends) - 1):
        if ends[bucket] - start > _FEW:
            by = np.argsort(ordered[start : ends[bucket]], kind="mergesort")
            ordered[start : ends[bucket]] = ordered[start : ends[bucket]][by]
            order[start : ends[bucket]] = order[start : ends[bucket]][by]
        else:
            _sort_few(ordered, order, start, ends[bucket])
        start = ends[bucket]


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
            _sort_many(ordered, order, start, end)
        else:
            _sort_few(ordered, order, start, end)
        for at in range(start + 1, end):
            begins[at] = ordered[at] != ordered[at - 1]
        start = end


@inlined
def _sort_few(ordered: Vector, order: Vector, start: int, end: int) -> None:
    for at in range(start + 1, end):
        key, row, to = ordered[at], order[at], at
        while to > start and ordered[to - 1] > key:
            ordered[to], order[to] = ordered[to - 1], order[to - 1]
            to -= 1
        ordered[to], order[to] = key, row


@compiled
def search_within(values: Vector, starts: Vector, ends: Vector, wanted: Vector, out: Vector) -> None:
    """For each range of ascending values, from ``starts`` to ``ends`` (exclusive), the first position whose value is at
    least the one that is ``wanted``; the end if there is none."""
    for at in range(len(starts)):
        low, high = starts[at], ends[at]
        while low < high:
            middle = (low + high) // 2
            if values[middle] < wanted[at]:
                low = middle + 1
            else:
                high = middle
        out[at] = low


@inlined
def _filter_bits(key: Word) -> Word:
    """Three of 64 bits, by the lowest bits of a hash."""
    one, six, mask = np.uint64(1), np.uint64(6), np.uint64(63)
    return one << (key & mask) | one << (key >> six & mask) | one << (key >> six >> six & mask)


@compiled
def index_buckets(hashes: Vector, low: Word, shift: Word, firsts: Vector) -> int:
    """For ascending hashes, the first row of each bucket. Returns how many buckets have rows."""
    bucket, used = -1, 0
    for row in range(len(hashes)):
        own: Word = np.int64((hashes[row] - low) >> shift)
        used += bucket < own
        while bucket < own:
            bucket += 1
            firsts[bucket] = row
    while bucket < len(firsts) - 1:
        bucket += 1
        firsts[bucket] = len(hashes)
    return used


@inlined
def _choose_filter(key: Word, bucket: Word, filters: int, spread: Word) -> Word:
    """The filter of a hash: its bucket's or, to ``spread`` hashes, the one of its middle bits."""
    if spread:
        return np.int64(((key * _STEP) >> np.uint64(32)) * np.uint64(filters) >> np.uint64(32))
    return np.int64(bucket)


@compiled
def index_filters(hashes: Vector, low: Word, shift: Word, spread: Word, filters: Vector) -> None:
    """Set the bits of the hashes in their filters."""
    for row in range(len(hashes)):
        own = _choose_filter(hashes[row], (hashes[row] - low) >> shift, len(filters), spread)
        filters[own] |= _filter_bits(hashes[row])


@compiled
def find_hashes(
    hashes: Vector,
    low: Word,
    shift: Word,
    spread: Word,
    filters: Vector,
    firsts: Vector,
    asked: Vector,
    which: Vector,
    found: Vector,
    starts: Vector,
    ends: Vector,
) -> int:
    """Look up the hashes ``asked[which]`` among the ascending ``hashes`` by their index. Writes which ones are there,
    and their rows: from where, and until where (exclusive). Returns how many are there."""
    count, most, rows = 0, np.uint64(len(filters)), len(hashes)
    for each in which:
        key = asked[each]
        bucket = (key - low) >> shift
        if key < low or bucket >= most:
            continue
        bits = _filter_bits(key)
        if filters[_choose_filter(key, bucket, len(filters), spread)] & bits != bits:
            continue
        own: Word = np.int64(bucket)
        start = _first_not_below(hashes, key, np.int64(firsts[own]), np.int64(firsts[own + 1]))
        if start == rows or hashes[start] != key:
            continue
        end = start + 1
        if end < rows and hashes[end] == key:
            step = 1
            while end + step < rows and hashes[end + step] == key:
                end += step
                step += step
            end = _first_above(hashes, key, end, min(end + step, rows))
        found[count], starts[count], ends[count] = each, start, end
        count += 1
    return count


@inlined
def _first_not_below(hashes: Vector, key: Word, start: Word, end: Word) -> Word:
    """The first row from ``start`` on whose hash is not below ``key``, at most ``end``. In a full bucket, whose hashes
    are close together, their distances estimate its position."""
    guess = True
    while end - start > _FEW:
        first, last = hashes[start], hashes[end - 1]
        if key <= first or key > last:
            return start if key <= first else end
        middle: Word = (start + end) >> 1
        if guess:
            share = np.float64(key - first) / np.float64(last - first)
            middle = min(start + np.int64(share * (end - start)), end - 1)
        guess = not guess
        if hashes[middle] < key:
            start = middle + 1
        else:
            end = middle
    while start < end and hashes[start] < key:
        start += 1
    return start


@inlined
def _first_above(hashes: Vector, key: Word, start: int, end: int) -> int:
    """The first row from ``start`` on whose hash is above ``key``, at most ``end``."""
    while start < end:
        middle = (start + end) >> 1
        if hashes[middle] > key:
            end = middle
        else:
            start = middle + 1
    return start


@compiled
def sum_found_weights(known: Vector, found: Vector, asked: Vector, weights: Vector) -> int:
    """The sum of the ``weights`` of those hashes ``asked`` that are among the ``known`` ones and were found; both are
    ascending."""
    at, total = 0, 0
    for one in range(len(asked)):
        while at < len(known) and known[at] < asked[one]:
            at += 1
        if at < len(known) and known[at] == asked[one] and found[at]:
            total += weights[one]
    return total
