"""Columns to Avro's binary encoding, inside a compiled loop that runs a program."""

from __future__ import annotations

import numpy as np

from penstock.columns.nested import BASE, VALID_BASE
from penstock.formats.avro import program as p
from penstock.formats.avro.numbers import byte_at, decimal_size, write_number
from penstock.loops.bytes import copy_bytes, same_bytes, write_little_endian
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.floats import double_bits, float_value

#: Why a row cannot be written, by number.
WRITE_REASONS = (
    "",
    "NULL, but the Avro schema does not allow null",
    "out of the range of the Avro type",
    "the enum of the Avro schema has no such symbol",
    "not of the fixed size in the Avro schema",
)
_NULL, _RANGE, _NO_SYMBOL, _SIZE = 1, 2, 3, 4

#: The most bytes that a value takes besides its text or bytes: the number of a branch, and a decimal with its size or
#: the count of a block and its end.
WIDEST = 20

_MOST = np.int64(2**63 - 1)


@compiled
def _symbol(text: Vector, start: int, size: int, constants: Vector, table: Vector, first: int, count: int) -> int:
    """The index of the symbol that equals the text, or -1."""
    for index in range(count):
        pos = table[first + 2 * index]
        if table[first + 2 * index + 1] == size and same_bytes(text, start, constants, pos, size):
            return index
    return -1


@compiled
def write_records(
    program: tuple[Vector, ...], columns: tuple[Vector, ...], out: Vector, offsets: Vector
) -> tuple[int, int, int]:
    """Write one record per row, one after the other, and store the end of each in ``offsets``.

    ``columns`` are the arrays of :class:`penstock.columns.nested.NestedInputs`. ``out`` has room for WIDEST
    bytes per value, all text and the constants of ``program``. Returns the number of rows, 0 and 0; or a row that
    cannot be written, the reason and the step.
    """
    (steps, table, constants), (nodes, words, valid, text) = program, columns
    constants, text, out = borrow(constants), borrow(text), borrow(out)
    frames = np.zeros((p.DEEPEST, 2), np.int64)  # for each open array or map: its index, and its last item
    at = 0
    for row in range(len(offsets) - 1):
        index = row
        step, depth = 0, 0
        while True:
            operation = steps[step, p.STEP]
            if operation == p.END:
                break
            node = steps[step, p.NODE]
            if operation <= p.LIST:
                if not valid[nodes[node, VALID_BASE] + index]:
                    null_at = steps[step, p.NULL_AT]
                    if null_at < 0:
                        return row, _NULL, step
                    out[at] = 2 * null_at
                    at += 1
                    if operation == p.VALUE:
                        step += 1
                    elif operation == p.STRUCT:
                        step = steps[step, p.NEXT]
                    else:
                        step = steps[step, p.NEXT] + 1
                    continue
                value_at = steps[step, p.VALUE_AT]
                if value_at >= 0:
                    out[at] = 2 * value_at
                    at += 1
            if operation == p.VALUE:
                wire, convert = steps[step, p.WIRE], steps[step, p.CONVERT]
                pos = nodes[node, BASE] + index
                if wire < p.WIRE_BYTES:
                    value = words[pos]
                    if convert == p.SCALE_DOWN:
                        value //= steps[step, p.A]
                    elif convert == p.SCALE_UP:
                        ratio = steps[step, p.A]
                        if value > _MOST // ratio or value < -(_MOST // ratio):
                            return row, _RANGE, step
                        value *= ratio
                    elif convert == p.TO_DOUBLE:
                        value = double_bits(np.float64(float_value(value)))
                    if wire in (p.WIRE_INT, p.WIRE_LONG):
                        if -64 <= value < 64:
                            out[at] = value << 1 ^ value >> 63
                            at += 1
                        else:
                            at = write_number(out, at, value)
                    elif wire == p.WIRE_BOOLEAN:
                        out[at] = value
                        at += 1
                    elif wire == p.WIRE_FLOAT:
                        at = write_little_endian(out, at, value, 4)
                    else:
                        at = write_little_endian(out, at, value, 8)
                elif convert == p.TO_DECIMAL:
                    pos = nodes[node, BASE] + 2 * index
                    low, high = words[pos], words[pos + 1]
                    size = decimal_size(low, high)
                    if wire == p.WIRE_FIXED:
                        if size > steps[step, p.B]:
                            return row, _RANGE, step
                        for _ in range(steps[step, p.B] - 16):
                            out[at] = 255 if high < 0 else 0
                            at += 1
                        size = min(steps[step, p.B], 16)
                    else:
                        out[at] = size << 1
                        at += 1
                    for byte in range(size - 1, -1, -1):
                        out[at] = byte_at(low, high, byte)
                        at += 1
                else:
                    start, stop = words[pos], words[pos + 1]
                    if wire == p.WIRE_ENUM:
                        found = _symbol(text, start, stop - start, constants, table, steps[step, p.B], steps[step, p.A])
                        if found < 0:
                            return row, _NO_SYMBOL, step
                        at = write_number(out, at, found)
                    else:
                        if wire == p.WIRE_BYTES:
                            at = write_number(out, at, stop - start)
                        elif stop - start != steps[step, p.B]:
                            return row, _SIZE, step
                        copy_bytes(text, start, out, at, stop - start)
                        at += stop - start
                step += 1
            elif operation == p.STRUCT:
                step += 1
            elif operation == p.LIST:
                pos = nodes[node, BASE] + index
                start, stop = words[pos], words[pos + 1]
                if start < stop:
                    at = write_number(out, at, stop - start)
                    frames[depth, 0], frames[depth, 1] = index, stop
                    depth += 1
                    index = start
                    step += 1
                else:
                    out[at] = 0
                    at += 1
                    step = steps[step, p.NEXT] + 1
            elif operation == p.BLOCK:
                index += 1
                if index < frames[depth - 1, 1]:
                    step = steps[step, p.NEXT]
                else:
                    out[at] = 0
                    at += 1
                    depth -= 1
                    index = frames[depth, 0]
                    step += 1
            elif operation == p.CONSTANT:
                start = steps[step, p.A]
                for pos in range(start, start + steps[step, p.B]):
                    out[at] = constants[pos]
                    at += 1
                step += 1
        offsets[row + 1] = at
    return len(offsets) - 1, 0, 0
