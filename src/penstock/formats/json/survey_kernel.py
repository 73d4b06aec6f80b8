"""Which fields JSON objects have, and of what kinds their values are, inside a compiled loop.

The loop gives no values. Objects that it cannot read are marked EXACT; :mod:`penstock.formats.json.survey` reads them.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.json.syntax import after_value, blank, string, unescape, value_end
from penstock.loops import chars, type_roots
from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, borrow, compiled, inlined
from penstock.loops.numbers import FAILED, scan_number
from penstock.loops.record_status import EXACT, READ
from penstock.loops.values import scan_word, text_value
from penstock.types.logical import MAX_PRECISION

#: The kinds of values. HUGE is an integer of more than 38 digits, LARGE one of more than 64 bits.
NULL, BOOLEAN, INTEGER, LARGE, HUGE, FRACTION, TEXT, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, OBJECT, ARRAY = range(13)
KINDS = 13

#: The columns of ``sizes``: the most digits of a LARGE integer, and of the fractions of times and timestamps.
DIGITS, FRACTIONS = 0, 1

#: The number of digits of the largest integers of 64 bits, and the least one without its sign.
_LONGEST = 19
_LEAST = np.frombuffer(b"9223372036854775808", np.uint8)


@inlined
def _integer_kind(text: Vector, start: int, end: int, digits: int) -> tuple[int, int]:
    """The kind of a whole number in ``text[start:end]``, and the number of its digits."""
    negative = text[start] == chars.MINUS
    count = end - start - (1 if negative else 0)
    if digits >= 0 or count < _LONGEST:
        return INTEGER, count
    if count == _LONGEST:
        # scan_number has 63 bits, and one number of 64 bits needs more
        return (INTEGER if negative and same_bytes(text, start + 1, _LEAST, 0, _LONGEST) else LARGE), count
    return (LARGE if count <= MAX_PRECISION else HUGE), count


@inlined
def text_kind(text: Vector, start: int, end: int, separator: int) -> tuple[int, int]:
    """The kind of a string without escapes, and the number of digits of its fraction of a second."""
    size = end - start
    if size < 8 or size > 30 or text[start] < chars.ZERO or text[start] > chars.NINE:
        return TEXT, 0
    kind = TEXT
    if text[start + 2] == chars.COLON:
        if text_value(type_roots.TIME, text, start, end, 0, 9, separator)[0]:
            kind = TIME
    elif text[start + 4] == chars.MINUS:
        if size == 10:
            if text_value(type_roots.DATE, text, start, end, 0, 0, separator)[0]:
                return DATE, 0
        elif text_value(type_roots.TIMESTAMP, text, start, end, 0, 0, separator)[0]:
            kind = TIMESTAMP
        elif text_value(type_roots.TIMESTAMP_LTZ, text, start, end, 0, 0, separator)[0]:
            kind = TIMESTAMP_LTZ
            end -= 1
    if kind == TEXT:
        return TEXT, 0
    at = end
    while at > start and text[at - 1] != chars.POINT and text[at - 1] != chars.COLON:
        at -= 1
    return kind, end - at if text[at - 1] == chars.POINT else 0


@compiled
def survey_objects(
    text: Vector,
    starts: Vector,
    ends: Vector,
    names: tuple[Vector, Vector],
    separator: int,
    status: Vector,
    firsts: Vector,
    sizes: Vector,
    unknown: Vector,
) -> int:
    """Survey the objects ``text[starts[row]:ends[row]]`` whose ``status`` is READ. Text after an object is ignored.

    ``names`` are the names of the known fields, joined, each without its first quote and with a colon, and their
    offsets. ``firsts[f, kind]`` becomes the first row in which field ``f`` has a value of that kind; -1 stays where
    there is none. ``sizes[f]`` become the most digits. ``separator`` is the character between date and time.

    A field that is not known becomes a row of ``unknown``: the row, and the start and the size of its name, the start
    as ``~start`` if there are escapes. Returns how many there are, of which those are lost that have no room.
    """
    keys, key_starts = names
    text, keys = borrow(text), borrow(keys)
    arity = len(key_starts) - 1
    name = np.empty(len(keys), np.uint8)
    lost = 0
    for row in range(len(starts)):
        if status[row] != READ:
            continue
        before = lost
        at, end = blank(text, starts[row], ends[row]), ends[row]
        done = False
        expected = 0
        if at < end and text[at] == chars.BRACE_OPEN:
            at = blank(text, at + 1, end)
            if at < end and text[at] == chars.BRACE_CLOSE:
                done = True
            while not done:
                if at >= end or text[at] != chars.QUOTE:
                    break
                start = at + 1
                field = -1
                size = key_starts[expected + 1] - key_starts[expected] if expected < arity else 0
                if size > 0 and start + size <= end and same_bytes(text, start, keys, key_starts[expected], size):
                    field = expected
                    at = start + size
                else:
                    at, size = string(text, start, end)
                    if at < 0:
                        break
                    escaped = size != at - start
                    if escaped and size <= len(name):
                        unescape(text, start, name, 0, size)
                    for tried in range(arity):
                        pos = key_starts[tried]
                        if key_starts[tried + 1] - pos == size + 2 and (
                            same_bytes(name, 0, keys, pos, size)
                            if escaped
                            else same_bytes(text, start, keys, pos, size)
                        ):
                            field = tried
                            break
                    if field < 0:
                        if lost < len(unknown):
                            unknown[lost, 0] = row
                            unknown[lost, 1], unknown[lost, 2] = ~start if escaped else start, size
                        lost += 1
                    at = blank(text, at + 1, end)
                    if at >= end or text[at] != chars.COLON:
                        break
                    at += 1
                at = blank(text, at, end)
                if at >= end:
                    break
                if field < 0:
                    at = value_end(text, at, end)
                    if at < 0:
                        break
                else:
                    expected = field + 1
                    mark, kind, count, column = text[at], NULL, 0, FRACTIONS
                    if mark == chars.QUOTE:
                        start = at + 1
                        at, size = string(text, start, end)
                        if at < 0:
                            break
                        kind = TEXT
                        if size == at - start:
                            kind, count = text_kind(text, start, at, separator)
                        at += 1
                    elif mark == chars.MINUS or chars.ZERO <= mark <= chars.NINE:
                        start = at
                        at, digits, _, whole = scan_number(text, at, end)
                        if at == FAILED:
                            break
                        kind, column = FRACTION, DIGITS
                        if whole:
                            kind, count = _integer_kind(text, start, at, digits)
                    elif mark in (chars.BRACE_OPEN, chars.BRACKET_OPEN):
                        kind = OBJECT if mark == chars.BRACE_OPEN else ARRAY
                        at = value_end(text, at, end)
                        if at < 0:
                            break
                    else:
                        at = scan_word(text, at, end)
                        if at < 0:
                            break
                        kind = NULL if mark == chars.LOWER_N else BOOLEAN
                    if firsts[field, kind] < 0:
                        firsts[field, kind] = row
                    if kind == LARGE or kind in (TIME, TIMESTAMP, TIMESTAMP_LTZ):
                        sizes[field, column] = max(sizes[field, column], count)
                at, done = after_value(text, at, end, chars.BRACE_CLOSE)
                if at < 0:
                    break
        if not done:
            status[row] = EXACT
            lost = before
    return lost
