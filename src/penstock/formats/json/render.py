"""Columns to JSON objects, nested ones included, inside a compiled loop that runs a table of steps."""

from __future__ import annotations

import numpy as np

from penstock.formats.calendar import write_date, write_time, write_timestamp
from penstock.formats.compiled import (
    Vector,
    Word,
    borrowed,
    compiled,
    eight_bytes,
    first_mark,
    inlined,
    put_eight_bytes,
)
from penstock.formats.digits import write_base64, write_decimal, write_integer
from penstock.formats.json.steps import (
    CLOSE,
    COLUMN,
    END,
    KEY,
    KIND,
    LIST,
    NAME,
    NAME_STOP,
    NEXT,
    NODE,
    PRECISION,
    ROW,
    SCALE,
    STEP,
    VALUE,
)
from penstock.formats.keys import MOST_KEYS, texts_repeat
from penstock.formats.kinds import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    MAP,
    OTHER,
    STRING,
    TIME,
    TIMESTAMP_LTZ,
)
from penstock.formats.nested import BASE, VALID_BASE
from penstock.formats.shortest import write_double, write_float
from penstock.formats.wide import write_wide_decimal

__all__ = ["WIDEST", "escaped_size", "write_records"]

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def _short_escapes() -> Vector:
    """What follows the backslash: 0 for a byte written as it is, ``u`` for one written as four digits, ``U`` for the
    first of four bytes that are written as two of those."""
    marks = np.zeros(256, np.uint8)
    marks[:32] = ord("u")
    marks[0xF0:0xF5] = ord("U")
    for plain, mark in zip(b'\b\t\n\f\r"\\', b'btnfr"\\', strict=True):
        marks[plain] = mark
    return marks


_ESCAPES = _short_escapes()
_UNITS = np.array([10 ** (9 - digits) for digits in range(10)], np.int64)

_QUOTES, _BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
_ONES, _SPACES = np.uint64(0x0101010101010101), np.uint64(0x2020202020202020)
_HIGH_BITS, _NONE = np.uint64(0x8080808080808080), np.uint64(0)
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


@compiled
def escaped_size(text: Vector) -> int:
    """How many bytes the text takes when everything is escaped that must be."""
    size = len(text)
    for each in text:
        if _ESCAPES[each]:
            size += 5 if _ESCAPES[each] == 117 else 8 if _ESCAPES[each] == 85 else 1
    return size


@inlined
def _write_code(out: Vector, at: int, code: Word) -> int:
    r"""``\u`` and four digits at ``out[at]``; the position after them."""
    out[at], out[at + 1] = 92, 117
    out[at + 2], out[at + 3] = _HEX[code >> 12], _HEX[code >> 8 & 15]
    out[at + 4], out[at + 5] = _HEX[code >> 4 & 15], _HEX[code & 15]
    return at + 6


@compiled
def _write_pair(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    """A character of four bytes as the two halves of a surrogate pair, as Jackson writes it; the position after it.
    The same position where there is no such character."""
    if start + 4 > end:
        return at
    code = (np.int64(text[start]) & 7) << 18 | (np.int64(text[start + 1]) & 63) << 12
    code = (code | (np.int64(text[start + 2]) & 63) << 6 | np.int64(text[start + 3]) & 63) - 0x10000
    if not 0 <= code < 1 << 20:
        return at
    return _write_code(out, _write_code(out, at, 0xD800 | code >> 10), 0xDC00 | code & 0x3FF)


@inlined
def _write_string(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    out[at] = 34
    at += 1
    while start < end:
        while start + 8 <= end:
            word = eight_bytes(text, start)
            put_eight_bytes(out, at, word)
            quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
            marks = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (word - _SPACES) & ~word
            marks |= word & word << _ONE & word << _TWO & word << _THREE  # bytes from 0xF0 on
            if marks & _HIGH_BITS != _NONE:
                plain = first_mark(marks & _HIGH_BITS)
                start += plain
                at += plain
                break
            start += 8
            at += 8
        if start < end:
            each = text[start]
            start += 1
            mark = _ESCAPES[each]
            if mark == 0:
                out[at] = each
                at += 1
                continue
            if mark == 85:
                after = _write_pair(out, at, text, start - 1, end)
                if after == at:
                    out[at] = each
                    at += 1
                else:
                    at = after
                    start += 3
            elif mark == 117:
                at = _write_code(out, at, np.int64(each))
            else:
                out[at], out[at + 1] = 92, mark
                at += 2
    out[at] = 34
    return at + 1


@inlined
def _write_word(out: Vector, at: int, value: int) -> int:
    """``true``, ``false`` or, for a negative value, ``null``."""
    if value < 0:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 110, 117, 108, 108
        return at + 4
    if value:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 116, 114, 117, 101
        return at + 4
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 102, 97, 108, 115, 101
    return at + 5


@inlined
def _write_fixed(out: Vector, at: int, kind: int, value: int, precision: int, separator: int, zone: bool) -> int:
    """A value of fixed width at ``out[at]``; the position after it, or -1 for one that this does not write."""
    if kind <= BIGINT:
        return write_integer(out, at, value)
    if kind == DOUBLE:
        return write_double(out, at, value, True)
    if kind == FLOAT:
        return write_float(out, at, value, True)
    if kind == BOOLEAN:
        return _write_word(out, at, value)
    out[at] = 34
    if kind == DATE:
        at = write_date(out, at + 1, value)
    elif kind == TIME:
        at = write_time(out, at + 1, value - value % _UNITS[precision])
    else:
        at = write_timestamp(out, at + 1, value, separator, zone or kind == TIMESTAMP_LTZ)
    if at < 0:
        return at
    out[at] = 34
    return at + 1


@compiled
def _repeats(text: Vector, words: Vector, base: int, first: int, last: int, spans: Vector, places: Vector) -> bool:
    """Whether two of the strings ``first`` to ``last`` of the node at ``base`` may be the same."""
    if last - first < 2 or last - first > MOST_KEYS:
        return last - first > MOST_KEYS
    for key in range(first, last):
        start = words[base + key]
        spans[2 * (key - first)], spans[2 * (key - first) + 1] = start, words[base + key + 1] - start
    return texts_repeat(text, spans, 0, 2 * (last - first), places)


@compiled
def write_records(
    steps: Vector,
    names: Vector,
    nodes: Vector,
    words: Vector,
    valid: Vector,
    text: Vector,
    separator: int,
    zone: bool,
    plain: bool,
    omit: bool,
    out: Vector,
    offsets: Vector,
) -> int:
    """Write one object per row, one after the other, and where each of them ends.

    ``steps`` and ``names`` are those of :class:`penstock.formats.json.steps.Steps`, the others those of
    :class:`penstock.formats.nested.NestedInputs`. ``zone``: write a ``Z`` behind every timestamp. ``plain``: decimals
    without exponent. ``omit``: leave out fields that are null. Gives -1, or a column with a value that is left to
    :mod:`penstock.formats.json.texts`.
    """
    names, text, out = borrowed(names), borrowed(text), borrowed(out)
    frames = np.zeros((len(steps), 2), np.int64)  # of each open array or map: its place, and its last item
    spans, places = np.empty(2 * MOST_KEYS, np.int64), np.empty(2 * MOST_KEYS, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        index, step, depth = row, 0, 0
        while True:
            what = steps[step, STEP]
            if what == END:
                break
            node, kind = steps[step, NODE], steps[step, KIND]
            column: int = steps[step, COLUMN]
            if what <= LIST:
                present = valid[nodes[node, VALID_BASE] + index]
                place, stop = steps[step, NAME], steps[step, NAME_STOP]
                if place < stop:
                    if omit and not present:
                        step = steps[step, NEXT]
                        continue
                    if out[at - 1] == 123:  # the first one: no comma
                        place += 1
                    while place < stop:
                        put_eight_bytes(out, at, eight_bytes(names, place))
                        taken = min(stop - place, 8)
                        place += taken
                        at += taken
                if not present:
                    at = _write_word(out, at, -1)
                    step = steps[step, NEXT]
                    continue
            place = nodes[node, BASE] + index
            if what == VALUE:
                step += 1
                if kind == STRING:
                    at = _write_string(out, at, text, words[place], words[place + 1])
                elif kind == BYTES:
                    out[at] = 34
                    at = write_base64(out, at + 1, text, words[place], words[place + 1])
                    out[at] = 34
                    at += 1
                elif kind == DECIMAL:
                    low, high = words[place + index], words[place + index + 1]
                    if high == low >> 63:
                        at = write_decimal(out, at, low, steps[step - 1, SCALE], plain)
                    else:
                        at = write_wide_decimal(out, at, low, high, steps[step - 1, SCALE], plain)
                elif kind == OTHER:
                    for each in range(words[place], words[place + 1]):
                        out[at] = text[each]
                        at += 1
                else:
                    at = _write_fixed(out, at, kind, words[place], steps[step - 1, PRECISION], separator, zone)
                    if at < 0:
                        return column
            elif what == ROW:
                out[at] = 123
                at += 1
                step += 1
            elif what == CLOSE:
                out[at] = 125
                at += 1
                step += 1
            elif what == LIST:
                first, last = words[place], words[place + 1]
                out[at] = 123 if kind == MAP else 91
                at += 1
                if first == last:
                    out[at] = 125 if kind == MAP else 93
                    at += 1
                    step = steps[step, NEXT]
                    continue
                if kind == MAP and _repeats(text, words, nodes[node + 1, BASE], first, last, spans, places):
                    return column
                frames[depth, 0], frames[depth, 1] = index, last
                depth += 1
                index = first
                step += 1
            elif what == KEY:
                at = _write_string(out, at, text, words[place], words[place + 1])
                out[at] = 58
                at += 1
                step += 1
            else:
                index += 1
                if index < frames[depth - 1, 1]:
                    out[at] = 44
                    step = steps[step, NEXT]
                else:
                    out[at] = 125 if kind == MAP else 93
                    depth -= 1
                    index = frames[depth, 0]
                    step += 1
                at += 1
        offsets[row + 1] = at
    return -1
