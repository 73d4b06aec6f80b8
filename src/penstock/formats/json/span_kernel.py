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
