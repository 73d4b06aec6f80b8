"""Which fields JSON objects have, and of what kinds their values are, inside a compiled loop.

Values that fit the type of a known column are not noted. The loop gives no values. Objects that it cannot read are
marked EXACT; :mod:`penstock.formats.json.survey` reads them.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.json.syntax import after_value, blank, string, unescape, value_end
from penstock.loops import chars, type_roots
from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, borrow, compiled, inlined
from penstock.loops.floats import to_double
from penstock.loops.numbers import FAILED, fits_integer, scan_number
from penstock.loops.record_status import EXACT, READ
from penstock.loops.values import scan_word, text_value
from penstock.types.logical import MAX_LENGTH, MAX_PRECISION

#: The kinds of values. HUGE is an integer of more than 38 digits, LARGE one of more than 64 bits.
NULL, BOOLEAN, INTEGER, LARGE, HUGE, FRACTION, TEXT, DATE, TIME, TIMESTAMP, TIMESTAMP_LTZ, OBJECT, ARRAY = range(13)
KINDS = 13

#: The columns of ``sizes``: the most digits of a LARGE integer, or before the point of a number in a DECIMAL column;
#: and the most digits of the fractions of times and timestamps, or behind that point.
DIGITS, FRACTIONS = 0, 1

#: The root of a column without a type, into which no value fits.
UNTYPED = -1

#: The largest whole number up to which a FLOAT holds all, and its range beside zero.
FLOAT_WHOLE, FLOAT_LEAST, FLOAT_MOST = 1 << 24, 1.17549435e-38, 3.4028234e38

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


@inlined
def _decimal_digits(text: Vector, start: int, end: int) -> tuple[int, int]:
    """The digits of a number before and behind its point, without a leading zero and zeros at the end; FAILED if it has
    an exponent."""
    at = start + 1 if text[start] == chars.MINUS else start
    if text[at] == chars.ZERO:
        at += 1
    first, point = at, end
    while at < end:
        if text[at] == chars.POINT:
            point = at
        elif text[at] | chars.LOWER_CASE == chars.LOWER_E:
            return FAILED, 0
        at += 1
    while at > point + 1 and text[at - 1] == chars.ZERO:
        at -= 1
    return point - first, max(0, at - point - 1)


@inlined
def _characters(text: Vector, start: int, end: int) -> int:
    """The number of characters of UTF-8."""
    count = 0
    for at in range(start, end):
        if text[at] & 0xC0 != 0x80:
            count += 1
    return count


@inlined
def _fits_text(kind: int, root: int, precision: int, count: int) -> bool:
    """Whether a string of that kind, whose fraction of a second has ``count`` digits, fits a column that is not
    STRING."""
    if root == type_roots.DATE:
        return kind == DATE
    if root == type_roots.TIME:
        return kind == TIME and count <= precision
    if root == type_roots.TIMESTAMP:
        return kind == DATE or (kind == TIMESTAMP and count <= precision)
    if root == type_roots.TIMESTAMP_LTZ:
        return kind == DATE or (kind in (TIMESTAMP, TIMESTAMP_LTZ) and count <= precision)
    return root == type_roots.BYTES


@compiled
def survey_objects(
    text: Vector,
    starts: Vector,
    ends: Vector,
    names: tuple[Vector, Vector],
    types: Vector,
    separator: int,
    status: Vector,
    firsts: Vector,
    sizes: Vector,
    unknown: Vector,
) -> int:
    """Survey the objects ``text[starts[row]:ends[row]]`` whose ``status`` is READ. Text after an object is ignored.

    ``names`` are the names of the known fields, joined, each without its first quote and with a colon, and their
    offsets. ``types[f]`` has the root of the field's type, or UNTYPED, its precision or length, and its scale.
    ``firsts[f, kind]`` becomes the first row in which field ``f`` has a value of that kind which does not fit its type;
    -1 stays where there is none. ``sizes[f]`` become the most digits of these. ``separator`` is the character between
    date and time.

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
                    root, precision, scale = types[field, 0], types[field, 1], types[field, 2]
                    mark, kind, count, column = text[at], NULL, 0, FRACTIONS
                    begin, fits = at, root == type_roots.STRING
                    if mark == chars.QUOTE:
                        start = at + 1
                        at, size = string(text, start, end)
                        if at < 0:
                            break
                        if fits:
                            if size > precision:
                                if size != at - start:
                                    break
                                fits = _characters(text, start, at) <= precision
                            kind = TEXT
                        else:
                            kind = TEXT
                            if size == at - start:
                                kind, count = text_kind(text, start, at, separator)
                            fits = _fits_text(kind, root, precision, count)
                        at += 1
                    elif mark == chars.MINUS or chars.ZERO <= mark <= chars.NINE:
                        start = at
                        at, digits, power, whole = scan_number(text, at, end)
                        if at == FAILED:
                            break
                        kind, column = FRACTION, DIGITS
                        if whole:
                            kind, count = _integer_kind(text, start, at, digits)
                        if root == type_roots.DECIMAL:
                            count, behind = _decimal_digits(text, start, at)
                            if count == FAILED:
                                break
                            fits = count <= precision - scale and behind <= scale
                            if not fits:
                                sizes[field, FRACTIONS] = max(sizes[field, FRACTIONS], behind)
                        elif root == type_roots.DOUBLE:
                            fits = kind in (INTEGER, FRACTION)
                        elif root == type_roots.FLOAT:
                            if digits < 0:
                                break
                            fits = digits <= FLOAT_WHOLE
                            if kind == FRACTION:
                                real = to_double(digits, power)
                                if np.isnan(real):
                                    break
                                fits = digits == 0 or FLOAT_LEAST <= real <= FLOAT_MOST
                        elif 0 <= root <= type_roots.BIGINT:
                            fits = kind == INTEGER and (
                                root == type_roots.BIGINT or fits_integer(root, mark == chars.MINUS, digits)
                            )
                        elif fits:
                            fits = at - start <= precision
                    elif mark in (chars.BRACE_OPEN, chars.BRACKET_OPEN):
                        kind = OBJECT if mark == chars.BRACE_OPEN else ARRAY
                        at = value_end(text, at, end)
                        if at < 0:
                            break
                        if root >= type_roots.ROW:
                            fits = (root == type_roots.ARRAY) == (kind == ARRAY)
                        elif fits:
                            fits = precision == MAX_LENGTH
                    else:
                        at = scan_word(text, at, end)
                        if at < 0:
                            break
                        kind = NULL if mark == chars.LOWER_N else BOOLEAN
                        if kind == NULL:
                            fits = root != UNTYPED
                        elif fits:
                            fits = at - begin <= precision
                        else:
                            fits = root == type_roots.BOOLEAN
                    if not fits:
                        if firsts[field, kind] < 0:
                            firsts[field, kind] = row
                        if root == type_roots.DECIMAL or kind == LARGE or kind in (TIME, TIMESTAMP, TIMESTAMP_LTZ):
                            sizes[field, column] = max(sizes[field, column], count)
                at, done = after_value(text, at, end, chars.BRACE_CLOSE)
                if at < 0:
                    break
        if not done:
            status[row] = EXACT
            lost = before
    return lost
