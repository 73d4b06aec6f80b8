"""Lines of CSV straight to columns, inside a compiled loop.

The loop reads lines with one value per column, quoted or not, without escapes or doubled quotes. Other records are
marked EXACT and read by :mod:`penstock.formats.csv.exact_reader`. The loop must not accept a record that the exact
reader refuses, and must read the same values.
"""

from __future__ import annotations

from penstock.formats.loops import chars, type_roots
from penstock.formats.loops.base64 import base64_size
from penstock.formats.loops.compiled import Vector, borrowed, compiled
from penstock.formats.loops.record_status import EXACT, READ
from penstock.formats.loops.strings import is_utf8
from penstock.formats.loops.values import scan_word, text_value


@compiled
def _is_literal(text: Vector, start: int, end: int, literal: Vector) -> bool:
    """Whether ``text[start:end]`` is the literal."""
    size = end - start
    if size != len(literal):
        return False
    place = 0
    while place < size and text[start + place] == literal[place]:
        place += 1
    return place == size


@compiled
def read_records(
    text: Vector,
    offsets: Vector,
    columns: Vector,
    delimiter: int,
    quote: int,
    escape: int,
    comment: int,
    literal: Vector,
    has_literal: bool,
    empty_is_null: bool,
    status: Vector,
    fixed: Vector,
    spans: Vector,
    valid: Vector,
) -> None:
    """Read every record whose ``status`` is READ, and mark the others EXACT.

    ``columns``, ``fixed``, ``spans`` and ``valid`` are as in :mod:`penstock.formats.csv.columns`. ``quote``,
    ``escape`` and ``comment`` are -1 if there is no such character.
    """
    text, literal = borrowed(text), borrowed(literal)
    count = len(columns)
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
            root, slot = columns[column, 0], columns[column, 1]
            if root == type_roots.OTHER or not ok:
                break
            if (has_literal and _is_literal(text, start, stop, literal)) or (
                stop == start and (empty_is_null or root not in (type_roots.STRING, type_roots.BYTES))
            ):
                valid[column, row] = 0
            else:
                valid[column, row] = 1
                if root in (type_roots.STRING, type_roots.BYTES):
                    size = stop - start if root == type_roots.STRING else base64_size(text, start, stop)
                    spans[slot, row, 0], spans[slot, row, 1] = start, size
                    ok = size >= 0
                elif root == type_roots.BOOLEAN:
                    fixed[slot, row] = text[start] == chars.LOWER_T
                    ok = scan_word(text, start, stop) == stop and text[start] != chars.LOWER_N
                else:
                    ok, fixed[slot, row] = text_value(
                        root, text, start, stop, columns[column, 3], columns[column, 2], chars.SPACE
                    )
            column += 1
            if at >= end:
                break
            at += 1
            if column == count:
                ok = False
        if ok and column == count and at >= end and (seen < 0x80 or is_utf8(text, begin, end)):
            status[row] = READ
