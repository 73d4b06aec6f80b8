"""Avro's binary encoding to its JSON and back, inside compiled loops that run a program."""

from __future__ import annotations

import numpy as np

from penstock.formats.avro.numbers import read_number, write_number
from penstock.formats.avro.program import (
    CONSTANT,
    CONVERT,
    END,
    JUMP,
    LIST,
    NEXT,
    STEP,
    TEXT,
    UNION,
    VALUE,
    WIRE,
    WIRE_BOOLEAN,
    WIRE_BYTES,
    WIRE_DOUBLE,
    WIRE_ENUM,
    WIRE_FIXED,
    WIRE_FLOAT,
    WIRE_INT,
    WIRE_LONG,
    WIRE_NULL,
    A,
    B,
)
from penstock.formats.chunks import copy_bytes, same_bytes
from penstock.formats.compiled import Vector, Word, compiled, eight_bytes, inlined, put_eight_bytes
from penstock.formats.digits import write_integer
from penstock.formats.kinds import BIGINT, DOUBLE, EXACT, INT, READ
from penstock.formats.quoting import write_latin, write_string, write_word
from penstock.formats.scan import FAILED, number_value, scan_number, scan_word
from penstock.formats.shortest import double_value, float_bits, write_double, write_float
from penstock.formats.syntax import blank, string, unescape

__all__ = ["GROWTH", "ROOM", "from_texts", "to_texts"]

#: How many bytes a byte of JSON may become at most: a digit that is a double. Beside them, what a loop may overwrite.
GROWTH, ROOM = 8, 64
#: How many bytes of JSON a byte of text may become: one that is escaped.
_ESCAPED = 6


@inlined
def _constant(text: Vector, at: int, stop: int, constants: Vector, place: int, end: int) -> int:
    """The position behind the constant at ``text[at]``, between whose parts white space may be; FAILED for others."""
    size = end - place
    if at + size <= stop and same_bytes(text, at, constants, place, size):
        return at + size
    inside = False
    while place < end:
        if at >= stop:
            return FAILED
        expected, found = constants[place], text[at]
        if found == expected:
            if expected == 34 and (not inside or constants[place - 1] != 92):
                inside = not inside
            place += 1
        elif inside or blank(text, at, at + 1) == at:
            return FAILED
        at += 1
    return at


@inlined
def _real(text: Vector, at: int, stop: int) -> tuple[int, Word]:
    """The end of the number at ``at``, FAILED where it is left out, and the 64 bits of the double."""
    end, digits, power, whole = scan_number(text, at, stop)
    if end < 0 or (whole and digits == 0 and text[at] == 45):  # -0 is a whole number: 0
        return FAILED, np.int64(0)
    taken, bits = number_value(DOUBLE, text[at] == 45, digits, power, whole, 0, 0)
    return (end if taken else FAILED), bits


@compiled
def _has_controls(text: Vector, start: int, end: int) -> bool:
    """Whether there is a byte that JSON wants to be escaped."""
    least = np.uint8(32)
    for place in range(start, end):
        least = min(least, text[place])
    return bool(least < 32)


@inlined
def _put_little(out: Vector, to: int, value: Word, size: int) -> int:
    for _ in range(size):
        out[to] = value & 255
        value >>= 8
        to += 1
    return to


@compiled
def _fold(out: Vector, start: int, end: int) -> int:
    """Turn the UTF-8 in ``out[start:end]`` into one byte for each character; where it ends, or FAILED above 255."""
    to = start
    while start < end:
        each = out[start]
        if each >= 0x80:
            if each > 0xC3:
                return FAILED
            start += 1
            each = (each & 3) << 6 | out[start] & 63
        out[to] = each
        to += 1
        start += 1
    return to


@inlined
def _text_value(text: Vector, at: int, stop: int, out: Vector, to: int, latin: bool, fixed: int) -> tuple[int, int]:
    """The end of the string at ``at``, FAILED where it is left out, and of its bytes at ``out[to]``.

    ``fixed`` is the size that they must have, -1 where the size stands before them.
    """
    if at >= stop or text[at] != 34:
        return FAILED, to
    close, size = string(text, at + 1, stop)
    if close < 0 or _has_controls(text, at + 1, close):
        return FAILED, to
    plain = size == close - at - 1
    if latin:
        unescape(text, at + 1, out, to + 5, to + 5 + size)
        size = _fold(out, to + 5, to + 5 + size) - to - 5
        if size < 0 or (fixed >= 0 and fixed != size):
            return FAILED, to
        if fixed < 0:
            start, to = to + 5, write_number(out, to, size)
        else:
            start = to + 5
        for place in range(size):
            out[to + place] = out[start + place]
    else:
        to = write_number(out, to, size)
        if plain:
            copy_bytes(text, at + 1, out, to, size)
        else:
            unescape(text, at + 1, out, to, to + size)
    return close + 1, to + size


@compiled
def from_texts(
    text: Vector,
    offsets: Vector,
    steps: Vector,
    table: Vector,
    constants: Vector,
    out: Vector,
    ends: Vector,
    status: Vector,
) -> None:
    """The binary encoding of every message whose ``status`` is READ, one after the other, and where each of them ends.

    Message ``i`` is ``text[offsets[i]:offsets[i + 1]]``. One that is not plain, the fields in their order and nothing
    behind them, or that is wrong, becomes EXACT and has no bytes. ``out`` has room for GROWTH bytes a byte of text, and
    ROOM more.
    """
    frames = np.zeros((len(steps), 2), np.int64)  # of each open array or map: where its count is, and the count
    for row in range(len(status)):
        begun: int = ends[row - 1] if row else 0
        ends[row] = begun
        if status[row] != READ:
            continue
        at, stop, to = offsets[row], offsets[row + 1], begun
        step, depth = 0, 0
        while at >= 0:
            what = steps[step, STEP]
            if what == END:
                break
            if what == CONSTANT:
                place = steps[step, A]
                at = _constant(text, at, stop, constants, place, place + steps[step, B])
                step += 1
                continue
            at = blank(text, at, stop)
            if what == VALUE:
                wire = steps[step, WIRE]
                if wire in (WIRE_INT, WIRE_LONG):
                    end, digits, power, whole = scan_number(text, at, stop)
                    if end < 0:
                        at = FAILED
                        continue
                    kind = INT if wire == WIRE_INT else BIGINT
                    taken, value = number_value(kind, text[at] == 45, digits, power, whole, 0, 0)
                    to = write_number(out, to, value)
                    at = end if taken else FAILED
                elif wire == WIRE_DOUBLE:
                    at, value = _real(text, at, stop)
                    put_eight_bytes(out, to, np.uint64(value))
                    to += 8
                elif wire == WIRE_BYTES:
                    at, to = _text_value(text, at, stop, out, to, steps[step, CONVERT] != TEXT, -1)
                elif wire == WIRE_FIXED:
                    at, to = _text_value(text, at, stop, out, to, True, steps[step, B])
                elif wire == WIRE_FLOAT:
                    at, value = _real(text, at, stop)
                    to = _put_little(out, to, float_bits(np.float32(double_value(np.uint64(value)))), 4)
                elif wire == WIRE_ENUM:
                    found, first = -1, steps[step, B]
                    for each in range(steps[step, A]):
                        place, size = table[first + 2 * each], table[first + 2 * each + 1]
                        if at + size <= stop and same_bytes(text, at, constants, place, size):
                            found, at = each, at + size
                            break
                    if found < 0:
                        at = FAILED
                    else:
                        to = write_number(out, to, found)
                else:
                    end = scan_word(text, at, stop)
                    if end < 0 or (text[at] == 110) != (wire == WIRE_NULL):
                        at = FAILED
                        continue
                    if wire == WIRE_BOOLEAN:
                        out[to] = text[at] == 116
                        to += 1
                    at = end
                step += 1
            elif what == UNION:
                first, found = steps[step, B], -1
                for branch in range(steps[step, A]):
                    step = table[first + branch]
                    if steps[step, STEP] == CONSTANT:
                        place = steps[step, A]
                        found = _constant(text, at, stop, constants, place, place + steps[step, B])
                    elif at < stop and text[at] == 110:
                        found = scan_word(text, at, stop)
                    if found >= 0:
                        to = write_number(out, to, branch)
                        step += 1
                        break
                at = found
            elif what == JUMP:
                step = steps[step, NEXT]
            elif what == LIST:
                bracket = steps[step, A]
                if at >= stop or text[at] != bracket:
                    at = FAILED
                    continue
                at = blank(text, at + 1, stop)
                if at < stop and text[at] == bracket + 2:
                    out[to] = 0
                    at += 1
                    step = steps[step, NEXT] + 1
                else:
                    frames[depth, 0], frames[depth, 1] = to, 0
                    depth += 1
                    step += 1
                to += 1
            else:
                frames[depth - 1, 1] += 1
                if at < stop and text[at] == 44:
                    step = steps[step, NEXT]
                elif at < stop and text[at] == steps[step, A]:
                    depth -= 1
                    to = _close(out, to, frames[depth, 0], frames[depth, 1])
                    step += 1
                else:
                    at = FAILED
                    continue
                at += 1
        if at >= 0 and blank(text, at, stop) == stop:
            ends[row] = to
        else:
            status[row] = EXACT


@compiled
def _close(out: Vector, to: int, first: int, count: int) -> int:
    """Put the count of items before them, for which there is one byte at ``first``, and the end behind them."""
    more, rest = 0, count >> 6
    while rest:
        more += 1
        rest >>= 7
    if more:
        for place in range(to - 1, first, -1):
            out[place + more] = out[place]
    write_number(out, first, count)
    out[to + more] = 0
    return to + more + 1


@compiled
def to_texts(
    data: Vector,
    offsets: Vector,
    steps: Vector,
    table: Vector,
    constants: Vector,
    out: Vector,
    ends: Vector,
    first: int,
) -> int:
    """The JSON of every record from ``first`` on, one after the other, and where each of them ends.

    Record ``i`` is ``data[offsets[i]:offsets[i + 1]]``, which is well-formed. Gives the number of records, or the one
    for which ``out`` has no room: it is to be written again when there is.
    """
    frames = np.zeros(len(steps), np.int64)  # of each open array or map: items left in the block
    for row in range(first, len(ends)):
        to: int = ends[row - 1] if row else 0
        at, stop = offsets[row], offsets[row + 1]
        step, depth = 0, 0
        while True:
            what = steps[step, STEP]
            if what == END:
                break
            if to + ROOM > len(out):
                return row
            if what == CONSTANT:
                place, size = steps[step, A], steps[step, B]
                if to + size + ROOM > len(out):
                    return row
                copy_bytes(constants, place, out, to, size)
                to += size
                step += 1
            elif what == VALUE:
                wire = steps[step, WIRE]
                if wire in (WIRE_INT, WIRE_LONG):
                    value, at = read_number(data, at, stop, 10)
                    to = write_integer(out, to, value)
                elif wire == WIRE_DOUBLE:
                    bits: Word = np.int64(eight_bytes(data, at))
                    to = write_double(out, to, bits, True)
                    at += 8
                elif wire in (WIRE_BYTES, WIRE_FIXED):
                    size = steps[step, B]
                    if wire == WIRE_BYTES:
                        size, at = read_number(data, at, stop, 10)
                    if to + size * _ESCAPED + ROOM > len(out):
                        return row
                    if steps[step, CONVERT] == TEXT:
                        to = write_string(out, to, data, at, at + size)
                    else:
                        to = write_latin(out, to, data, at, at + size)
                    at += size
                elif wire == WIRE_FLOAT:
                    bits = np.int64(0)
                    for place in range(at + 3, at - 1, -1):
                        bits = bits << 8 | data[place]
                    to = write_float(out, to, bits, True)
                    at += 4
                elif wire == WIRE_BOOLEAN:
                    to = write_word(out, to, 1 if data[at] else 0)
                    at += 1
                elif wire == WIRE_NULL:
                    to = write_word(out, to, -1)
                else:
                    index, at = read_number(data, at, stop, 5)
                    place = steps[step, B] + 2 * index
                    if to + table[place + 1] + ROOM > len(out):
                        return row
                    copy_bytes(constants, table[place], out, to, table[place + 1])
                    to += table[place + 1]
                step += 1
            elif what == UNION:
                index, at = read_number(data, at, stop, 5)
                step = table[steps[step, B] + index]
            elif what == JUMP:
                step = steps[step, NEXT]
            elif what == LIST:
                out[to] = steps[step, A]
                to += 1
                count, at = read_number(data, at, stop, 10)
                if count == 0:
                    out[to] = steps[step, A] + 2
                    to += 1
                    step = steps[step, NEXT] + 1
                else:
                    frames[depth] = count
                    depth += 1
                    step += 1
            else:
                frames[depth - 1] -= 1
                if frames[depth - 1] == 0:
                    frames[depth - 1], at = read_number(data, at, stop, 10)
                if frames[depth - 1] > 0:
                    out[to] = 44
                    step = steps[step, NEXT]
                else:
                    out[to] = steps[step, A]
                    depth -= 1
                    step += 1
                to += 1
        ends[row] = to
    return len(ends)
