"""How the command line writes tables, durations and moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.delivery import utc

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Titles and rows, each column as wide as its widest cell."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def span(ms: int) -> str:
    """A duration by its two largest units: ``850 ms``, ``12 s``, ``2 min 3 s``, ``1 h``."""
    if ms < _SECOND:
        return f"{ms} ms"
    units = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))
    first = next(index for index, (_, size) in enumerate(units) if ms >= size)
    parts = []
    for name, size in units[first : first + 2]:
        whole, ms = divmod(ms, size)
        if whole:
            parts.append(f"{whole} {name}")
    return " ".join(parts)


def moment(ms: int) -> str:
    """A time in ms since the epoch; below zero it is not known."""
    return utc(ms) if ms >= 0 else "an unknown time"


def count(number: int, what: str) -> str:
    """``1 record``, ``2 records``"""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
