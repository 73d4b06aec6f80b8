"""Messages that compiled loops cannot read, in a form that they can: for loops whose callers have no other way."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import pyarrow as pa

from penstock.exact.errors import Malformed
from penstock.formats.json.parser import Document, Number, Object, parse
from penstock.formats.json.quoting import quote
from penstock.formats.json.spans import TextSpans

#: The deepest values that are kept; loops read a few levels more.
_DEEPEST = 50


def find_spans(messages: pa.BinaryArray, find: Callable[[TextSpans], TextSpans]) -> TextSpans:
    """What ``find`` finds in messages. Those in which it cannot look, and that are JSON all the same, are rewritten
    first: with half of a surrogate pair, deeply nested, or not in UTF-8."""
    found = find(TextSpans.from_messages(messages))
    return find(TextSpans.from_messages(_rewrite(messages, found.unread))) if found.unread else found


def _rewrite(messages: pa.BinaryArray, which: Collection[int]) -> pa.BinaryArray:
    texts: dict[int, bytes] = {}
    for index in which:
        try:
            texts[index] = _write(parse(messages[index].as_py()), 0).encode()
        except Malformed:
            continue
    at = np.arange(len(messages))
    at[list(texts)] = len(messages) + np.arange(len(texts))
    return pa.concat_arrays([messages, pa.array(texts.values(), messages.type)]).take(pa.array(at))


def _write(value: Document, depth: int) -> str:
    """The text of a value, in which objects and arrays that are too deep are empty."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return quote(value)
        case Number():
            return value.text
        case Object():
            pairs = value.pairs if depth < _DEEPEST else ()
            return f"{{{','.join(f'{quote(name)}:{_write(each, depth + 1)}' for name, each in pairs)}}}"
    return f"[{','.join(_write(each, depth + 1) for each in value) if depth < _DEEPEST else ''}]"
