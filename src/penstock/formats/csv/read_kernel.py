"""Lines of CSV straight to columns, inside a compiled loop.

The loop reads lines with one value per column, quoted or not, without escapes or doubled quotes. Other records are
marked EXACT and read by :mod:`penstock.formats.csv.exact_reader`. The loop must not accept a record that the exact
reader refuses, and must read the same values.
"""

from __future__ import annotations

from penstock.columns.nested import BASE, ROOT, VALID_BASE
from penstock.loops import chars, type_roots
from penstock.loops.base64 import base64_size
from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.record_status import EXACT, READ
from penstock.loops.strings import is_utf8
from penstock.loops.values import scan_word, text_value


@compiled
def read_records(
    text: Vector,
    offsets: Vector,
    digits: Vector,
    delimiter: int,
    quote: int,
    escape: int,
    comment: int,
    literal: Vector,
    has_literal: bool,
    empty_is_null: bool,
    columns: tuple[Vector, ...],
    status: Vector,
) -> None:
    """Read every record whose ``status`` is READ, or mark it EXACT.

    ``columns`` are the arrays of :class:`penstock.columns.nested.NestedColumns`, ``digits`` the precision and
    scale of each column. ``quote``, ``escape`` and ``comment`` are -1 if there is no such character.
    """
    nodes, words, valid, _ = columns
    text, literal, words, valid = borrow(text), borrow(literal), borrow(words), borrow(valid)
    count = len(digits)
    for row in range(len(offsets) - 1):
        if status[row] != READ:
            continue
        status[row] = EXACT
        at, end = offsets[row], offsets[row + 1]
        if at >= end or text[at] == 0xEF or (comment >= 0 and (text[at] == comment or text[at] == chars.SPACE)):
            continue
        begin, seen, column, ok = at, 0, 0, True
        while ok and column < count:
            if at < end and text[at] == quote:
                start = at + 1
                at = start
                while at < end and text[at] != quote and text[at] != escape:
                    seen |= text[at]
                    at += 1
                stop = at
                at += 1
                if stop >= end or text[stop] == escape or (at < end and text[at] != delimiter):
                    break
            else:
                start = at
                while at < end and text[at] != delimiter:
                    each = text[at]
                    if each in (escape, chars.LINE_FEED, chars.CARRIAGE_RETURN):
                        ok = False
                    seen |= each
                    at += 1
                stop = at
            root, flag = nodes[column + 1, ROOT], nodes[column + 1, VALID_BASE] + row
            if root >= type_roots.ROW or not ok:
                break
            if (has_literal and stop - start == len(literal) and same_bytes(text, start, literal, 0, len(literal))) or (
                stop == start and (empty_is_null or root not in (type_roots.STRING, type_roots.BYTES))
            ):
                valid[flag] = 0
            else:
                valid[flag] = 1
                pos = nodes[column + 1, BASE] + row
                if root in (type_roots.STRING, type_roots.BYTES):
                    size = stop - start if root == type_roots.STRING else base64_size(text, start, stop)
                    words[pos + row], words[pos + row + 1] = start, size
                    ok = size >= 0
                elif root == type_roots.BOOLEAN:
                    words[pos] = text[start] == chars.LOWER_T
                    ok = scan_word(text, start, stop) == stop and text[start] != chars.LOWER_N
                else:
                    ok, value = text_value(root, text, start, stop, digits[column, 1], digits[column, 0], chars.SPACE)
                    if root == type_roots.DECIMAL:
                        pos += row
                        words[pos + 1] = value >> 63
                    words[pos] = value
            column += 1
            if at >= end:
                break
            at += 1
            if column == count:
                ok = False
        if ok and column == count and at >= end and (seen < 0x80 or is_utf8(text, begin, end)):
            status[row] = READ
        else:
            for node in range(1, count + 1):
                valid[nodes[node, VALID_BASE] + row] = 0
