"""Columns to lines of CSV, inside a compiled loop."""

from __future__ import annotations

from penstock.columns.nested import BASE, ROOT, VALID_BASE
from penstock.formats.csv.exact_writer import LONGEST_CHECKED
from penstock.loops import chars, type_roots
from penstock.loops.base64 import write_base64
from penstock.loops.bytes import copy_bytes
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.decimals import write_decimal, write_wide_decimal
from penstock.loops.values import write_value

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64


@compiled
def _quote(out: Vector, start: int, end: int, quote: int, escape: int, safe: int) -> int:
    """Quote the text at ``out[start:end]`` in place if it needs quotes; returns the position after it.

    Text needs quotes if it is long, or has a character below ``safe`` or the escape character (a backslash if there is
    none), as in Jackson. Quotes and escapes are doubled.
    """
    size, needed, doubled = 0, False, 0
    for pos in range(start, end):
        each = out[pos]
        if each & 0xC0 != 0x80:
            size += 2 if each >= 0xF0 else 1
        if each < safe or each == (escape if escape >= 0 else chars.BACKSLASH):
            needed = True
        if each in (quote, escape):
            doubled += 1
    if quote < 0 or not (needed or size > LONGEST_CHECKED):
        return end
    to = end + doubled + 2
    out[to - 1] = quote
    pos = to - 2
    for at in range(end - 1, start - 1, -1):
        out[pos] = out[at]
        pos -= 1
        if out[pos + 1] == quote or out[pos + 1] == escape:
            out[pos] = out[pos + 1]
            pos -= 1
    out[start] = quote
    return to


@compiled
def write_records(
    columns: tuple[Vector, ...],
    digits: Vector,
    null: Vector,
    delimiter: int,
    quote: int,
    escape: int,
    safe: int,
    out: Vector,
    offsets: Vector,
) -> int:
    """Write one line per row, one after the other and without line ends, and store the end of each in ``offsets``.

    ``columns`` are the arrays of :class:`penstock.columns.nested.NestedInputs`, ``digits`` the precision and
    scale of each column. ``null`` is the text of NULL. ``safe`` is the least character that needs no quotes. Returns
    -1, or a column with a value that only :mod:`penstock.formats.csv.exact_writer` can write.
    """
    nodes, words, valid, text = columns
    words, text, out = borrow(words), borrow(text), borrow(out)
    at = 0
    for row in range(len(offsets) - 1):
        for column in range(len(digits)):
            if column:
                out[at] = delimiter
                at += 1
            root, pos = nodes[column + 1, ROOT], nodes[column + 1, BASE] + row
            start = at
            if not valid[nodes[column + 1, VALID_BASE] + row]:
                copy_bytes(null, 0, out, at, len(null))
                at += len(null)
            elif root == type_roots.STRING:
                size = words[pos + 1] - words[pos]
                copy_bytes(text, words[pos], out, at, size)
                at = _quote(out, start, at + size, quote, escape, safe)
            elif root == type_roots.BYTES:
                at = write_base64(out, at, text, words[pos], words[pos + 1])
                at = _quote(out, start, at, quote, escape, safe)
            elif root == type_roots.DECIMAL:
                low, high = words[pos + row], words[pos + row + 1]
                if high == low >> 63:
                    at = write_decimal(out, at, low, digits[column, 1], True)
                else:
                    at = write_wide_decimal(out, at, low, high, digits[column, 1], True)
            else:
                at = write_value(out, at, root, words[pos], digits[column, 0], chars.SPACE, False, False)
                if at < 0:
                    return column
                if root > type_roots.BOOLEAN:
                    at = _quote(out, start, at, quote, escape, safe)
        offsets[row + 1] = at
    return -1
