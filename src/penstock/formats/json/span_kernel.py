"""Where the values of a member of JSON objects, and the elements of JSON arrays are, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.formats.json.syntax import after_value, blank, string, unescape, value_end
from penstock.loops import chars
from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.record_status import EXACT, READ


@compiled
def find_members(text: Vector, starts: Vector, ends: Vector, key: Vector, status: Vector, found: Vector) -> None:
    """The spans of the values of the member ``key`` (its name, without quotes) of the objects in these spans whose
    ``status`` is READ, in ``found[row]``; of the last one, where it is given twice. (-1, -1) where there is none, or
    the value is null. The status of text that the loop cannot read becomes EXACT."""
    text, key = borrow(text), borrow(key)
    name = np.empty(len(key), np.uint8)
    for row in range(len(starts)):
        found[row, 0] = found[row, 1] = -1
        if status[row] != READ:
            continue
        at, end = blank(text, starts[row], ends[row]), ends[row]
        done = False
        if at < end and text[at] == chars.BRACE_OPEN:
            at = blank(text, at + 1, end)
            if at < end and text[at] == chars.BRACE_CLOSE:
                done = True
            while not done:
                if at >= end or text[at] != chars.QUOTE:
                    break
                start = at + 1
                at, size = string(text, start, end)
                if at < 0:
                    break
                same = size == len(key)
                if same:
                    if size != at - start:
                        unescape(text, start, name, 0, size)
                        same = same_bytes(name, 0, key, 0, size)
                    else:
                        same = same_bytes(text, start, key, 0, size)
                at = blank(text, at + 1, end)
                if at >= end or text[at] != chars.COLON:
                    break
                start = blank(text, at + 1, end)
                at = value_end(text, start, end)
                if at < 0:
                    break
                if same:
                    null = text[start] == chars.LOWER_N
                    found[row, 0], found[row, 1] = (-1, -1) if null else (start, at)
                at, done = after_value(text, at, end, chars.BRACE_CLOSE)
                if at < 0:
                    break
        if not done:
            status[row] = EXACT
            found[row, 0] = found[row, 1] = -1


@compiled
def find_fields(
    text: Vector, starts: Vector, ends: Vector, names: tuple[Vector, Vector], status: Vector, found: Vector
) -> None:
    """The spans of the values of several members of the objects in these spans whose ``status`` is READ:
    ``found[row, k]`` is where that of member ``k`` starts and ends, (-1, -1) where there is none, or it is null.
    ``names`` are the names, each with a quote behind it, as one text, and where each begins in it. The status of an
    object becomes EXACT that has one of them twice, or a name with escapes, or that the loop cannot read."""
    keys, key_starts = names
    text, keys = borrow(text), borrow(keys)
    count = len(key_starts) - 1
    for row in range(len(starts)):
        for key in range(count):
            found[row, key, 0] = found[row, key, 1] = -1
        if status[row] != READ:
            continue
        at, end = blank(text, starts[row], ends[row]), ends[row]
        done = False
        expected, seen = 0, 0
        if at < end and text[at] == chars.BRACE_OPEN:
            at = blank(text, at + 1, end)
            if at < end and text[at] == chars.BRACE_CLOSE:
                done = True
            while not done:
                if at >= end or text[at] != chars.QUOTE:
                    break
                start, member = at + 1, -1
                for tried in range(count):
                    key = (expected + tried) % count
                    size = key_starts[key + 1] - key_starts[key]
                    if start + size <= end and same_bytes(text, start, keys, key_starts[key], size):
                        member, at = key, start + size
                        break
                if member >= 0:
                    expected = member + 1
                    if seen >> member & 1:
                        break
                    seen |= 1 << member
                else:
                    at, size = string(text, start, end)
                    if at < 0 or size != at - start:
                        break
                    at += 1
                at = blank(text, at, end)
                if at >= end or text[at] != chars.COLON:
                    break
                start = blank(text, at + 1, end)
                at = value_end(text, start, end)
                if at < 0:
                    break
                if member >= 0 and text[start] != chars.LOWER_N:
                    found[row, member, 0], found[row, member, 1] = start, at
                at, done = after_value(text, at, end, chars.BRACE_CLOSE)
                if at < 0:
                    break
        if not done:
            status[row] = EXACT
            for key in range(count):
                found[row, key, 0] = found[row, key, 1] = -1


@compiled
def find_elements(text: Vector, starts: Vector, ends: Vector, status: Vector, found: Vector) -> int:
    """The elements of the arrays in these spans whose ``status`` is READ, one after the other: ``found`` gets the row,
    the start and the end of each, as far as it has room. Their number. Nulls are left out. The status of text that is
    not an array that the loop can read becomes EXACT, and gives no element."""
    text = borrow(text)
    count = 0
    for row in range(len(starts)):
        if status[row] != READ:
            continue
        before = count
        at, end = blank(text, starts[row], ends[row]), ends[row]
        done = False
        if at < end and text[at] == chars.BRACKET_OPEN:
            at = blank(text, at + 1, end)
            if at < end and text[at] == chars.BRACKET_CLOSE:
                done = True
            while not done:
                start = at
                at = value_end(text, start, end)
                if at < 0:
                    break
                if text[start] != chars.LOWER_N:
                    if count < len(found):
                        found[count, 0], found[count, 1], found[count, 2] = row, start, at
                    count += 1
                at, done = after_value(text, at, end, chars.BRACKET_CLOSE)
                if at < 0:
                    break
        if not done:
            status[row] = EXACT
            count = before
    return count
