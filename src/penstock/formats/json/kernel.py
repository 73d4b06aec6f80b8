"""Flat JSON objects straight to columns, inside a compiled loop.

The loop reads what is common and leaves the rest: a record with anything that it does not take is marked EXACT and read
again by :mod:`penstock.formats.json.exact`, which holds the whole rule. It must therefore never accept what the exact
path refuses, nor give another value.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.compiled import Vector, Word, borrowed, compiled
from penstock.formats.kinds import BOOLEAN, BYTES, DECIMAL, EXACT, READ, STRING
from penstock.formats.scan import FAILED, base64_size, is_utf8, number_value, scan_number, scan_word, text_value

__all__ = ["gather_strings", "read_records"]

_DEEPEST = 60
_ESCAPABLE = np.isin(np.arange(256), np.frombuffer(b'"\\/bfnrt', np.uint8))


@compiled
def _blank(text: Vector, at: int, end: int) -> int:
    """The position of the first byte that is not JSON white space."""
    if at < end and text[at] > 32:
        return at
    while at < end and (text[at] == 32 or text[at] == 10 or text[at] == 13 or text[at] == 9):
        at += 1
    return at


@compiled
def _hex(text: Vector, at: int) -> Word:
    """The number in four hexadecimal digits, or -1."""
    value = 0
    for place in range(at, at + 4):
        digit: Word = np.int64(text[place])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit | 32 <= 102:
            digit = (digit | 32) - 87
        else:
            return -1
        value = value * 16 + digit
    return value


@compiled
def _string(text: Vector, at: int, end: int) -> tuple[int, int]:
    """The closing quote of the string that starts at ``at``, and how many bytes it has without its escapes.

    FAILED where it is not closed, not UTF-8, wrongly escaped or has half of a surrogate pair.
    """
    start, seen, saved = at, 0, 0
    while True:
        while at < end and text[at] != 34 and text[at] != 92:
            seen |= text[at]
            at += 1
        if at >= end:
            return FAILED, 0
        if text[at] == 34:
            break
        if at + 1 >= end:
            return FAILED, 0
        mark = text[at + 1]
        if mark == 117:
            if at + 6 > end:
                return FAILED, 0
            code = _hex(text, at + 2)
            if code < 0 or 0xD800 <= code <= 0xDFFF:
                return FAILED, 0
            saved += 5 if code < 0x80 else 4 if code < 0x800 else 3
            at += 6
        elif _ESCAPABLE[mark]:
            saved += 1
            at += 2
        else:
            return FAILED, 0
    if seen >= 0x80 and not is_utf8(text, start, at):
        return FAILED, 0
    return at, at - start - saved


@compiled
def _scalar_end(text: Vector, at: int, end: int) -> int:
    """The end of the string, number or word at ``at``, or FAILED."""
    if at >= end:
        return FAILED
    first = text[at]
    if first == 34:
        close, _ = _string(text, at + 1, end)
        return close + 1 if close >= 0 else FAILED
    if first == 45 or 48 <= first <= 57:
        return scan_number(text, at, end)[0]
    return scan_word(text, at, end)


@compiled
def _value_end(text: Vector, at: int, end: int) -> int:
    """The end of the value at ``at``, however nested, or FAILED."""
    if at >= end:
        return FAILED
    if text[at] != 123 and text[at] != 91:
        return _scalar_end(text, at, end)
    depth, objects = 0, np.int64(0)  # one bit a level: set in an object, clear in an array
    opening = True
    while True:
        if opening:
            is_object = text[at] == 123
            if depth >= _DEEPEST:
                return FAILED
            objects = objects * 2 + (1 if is_object else 0)
            depth += 1
            at = _blank(text, at + 1, end)
            if at < end and text[at] == (125 if is_object else 93):
                opening = False
            else:
                at = _member(text, at, end, objects & 1 == 1)
                if at < 0:
                    return FAILED
                if text[at] == 123 or text[at] == 91:
                    continue
                at = _scalar_end(text, at, end)
                opening = False
                if at < 0:
                    return FAILED
                at = _blank(text, at, end)
        if at >= end:
            return FAILED
        if text[at] == 44:
            at = _member(text, _blank(text, at + 1, end), end, objects & 1 == 1)
            if at < 0:
                return FAILED
            if text[at] == 123 or text[at] == 91:
                opening = True
                continue
            at = _scalar_end(text, at, end)
            if at < 0:
                return FAILED
            at = _blank(text, at, end)
        elif text[at] == (125 if objects & 1 else 93):
            objects >>= 1
            depth -= 1
            at += 1
            if depth == 0:
                return at
            at = _blank(text, at, end)
        else:
            return FAILED


@compiled
def _member(text: Vector, at: int, end: int, in_object: bool) -> int:
    """The start of an element's value: in an object after its key and colon. FAILED where there is none."""
    if in_object:
        if at >= end or text[at] != 34:
            return FAILED
        at, _ = _string(text, at + 1, end)
        if at < 0:
            return FAILED
        at = _blank(text, at + 1, end)
        if at >= end or text[at] != 58:
            return FAILED
        at = _blank(text, at + 1, end)
    return at if at < end else FAILED


@compiled
def _is_key(text: Vector, start: int, keys: Vector, first: int, last: int) -> bool:
    """Whether the text from ``start`` on is the name ``keys[first:last]``."""
    place = first
    while place < last and text[start + place - first] == keys[place]:
        place += 1
    return place == last


@compiled
def read_records(
    text: Vector,
    offsets: Vector,
    keys: Vector,
    key_starts: Vector,
    columns: Vector,
    separator: int,
    streaming: bool,
    required: bool,
    status: Vector,
    fixed: Vector,
    spans: Vector,
    valid: Vector,
) -> None:
    """Read every record whose ``status`` is READ, and mark EXACT what it leaves.

    ``columns[c]`` is (kind, slot, precision, scale) of column ``c``; ``slot`` is its row in ``fixed``, 64 bits a value,
    or in ``spans``, which has (start, bytes, bytes without escapes) per string. ``separator`` stands between date and
    time. ``streaming``: Flink's streaming parser, which stops counting after as many fields as there are columns.
    ``required``: a record must have them all. One long function on purpose: handing all these arrays to another one
    for each field costs more than reading the field.
    """
    text, keys = borrowed(text), borrowed(keys)
    count = len(columns)
    seen = np.full(count + 1, -1, np.int64)
    for row in range(len(offsets) - 1):
        if status[row] != READ:
            continue
        status[row] = EXACT
        end = offsets[row + 1]
        found, expected, more = 0, 0, True
        at = _blank(text, offsets[row], end)
        if at >= end or text[at] != 123:
            continue
        at = _blank(text, at + 1, end)
        if at < end and text[at] == 125:
            more = False
        while more:
            if at >= end or text[at] != 34:
                break
            # the name, which is most often the column after the last one
            start = at + 1
            column = -1
            size = key_starts[expected + 1] - key_starts[expected] if expected < count else 0
            if (
                expected < count
                and start + size < end
                and text[start + size] == 34
                and _is_key(text, start, keys, key_starts[expected], key_starts[expected + 1])
            ):
                column = expected
                at = start + size
            else:
                at, size = _string(text, start, end)
                if at < 0 or size != at - start:
                    break
                for tried in range(count):
                    first, last = key_starts[tried], key_starts[tried + 1]
                    if last - first == size and _is_key(text, start, keys, first, last):
                        column = tried
                        break
            at = _blank(text, at + 1, end)
            if at >= end or text[at] != 58:
                break
            at = _blank(text, at + 1, end)
            if at >= end:
                break
            if column < 0 or (streaming and found >= count):
                at = _value_end(text, at, end)
                if at < 0:
                    break
            else:
                if not streaming and seen[column] == row:
                    break
                seen[column] = row
                found += 1
                expected = column + 1
                kind, slot = columns[column, 0], columns[column, 1]
                mark = text[at]
                ok = True
                if mark == 34:
                    start = at + 1
                    at, size = _string(text, start, end)
                    if at < 0:
                        break
                    if kind == STRING:
                        spans[slot, row, 0], spans[slot, row, 1], spans[slot, row, 2] = start, at - start, size
                    elif size != at - start:
                        break
                    elif kind == BYTES:
                        size = base64_size(text, start, at)
                        ok = size >= 0
                        spans[slot, row, 0], spans[slot, row, 1], spans[slot, row, 2] = start, at - start, size
                    else:
                        ok, fixed[slot, row] = text_value(
                            kind, text, start, at, columns[column, 3], columns[column, 2], separator
                        )
                    at += 1
                elif mark == 45 or 48 <= mark <= 57:
                    start = at
                    at, digits, power, whole = scan_number(text, at, end)
                    if at < 0:
                        break
                    if kind <= DECIMAL:
                        ok, fixed[slot, row] = number_value(
                            kind, mark == 45, digits, power, whole, columns[column, 3], columns[column, 2]
                        )
                    elif kind == STRING and streaming:
                        spans[slot, row, 0], spans[slot, row, 1], spans[slot, row, 2] = start, at - start, at - start
                    else:
                        ok = False
                else:
                    start = at
                    at = scan_word(text, at, end)
                    if at < 0:
                        break
                    if kind == BOOLEAN:
                        fixed[slot, row] = mark == 116
                    elif kind == STRING:
                        spans[slot, row, 0], spans[slot, row, 1], spans[slot, row, 2] = start, at - start, at - start
                    else:
                        ok = mark == 110
                if not ok:
                    break
                valid[column, row] = mark != 110
            at = _blank(text, at, end)
            if at >= end:
                break
            if text[at] == 125:
                more = False
            elif text[at] == 44:
                at = _blank(text, at + 1, end)
            else:
                break
        if not more and (found >= count or not required):
            status[row] = READ


@compiled
def gather_strings(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Copy strings, without their escapes, one after the other into ``out``, as ``offsets`` says."""
    for row in range(len(valid)):
        if not valid[row]:
            continue
        at, start, size = offsets[row], spans[row, 0], spans[row, 1]
        if size == spans[row, 2]:
            for place in range(size):
                out[at + place] = text[start + place]
        else:
            _unescape(text, start, start + size, out, at)


@compiled
def _unescape(text: Vector, at: int, end: int, out: Vector, to: int) -> None:
    while at < end:
        each = text[at]
        if each != 92:
            out[to] = each
            at += 1
            to += 1
            continue
        mark = text[at + 1]
        at += 2
        if mark == 117:
            code = _hex(text, at)
            at += 4
            if code < 0x80:
                out[to] = code
            elif code < 0x800:
                out[to] = 0xC0 | code >> 6
                to += 1
                out[to] = 0x80 | code & 63
            else:
                out[to] = 0xE0 | code >> 12
                out[to + 1] = 0x80 | code >> 6 & 63
                to += 2
                out[to] = 0x80 | code & 63
        elif mark == 98:
            out[to] = 8
        elif mark == 102:
            out[to] = 12
        elif mark == 110:
            out[to] = 10
        elif mark == 114:
            out[to] = 13
        elif mark == 116:
            out[to] = 9
        else:
            out[to] = mark
        to += 1
