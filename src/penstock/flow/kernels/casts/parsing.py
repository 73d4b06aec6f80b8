"""Text to numbers, dates and timestamps in their usual forms, inside compiled loops."""

from __future__ import annotations

import numpy as np

from penstock.loops import chars
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.numbers import number_value, scan_number
from penstock.loops.timestamps import DAY_MICROS, REFUSED, parse_date, parse_timestamp

#: More digits may not fit into 64 bits.
_MOST_DIGITS = 18


@compiled
def parse_integers(text: Vector, starts: Vector, values: Vector, undecided: Vector) -> None:
    """The number in each of the texts between ``starts``: an optional sign, and up to 18 digits. ``undecided`` is set
    to 1 for other texts."""
    text = borrow(text)
    for row in range(len(values)):
        at, end = starts[row], starts[row + 1]
        negative = at < end and text[at] == chars.MINUS
        if at < end and (negative or text[at] == chars.PLUS):
            at += 1
        value = 0
        undecided[row] = at == end or end - at > _MOST_DIGITS
        if not undecided[row]:
            for pos in range(at, end):
                digit = text[pos] - chars.ZERO
                if text[pos] < chars.ZERO or text[pos] > chars.NINE:
                    undecided[row] = 1
                    break
                value = value * 10 + digit
        values[row] = -value if negative else value


@compiled
def parse_numbers(
    text: Vector, starts: Vector, values: Vector, undecided: Vector, root: int, scale: int, precision: int
) -> None:
    """The 64 bits of the number of type ``root`` in each of the texts: a double, also for FLOAT, or an unscaled
    decimal. ``undecided`` is set to 1 for texts that are not in JSON's form of numbers, or have too many digits."""
    text = borrow(text)
    for row in range(len(values)):
        undecided[row], values[row] = 1, 0
        end, digits, power, whole = scan_number(text, starts[row], starts[row + 1])
        if end == starts[row + 1] and starts[row] < end:
            good, bits = number_value(root, text[starts[row]] == chars.MINUS, digits, power, whole, scale, precision)
            if good:
                undecided[row], values[row] = 0, np.int64(bits)


@compiled
def parse_dates(text: Vector, starts: Vector, values: Vector, undecided: Vector) -> None:
    """The days of texts ``yyyy-MM-dd``. ``undecided`` is set to 1 for other texts."""
    text = borrow(text)
    for row in range(len(values)):
        found = parse_date(text, starts[row], starts[row + 1])
        undecided[row] = found == REFUSED
        values[row] = 0 if found == REFUSED else found


@compiled
def parse_timestamps(text: Vector, starts: Vector, values: Vector, undecided: Vector) -> None:
    """The microseconds of texts ``yyyy-MM-dd`` and ``yyyy-MM-dd HH:mm:ss[.f]``. ``undecided`` is set to 1 for other
    texts."""
    text = borrow(text)
    for row in range(len(values)):
        start, end = starts[row], starts[row + 1]
        if end - start == 10:
            found = parse_date(text, start, end)
            if found != REFUSED:
                found *= DAY_MICROS
        else:
            found = parse_timestamp(text, start, end, chars.SPACE, False)
        undecided[row] = found == REFUSED
        values[row] = 0 if found == REFUSED else found
