"""Columns to JSON objects, nested ones included, inside a compiled loop that runs a table of steps."""

from __future__ import annotations

import numpy as np

from penstock.formats.columns.nested import BASE, VALID_BASE
from penstock.formats.json.quoting import write_string, write_word
from penstock.formats.json.write_program import (
    CLOSE,
    COLUMN,
    END,
    KEY,
    LIST,
    NAME,
    NAME_STOP,
    NEXT,
    NODE,
    PRECISION,
    ROOT,
    SCALE,
    STEP,
    STRUCT,
    VALUE,
)
from penstock.formats.loops.ascii import BRACE_CLOSE, BRACE_OPEN, BRACKET_CLOSE, BRACKET_OPEN, COLON, COMMA, QUOTE
from penstock.formats.loops.base64 import write_base64
from penstock.formats.loops.bytes import eight_bytes, put_eight_bytes
from penstock.formats.loops.compiled import Vector, borrowed, compiled, inlined
from penstock.formats.loops.decimals import write_decimal, write_wide_decimal
from penstock.formats.loops.floats import write_double, write_float
from penstock.formats.loops.map_keys import MOST_KEYS, texts_repeat
from penstock.formats.loops.numbers import write_integer
from penstock.formats.loops.timestamps import write_date, write_time, write_timestamp
from penstock.formats.loops.type_roots import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    MAP,
    OTHER,
    STRING,
    TIME,
    TIMESTAMP_LTZ,
)

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64

_UNITS = np.array([10 ** (9 - digits) for digits in range(10)], np.int64)


@inlined
def _write_fixed(out: Vector, at: int, root: int, value: int, precision: int, separator: int, zone: bool) -> int:
    """A value of fixed width at ``out[at]``; the position after it, or -1 for one that this does not write."""
    if root <= BIGINT:
        return write_integer(out, at, value)
    if root == DOUBLE:
        return write_double(out, at, value, True)
    if root == FLOAT:
        return write_float(out, at, value, True)
    if root == BOOLEAN:
        return write_word(out, at, value)
    out[at] = QUOTE
    if root == DATE:
        at = write_date(out, at + 1, value)
    elif root == TIME:
        at = write_time(out, at + 1, value - value % _UNITS[precision])
    else:
        at = write_timestamp(out, at + 1, value, separator, zone or root == TIMESTAMP_LTZ)
    if at < 0:
        return at
    out[at] = QUOTE
    return at + 1


@compiled
def _repeats(text: Vector, words: Vector, base: int, first: int, last: int, spans: Vector, places: Vector) -> bool:
    """Whether two of the strings ``first`` to ``last`` of the node at ``base`` may be the same."""
    if last - first < 2 or last - first > MOST_KEYS:
        return last - first > MOST_KEYS
    for key in range(first, last):
        start = words[base + key]
        spans[2 * (key - first)], spans[2 * (key - first) + 1] = start, words[base + key + 1] - start
    return texts_repeat(text, spans, 0, 2 * (last - first), places)


@compiled
def write_records(
    steps: Vector,
    names: Vector,
    nodes: Vector,
    words: Vector,
    valid: Vector,
    text: Vector,
    separator: int,
    zone: bool,
    plain: bool,
    omit: bool,
    out: Vector,
    offsets: Vector,
) -> int:
    """Write one object per row, one after the other, and store the end of each in ``offsets``.

    ``steps`` and ``names`` are the fields of :class:`penstock.formats.json.write_program.JsonWriteProgram`; ``nodes``,
    ``words``, ``valid`` and ``text`` are those of :class:`penstock.formats.columns.nested.NestedInputs`. ``zone``:
    write a ``Z`` after every timestamp. ``plain``: write decimals without exponent. ``omit``: leave out null fields.

    Returns -1, or a column with a value that only :mod:`penstock.formats.json.exact_writer` can write.
    """
    names, text, out = borrowed(names), borrowed(text), borrowed(out)
    frames = np.zeros((len(steps), 2), np.int64)  # of each open array or map: its place, and its last item
    spans, places = np.empty(2 * MOST_KEYS, np.int64), np.empty(2 * MOST_KEYS, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        index, step, depth = row, 0, 0
        while True:
            what = steps[step, STEP]
            if what == END:
                break
            node, root = steps[step, NODE], steps[step, ROOT]
            column: int = steps[step, COLUMN]
            if what <= LIST:
                present = valid[nodes[node, VALID_BASE] + index]
                place, stop = steps[step, NAME], steps[step, NAME_STOP]
                if place < stop:
                    if omit and not present:
                        step = steps[step, NEXT]
                        continue
                    if out[at - 1] == BRACE_OPEN:  # the first one: no comma
                        place += 1
                    while place < stop:
                        put_eight_bytes(out, at, eight_bytes(names, place))
                        taken = min(stop - place, 8)
                        place += taken
                        at += taken
                if not present:
                    at = write_word(out, at, -1)
                    step = steps[step, NEXT]
                    continue
            place = nodes[node, BASE] + index
            if what == VALUE:
                step += 1
                if root == STRING:
                    at = write_string(out, at, text, words[place], words[place + 1])
                elif root == BYTES:
                    out[at] = QUOTE
                    at = write_base64(out, at + 1, text, words[place], words[place + 1])
                    out[at] = QUOTE
                    at += 1
                elif root == DECIMAL:
                    low, high = words[place + index], words[place + index + 1]
                    if high == low >> 63:
                        at = write_decimal(out, at, low, steps[step - 1, SCALE], plain)
                    else:
                        at = write_wide_decimal(out, at, low, high, steps[step - 1, SCALE], plain)
                elif root == OTHER:
                    for each in range(words[place], words[place + 1]):
                        out[at] = text[each]
                        at += 1
                else:
                    at = _write_fixed(out, at, root, words[place], steps[step - 1, PRECISION], separator, zone)
                    if at < 0:
                        return column
            elif what == STRUCT:
                out[at] = BRACE_OPEN
                at += 1
                step += 1
            elif what == CLOSE:
                out[at] = BRACE_CLOSE
                at += 1
                step += 1
            elif what == LIST:
                first, last = words[place], words[place + 1]
                out[at] = BRACE_OPEN if root == MAP else BRACKET_OPEN
                at += 1
                if first == last:
                    out[at] = BRACE_CLOSE if root == MAP else BRACKET_CLOSE
                    at += 1
                    step = steps[step, NEXT]
                    continue
                if root == MAP and _repeats(text, words, nodes[node + 1, BASE], first, last, spans, places):
                    return column
                frames[depth, 0], frames[depth, 1] = index, last
                depth += 1
                index = first
                step += 1
            elif what == KEY:
                at = write_string(out, at, text, words[place], words[place + 1])
                out[at] = COLON
                at += 1
                step += 1
            else:
                index += 1
                if index < frames[depth - 1, 1]:
                    out[at] = COMMA
                    step = steps[step, NEXT]
                else:
                    out[at] = BRACE_CLOSE if root == MAP else BRACKET_CLOSE
                    depth -= 1
                    index = frames[depth, 0]
                    step += 1
                at += 1
        offsets[row + 1] = at
    return -1
