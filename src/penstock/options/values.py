"""Readers of single values of Java clients' properties: text in, the value out, or :class:`Malformed`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Malformed", "Property", "flag", "items", "number", "one_of", "text"]


class Malformed(Exception):
    """What was expected of a value. Quotes the value only where that is no secret."""


@dataclass(frozen=True)
class Property:
    """One property that acts: its reader and what it does, as shown in the reference."""

    read: Callable[[str], Any]
    doc: str
    secret: bool = False


def text(value: str) -> str:
    """The text as it is."""
    return value


def items(value: str) -> tuple[str, ...]:
    """The parts of a comma separated list, at least one."""
    found = tuple(item.strip() for item in value.split(",") if item.strip())
    if not found:
        raise Malformed("expected a comma separated list")
    return found


def flag(value: str) -> bool:
    """True or false, in any case."""
    if value.strip().lower() not in {"true", "false"}:
        raise Malformed(f"expected true or false, not '{value}'")
    return value.strip().lower() == "true"


def number(low: int, high: int = 2**31 - 1) -> Callable[[str], int]:
    """A reader of whole numbers from ``low`` to ``high``."""

    def parse(value: str) -> int:
        try:
            found = int(value.strip())
        except ValueError:
            raise Malformed(f"expected a whole number, not '{value}'") from None
        if not low <= found <= high:
            raise Malformed(f"expected a number between {low} and {high}, not {found}")
        return found

    return parse


def one_of(*names: str, fold: Callable[[str], str] = str) -> Callable[[str], str]:
    """A reader of one of these names, after ``fold``."""

    def parse(value: str) -> str:
        if fold(value.strip()) not in names:
            raise Malformed(f"expected one of {', '.join(repr(name) for name in names)}, not '{value}'")
        return fold(value.strip())

    return parse
