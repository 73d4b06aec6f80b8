"""Text to the value of a column and back, inside compiled loops."""

from __future__ import annotations

from penstock.loops import chars, type_roots
from penstock.loops.compiled import Vector, Word, inlined
from penstock.loops.floats import write_double, write_float
from penstock.loops.numbers import FAILED, POWERS_OF_TEN, number_value, scan_number, write_integer
from penstock.loops.timestamps import (
    REFUSED,
    parse_date,
    parse_time,
    parse_timestamp,
    write_date,
    write_time,
    write_timestamp,
)


@inlined
def scan_word(text: Vector, at: int, end: int) -> int:
    """The end of ``true``, ``false`` or ``null`` at ``at``, or FAILED."""
    if at + 4 <= end:
        if (
            text[at] == chars.LOWER_T
            and text[at + 1] == chars.LOWER_R
            and text[at + 2] == chars.LOWER_U
            and text[at + 3] == chars.LOWER_E
        ):
            return at + 4
        if (
            text[at] == chars.LOWER_N
            and text[at + 1] == chars.LOWER_U
            and text[at + 2] == chars.LOWER_L
            and text[at + 3] == chars.LOWER_L
        ):
            return at + 4
        if (
            at + 5 <= end
            and text[at] == chars.LOWER_F
            and text[at + 1] == chars.LOWER_A
            and text[at + 2] == chars.LOWER_L
            and text[at + 3] == chars.LOWER_S
            and text[at + 4] == chars.LOWER_E
        ):
            return at + 5
    return FAILED


@inlined
def text_value(
    root: int, text: Vector, start: int, close: int, scale: int, precision: int, separator: int
) -> tuple[bool, Word]:
    """The 64 bits of a string without escapes in a column; False if the exact reader must decide."""
    if root == type_roots.DATE:
        value = parse_date(text, start, close)
    elif root == type_roots.TIME:
        value = parse_time(text, start, close)
        if value != REFUSED:
            value -= value % POWERS_OF_TEN[9 - precision]
    elif root in (type_roots.TIMESTAMP, type_roots.TIMESTAMP_LTZ):
        value = parse_timestamp(text, start, close, separator, root == type_roots.TIMESTAMP_LTZ)
    elif root <= type_roots.DECIMAL:
        end, digits, power, whole = scan_number(text, start, close)
        if end != close:
            return False, end
        return number_value(root, text[start] == chars.MINUS, digits, power, whole, scale, precision)
    else:
        return False, start
    return value != REFUSED, value


@inlined
def write_word(out: Vector, at: int, value: int) -> int:
    """``true``, ``false`` or, for a negative value, ``null``."""
    if value < 0:
        out[at], out[at + 1], out[at + 2], out[at + 3] = chars.LOWER_N, chars.LOWER_U, chars.LOWER_L, chars.LOWER_L
        return at + 4
    if value:
        out[at], out[at + 1], out[at + 2], out[at + 3] = chars.LOWER_T, chars.LOWER_R, chars.LOWER_U, chars.LOWER_E
        return at + 4
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = (
        chars.LOWER_F,
        chars.LOWER_A,
        chars.LOWER_L,
        chars.LOWER_S,
        chars.LOWER_E,
    )
    return at + 5


@inlined
def write_value(
    out: Vector, at: int, root: int, value: int, precision: int, separator: int, zone: bool, quoted: bool
) -> int:
    """A value of fixed width other than a decimal at ``out[at]``; the position after it, or -1 for a year beyond 0000
    to 9999. Finite numbers and booleans have no quotes even if ``quoted``."""
    if root <= type_roots.BIGINT:
        return write_integer(out, at, value)
    if root == type_roots.DOUBLE:
        return write_double(out, at, value, quoted)
    if root == type_roots.FLOAT:
        return write_float(out, at, value, quoted)
    if root == type_roots.BOOLEAN:
        return write_word(out, at, value)
    if quoted:
        out[at] = chars.QUOTE
        at += 1
    if root == type_roots.DATE:
        at = write_date(out, at, value)
    elif root == type_roots.TIME:
        at = write_time(out, at, value - value % POWERS_OF_TEN[9 - precision])
    else:
        at = write_timestamp(out, at, value, separator, zone or root == type_roots.TIMESTAMP_LTZ)
    if at < 0 or not quoted:
        return at
    out[at] = chars.QUOTE
    return at + 1
