"""How the command line reads pairs, and writes tables, durations and moments."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from penstock.delivery import format_utc
from penstock.errors import Problem

_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_END = (1 << 63) - 1
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


class _Warnings(logging.Handler):
    """Passes the warnings of penstock's log on."""

    def __init__(self, warn: Callable[[str], None]):
        super().__init__(logging.WARNING)
        self._warn = warn

    def emit(self, record: logging.LogRecord) -> None:
        self._warn(record.getMessage())


@contextmanager
def log_to(warn: Callable[[str], None]) -> Iterator[None]:
    """Gives ``warn`` the warnings of penstock's log, and no other handler gets them."""
    log = logging.getLogger("penstock")
    handlers, propagates = log.handlers, log.propagate
    log.handlers, log.propagate = [_Warnings(warn)], False
    try:
        yield
    finally:
        log.handlers, log.propagate = handlers, propagates


def add_pairs(parser: argparse._ActionsContainer, option: str, help: str) -> None:
    """Adds an option that takes KEY=VALUE and may be repeated; :func:`parse_pairs` reads it."""
    parser.add_argument(option, action="append", default=[], metavar="KEY=VALUE", help=f"{help}; repeatable")


def parse_pairs(given: Iterable[str], option: str) -> tuple[dict[str, str], list[Problem]]:
    """The pairs that an option was given, and a problem for each text that is not one."""
    split = [each.partition("=") for each in given]
    problems = [Problem("expected KEY=VALUE", key, option) for key, equals, _ in split if not equals or not key]
    return {key.strip(): value for key, equals, value in split if key and equals}, problems


def format_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Titles and rows, each column as wide as its widest cell."""
    lines = [titles, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def format_span(ms: int) -> str:
    """A duration by its two largest units: ``850 ms``, ``12 s``, ``2 min 3 s``, ``1 h``."""
    first = next((index for index, (_, size) in enumerate(_UNITS) if ms >= size), None)
    if first is None:
        return f"{ms} ms"
    parts = []
    for name, size in _UNITS[first : first + 2]:
        whole, ms = divmod(ms, size)
        parts += [f"{whole} {name}"] if whole else []
    return " ".join(parts)


def format_size(number: float) -> str:
    """A number of bytes: ``512 B``, ``1.5 GiB``"""
    unit = 0
    while number >= 1024 and unit + 1 < len(_BYTES):
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_BYTES[unit]}" if unit == 0 else f"{number:.1f} {_BYTES[unit]}"


def format_moment(ms: int) -> str:
    """A time in ms since the epoch; a negative one is unknown."""
    return format_utc(ms) if ms >= 0 else "an unknown time"


def format_event_time(ms: int) -> str:
    """A watermark in ms since the epoch, which is the largest number when the input has ended."""
    return "the end" if ms == _END else format_utc(ms)


def describe_command(text: str) -> str:
    """The description of a command, from its help text."""
    return f"{text[0].upper()}{text[1:]}."


def count(number: int, noun: str) -> str:
    """``1 record``, ``2 records``"""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
