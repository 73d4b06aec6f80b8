"""Avro's binary encoding straight to columns, inside a compiled loop that runs a program.

Encodings are read as Avro's Java library reads them: a boolean is true when its byte is 1.
"""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, CAPACITY, ROOT, VALID_BASE, WIDTH
from penstock.formats.avro import program as p
from penstock.formats.avro import read_reasons
from penstock.formats.avro.numbers import read_decimal, read_number
from penstock.loops.bytes import read_little_endian
from penstock.loops.compiled import Vector, Word, compiled
from penstock.loops.floats import double_bits, float_value
from penstock.loops.map_keys import MOST_KEYS, keys_repeat
from penstock.loops.record_status import EXACT, READ
from penstock.loops.strings import is_utf8
from penstock.loops.type_roots import ARRAY, BYTES, DECIMAL, MAP, STRING

#: How many items that take no bytes a message may have.
_MOST_EMPTY = 1000

_MOST = np.int64(2**63 - 1)
_DAY = 86_400_000_000_000


@compiled
def _pad(node: int, padded: Vector, starts: Vector, nodes: Vector, words: Vector, valid: Vector, counts: Vector) -> int:
    """Append a null to a node and to its dependent nodes; returns the node without room, or -1."""
    for pos in range(starts[node], starts[node + 1]):
        each: int = padded[pos]
        count = counts[each]
        if count >= nodes[each, CAPACITY]:
            return each
        counts[each] = count + 1
        valid[nodes[each, VALID_BASE] + count] = 0
        root, at = nodes[each, ROOT], nodes[each, BASE] + count * nodes[each, WIDTH]
        if root in (ARRAY, MAP):
            words[at] = counts[each + 1]
        elif nodes[each, WIDTH] > 0:
            words[at] = 0
            if root in (STRING, BYTES, DECIMAL):
                words[at + 1] = 0
    return -1


@compiled
def read_records(
    text: Vector,
    spans: tuple[Vector, ...],
    constants_at: int,
    program: tuple[Vector, ...],
    padding: tuple[Vector, ...],
    columns: tuple[Vector, ...],
    status: Vector,
    reasons: Vector,
    first: int,
    compare_keys: bool,
) -> tuple[int, int]:
    """Read every record from ``first`` on whose ``status`` is READ. Other records become a row of nulls.

    ``spans`` are ``starts`` and ``stops``: record ``i`` is ``text[starts[i]:stops[i]]``. The constants of ``program``
    start at ``text[constants_at]``. ``columns`` are the arrays of
    :class:`penstock.columns.nested.NestedColumns`. A refused record is marked EXACT, with (reason, step) in
    ``reasons``.

    Returns the number of records and -1. If a node runs out of room, returns the record and the node instead; the
    caller grows the node and calls again from that record. This is one long function because passing these arrays to
    another function for each value costs more than reading the value.
    """
    (starts, stops), (steps, table, _) = spans, program
    (padded, pad_starts), (nodes, words, valid, counts) = padding, columns
    marks = np.zeros(len(counts), np.int64)
    frames = np.zeros(
        (p.DEEPEST, 2), np.int64
    )  # for each open array or map: items left in the block, position of its word
    places = np.empty(2 * MOST_KEYS, np.int64)
    for row in range(first, len(starts)):
        for node in range(len(counts)):
            marks[node] = counts[node]
        at, end = starts[row], stops[row]
        back, back_end = at, end
        step, depth, empty, full = 0, 0, 0, -1
        reason = 0
        if status[row] != READ:
            _pad(0, padded, pad_starts, nodes, words, valid, counts)
            continue
        while True:
            operation = steps[step, p.STEP]
            node = steps[step, p.NODE]
            if operation == p.END:
                break
            if operation <= p.LIST:
                null_at = steps[step, p.NULL_AT]
                if null_at >= 0:
                    if at < end and text[at] < 128:
                        branch = np.int64(text[at])
                        at += 1
                    else:
                        branch, at = read_number(text, at, end, 5)
                        if at < 0:
                            reason = -at
                            break
                        branch <<= 1
                    if branch == null_at << 1:
                        if node >= 0:
                            full = _pad(node, padded, pad_starts, nodes, words, valid, counts)
                            if full >= 0:
                                break
                        if operation == p.VALUE:
                            step += 1
                        elif operation == p.STRUCT:
                            step = steps[step, p.NEXT]
                        else:
                            step = steps[step, p.NEXT] + 1
                        continue
                    if branch != (1 - null_at) << 1:
                        reason = read_reasons.NO_BRANCH
                        break
            if operation == p.VALUE:
                wire = steps[step, p.WIRE]
                value: Word = np.int64(0)
                more: Word = np.int64(0)
                # A number is in value; bytes start at value, and more is their size
                if wire in (p.WIRE_LONG, p.WIRE_INT):
                    if at < end and text[at] < 128:
                        value = np.int64(text[at])
                        value = value >> 1 ^ -(value & 1)
                        at += 1
                    else:
                        value, at = read_number(text, at, end, 10 if wire == p.WIRE_LONG else 5)
                        if at < 0:
                            reason = -at
                            break
                elif wire == p.WIRE_BYTES:
                    if at < end and text[at] < 128:
                        more = np.int64(text[at])
                        more = more >> 1 ^ -(more & 1)
                        at += 1
                    else:
                        more, at = read_number(text, at, end, 10)
                        if at < 0:
                            reason = -at
                            break
                    if more < 0 or more > end - at:
                        reason = read_reasons.BAD_LENGTH
                        break
                    value = at
                    at += more
                elif wire == p.WIRE_DOUBLE:
                    if end - at < 8:
                        reason = read_reasons.CUT_SHORT
                        break
                    value = read_little_endian(text, at, 8)
                    at += 8
                elif wire == p.WIRE_BOOLEAN:
                    if at >= end:
                        reason = read_reasons.CUT_SHORT
                        break
                    value = np.int64(1 if text[at] == 1 else 0)
                    at += 1
                elif wire == p.WIRE_FLOAT:
                    if end - at < 4:
                        reason = read_reasons.CUT_SHORT
                        break
                    value = double_bits(np.float64(float_value(read_little_endian(text, at, 4))))
                    at += 4
                elif wire == p.WIRE_FIXED:
                    more = steps[step, p.B]
                    if more > end - at:
                        reason = read_reasons.CUT_SHORT
                        break
                    value = at
                    at += more
                elif wire == p.WIRE_ENUM:
                    symbol, at = read_number(text, at, end, 5)
                    if at < 0:
                        reason = -at
                        break
                    if symbol < 0 or symbol >= steps[step, p.A]:
                        reason = read_reasons.NO_SYMBOL
                        break
                    if node >= 0:
                        pos = steps[step, p.B] + 2 * symbol
                        value, more = table[pos] + constants_at, table[pos + 1]
                        if more < 0:
                            reason = read_reasons.NO_SYMBOL
                            break
                if node >= 0:
                    count = counts[node]
                    if count >= nodes[node, CAPACITY]:
                        full = node
                        break
                    counts[node] = count + 1
                    pos = nodes[node, BASE] + count * nodes[node, WIDTH]
                    present = True
                    if wire >= p.WIRE_BYTES:
                        convert = steps[step, p.CONVERT]
                        if convert == p.TO_DECIMAL:
                            if more == 0:
                                reason = read_reasons.NO_DIGITS
                                break
                            present, value, more = read_decimal(text, value, more, steps[step, p.A])
                        elif convert == p.TEXT and wire != p.WIRE_ENUM:
                            seen = 0
                            for index in range(value, value + more):
                                seen |= text[index]
                            if seen >= 128 and not is_utf8(text, value, value + more):
                                reason = read_reasons.NOT_TEXT
                                break
                        words[pos], words[pos + 1] = value, more
                    else:
                        convert = steps[step, p.CONVERT]
                        if convert != 0:
                            ratio = steps[step, p.A]
                            if convert == p.SCALE_UP:
                                if value > _MOST // ratio or value < -(_MOST // ratio):
                                    reason = read_reasons.OUT_OF_RANGE
                                    break
                                value *= ratio
                            elif convert == p.SCALE_DOWN:
                                value //= ratio
                            elif convert == p.TO_TIME:
                                if value < 0 or value >= _DAY // ratio:
                                    reason = read_reasons.OUT_OF_RANGE
                                    break
                                value *= ratio
                            elif convert == p.TO_FLOAT:
                                value = double_bits(np.float64(np.float32(value)))
                            elif convert == p.TO_DOUBLE:
                                value = double_bits(np.float64(value))
                        words[pos] = value
                    valid[nodes[node, VALID_BASE] + count] = present
                step += 1
            elif operation == p.STRUCT:
                if node >= 0:
                    count = counts[node]
                    if count >= nodes[node, CAPACITY]:
                        full = node
                        break
                    counts[node] = count + 1
                    valid[nodes[node, VALID_BASE] + count] = 1
                step += 1
            elif operation == p.LIST:
                frames[depth, 0] = 0
                if node >= 0:
                    count = counts[node]
                    if count >= nodes[node, CAPACITY]:
                        full = node
                        break
                    counts[node] = count + 1
                    valid[nodes[node, VALID_BASE] + count] = 1
                    frames[depth, 1] = nodes[node, BASE] + count
                    words[frames[depth, 1]] = counts[node + 1]  # until the array ends: the index of its first item
                depth += 1
                step = steps[step, p.NEXT]
            elif operation == p.BLOCK:
                left = frames[depth - 1, 0]
                if left == 0:
                    left, at = read_number(text, at, end, 10)
                    if at < 0:
                        reason = -at
                        break
                    if left < 0:
                        size, at = read_number(text, at, end, 10)
                        if at < 0:
                            reason = -at
                            break
                        left = -left
                        if size < 0 or left < 0:
                            reason = read_reasons.BAD_LENGTH
                            break
                    least = steps[step, p.A]
                    if least == 0:
                        if left > _MOST_EMPTY - empty:
                            reason = read_reasons.TOO_EMPTY
                            break
                        empty += left
                    elif left > (end - at) // least:
                        reason = read_reasons.BAD_LENGTH
                        break
                if left > 0:
                    frames[depth - 1, 0] = left - 1
                    step = steps[step, p.NEXT]
                    continue
                depth -= 1
                if node >= 0:
                    pos = frames[depth, 1]
                    begun = words[pos]
                    words[pos] = counts[node + 1]
                    if steps[step, p.B] and compare_keys:
                        keys = nodes[node + 1, BASE]
                        if keys_repeat(text, words, keys + 2 * begun, keys + 2 * words[pos], places, True):
                            reason = read_reasons.REPEATS
                            break
                step += 1
            elif operation == p.UNION:
                branch, at = read_number(text, at, end, 5)
                if at < 0:
                    reason = -at
                    break
                if branch < 0 or branch >= steps[step, p.A]:
                    reason = read_reasons.NO_BRANCH
                    break
                step = table[steps[step, p.B] + branch]
            elif operation == p.JUMP:
                step = steps[step, p.NEXT]
            elif operation == p.PAD:
                full = _pad(node, padded, pad_starts, nodes, words, valid, counts)
                if full >= 0:
                    break
                step += 1
            elif operation == p.DEFAULT:
                back, back_end = at, end
                at = constants_at + steps[step, p.A]
                end = at + steps[step, p.B]
                step += 1
            elif operation == p.RESTORE:
                at, end = back, back_end
                step += 1
            elif operation == p.REFUSE:
                reason = steps[step, p.A]
                break
        if reason == 0 and full < 0:
            continue
        for node in range(len(counts)):
            counts[node] = marks[node]
        if full >= 0:
            return row, full
        status[row] = EXACT
        reasons[row, 0], reasons[row, 1] = reason, step
        _pad(0, padded, pad_starts, nodes, words, valid, counts)
    return len(starts), -1
