"""Text to whole numbers, inside a compiled loop."""

from __future__ import annotations

from penstock.formats.loops import chars
from penstock.formats.loops.compiled import Vector, borrowed, compiled

#: More digits may not fit into 64 bits.
_MOST_DIGITS = 18


@compiled
def parse_integers(text: Vector, starts: Vector, values: Vector, undecided: Vector) -> None:
    """The number in each of the texts between ``starts``: a sign, perhaps, and up to 18 digits. ``undecided`` is set to
    1 for other texts."""
    text = borrowed(text)
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
