"""Columns to lines of CSV, inside a compiled loop."""

from __future__ import annotations

from penstock.formats.csv.exact_writer import LONGEST_LOOKED_AT
from penstock.formats.loops import chars, type_roots
from penstock.formats.loops.base64 import write_base64
from penstock.formats.loops.compiled import Vector, borrowed, compiled
from penstock.formats.loops.decimals import write_decimal
from penstock.formats.loops.floats import write_double, write_float
from penstock.formats.loops.numbers import write_integer
from penstock.formats.loops.timestamps import write_date, write_time, write_timestamp

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64


@compiled
def _quoted(out: Vector, start: int, end: int, quote: int, escape: int, safe: int) -> int:
    """Quote the text at ``out[start:end]`` in place if it needs quotes; returns the position after it.

    Text needs quotes if it is long, or has a character below ``safe`` or the escape character (a backslash if there is
    none), as in Jackson. Quotes and escapes are doubled.
    """
    size, needed, doubled = 0, False, 0
    for place in range(start, end):
        each = out[place]
        if each & 0xC0 != 0x80:
            size += 2 if each >= 0xF0 else 1
        if each < safe or each == (escape if escape >= 0 else chars.BACKSLASH):
            needed = True
        if each in (quote, escape):
            doubled += 1
    if quote < 0 or not (needed or size > LONGEST_LOOKED_AT):
        return end
    to = end + doubled + 2
    out[to - 1] = quote
    place = to - 2
    for at in range(end - 1, start - 1, -1):
        out[place] = out[at]
        place -= 1
        if out[place + 1] == quote or out[place + 1] == escape:
            out[place] = out[place + 1]
            place -= 1
    out[start] = quote
    return to


@compiled
def _write_fixed(out: Vector, at: int, root: int, value: int, scale: int) -> int:
    """A value of fixed width at ``out[at]``; the position after it."""
    if root <= type_roots.BIGINT:
        return write_integer(out, at, value)
    if root == type_roots.DOUBLE:
        return write_double(out, at, value, False)
    if root == type_roots.FLOAT:
        return write_float(out, at, value, False)
    if root == type_roots.DECIMAL:
        return write_decimal(out, at, value, scale, True)
    if root == type_roots.DATE:
        return write_date(out, at, value)
    if root == type_roots.TIME:
        return write_time(out, at, value)
    return write_timestamp(out, at, value, chars.SPACE, root == type_roots.TIMESTAMP_LTZ)


@compiled
def _copy(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    for place in range(start, end):
        out[at] = text[place]
        at += 1
    return at


@compiled
def write_records(
    columns: Vector,
    fixed: Vector,
    text: Vector,
    spans: Vector,
    valid: Vector,
    words: Vector,
    word_starts: Vector,
    delimiter: int,
    quote: int,
    escape: int,
    safe: int,
    out: Vector,
    offsets: Vector,
) -> None:
    """Write one line per row, one after the other and without line ends, and store the end of each in ``offsets``.

    ``columns``, ``fixed``, ``text``, ``spans`` and ``valid`` are the fields of
    :class:`penstock.formats.csv.columns.Inputs`. ``words`` are the texts of false, true and NULL. ``safe`` is the least
    character that needs no quotes.
    """
    text, words, out = borrowed(text), borrowed(words), borrowed(out)
    at = 0
    for row in range(len(offsets) - 1):
        for column in range(len(columns)):
            if column:
                out[at] = delimiter
                at += 1
            root, slot = columns[column, 0], columns[column, 1]
            start = at
            if not valid[column, row]:
                at = _copy(out, at, words, word_starts[2], word_starts[3])
            elif root == type_roots.BOOLEAN:
                word = fixed[slot, row]
                at = _copy(out, at, words, word_starts[word], word_starts[word + 1])
            elif root in (type_roots.STRING, type_roots.OTHER):
                at = _copy(out, at, text, spans[slot, row, 0], spans[slot, row, 1])
                if root == type_roots.STRING:
                    at = _quoted(out, start, at, quote, escape, safe)
            elif root == type_roots.BYTES:
                at = write_base64(out, at, text, spans[slot, row, 0], spans[slot, row, 1])
                at = _quoted(out, start, at, quote, escape, safe)
            else:
                at = _write_fixed(out, at, root, fixed[slot, row], columns[column, 3])
                if root > type_roots.DECIMAL:
                    at = _quoted(out, start, at, quote, escape, safe)
        offsets[row + 1] = at
