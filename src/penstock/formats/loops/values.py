"""Text to the value of a column, inside compiled loops."""

from __future__ import annotations

from penstock.formats.loops.ascii import (
    LOWER_A,
    LOWER_E,
    LOWER_F,
    LOWER_L,
    LOWER_N,
    LOWER_R,
    LOWER_S,
    LOWER_T,
    LOWER_U,
    MINUS,
)
from penstock.formats.loops.compiled import Vector, Word, inlined
from penstock.formats.loops.numbers import FAILED, POWERS_OF_TEN, number_value, scan_number
from penstock.formats.loops.timestamps import REFUSED, parse_date, parse_time, parse_timestamp
from penstock.formats.loops.type_roots import DATE, DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ


@inlined
def scan_word(text: Vector, at: int, end: int) -> int:
    """The end of ``true``, ``false`` or ``null`` at ``at``, or FAILED."""
    if at + 4 <= end:
        if text[at] == LOWER_T and text[at + 1] == LOWER_R and text[at + 2] == LOWER_U and text[at + 3] == LOWER_E:
            return at + 4
        if text[at] == LOWER_N and text[at + 1] == LOWER_U and text[at + 2] == LOWER_L and text[at + 3] == LOWER_L:
            return at + 4
        if (
            at + 5 <= end
            and text[at] == LOWER_F
            and text[at + 1] == LOWER_A
            and text[at + 2] == LOWER_L
            and text[at + 3] == LOWER_S
            and text[at + 4] == LOWER_E
        ):
            return at + 5
    return FAILED


@inlined
def text_value(
    root: int, text: Vector, start: int, close: int, scale: int, precision: int, separator: int
) -> tuple[bool, Word]:
    """The 64 bits of a string without escapes in a column; False if the exact reader must decide."""
    if root == DATE:
        value = parse_date(text, start, close)
    elif root == TIME:
        value = parse_time(text, start, close)
        if value != REFUSED:
            value -= value % POWERS_OF_TEN[9 - precision]
    elif root in (TIMESTAMP, TIMESTAMP_LTZ):
        value = parse_timestamp(text, start, close, separator, root == TIMESTAMP_LTZ)
    elif root <= DECIMAL:
        end, digits, power, whole = scan_number(text, start, close)
        if end != close:
            return False, end
        return number_value(root, text[start] == MINUS, digits, power, whole, scale, precision)
    else:
        return False, start
    return value != REFUSED, value
