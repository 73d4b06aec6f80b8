"""Strings to bytes and back by the rules of Java's ``String``: malformed bytes are read as U+FFFD, and characters that
the charset lacks are written as ``?``."""

from __future__ import annotations

import codecs
import re

import pyarrow as pa

#: A surrogate written as three bytes of UTF-8 counts as one error in Java and as three in Python.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_REPLACEMENT = "\ufffd".encode()
#: Byte order marks of a message; without one it is big-endian.
_MARKS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


def is_utf8(charset: str) -> bool:
    """Whether the charset is UTF-8 by any of its names."""
    return codecs.lookup(charset).name == "utf-8"


def read_text(messages: pa.Array, charset: str) -> pa.Array:
    """Messages as a string column. Well-formed UTF-8 is not copied."""
    if is_utf8(charset):
        try:
            return messages.cast(pa.string())
        except pa.ArrowInvalid:  # some message is malformed
            pass
    return pa.array([None if each is None else _decode(each, charset) for each in messages.to_pylist()], pa.string())


def _decode(message: bytes, charset: str) -> str:
    name = codecs.lookup(charset).name
    if name == "utf-8":
        return _SURROGATE.sub(_REPLACEMENT, message).decode("utf-8", "replace")
    if name in _MARKS and not message.startswith(_MARKS[name]):
        name = f"{name}-be"
    return message.decode(name, "replace")


def write_text(values: pa.Array, charset: str) -> pa.Array:
    """A string column as messages. UTF-8 is not copied."""
    if is_utf8(charset):
        return values.cast(pa.binary())
    name = codecs.lookup(charset).name
    mark = codecs.BOM_UTF16_BE if name == "utf-16" else b""
    if name in _MARKS:
        name = f"{name}-be"
    return pa.array(
        [
            None if each is None else (mark if each else b"") + each.encode(name, "replace")
            for each in values.to_pylist()
        ],
        pa.binary(),
    )
