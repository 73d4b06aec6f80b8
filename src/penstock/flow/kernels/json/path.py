"""Paths into JSON documents, read and followed as Flink's library (JsonPath of Jayway) does it.

A path is *definite* if it leads to at most one value; then a missing part is an error. Others collect a list of all
matches. Filters and functions of paths are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_MODE = re.compile(r"\s*(strict|lax)\s+(.+)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[^.\[\s(]+")
_QUOTED = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*(,|\])""")
_INDICES = re.compile(r"\s*(-?\d+(?:\s*,\s*-?\d+)*)\s*\]")
_SLICE = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*\]")
_WILDCARD = re.compile(r"\s*\*\s*\]")


class PathError(Exception):
    """A path that leads nowhere in a document."""


class InvalidPathError(Exception):
    """Text that is not a path."""


class UnsupportedPathError(Exception):
    """A path with a filter or a function."""


@dataclass(frozen=True)
class Step:
    """A part of a path: the names or places to follow; all of them if it has neither. ``deep``: from any value below
    this one."""

    names: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    span: tuple[int | None, int | None] | None = None
    deep: bool = False

    @property
    def definite(self) -> bool:
        """Whether it leads to at most one value."""
        return not self.deep and self.span is None and len(self.names) + len(self.places) == 1

    def follow(self, value: Any, lenient: bool) -> Iterator[Any]:
        """The values that it leads to. Raises PathError unless ``lenient`` if there is none."""
        if self.deep:
            for each in _walk_values(value):
                yield from Step(self.names, self.places, self.span).follow(each, True)
        elif self.names:
            yield from self._follow_names(value, lenient)
        elif self.places or self.span:
            yield from self._follow_places(value, lenient)
        elif isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value

    def _follow_names(self, value: Any, lenient: bool) -> Iterator[Any]:
        if not isinstance(value, dict):
            if not lenient:
                raise PathError
            return
        if len(self.names) > 1:
            yield {name: value[name] for name in self.names if name in value}
        elif self.names[0] in value:
            yield value[self.names[0]]
        elif not lenient:
            raise PathError

    def _follow_places(self, value: Any, lenient: bool) -> Iterator[Any]:
        if not isinstance(value, list):
            if not lenient:
                raise PathError
            return
        if self.span is not None:
            yield from value[self.span[0] : self.span[1]]
            return
        for place in self.places:
            if -len(value) <= place < len(value):
                yield value[place]
            elif not lenient and len(self.places) == 1:
                raise PathError


def _walk_values(value: Any) -> Iterator[Any]:
    """A value, and all values in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _walk_values(each)


@dataclass(frozen=True)
class Path:
    """A path, and whether it is ``lax``: then a missing part is not an error."""

    steps: tuple[Step, ...]
    lax: bool

    def find(self, document: Any) -> Any:
        """The value at the path, or a list if the path is not definite. Raises PathError."""
        found, definite = [document], True
        try:
            if document is None:
                raise PathError
            for step in self.steps:
                lenient = not definite
                found = [each for value in found for each in step.follow(value, lenient)]
                definite = definite and (step.definite or len(step.names) > 1)
        except PathError:
            if self.lax:
                return None
            raise
        return found[0] if definite else found


@lru_cache(maxsize=256)
def parse_path(text: str) -> Path:
    """The path of a text. Raises InvalidPathError or UnsupportedPathError."""
    mode = _MODE.fullmatch(text)
    plain = (mode[2] if mode else text).strip()
    if not plain or plain[-1] == ".":
        raise InvalidPathError
    if plain[0] not in "$@":
        plain = "$." + plain
    steps: list[Step] = []
    at = 1
    while at < len(plain):
        deep = plain.startswith("..", at)
        if plain[at] == ".":
            at += 2 if deep else 1
            if plain.startswith("*", at):
                steps.append(Step(deep=deep))
                at += 1
                continue
            if not plain.startswith("[", at):
                name = _NAME.match(plain, at)
                if name is None:
                    raise InvalidPathError
                at = name.end()
                if plain.startswith("(", at):
                    raise UnsupportedPathError
                steps.append(Step((name[0],), deep=deep))
                continue
            if not deep:
                raise InvalidPathError
        if plain[at] != "[":
            raise InvalidPathError
        step, at = _parse_bracket(plain, at + 1, deep)
        steps.append(step)
    return Path(tuple(steps), mode is not None and mode[1].lower() == "lax")


def _parse_bracket(text: str, at: int, deep: bool) -> tuple[Step, int]:
    if re.compile(r"\s*\?").match(text, at):
        raise UnsupportedPathError
    if found := _WILDCARD.match(text, at):
        return Step(deep=deep), found.end()
    if found := _INDICES.match(text, at):
        return Step(places=tuple(int(each) for each in found[1].split(",")), deep=deep), found.end()
    if (found := _SLICE.match(text, at)) and (found[1] or found[2]):
        start, end = (int(each) if each else None for each in found.groups())
        return Step(span=(start, end), deep=deep), found.end()
    names = []
    while True:
        found = _QUOTED.match(text, at)
        if found is None:
            raise InvalidPathError
        names.append(re.sub(r"\\(.)", r"\1", found[1] if found[1] is not None else found[2]))
        at = found.end()
        if found[3] == "]":
            return Step(tuple(names), deep=deep), at
