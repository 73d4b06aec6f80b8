"""JSON strings and words as Jackson writes them: in Python, and inside compiled loops."""

from __future__ import annotations

import re
from json.encoder import encode_basestring

import numpy as np

from penstock.formats.json.syntax import BACKSLASHES, QUOTES
from penstock.loops import chars
from penstock.loops.bytes import HIGH_BITS, NONE, ONES, eight_bytes, first_mark, put_eight_bytes
from penstock.loops.compiled import Vector, Word, compiled, inlined

_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f]')
#: The character after the backslash, for characters with a short escape.
_SHORT = dict(zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True))
_BEYOND = re.compile("[\U00010000-\U0010ffff]")

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def _short_escapes() -> Vector:
    """The character after the backslash for each byte: 0 for a byte without escape, ``u`` for four digits, ``U`` for
    the first of four bytes that are written as two such escapes."""
    marks = np.zeros(256, np.uint8)
    marks[:32] = ord("u")
    marks[0xF0:0xF5] = ord("U")
    for plain, mark in _SHORT.items():
        marks[ord(plain)] = ord(mark)
    return marks


_ESCAPES = _short_escapes()
_SPACES = np.uint64(0x2020202020202020)
_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)


def quote(text: str) -> str:
    """A JSON string literal. Only quotes, backslashes and control characters are escaped."""
    if text.isprintable():  # only quotes and backslashes need an escape, and the standard library is faster
        return encode_basestring(text)
    return f'"{_MUST_ESCAPE.sub(_escape, text)}"'


def quote_in_bytes(text: str) -> str:
    """A JSON string literal as Jackson writes it to bytes: a character beyond U+FFFF becomes two escapes."""
    literal = quote(text)
    return literal if text.isascii() else _BEYOND.sub(_pair, literal)


def _pair(match: re.Match[str]) -> str:
    high, low = divmod(ord(match.group()) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    return f"\\{_SHORT[found]}" if found in _SHORT else f"\\u{ord(found):04X}"


@compiled
def escaped_size(text: Vector) -> int:
    """The number of bytes of the text with all escapes."""
    size = len(text)
    for each in text:
        if _ESCAPES[each]:
            size += 5 if _ESCAPES[each] == chars.LOWER_U else 8 if _ESCAPES[each] == chars.UPPER_U else 1
    return size


@inlined
def _write_code(out: Vector, at: int, code: Word) -> int:
    r"""``\u`` and four digits at ``out[at]``; the position after them."""
    out[at], out[at + 1] = chars.BACKSLASH, chars.LOWER_U
    out[at + 2], out[at + 3] = _HEX[code >> 12], _HEX[code >> 8 & 15]
    out[at + 4], out[at + 5] = _HEX[code >> 4 & 15], _HEX[code & 15]
    return at + 6


@compiled
def _write_pair(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    """Write a character of four bytes as an escaped surrogate pair, like Jackson; returns the position after it, or the
    same position if there is no such character."""
    if start + 4 > end:
        return at
    code = (np.int64(text[start]) & 7) << 18 | (np.int64(text[start + 1]) & 63) << 12
    code = (code | (np.int64(text[start + 2]) & 63) << 6 | np.int64(text[start + 3]) & 63) - 0x10000
    if not 0 <= code < 1 << 20:
        return at
    return _write_code(out, _write_code(out, at, 0xD800 | code >> 10), 0xDC00 | code & 0x3FF)


@inlined
def write_string(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    """``text[start:end]``, which is UTF-8, in quotes at ``out[at]``; the position after it.

    Up to eight bytes more of ``out`` are overwritten.
    """
    out[at] = chars.QUOTE
    at += 1
    while start < end:
        while start + 8 <= end:
            word = eight_bytes(text, start)
            put_eight_bytes(out, at, word)
            quotes, backslashes = word ^ QUOTES, word ^ BACKSLASHES
            marks = (quotes - ONES) & ~quotes | (backslashes - ONES) & ~backslashes | (word - _SPACES) & ~word
            marks |= word & word << _ONE & word << _TWO & word << _THREE  # bytes from 0xF0 on
            if marks & HIGH_BITS != NONE:
                plain = first_mark(marks & HIGH_BITS)
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
            if mark == chars.UPPER_U:
                after = _write_pair(out, at, text, start - 1, end)
                if after == at:
                    out[at] = each
                    at += 1
                else:
                    at = after
                    start += 3
            elif mark == chars.LOWER_U:
                at = _write_code(out, at, np.int64(each))
            else:
                out[at], out[at + 1] = chars.BACKSLASH, mark
                at += 2
    out[at] = chars.QUOTE
    return at + 1
