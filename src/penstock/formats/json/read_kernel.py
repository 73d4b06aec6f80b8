"""JSON objects straight to columns, nested ones included, inside a compiled loop.

The loop reads the common cases. It marks every other record EXACT: :mod:`penstock.formats.json.exact_reader`, which
implements all of Flink's rules, reads it. The loop must not accept a record that the exact reader refuses, and must
read the same values.
"""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, CAPACITY, GIVEN_NULL, ROOT, VALID_BASE, WIDTH
from penstock.formats.json.field_names import ARITY, FIRST, PRECISION, SCALE
from penstock.formats.json.syntax import blank, keeps_its_text, string, unescape, value_end
from penstock.loops import chars, type_roots
from penstock.loops.base64 import base64_size
from penstock.loops.bytes import same_bytes
from penstock.loops.compiled import Vector, Word, borrow, compiled
from penstock.loops.decimals import wide_decimal
from penstock.loops.map_keys import MOST_KEYS, keys_repeat
from penstock.loops.numbers import number_value, scan_number
from penstock.loops.record_status import EXACT, READ
from penstock.loops.values import scan_word, text_value

_RUNNING, _DONE, _LEFT = 0, 1, 2


@compiled
def _pad(
    node: int, index: int, padded: Vector, starts: Vector, nodes: Vector, words: Vector, valid: Vector, counts: Vector
) -> None:
    """Make value ``index`` of a node and of its dependent nodes null."""
    for pos in range(starts[node], starts[node + 1]):
        each: int = padded[pos]
        valid[nodes[each, VALID_BASE] + index] = 0
        root, width = nodes[each, ROOT], nodes[each, WIDTH]
        at = nodes[each, BASE] + index * width
        if root in (type_roots.ARRAY, type_roots.MAP):
            words[at] = counts[each + 1]
        elif width > 0:
            words[at] = 0
            words[at + width - 1] = 0


@compiled
def _may_repeat(text: Vector, words: Vector, first: int, last: int, places: Vector) -> bool:
    """Whether two of the keys with spans in ``words[first:last]`` may be equal; keys with escapes may always be."""
    if last - first <= 2:
        return False
    for pos in range(first, last, 2):
        if words[pos] < 0:
            return True
    return keys_repeat(text, words, first, last, places, True)


@compiled
def read_records(
    text: Vector,
    spans: tuple[Vector, Vector],
    names: tuple[Vector, ...],
    padding: tuple[Vector, ...],
    separator: int,
    streaming: bool,
    required: bool,
    columns: tuple[Vector, ...],
    status: Vector,
    first: int,
) -> tuple[int, int]:
    """Read every record from ``first`` on whose ``status`` is READ. Other records become a row of nulls, marked EXACT.
    ``spans`` are where records start and end in ``text``.

    ``names`` are the arrays of :class:`penstock.formats.json.field_names.FieldNames`, ``columns`` the arrays of
    :class:`penstock.columns.nested.NestedColumns`. The words of a string are its start and its size without escapes,
    and the start is ``~start`` if there are escapes. ``separator`` is the character between date and time.
    ``streaming`` selects Flink's streaming parser, which ignores further fields after as many as the row has.
    ``required``: an object must have all fields.

    Returns the number of records and -1. If a node runs out of room, returns the record and the node instead; the
    caller grows the node and calls again from that record. This is one long function because passing these arrays to
    another function for each field costs more than reading the field.
    """
    starts, ends = spans
    table, fields, keys, key_starts, repeated = names
    (padded, pad_starts), (nodes, words, valid, counts) = padding, columns
    text, keys, words, valid = borrow(text), borrow(keys), borrow(words), borrow(valid)
    seen = np.full(len(nodes), -1, np.int64)
    marks = np.zeros(len(repeated), np.int64)
    frames = np.zeros((len(nodes), 5), np.int64)
    places = np.empty(2 * MOST_KEYS, np.int64)
    name = np.empty(len(keys), np.uint8)  # of a field, without its escapes
    row, full = first, -1
    while row < len(starts):
        for pos in range(len(repeated)):
            marks[pos] = counts[repeated[pos]]
        end = ends[row]
        outcome = _LEFT
        at = starts[row]
        if status[row] == READ:
            at = blank(text, at, end)
            if at < end and text[at] == chars.BRACE_OPEN:
                outcome = _RUNNING
        # The open container: its node, type root and index; for a row, the fields found, not seen yet and expected next
        node, inside, index, depth = 0, type_roots.ROW, row, 0
        start_field, arity = table[0, FIRST], table[0, ARITY]
        found, unseen, expected = 0, arity, 0
        opened = True
        if outcome == _RUNNING:
            valid[nodes[0, VALID_BASE] + row] = 1
        while outcome == _RUNNING:
            if opened:
                opened = False
                at = blank(text, at + 1, end)
                if at < end and text[at] == (chars.BRACKET_CLOSE if inside == type_roots.ARRAY else chars.BRACE_CLOSE):
                    root, child, i = -1, -1, 0
                    # Empty: it is closed below
                else:
                    continue
            else:
                # Find the node of the next value
                child, i = -1, index
                if inside == type_roots.ROW:
                    if at >= end or text[at] != chars.QUOTE:
                        break
                    start = at + 1
                    field = start_field + expected
                    size = key_starts[field + 1] - key_starts[field] if expected < arity else 0
                    if (
                        expected < arity
                        and start + size <= end
                        and same_bytes(text, start, keys, key_starts[field], size)
                    ):
                        child = fields[field]
                        expected += 1
                        at = start + size
                    else:
                        at, size = string(text, start, end)
                        if at < 0:
                            break
                        escaped = size != at - start
                        if escaped and size <= len(name):
                            unescape(text, start, name, 0, size)
                        for tried in range(arity):
                            field = start_field + tried
                            pos = key_starts[field]
                            if key_starts[field + 1] - pos != size + 2:
                                continue
                            if (
                                same_bytes(name, 0, keys, pos, size)
                                if escaped
                                else same_bytes(text, start, keys, pos, size)
                            ):
                                child = fields[field]
                                expected = tried + 1
                                break
                        at = blank(text, at + 1, end)
                        if at >= end or text[at] != chars.COLON:
                            break
                        at += 1
                    at = blank(text, at, end)
                    if streaming and found >= arity:
                        child = -1
                    elif child >= 0:
                        found += 1
                        if seen[child] != index:
                            seen[child] = index
                            unseen -= 1
                        elif not streaming or nodes[child, ROOT] >= type_roots.ROW:
                            break
                elif inside == type_roots.ARRAY:
                    child = node + 1
                    i = counts[child]
                    if i >= nodes[child, CAPACITY]:
                        full = child
                        break
                    counts[child] = i + 1
                else:
                    if at >= end or text[at] != chars.QUOTE:
                        break
                    start = at + 1
                    at, size = string(text, start, end)
                    if at < 0:
                        break
                    child = node + 1
                    i = counts[child]
                    if i >= nodes[child, CAPACITY]:
                        full = child
                        break
                    pos = nodes[child, BASE] + 2 * i
                    words[pos], words[pos + 1] = start if size == at - start else ~start, size
                    valid[nodes[child, VALID_BASE] + i] = 1
                    child += 1
                    if i >= nodes[child, CAPACITY]:
                        full = child
                        break
                    counts[node + 1] = counts[child] = i + 1
                    at = blank(text, at + 1, end)
                    if at >= end or text[at] != chars.COLON:
                        break
                    at = blank(text, at + 1, end)
                if at >= end:
                    break
                # Read the value
                if child < 0:
                    at = value_end(text, at, end)
                    if at < 0:
                        break
                else:
                    root, mark = nodes[child, ROOT], text[at]
                    if mark in (chars.BRACE_OPEN, chars.BRACKET_OPEN):
                        if root < type_roots.ROW or (mark == chars.BRACKET_OPEN) != (root == type_roots.ARRAY):
                            break
                        valid[nodes[child, VALID_BASE] + i] = 1
                        frames[depth, 0], frames[depth, 1] = node, index
                        frames[depth, 2], frames[depth, 3], frames[depth, 4] = found, unseen, expected
                        depth += 1
                        node, inside, index = child, root, i
                        if root == type_roots.ROW:
                            start_field, arity = table[node, FIRST], table[node, ARITY]
                            found, unseen, expected = 0, arity, 0
                        opened = True
                        continue
                    if root >= type_roots.ROW:
                        at = scan_word(text, at, end)
                        if at < 0 or mark != chars.LOWER_N:  # only null fits
                            break
                        _pad(child, i, padded, pad_starts, nodes, words, valid, counts)
                        valid[nodes[child, VALID_BASE] + i] = GIVEN_NULL
                    else:
                        value: Word = np.int64(0)
                        more: Word = np.int64(0)
                        ok = True
                        start = at
                        if mark == chars.QUOTE:
                            start = at + 1
                            at, size = string(text, start, end)
                            if at < 0:
                                break
                            if root == type_roots.STRING:
                                value, more = start if size == at - start else ~start, size
                            elif size != at - start:
                                break
                            elif root == type_roots.BYTES:
                                value, more = start, base64_size(text, start, at)
                                ok = more >= 0
                            else:
                                ok, value = text_value(
                                    root, text, start, at, table[child, SCALE], table[child, PRECISION], separator
                                )
                                more = value >> 63
                                if not ok and root == type_roots.DECIMAL:
                                    ok, value, more = wide_decimal(
                                        text, start, at, table[child, SCALE], table[child, PRECISION]
                                    )
                            at += 1
                        elif mark == chars.MINUS or chars.ZERO <= mark <= chars.NINE:
                            at, digits, power, whole = scan_number(text, at, end)
                            if at < 0:
                                break
                            if root <= type_roots.DECIMAL:
                                ok, value = number_value(
                                    root,
                                    mark == chars.MINUS,
                                    digits,
                                    power,
                                    whole,
                                    table[child, SCALE],
                                    table[child, PRECISION],
                                )
                                more = value >> 63
                                if not ok and root == type_roots.DECIMAL:
                                    ok, value, more = wide_decimal(
                                        text, start, at, table[child, SCALE], table[child, PRECISION]
                                    )
                                elif digits == 0 and mark == chars.MINUS and not streaming:
                                    ok = False  # the tree parser may forget the sign
                            else:
                                ok = root == type_roots.STRING and (
                                    streaming or keeps_its_text(text, start, at, digits, power, whole)
                                )
                                value, more = start, at - start
                        else:
                            at = scan_word(text, at, end)
                            if at < 0:
                                break
                            if mark != chars.LOWER_N:
                                if root == type_roots.BOOLEAN:
                                    value = np.int64(mark == chars.LOWER_T)
                                else:
                                    ok = root == type_roots.STRING
                                    value, more = start, at - start
                        if not ok:
                            break
                        width = nodes[child, WIDTH]
                        pos = nodes[child, BASE] + i * width
                        words[pos] = value
                        if width > 1:
                            words[pos + 1] = more
                        valid[nodes[child, VALID_BASE] + i] = GIVEN_NULL if mark == chars.LOWER_N else 1
                at = blank(text, at, end)
            # Close the containers that end here
            while at < end and text[at] == (chars.BRACKET_CLOSE if inside == type_roots.ARRAY else chars.BRACE_CLOSE):
                if inside == type_roots.ROW:
                    if required and found < arity:
                        outcome = _LEFT
                        break
                    if unseen > 0:
                        for field in range(start_field, start_field + arity):
                            if seen[fields[field]] != index:
                                _pad(fields[field], index, padded, pad_starts, nodes, words, valid, counts)
                else:
                    pos = nodes[node, BASE] + index
                    words[pos] = counts[node + 1]
                    if inside == type_roots.MAP:
                        begun = words[pos - 1] if index > 0 else 0
                        base = nodes[node + 1, BASE]
                        if _may_repeat(text, words, base + 2 * begun, base + 2 * words[pos], places):
                            outcome = _LEFT
                            break
                if depth == 0:
                    outcome = _DONE
                    break
                depth -= 1
                node, index = frames[depth, 0], frames[depth, 1]
                found, unseen, expected = frames[depth, 2], frames[depth, 3], frames[depth, 4]
                inside = nodes[node, ROOT]
                start_field, arity = table[node, FIRST], table[node, ARITY]
                at = blank(text, at + 1, end)
            if outcome != _RUNNING:
                break
            if at >= end or text[at] != chars.COMMA:
                break
            at = blank(text, at + 1, end)
        if outcome != _DONE:
            for pos in range(len(repeated)):
                counts[repeated[pos]] = marks[pos]
            if full >= 0:
                break
            seen[:] = -1
            if status[row] == READ:
                status[row] = EXACT
            _pad(0, row, padded, pad_starts, nodes, words, valid, counts)
        row += 1
    counts[0] = row
    for node in range(len(nodes)):
        if nodes[node, ROOT] == type_roots.ROW:
            for field in range(table[node, FIRST], table[node, FIRST] + table[node, ARITY]):
                counts[fields[field]] = counts[node]
    return row, full
