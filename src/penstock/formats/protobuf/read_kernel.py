"""Protobuf messages straight to columns, inside a compiled loop that reads by tables.

Fields may come in any order and any number of times. Every value gets its position when its message begins, and is
absent at first. A later value replaces an earlier one, and the parts of a message are merged. Separate elements of a
list stay adjacent, because no other list of the same column is written before this one ends.

The loop follows protobuf's official parsers: a field whose wire type does not fit is skipped as unknown, and repeated
numbers may be packed or not, whatever was declared.
"""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, CAPACITY, VALID_BASE, WIDTH
from penstock.formats.protobuf import read_program as p
from penstock.formats.protobuf import wire as wires
from penstock.formats.protobuf.read_reasons import BAD_GROUP, BAD_LENGTH, BAD_TAG, CUT_SHORT, LEFT, NOT_TEXT
from penstock.formats.protobuf.wire import read_number, read_short, read_varint
from penstock.loops.compiled import Vector, Word, borrow, compiled
from penstock.loops.map_keys import MOST_KEYS, keys_repeat
from penstock.loops.record_status import EXACT, READ
from penstock.loops.strings import is_utf8

#: How deep the loop follows messages in messages. The official parsers go to 100; the exact path decides beyond this.
_DEEPEST = 64
#: A number that an enum does not have, which counts as an unknown field, and one that the column cannot hold.
_UNKNOWN, _UNFIT = 0, -1
_LARGEST_TAG, _LARGEST_SIZE = 2**32 - 1, 2**31 - 1


@compiled
def _begin(
    first: int,
    last: int,
    index: int,
    constants_at: int,
    inits: Vector,
    nodes: Vector,
    words: Vector,
    valid: Vector,
    counts: Vector,
) -> int:
    """Set value ``index`` of nodes to the values in ``inits``; returns a node without room, or -1."""
    for pos in range(first, last):
        node: int = inits[pos, p.INIT_NODE]
        if index >= nodes[node, CAPACITY]:
            return node
        counts[node] = index + 1
        valid[nodes[node, VALID_BASE] + index] = inits[pos, p.INIT_VALID]
        form, at = inits[pos, p.INIT_FORM], nodes[node, BASE] + index * nodes[node, WIDTH]
        if form == p.NUMERIC:
            words[at] = inits[pos, p.INIT_LOW]
        elif form == p.TEXTUAL:
            words[at] = inits[pos, p.INIT_LOW] + constants_at
            words[at + 1] = inits[pos, p.INIT_HIGH]
        elif form == p.LISTED:
            words[at] = counts[inits[pos, p.INIT_LOW]]
    return -1


@compiled
def _has_elements(first: int, last: int, index: int, inits: Vector, nodes: Vector, words: Vector) -> bool:
    """Whether value ``index`` of a list among ``inits`` has elements."""
    for pos in range(first, last):
        if inits[pos, p.INIT_FORM] == p.LISTED:
            at = nodes[inits[pos, p.INIT_NODE], BASE] + index
            if words[at] > (words[at - 1] if index else 0):
                return True
    return False


@compiled
def _find_field(number: int, message: int, messages: Vector, fields: Vector, lookup: Vector) -> int:
    """The field of a message that has this number, or -1."""
    if number < messages[message, p.DENSE]:
        found: int = lookup[messages[message, p.LOOKUP] + number]
        return found
    low, high = messages[message, p.FIRST], messages[message, p.LAST]
    while low < high:
        middle = (low + high) // 2
        if fields[middle, p.NUMBER] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < messages[message, p.LAST] and fields[low, p.NUMBER] == number else -1


@compiled
def _place(value: Word, enum: int, table: Vector) -> int:
    """The index of a number among an enum's numbers, or -1."""
    count = table[enum]
    first = enum + 2
    if count == 0:
        return -1
    guess = value - table[first]
    if 0 <= guess < count and table[first + guess] == value:
        return int(guess)
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if table[first + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < count and table[first + low] == value else -1


@compiled
def _enum(value: Word, enum: int, column: int, table: Vector, constants_at: int) -> tuple[int, Word, Word]:
    """The number of words of a column for an enum's number, and the words; or _UNKNOWN, or _UNFIT."""
    pos = _place(value, enum, table)
    if pos < 0:
        if table[enum + 1]:
            return _UNKNOWN, value, value
        pos = table[enum]
    if column == p.AS_TEXT:
        pos = enum + 2 + table[enum] + 2 * pos
        return 2, table[pos] + constants_at, table[pos + 1]
    return (1, value, value) if -column - 1 <= value <= column else (_UNFIT, value, value)


@compiled
def _maps_repeat(text: Vector, maps: Vector, nodes: Vector, words: Vector, counts: Vector, marks: Vector) -> bool:
    """Whether a map that began after ``marks`` may have a key twice."""
    places = np.empty(0, np.int64)
    for each in range(len(maps)):
        node, key = maps[each, 0], maps[each, 1]
        if counts[key] < marks[key] + 2:
            continue
        if len(places) == 0:
            places = np.empty(2 * MOST_KEYS, np.int64)
        start = marks[key]
        base, width = nodes[key, BASE], nodes[key, WIDTH]
        for index in range(marks[node], counts[node]):
            stop = words[nodes[node, BASE] + index]
            first, last = base + width * start, base + width * stop
            if stop - start > 1 and keys_repeat(text, words, first, last, places, maps[each, 2] != 0):
                return True
            start = stop
    return False


@compiled
def read_records(
    text: Vector,
    offsets: Vector,
    constants_at: int,
    program: tuple[Vector, ...],
    columns: tuple[Vector, ...],
    status: Vector,
    reasons: Vector,
    first: int,
) -> tuple[int, int]:
    """Read every message from ``first`` on whose ``status`` is READ. Other messages become a row of nulls.

    Message ``i`` is ``text[offsets[i]:offsets[i + 1]]``. The constants of ``program`` start at ``text[constants_at]``.
    ``columns`` are the arrays of :class:`penstock.columns.nested.NestedColumns`. A message that is not read is
    marked EXACT, with (reason, index of the path) in ``reasons``.

    Returns the number of messages and -1. If a node runs out of room, returns the message and the node instead; the
    caller grows the node and calls again from that message. This is one long function because passing these arrays to
    another function for each field costs more than reading the field.
    """
    messages, fields, lookup, inits, table, maps, root, blank = program
    nodes, words, valid, counts = columns
    text, inits, nodes = borrow(text), borrow(inits), borrow(nodes)
    words, valid, counts = borrow(words), borrow(valid), borrow(counts)
    messages, fields, lookup, table = borrow(messages), borrow(fields), borrow(lookup), borrow(table)
    marks = np.zeros(len(counts), np.int64)
    frames = np.zeros((_DEEPEST, 5), np.int64)  # for each open message: its number, value, end, group, mask
    for row in range(first, len(offsets) - 1):
        if status[row] != READ:
            _begin(blank[0], blank[1], row, constants_at, inits, nodes, words, valid, counts)
            continue
        for node in range(len(counts)):
            marks[node] = counts[node]
        at, end = offsets[row], offsets[row + 1]
        message, index, group, mask = root, row, 0, 0
        depth, reason, full, field = 0, 0, -1, -1
        _begin(
            messages[root, p.INIT], messages[root, p.INIT_END], row, constants_at, inits, nodes, words, valid, counts
        )
        while True:
            if at >= end:
                # --- the end of a message that is not a group
                if group:
                    reason = CUT_SHORT
                    break
                if mask != messages[message, p.MASK]:
                    reason = LEFT
                    break
                if depth == 0:
                    break
                depth -= 1
                message, index, end = frames[depth, 0], frames[depth, 1], frames[depth, 2]
                group, mask = frames[depth, 3], frames[depth, 4]
                continue
            # --- a tag
            field = -1
            tag: Word = np.int64(text[at])
            if tag < 128:
                at += 1
            else:
                tag, at = read_short(text, at, end, _LARGEST_TAG)
                if at < 0:
                    reason = BAD_TAG if -at == BAD_LENGTH else -at
                    break
            number, wire = tag >> 3, tag & 7
            if number == 0:
                reason = BAD_TAG
                break
            field = _find_field(number, message, messages, fields, lookup)
            field_type, packed = 0, False
            if field >= 0:
                field_type = fields[field, p.TYPE]
                expected = wires.WIRES[field_type]
                if wire != expected:
                    packed = wire == wires.LEN and fields[field, p.REPEATED] != 0 and expected != wires.SGROUP
                    if not packed:
                        field = -1
            # --- an unknown field
            if field < 0:
                if wire == wires.VARINT:
                    _, at = read_varint(text, at, end)
                    if at < 0:
                        reason = -at
                        break
                elif wire == wires.LEN:
                    size, at = read_short(text, at, end, _LARGEST_SIZE)
                    if at < 0:
                        reason = -at
                        break
                    if size > end - at:
                        reason = BAD_LENGTH
                        break
                    at += size
                elif wire in (wires.I64, wires.I32):
                    at += 8 if wire == wires.I64 else 4
                    if at > end:
                        reason = CUT_SHORT
                        break
                elif wire == wires.SGROUP:
                    if depth >= _DEEPEST:
                        reason = LEFT
                        break
                    frames[depth, 0], frames[depth, 1], frames[depth, 2] = message, index, end
                    frames[depth, 3], frames[depth, 4] = group, mask
                    depth += 1
                    message, group, mask = p.UNKNOWN, number, 0
                elif wire == wires.EGROUP:
                    if number != group:
                        reason = BAD_GROUP
                        break
                    if mask != messages[message, p.MASK]:
                        reason = LEFT
                        break
                    depth -= 1
                    message, index, end = frames[depth, 0], frames[depth, 1], frames[depth, 2]
                    group, mask = frames[depth, 3], frames[depth, 4]
                else:
                    reason = BAD_TAG
                    break
                continue
            # --- the length
            node = fields[field, p.NODE]
            size = end - at
            if wire == wires.LEN:
                if at < end and text[at] < 128:
                    size = np.int64(text[at])
                    at += 1
                else:
                    size, at = read_short(text, at, end, _LARGEST_SIZE)
                    if at < 0:
                        reason = -at
                        break
                if size > end - at:
                    reason = BAD_LENGTH
                    break
            # --- a number that is not one of an array
            value: Word = np.int64(0)
            more: Word = np.int64(0)
            width = 1
            if wire not in (wires.LEN, wires.SGROUP) and not (node >= 0 and fields[field, p.REPEATED]):
                value, at = read_number(text, at, end, field_type)
                if at < 0:
                    reason = -at
                    break
                if field_type == wires.TYPE_ENUM:
                    width, value, more = _enum(value, fields[field, p.A], fields[field, p.B], table, constants_at)
                    if width == _UNFIT or (width == _UNKNOWN and messages[message, p.ENTRY]):
                        reason = LEFT
                        break
                    if width == _UNKNOWN:
                        continue
            # --- the field is present: unset the other members of its oneof
            mask |= fields[field, p.BIT]
            begin, stop = fields[field, p.RIVALS], fields[field, p.RIVALS_END]
            if begin < stop:
                if _has_elements(begin, stop, index, inits, nodes, words):
                    reason = LEFT
                    break
                _begin(begin, stop, index, constants_at, inits, nodes, words, valid, counts)
            # --- a message begins
            if wire == wires.SGROUP or field_type == wires.TYPE_MESSAGE:
                if depth >= _DEEPEST:
                    reason = LEFT
                    break
                frames[depth, 0], frames[depth, 1], frames[depth, 2] = message, index, end
                frames[depth, 3], frames[depth, 4] = group, mask
                depth += 1
                message = fields[field, p.INNER]
                group, mask = number if wire == wires.SGROUP else 0, 0
                if wire == wires.LEN:
                    end = at + size
                if node >= 0:
                    begin, stop = messages[message, p.INIT], messages[message, p.INIT_END]
                    if fields[field, p.REPEATED]:
                        outer = index
                        index = counts[fields[field, p.CHILD]]
                        full = _begin(begin, stop, index, constants_at, inits, nodes, words, valid, counts)
                        if full >= 0:
                            break
                        words[nodes[node, BASE] + outer] = index + 1
                        valid[nodes[node, VALID_BASE] + outer] = 1
                    elif not valid[nodes[node, VALID_BASE] + index]:
                        _begin(begin, stop, index, constants_at, inits, nodes, words, valid, counts)
                continue
            # --- text or bytes
            if wire == wires.LEN and not packed:
                value, more, width = at, size, 2
                at += size
                if fields[field, p.A]:
                    seen = 0
                    for pos in range(value, at):
                        seen |= text[pos]
                    if seen >= 128 and not is_utf8(text, value, at):
                        reason = NOT_TEXT if fields[field, p.A] == p.REFUSED_UNLESS_TEXT else LEFT
                        break
            if node < 0 and not packed:
                continue
            # --- store the value
            if not fields[field, p.REPEATED]:
                pos = nodes[node, BASE] + index * width
                words[pos] = value
                if width == 2:
                    words[pos + 1] = more
                valid[nodes[node, VALID_BASE] + index] = 1
                continue
            child = fields[field, p.CHILD]
            if field_type == wires.TYPE_STRING or width == 2:
                count = counts[child]
                if count >= nodes[child, CAPACITY]:
                    full = child
                    break
                pos = nodes[child, BASE] + 2 * count
                words[pos], words[pos + 1] = value, more
                valid[nodes[child, VALID_BASE] + count] = 1
                counts[child] = count + 1
                words[nodes[node, BASE] + index] = count + 1
                valid[nodes[node, VALID_BASE] + index] = 1
                continue
            # --- numbers of an array, one or many
            if packed:
                stop = at + size
                if (wires.WIRES[field_type] == wires.I64 and size % 8) or (
                    wires.WIRES[field_type] == wires.I32 and size % 4
                ):
                    reason = BAD_LENGTH
                    break
            else:
                stop = end
            while at < stop or not packed:
                value, at = read_number(text, at, stop, field_type)
                if at < 0:
                    reason = -at
                    break
                width = 1
                if field_type == wires.TYPE_ENUM:
                    width, value, more = _enum(value, fields[field, p.A], fields[field, p.B], table, constants_at)
                    if width == _UNFIT:
                        reason = LEFT
                        break
                if node >= 0 and width != _UNKNOWN:
                    count = counts[child]
                    if count >= nodes[child, CAPACITY]:
                        full = child
                        break
                    pos = nodes[child, BASE] + width * count
                    words[pos] = value
                    if width == 2:
                        words[pos + 1] = more
                    valid[nodes[child, VALID_BASE] + count] = 1
                    counts[child] = count + 1
                    words[nodes[node, BASE] + index] = count + 1
                    valid[nodes[node, VALID_BASE] + index] = 1
                if not packed:
                    break
            if reason or full >= 0:
                break
        if reason == 0 and full < 0 and _maps_repeat(text, maps, nodes, words, counts, marks):
            reason = LEFT
        if reason == 0 and full < 0:
            continue
        for node in range(len(counts)):
            counts[node] = marks[node]
        if full >= 0:
            return row, full
        status[row] = EXACT
        reasons[row, 0], reasons[row, 1] = reason, field if field >= 0 else len(fields) + message
        _begin(blank[0], blank[1], row, constants_at, inits, nodes, words, valid, counts)
    return len(offsets) - 1, -1
