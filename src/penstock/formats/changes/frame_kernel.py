"""Rows to messages of changes inside a compiled loop: the text of each row, within that of its frame."""

from __future__ import annotations

from penstock.loops.bytes import copy_bytes
from penstock.loops.compiled import Vector, borrow, compiled

#: How a row becomes a message: NO_MESSAGE is the row before an update, which is in the message of the row after it.
INSERTED, DELETED, UPDATED, NO_MESSAGE = 0, 1, 2, 3
#: The texts of the frames of a table: before and after an inserted row, and a deleted one; before, between and after
#: the two rows of an update.
PIECES = 7
_UPDATED = 4


@compiled
def measure_messages(offsets: Vector, forms: Vector, tables: Vector, piece_starts: Vector, ends: Vector) -> None:
    """Where each message ends, in ``ends``. ``forms`` says how each row becomes a message, ``tables`` the number of its
    table, ``offsets`` where its text is. Piece ``p`` of table ``t`` is at ``piece_starts[PIECES * t + p]``."""
    at = 0
    for row in range(len(forms)):
        form, first = forms[row], PIECES * tables[row]
        if form == UPDATED:
            at += offsets[row + 1] - offsets[row - 1]
            at += piece_starts[first + PIECES] - piece_starts[first + _UPDATED]
        elif form != NO_MESSAGE:
            first += 2 * form
            at += offsets[row + 1] - offsets[row] + piece_starts[first + 2] - piece_starts[first]
        ends[row] = at


@compiled
def write_messages(
    text: Vector, offsets: Vector, forms: Vector, tables: Vector, pieces: Vector, piece_starts: Vector, out: Vector
) -> None:
    """Write the messages that :func:`measure_messages` has measured, one after the other. ``pieces`` is the text of all
    pieces."""
    text, pieces, out = borrow(text), borrow(pieces), borrow(out)
    at = 0
    for row in range(len(forms)):
        form, piece = forms[row], PIECES * tables[row]
        if form == NO_MESSAGE:
            continue
        piece += 2 * form
        size = piece_starts[piece + 1] - piece_starts[piece]
        copy_bytes(pieces, piece_starts[piece], out, at, size)
        at += size
        if form == UPDATED:
            size = offsets[row] - offsets[row - 1]
            copy_bytes(text, offsets[row - 1], out, at, size)
            at += size
            piece += 1
            size = piece_starts[piece + 1] - piece_starts[piece]
            copy_bytes(pieces, piece_starts[piece], out, at, size)
            at += size
        size = offsets[row + 1] - offsets[row]
        copy_bytes(text, offsets[row], out, at, size)
        at += size
        piece += 1
        size = piece_starts[piece + 1] - piece_starts[piece]
        copy_bytes(pieces, piece_starts[piece], out, at, size)
        at += size
