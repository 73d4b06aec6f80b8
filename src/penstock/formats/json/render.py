"""Columns to flat JSON objects, inside a compiled loop."""

from __future__ import annotations

import numpy as np

from penstock.formats.calendar import write_date, write_time, write_timestamp
from penstock.formats.compiled import Vector, borrowed, compiled
from penstock.formats.digits import write_base64, write_decimal, write_integer
from penstock.formats.kinds import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    OTHER,
    STRING,
    TIME,
    TIMESTAMP_LTZ,
)
from penstock.formats.shortest import write_double, write_float

__all__ = ["WIDEST", "escaped_size", "write_records"]

#: The most bytes that a value of fixed width takes, quotes included.
WIDEST = 64

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def _short_escapes() -> Vector:
    """What follows the backslash: 0 for a byte written as it is, ``u`` for one written as four digits."""
    marks = np.zeros(256, np.uint8)
    marks[:32] = ord("u")
    for plain, mark in zip(b'\b\t\n\f\r"\\', b'btnfr"\\', strict=True):
        marks[plain] = mark
    return marks


_ESCAPES = _short_escapes()


@compiled
def escaped_size(text: Vector) -> int:
    """How many bytes the text takes when everything is escaped that must be."""
    size = len(text)
    for each in text:
        if _ESCAPES[each]:
            size += 5 if _ESCAPES[each] == 117 else 1
    return size


@compiled
def _write_string(out: Vector, at: int, text: Vector, start: int, end: int) -> int:
    out[at] = 34
    at += 1
    for place in range(start, end):
        each = text[place]
        mark = _ESCAPES[each]
        if mark == 0:
            out[at] = each
            at += 1
            continue
        out[at], out[at + 1] = 92, mark
        at += 2
        if mark == 117:
            out[at], out[at + 1] = 48, 48
            out[at + 2], out[at + 3] = _HEX[each >> 4], _HEX[each & 15]
            at += 4
    out[at] = 34
    return at + 1


@compiled
def _write_word(out: Vector, at: int, value: int) -> int:
    """``true``, ``false`` or, for a negative value, ``null``."""
    if value < 0:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 110, 117, 108, 108
        return at + 4
    if value:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 116, 114, 117, 101
        return at + 4
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 102, 97, 108, 115, 101
    return at + 5


@compiled
def _write_fixed(
    out: Vector, at: int, kind: int, value: int, scale: int, separator: int, zone: bool, plain: bool
) -> int:
    """A value of fixed width at ``out[at]``; the position after it."""
    if kind <= BIGINT:
        return write_integer(out, at, value)
    if kind == DOUBLE:
        return write_double(out, at, value, True)
    if kind == FLOAT:
        return write_float(out, at, value, True)
    if kind == DECIMAL:
        return write_decimal(out, at, value, scale, plain)
    if kind == BOOLEAN:
        return _write_word(out, at, value)
    out[at] = 34
    if kind == DATE:
        at = write_date(out, at + 1, value)
    elif kind == TIME:
        at = write_time(out, at + 1, value)
    else:
        at = write_timestamp(out, at + 1, value, separator, zone or kind == TIMESTAMP_LTZ)
    out[at] = 34
    return at + 1


@compiled
def write_records(
    names: Vector,
    name_starts: Vector,
    columns: Vector,
    fixed: Vector,
    text: Vector,
    spans: Vector,
    valid: Vector,
    separator: int,
    zone: bool,
    plain: bool,
    omit: bool,
    out: Vector,
    offsets: Vector,
) -> None:
    """Write one object per row, one after the other, and where each of them starts and ends.

    ``names`` are the keys, quoted and with a colon. ``columns[c]`` is (kind, slot, precision, scale) as for reading;
    ``spans[slot, row]`` is the (start, end) of a string, or for kind OTHER of finished JSON, in ``text``. ``zone``:
    write a ``Z`` behind every timestamp. ``plain``: decimals without exponent. ``omit``: leave out nulls.
    """
    text, out = borrowed(text), borrowed(out)
    at = 0
    for row in range(len(offsets) - 1):
        out[at] = 123
        at += 1
        first = True
        for column in range(len(columns)):
            if omit and not valid[column, row]:
                continue
            if not first:
                out[at] = 44
                at += 1
            first = False
            for place in range(name_starts[column], name_starts[column + 1]):
                out[at] = names[place]
                at += 1
            kind, slot = columns[column, 0], columns[column, 1]
            if not valid[column, row]:
                at = _write_word(out, at, -1)
            elif kind == STRING:
                at = _write_string(out, at, text, spans[slot, row, 0], spans[slot, row, 1])
            elif kind == BYTES:
                out[at] = 34
                at = write_base64(out, at + 1, text, spans[slot, row, 0], spans[slot, row, 1])
                out[at] = 34
                at += 1
            elif kind == OTHER:
                for place in range(spans[slot, row, 0], spans[slot, row, 1]):
                    out[at] = text[place]
                    at += 1
            else:
                at = _write_fixed(out, at, kind, fixed[slot, row], columns[column, 3], separator, zone, plain)
        out[at] = 125
        at += 1
        offsets[row + 1] = at
