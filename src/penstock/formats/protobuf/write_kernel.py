"""Columns to protobuf messages, inside a compiled loop that writes each message from its end to its beginning."""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, VALID_BASE
from penstock.formats.protobuf import wire as wires
from penstock.formats.protobuf import write_program as p
from penstock.formats.protobuf.wire import write_varint
from penstock.loops.bytes import same_bytes, write_little_endian
from penstock.loops.compiled import Vector, Word, borrow, compiled

#: Why a row cannot be written, by number.
WRITE_REASONS = (
    "",
    "NULL, but the field is required",
    "NULL is written as an empty message, but that message has required fields",
)
_NULL, _INCOMPLETE = 1, 2

#: The most bytes that a value takes besides its text: a number and its tag, and the tag and the length of the map entry
#: that it is in.
WIDEST = 30

_LOW_32 = np.int64(2**32 - 1)


@compiled
def _find_enum_number(text: Vector, start: int, size: int, constants: Vector, table: Vector, enum: int) -> int:
    """The number of the name, or of the enum's first name if there is no such name."""
    for pos in range(enum + 2, enum + 2 + 3 * table[enum], 3):
        if table[pos + 2] == size and same_bytes(text, start, constants, table[pos + 1], size):
            number: int = table[pos]
            return number
    first: int = table[enum + 1]
    return first


@compiled
def _valid_enum_number(number: int, table: Vector, enum: int) -> int:
    """The number, or the enum's first number if there is no such number."""
    for pos in range(enum + 2, enum + 2 + 3 * table[enum], 3):
        if table[pos] == number:
            return number
    first: int = table[enum + 1]
    return first


@compiled
def _write_number(out: Vector, at: int, field_type: int, value: Word) -> int:
    """Write a number of a type that ends before ``at``; returns where it begins."""
    wire = wires.WIRES[field_type]
    if wire == wires.VARINT:
        if field_type == wires.TYPE_UINT32:
            value &= _LOW_32
        elif field_type in (wires.TYPE_SINT32, wires.TYPE_SINT64):
            value = value << 1 ^ value >> 63
        return write_varint(out, at, value)
    if wire == wires.I64:
        write_little_endian(out, at - 8, value, 8)
        return at - 8
    write_little_endian(out, at - 4, value, 4)
    return at - 4


@compiled
def _number(
    words: Vector,
    pos: int,
    field_type: int,
    a: int,
    b: int,
    text: Vector,
    constants: Vector,
    table: Vector,
) -> Word:
    """The number of a field for the value at ``pos`` of the columns."""
    value: Word = words[pos]
    if field_type == wires.TYPE_ENUM:
        if b:
            return np.int64(_find_enum_number(text, value, words[pos + 1] - value, constants, table, a))
        return np.int64(_valid_enum_number(value, table, a))
    return value


@compiled
def write_records(
    program: tuple[Vector, ...], columns: tuple[Vector, ...], out: Vector, offsets: Vector
) -> tuple[int, int, int]:
    """Write one message per row, the last row at the end of ``out``, and store the positions in ``offsets``.

    ``columns`` are the arrays of :class:`penstock.columns.nested.NestedInputs`. ``out`` has room for WIDEST
    bytes per value, all text and the values written for NULL. Returns 0, 0 and 0; or the first row that cannot be
    written, the reason and the step.
    """
    (steps, table, constants), (nodes, words, valid, text) = program, columns
    steps, table, constants, nodes = borrow(steps), borrow(table), borrow(constants), borrow(nodes)
    words, valid, text, out = borrow(words), borrow(valid), borrow(text), borrow(out)
    frames = np.zeros(
        (p.DEEPEST, 2), np.int64
    )  # for each open message: its end; for a list: its index, its first element
    at = len(out)
    bad_row, bad_reason, bad_step = 0, 0, 0
    offsets[len(offsets) - 1] = at
    for row in range(len(offsets) - 2, -1, -1):
        index = row
        step, depth, reason = 0, 0, 0
        while True:
            operation = steps[step, p.STEP]
            if operation == p.END:
                break
            node = steps[step, p.NODE]
            if operation == p.BLOCK:
                index -= 1
                if index >= frames[depth - 1, 1]:
                    step = steps[step, p.NEXT]
                else:
                    depth -= 1
                    index = frames[depth, 0]
                    step += 1
                continue
            if operation == p.CLOSE:
                depth -= 1
                if steps[step, p.END_TAG] == 0:
                    at = write_varint(out, at, frames[depth, 0] - at)
                at = write_varint(out, at, steps[step, p.TAG])
                step += 1
                continue
            # --- skipped if a later member of its oneof has a value
            begin, stop = steps[step, p.RIVALS], steps[step, p.RIVALS_END]
            present = node == 0 or valid[nodes[node, VALID_BASE] + index] != 0
            while begin < stop and present:
                present = valid[nodes[table[begin], VALID_BASE] + index] == 0
                begin += 1
            when = steps[step, p.WHEN]
            if not present and when != p.ALWAYS:
                if when == p.REQUIRED:
                    reason = _NULL
                    break
                step = steps[step, p.NEXT] if operation in (p.OPEN, p.LIST) else step + 1
                continue
            if operation == p.VALUE:
                field_type = steps[step, p.TYPE]
                if field_type in (wires.TYPE_STRING, wires.TYPE_BYTES):
                    if present:
                        pos = nodes[node, BASE] + index
                        start, end = words[pos], words[pos + 1]
                        if start == end and when == p.NOT_DEFAULT:
                            step += 1
                            continue
                        size = end - start
                        at -= size
                        for each in range(size):
                            out[at + each] = text[start + each]
                    else:
                        start, size = steps[step, p.A], steps[step, p.B]
                        at -= size
                        for each in range(size):
                            out[at + each] = constants[start + each]
                    at = write_varint(out, at, size)
                else:
                    value: Word = np.int64(0)
                    if present:
                        value = _number(
                            words,
                            nodes[node, BASE] + index,
                            field_type,
                            steps[step, p.A],
                            steps[step, p.B],
                            text,
                            constants,
                            table,
                        )
                        if value == 0 and when == p.NOT_DEFAULT:
                            step += 1
                            continue
                    elif field_type == wires.TYPE_ENUM:
                        value = table[steps[step, p.A] + 1]
                    at = _write_number(out, at, field_type, value)
                at = write_varint(out, at, steps[step, p.TAG])
                step += 1
            elif operation == p.OPEN:
                if not present:
                    if steps[step, p.B]:
                        reason = _INCOMPLETE
                        break
                    if steps[step, p.END_TAG]:
                        at = write_varint(out, at, steps[step, p.END_TAG])
                    else:
                        at = write_varint(out, at, 0)
                    at = write_varint(out, at, steps[step, p.TAG])
                    step = steps[step, p.NEXT]
                    continue
                if steps[step, p.END_TAG]:
                    at = write_varint(out, at, steps[step, p.END_TAG])
                frames[depth, 0] = at
                depth += 1
                step += 1
            else:
                pos = nodes[node, BASE] + index
                start, stop = words[pos], words[pos + 1]
                if start == stop:
                    step = steps[step, p.NEXT] if operation == p.LIST else step + 1
                elif operation == p.LIST:
                    frames[depth, 0], frames[depth, 1] = index, start
                    depth += 1
                    index = stop - 1
                    step += 1
                elif operation == p.PACKED:
                    field_type, child, end = steps[step, p.TYPE], node + 1, at
                    for each in range(stop - 1, start - 1, -1):
                        value = np.int64(0)
                        if valid[nodes[child, VALID_BASE] + each]:
                            value = _number(
                                words,
                                nodes[child, BASE] + each,
                                field_type,
                                steps[step, p.A],
                                steps[step, p.B],
                                text,
                                constants,
                                table,
                            )
                        elif field_type == wires.TYPE_ENUM:
                            value = table[steps[step, p.A] + 1]
                        at = _write_number(out, at, field_type, value)
                    at = write_varint(out, at, end - at)
                    at = write_varint(out, at, steps[step, p.TAG])
                    step += 1
        if reason:
            bad_row, bad_reason, bad_step = row, reason, step
        offsets[row] = at
    return bad_row, bad_reason, bad_step
