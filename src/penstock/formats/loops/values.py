"""Text to the value of a column, inside compiled loops."""

from __future__ import annotations

from penstock.formats.loops.compiled import Vector, Word, inlined
from penstock.formats.loops.numbers import FAILED, POWERS_OF_TEN, number_value, scan_number
from penstock.formats.loops.timestamps import REFUSED, parse_date, parse_time, parse_timestamp
from penstock.formats.loops.type_roots import DATE, DECIMAL, TIME, TIMESTAMP, TIMESTAMP_LTZ

__all__ = ["scan_word", "text_value"]


@inlined
def scan_word(text: Vector, at: int, end: int) -> int:
    """The end of ``true``, ``false`` or ``null`` at ``at``, or FAILED."""
    if at + 4 <= end:
        if text[at] == 116 and text[at + 1] == 114 and text[at + 2] == 117 and text[at + 3] == 101:
            return at + 4
        if text[at] == 110 and text[at + 1] == 117 and text[at + 2] == 108 and text[at + 3] == 108:
            return at + 4
        if (
            at + 5 <= end
            and text[at] == 102
            and text[at + 1] == 97
            and text[at + 2] == 108
            and text[at + 3] == 115
            and text[at + 4] == 101
        ):
            return at + 5
    return FAILED


@inlined
def text_value(
    kind: int, text: Vector, start: int, close: int, scale: int, precision: int, separator: int
) -> tuple[bool, Word]:
    """The 64 bits that a column stores for a string without escapes; False where that is for the exact path."""
    if kind == DATE:
        value = parse_date(text, start, close)
    elif kind == TIME:
        value = parse_time(text, start, close)
        if value != REFUSED:
            value -= value % POWERS_OF_TEN[9 - precision]
    elif kind in (TIMESTAMP, TIMESTAMP_LTZ):
        value = parse_timestamp(text, start, close, separator, kind == TIMESTAMP_LTZ)
    elif kind <= DECIMAL:
        end, digits, power, whole = scan_number(text, start, close)
        if end != close:
            return False, end
        return number_value(kind, text[start] == 45, digits, power, whole, scale, precision)
    else:
        return False, start
    return value != REFUSED, value
