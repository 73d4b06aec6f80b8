"""Text as JSON string literals, as Jackson writes them."""

from __future__ import annotations

import re
from json.encoder import encode_basestring

__all__ = ["quote", "quote_in_bytes"]

_MUST_ESCAPE = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BEYOND = re.compile("[\U00010000-\U0010ffff]")


def quote(text: str) -> str:
    """A JSON string literal: quotes, backslashes and control characters escaped, nothing else."""
    if text.isprintable():  # then only quotes and backslashes need it, and the interpreter has a faster way
        return encode_basestring(text)
    return f'"{_MUST_ESCAPE.sub(_escape, text)}"'


def quote_in_bytes(text: str) -> str:
    """A JSON string literal as Jackson writes it to bytes: a character beyond U+FFFF is two escapes."""
    literal = quote(text)
    return literal if text.isascii() else _BEYOND.sub(_pair, literal)


def _pair(match: re.Match[str]) -> str:
    high, low = divmod(ord(match.group()) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"


def _escape(match: re.Match[str]) -> str:
    found = match.group()
    return _SHORT.get(found) or f"\\u{ord(found):04X}"
