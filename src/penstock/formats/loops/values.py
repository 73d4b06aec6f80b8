"""Text to the value of a column, inside compiled loops."""

from __future__ import annotations

from penstock.formats.loops import chars, type_roots
from penstock.formats.loops.compiled import Vector, Word, inlined
from penstock.formats.loops.numbers import FAILED, POWERS_OF_TEN, number_value, scan_number
from penstock.formats.loops.timestamps import REFUSED, parse_date, parse_time, parse_timestamp


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
