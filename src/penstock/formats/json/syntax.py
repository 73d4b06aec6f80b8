"""JSON's grammar inside compiled loops: where strings and values end, and strings without their escapes."""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.bytes import HIGH_BITS, NONE, ONES, copy_bytes, eight_bytes, first_mark
from penstock.loops.compiled import Vector, Word, compiled, inlined
from penstock.loops.numbers import FAILED, scan_number
from penstock.loops.strings import is_utf8
from penstock.loops.values import scan_word

#: The deepest nesting of a value that is skipped: a word has one bit for each level.
_DEEPEST = 60
_ESCAPABLE = np.isin(np.arange(256), np.frombuffer(b'"\\/bfnrt', np.uint8))

#: A quote, and a backslash, in each of eight bytes.
QUOTES, BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)


@inlined
def blank(text: Vector, at: int, end: int) -> int:
    """The position of the first byte that is not JSON white space."""
    if at < end and text[at] > chars.SPACE:
        return at
    while at < end and (
        text[at] == chars.SPACE
        or text[at] == chars.LINE_FEED
        or text[at] == chars.CARRIAGE_RETURN
        or text[at] == chars.TAB
    ):
        at += 1
    return at


@inlined
def after_value(text: Vector, at: int, end: int, close: int) -> tuple[int, bool]:
    """Where the object or array goes on after a value that ends at ``at``: the start of its next member or element, or
    its end, ``close``, and whether it is that. FAILED if it is neither."""
    at = blank(text, at, end)
    if at < end and text[at] == close:
        return at, True
    if at < end and text[at] == chars.COMMA:
        return blank(text, at + 1, end), False
    return FAILED, False


@compiled
def keeps_its_text(text: Vector, start: int, end: int, digits: Word, power: int, whole: bool) -> bool:
    """Whether a number keeps its text when Java reads and writes it as a double, a BigDecimal or an integer.

    ``digits``, ``power`` and ``whole`` are the results of ``scan_number``.
    """
    if whole:
        return bool(digits != 0 or text[start] != chars.MINUS)
    if not 0 < digits < 10**15 or text[end - 1] == chars.ZERO:
        return False
    for pos in range(start, end):
        if text[pos] | chars.LOWER_CASE == chars.LOWER_E:
            return False
    size = digits * 10.0**power
    return bool(0.00101 < size < 9.99e6)


@compiled
def _hex(text: Vector, at: int) -> Word:
    """The number in four hexadecimal digits, or -1."""
    value = 0
    for pos in range(at, at + 4):
        digit: Word = np.int64(text[pos])
        if chars.ZERO <= digit <= chars.NINE:
            digit -= chars.ZERO
        elif chars.LOWER_A <= digit | chars.LOWER_CASE <= chars.LOWER_F:
            digit = (digit | chars.LOWER_CASE) - chars.LOWER_A + 10
        else:
            return -1
        value = value * 16 + digit
    return value


@compiled
def _escaped_code(text: Vector, at: int, end: int) -> Word:
    """The character of the escape whose four hexadecimal digits are at ``at``, or of the surrogate pair that it begins.
    -1 if it is neither."""
    if at + 4 > end:
        return -1
    code = _hex(text, at)
    if not 0xD800 <= code <= 0xDFFF:
        return code
    if code >= 0xDC00 or at + 10 > end or text[at + 4] != chars.BACKSLASH or text[at + 5] != chars.LOWER_U:
        return -1
    low = _hex(text, at + 6)
    return 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00 if 0xDC00 <= low <= 0xDFFF else -1


@inlined
def string(text: Vector, at: int, end: int) -> tuple[int, int]:
    """The closing quote of the string that starts at ``at``, and the string's size without its escapes.

    FAILED if it is not closed, not UTF-8, wrongly escaped or has half of a surrogate pair.
    """
    start, saved = at, 0
    seen = NONE
    while True:
        while at + 8 <= end:
            word = eight_bytes(text, at)
            seen |= word
            quotes, backslashes = word ^ QUOTES, word ^ BACKSLASHES
            marks = ((quotes - ONES) & ~quotes | (backslashes - ONES) & ~backslashes) & HIGH_BITS
            if marks != NONE:
                at += first_mark(marks)
                break
            at += 8
        while at < end and text[at] != chars.QUOTE and text[at] != chars.BACKSLASH:
            seen |= np.uint64(text[at])
            at += 1
        if at >= end:
            return FAILED, 0
        if text[at] == chars.QUOTE:
            break
        if at + 1 >= end:
            return FAILED, 0
        mark = text[at + 1]
        if mark == chars.LOWER_U:
            code = _escaped_code(text, at + 2, end)
            if code < 0:
                return FAILED, 0
            saved += 5 if code < 0x80 else 4 if code < 0x800 else 3 if code < 0x10000 else 8
            at += 6 if code < 0x10000 else 12
        elif _ESCAPABLE[mark]:
            saved += 1
            at += 2
        else:
            return FAILED, 0
    if seen & HIGH_BITS != NONE and not is_utf8(text, start, at):
        return FAILED, 0
    return at, at - start - saved


@compiled
def _find_member_value(text: Vector, at: int, end: int) -> int:
    """The start of the value after the key at ``at`` and its colon, or FAILED."""
    if at >= end or text[at] != chars.QUOTE:
        return FAILED
    at, _ = string(text, at + 1, end)
    if at < 0:
        return FAILED
    at = blank(text, at + 1, end)
    if at >= end or text[at] != chars.COLON:
        return FAILED
    return blank(text, at + 1, end)


@inlined
def value_end(text: Vector, at: int, end: int) -> int:
    """The end of the value at ``at``, at any depth, or FAILED."""
    depth, objects = 0, np.int64(0)  # one bit a level: set in an object, clear in an array
    while True:
        if at < 0 or at >= end:
            return FAILED
        mark = text[at]
        if mark == chars.QUOTE:
            at, _ = string(text, at + 1, end)
            if at < 0:
                return FAILED
            at += 1
        elif mark in (chars.BRACE_OPEN, chars.BRACKET_OPEN):
            if depth >= _DEEPEST:
                return FAILED
            depth += 1
            objects = objects << 1 | (1 if mark == chars.BRACE_OPEN else 0)
            at = blank(text, at + 1, end)
            if at >= end or text[at] != (chars.BRACE_CLOSE if mark == chars.BRACE_OPEN else chars.BRACKET_CLOSE):
                if mark == chars.BRACE_OPEN:
                    at = _find_member_value(text, at, end)
                continue
        elif mark == chars.MINUS or chars.ZERO <= mark <= chars.NINE:
            at = scan_number(text, at, end)[0]
        else:
            at = scan_word(text, at, end)
        if at < 0:
            return FAILED
        while True:
            if depth == 0:
                return at
            at = blank(text, at, end)
            if at >= end:
                return FAILED
            if text[at] == chars.COMMA:
                at = blank(text, at + 1, end)
                if objects & 1:
                    at = _find_member_value(text, at, end)
                break
            if text[at] != (chars.BRACE_CLOSE if objects & 1 else chars.BRACKET_CLOSE):
                return FAILED
            objects >>= 1
            depth -= 1
            at += 1


@compiled
def copy_unescaped(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Copy strings one after the other to ``out`` at ``offsets``. A string whose span has ``~start`` is copied without
    its escapes."""
    for row in range(len(valid)):
        if not valid[row]:
            continue
        at, start = offsets[row], spans[row, 0]
        if start >= 0:
            copy_bytes(text, start, out, at, spans[row, 1])
        else:
            unescape(text, ~start, out, at, offsets[row + 1])


@compiled
def unescape(text: Vector, at: int, out: Vector, to: int, stop: int) -> None:
    """Fill ``out[to:stop]`` with the string that starts at ``at``, without its escapes."""
    while to < stop:
        each = text[at]
        if each != chars.BACKSLASH:
            out[to] = each
            at += 1
            to += 1
            continue
        mark = text[at + 1]
        at += 2
        if mark == chars.LOWER_U:
            code = _escaped_code(text, at, len(text))
            at += 4 if code < 0x10000 else 10
            if code < 0x80:
                out[to] = code
            elif code < 0x800:
                out[to] = 0xC0 | code >> 6
                to += 1
                out[to] = 0x80 | code & 63
            elif code < 0x10000:
                out[to] = 0xE0 | code >> 12
                out[to + 1] = 0x80 | code >> 6 & 63
                to += 2
                out[to] = 0x80 | code & 63
            else:
                out[to] = 0xF0 | code >> 18
                out[to + 1] = 0x80 | code >> 12 & 63
                out[to + 2] = 0x80 | code >> 6 & 63
                to += 3
                out[to] = 0x80 | code & 63
        elif mark == chars.LOWER_B:
            out[to] = chars.BACKSPACE
        elif mark == chars.LOWER_F:
            out[to] = chars.FORM_FEED
        elif mark == chars.LOWER_N:
            out[to] = chars.LINE_FEED
        elif mark == chars.LOWER_R:
            out[to] = chars.CARRIAGE_RETURN
        elif mark == chars.LOWER_T:
            out[to] = chars.TAB
        else:
            out[to] = mark
        to += 1
