"""Runs of bytes handled eight at a time, inside compiled loops."""

from __future__ import annotations

from penstock.formats.compiled import Vector, compiled, eight_bytes, inlined, put_eight_bytes

__all__ = ["copy_bytes", "same_bytes"]


@inlined
def same_bytes(text: Vector, start: int, other: Vector, first: int, size: int) -> bool:
    """Whether the ``size`` bytes from ``text[start]`` and from ``other[first]`` on are the same."""
    if size < 8:
        place = 0
        while place < size and text[start + place] == other[first + place]:
            place += 1
        return bool(place == size)
    for place in range(0, size - 8, 8):
        if eight_bytes(text, start + place) != eight_bytes(other, first + place):
            return False
    return bool(eight_bytes(text, start + size - 8) == eight_bytes(other, first + size - 8))


@compiled
def copy_bytes(text: Vector, start: int, out: Vector, at: int, size: int) -> None:
    """Copy ``size`` bytes from ``text[start]`` to ``out[at]`` on."""
    if size < 8:
        for place in range(size):
            out[at + place] = text[start + place]
        return
    for place in range(0, size - 8, 8):
        put_eight_bytes(out, at + place, eight_bytes(text, start + place))
    put_eight_bytes(out, at + size - 8, eight_bytes(text, start + size - 8))
