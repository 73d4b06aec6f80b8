"""Text as Java's strings represent it.

Flink counts characters as code points, as it keeps text in UTF-8, except where it asks Java's strings: those count
UTF-16 units, so that a character beyond the first plane has two. :func:`to_units` shows a text that way.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_BEYOND = re.compile("[\U00010000-\U0010ffff]")
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_ALONE = re.compile("[\ud800-\udfff]")


def has_pairs(values: pa.Array) -> bool:
    """Whether a text has a character beyond the first plane."""
    if pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        return False
    return bool(pc.any(pc.match_substring_regex(values, "[\\x{10000}-\\x{10FFFF}]"), min_count=0).as_py())


def to_units(text: str) -> str:
    """The text with two surrogates in place of each character beyond the first plane."""
    return text if text.isascii() else _BEYOND.sub(_split, text)


def is_one_unit(text: str) -> bool:
    """Whether a text is one character of Java's."""
    return len(text) == 1 and not _BEYOND.match(text)


def _split(found: re.Match[str]) -> str:
    code = ord(found[0]) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))


def from_units(text: str) -> str:
    """The inverse of :func:`to_units`. As in Java's UTF-8, a lone surrogate becomes a question mark."""
    return text if text.isascii() else _ALONE.sub("?", _PAIR.sub(_merge_pair, text))


def whole_characters(value: Any) -> Any:
    """A value of a row with :func:`from_units` texts."""
    match value:
        case str():
            return from_units(value)
        case list() | tuple():
            return type(value)(map(whole_characters, value))
        case dict():
            return {key: whole_characters(each) for key, each in value.items()}
    return value


def _merge_pair(found: re.Match[str]) -> str:
    return chr(0x10000 + ((ord(found[1]) - 0xD800) << 10) + ord(found[2]) - 0xDC00)
