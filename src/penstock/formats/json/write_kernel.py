"""Columns to JSON objects, nested ones included, inside a compiled loop that runs a table of steps."""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, VALID_BASE
from penstock.formats.json import write_program as p
from penstock.formats.json.quoting import write_string
from penstock.loops import chars, type_roots
from penstock.loops.base64 import write_base64
from penstock.loops.bytes import eight_bytes, put_eight_bytes
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.decimals import write_decimal, write_wide_decimal
from penstock.loops.map_keys import MOST_KEYS, keys_repeat
from penstock.loops.values import write_value, write_word

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64


@compiled
def _repeats(text: Vector, words: Vector, base: int, first: int, last: int, spans: Vector, places: Vector) -> bool:
    """Whether two of the strings ``first`` to ``last`` of the node at ``base`` may be the same."""
    if last - first < 2 or last - first > MOST_KEYS:
        return last - first > MOST_KEYS
    for key in range(first, last):
        start = words[base + key]
        spans[2 * (key - first)], spans[2 * (key - first) + 1] = start, words[base + key + 1] - start
    return keys_repeat(text, spans, 0, 2 * (last - first), places, True)


@compiled
def write_records(
    steps: Vector,
    names: Vector,
    columns: tuple[Vector, ...],
    separator: int,
    zone: bool,
    plain: bool,
    omit: bool,
    out: Vector,
    offsets: Vector,
) -> int:
    """Write one object per row, one after the other, and store the end of each in ``offsets``.

    ``steps`` and ``names`` are the fields of :class:`penstock.formats.json.write_program.JsonWriteProgram`, ``columns``
    the arrays of :class:`penstock.columns.nested.NestedInputs`. ``zone``: write a ``Z`` after every timestamp.
    ``plain``: write decimals without exponent. ``omit``: leave out null fields.

    Returns -1, or a column with a value that only :mod:`penstock.formats.json.exact_writer` can write.
    """
    nodes, words, valid, text = columns
    names, text, out = borrow(names), borrow(text), borrow(out)
    frames = np.zeros((len(steps), 2), np.int64)  # for each open array or map: its index, and its last item
    spans, places = np.empty(2 * MOST_KEYS, np.int64), np.empty(2 * MOST_KEYS, np.int64)
    at = 0
    for row in range(len(offsets) - 1):
        index, step, depth = row, 0, 0
        while True:
            operation = steps[step, p.STEP]
            if operation == p.END:
                break
            node, root = steps[step, p.NODE], steps[step, p.ROOT]
            column: int = steps[step, p.COLUMN]
            if operation <= p.LIST:
                present = valid[nodes[node, VALID_BASE] + index]
                pos, stop = steps[step, p.NAME], steps[step, p.NAME_STOP]
                if pos < stop:
                    if omit and not present:
                        step = steps[step, p.NEXT]
                        continue
                    if out[at - 1] == chars.BRACE_OPEN:  # the first one: no comma
                        pos += 1
                    while pos < stop:
                        put_eight_bytes(out, at, eight_bytes(names, pos))
                        taken = min(stop - pos, 8)
                        pos += taken
                        at += taken
                if not present:
                    at = write_word(out, at, -1)
                    step = steps[step, p.NEXT]
                    continue
            pos = nodes[node, BASE] + index
            if operation == p.VALUE:
                step += 1
                if root == type_roots.STRING:
                    at = write_string(out, at, text, words[pos], words[pos + 1])
                elif root == type_roots.BYTES:
                    out[at] = chars.QUOTE
                    at = write_base64(out, at + 1, text, words[pos], words[pos + 1])
                    out[at] = chars.QUOTE
                    at += 1
                elif root == type_roots.DECIMAL:
                    low, high = words[pos + index], words[pos + index + 1]
                    if high == low >> 63:
                        at = write_decimal(out, at, low, steps[step - 1, p.SCALE], plain)
                    else:
                        at = write_wide_decimal(out, at, low, high, steps[step - 1, p.SCALE], plain)
                elif root == type_roots.OTHER:
                    for each in range(words[pos], words[pos + 1]):
                        out[at] = text[each]
                        at += 1
                else:
                    precision = steps[step - 1, p.PRECISION]
                    at = write_value(out, at, root, words[pos], precision, separator, zone, True)
                    if at < 0:
                        return column
            elif operation == p.STRUCT:
                out[at] = chars.BRACE_OPEN
                at += 1
                step += 1
            elif operation == p.CLOSE:
                out[at] = chars.BRACE_CLOSE
                at += 1
                step += 1
            elif operation == p.LIST:
                first, last = words[pos], words[pos + 1]
                out[at] = chars.BRACE_OPEN if root == type_roots.MAP else chars.BRACKET_OPEN
                at += 1
                if first == last:
                    out[at] = chars.BRACE_CLOSE if root == type_roots.MAP else chars.BRACKET_CLOSE
                    at += 1
                    step = steps[step, p.NEXT]
                    continue
                if root == type_roots.MAP and _repeats(text, words, nodes[node + 1, BASE], first, last, spans, places):
                    return column
                frames[depth, 0], frames[depth, 1] = index, last
                depth += 1
                index = first
                step += 1
            elif operation == p.KEY:
                at = write_string(out, at, text, words[pos], words[pos + 1])
                out[at] = chars.COLON
                at += 1
                step += 1
            else:
                index += 1
                if index < frames[depth - 1, 1]:
                    out[at] = chars.COMMA
                    step = steps[step, p.NEXT]
                else:
                    out[at] = chars.BRACE_CLOSE if root == type_roots.MAP else chars.BRACKET_CLOSE
                    depth -= 1
                    index = frames[depth, 0]
                    step += 1
                at += 1
        offsets[row + 1] = at
    return -1
