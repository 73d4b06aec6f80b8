"""Codecs: how the text of an option or a client property becomes a value, and back."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from penstock.options.patterns import java_pattern


@dataclass(frozen=True)
class Codec:
    """A pair of functions: ``parse`` from text to value, and ``show`` from value to text.

    ``parse`` raises ValueError, which says what it expected. ``values`` are the accepted texts, if there are only a
    few. ``quoted`` is false if errors must not show the text, because part of it may be secret. ``pattern`` is a
    regular expression of ECMA 262 that every accepted text matches, empty where there is none; ``low`` and ``high`` are
    the bounds of a number. ``literal`` is the type of values in JSON and YAML whose texts are accepted, empty for none
    but strings.
    """

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    values: tuple[str, ...] = ()
    quoted: bool = True
    pattern: str = ""
    low: int | None = None
    high: int | None = None
    literal: str = ""

    def read(self, text: str, *, secret: bool = False) -> Any:
        """The value of ``text``. Raises ValueError, which quotes the text unless it is or may be secret."""
        try:
            return self.parse(text)
        except ValueError as error:
            shown = f", not '{text}'" if self.quoted and not secret else ""
            raise ValueError(f"{error}{shown}") from None


def _parse_boolean(text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise ValueError("expected true or false")
    return value


def _parse_integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("expected a whole number") from None


_UNITS = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds", ""), timedelta(milliseconds=1)),
    **dict.fromkeys(("us", "µs", "micro", "micros", "microsecond", "microseconds"), timedelta(microseconds=1)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
}


def _parse_duration(text: str) -> timedelta:
    match = re.fullmatch(r"\s*(-?\d+)\s*([a-zµ]*)\s*", text.lower())
    if match is None or match.group(2) not in _UNITS:
        raise ValueError("expected a duration such as '500 ms', '10 s' or '5 min'; a bare number is milliseconds")
    return int(match.group(1)) * _UNITS[match.group(2)]


def _show_duration(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    for unit, size in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000)):
        if micros and micros % size == 0:
            return f"{micros // size} {unit}"
    return f"{micros} us" if micros else "0 ms"


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";") if part.strip())


def _parse_comma_list(text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise ValueError("expected a list separated by commas")
    return parts


_QUOTED = r"""'(?:[^']|'')*'|"(?:[^"]|"")*\""""
_ENTRY = re.compile(rf"(?:{_QUOTED}|[^,'\"])+")
_PAIR = re.compile(rf"\s*({_QUOTED}|[^:'\"]+):(.*)", re.DOTALL)


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1].replace(text[0] * 2, text[0]) if re.fullmatch(_QUOTED, text) else text


def _parse_map(text: str) -> tuple[tuple[str, str], ...]:
    pairs = {}
    for entry in _ENTRY.findall(text):
        if entry.strip():
            pair = _PAIR.fullmatch(_unquote(entry))
            if pair is None:
                raise ValueError("expected pairs 'key:value', joined by commas")
            pairs[_unquote(pair[1])] = _unquote(pair[2])
    return tuple(sorted(pairs.items()))


def _show_map(pairs: tuple[tuple[str, str], ...]) -> str:
    def quote(part: str) -> str:
        return "'" + part.replace("'", "''") + "'" if re.search(r"[,:'\"\s]", part) else part

    return ",".join(f"{quote(key)}:{quote(value)}" for key, value in pairs)


_ESCAPES = {r"\t": "\t", r"\n": "\n", r"\r": "\r", r"\b": "\b", r"\f": "\f", r"\\": "\\", r"\'": "'", r"\"": '"'}


def _parse_character(text: str) -> str:
    plain = _ESCAPES.get(text, text)
    if re.fullmatch(r"\\u[0-9a-fA-F]{4}", text):
        plain = chr(int(text[2:], 16))
    elif re.fullmatch(r"\\[0-3]?[0-7]{1,2}", text):
        plain = chr(int(text[1:], 8))
    if len(plain) != 1:
        raise ValueError("expected one character, or one Java escape such as '\\t'")
    return plain


def _show_character(value: str) -> str:
    return {plain: escape for escape, plain in _ESCAPES.items() if plain not in "'\""}.get(value, value)


def _check_pattern(text: str) -> str:
    try:
        java_pattern(text)
    except ValueError as error:
        raise ValueError(f"expected a regular expression ({error})") from None
    return text


def spell(texts: Iterable[str], *, any_case: bool = True, dashes: bool = False) -> str:
    """A regular expression of ECMA 262 for one of these texts: in any case, or as they are written; with ``dashes``
    they may have ``-`` for ``_`` and the other way round."""

    def spell_one(char: str) -> str:
        if dashes and char in "-_":
            return "[-_]"
        if any_case and char.lower() != char.upper():
            return f"[{char.upper()}{char.lower()}]"
        return f"\\{char}" if char in r"^$\.*+?()[]{}|/" else char

    return f"({'|'.join(''.join(map(spell_one, text)) for text in texts)})"


_BOOLEANS = ("true", "false")

TEXT = Codec("String", lambda text: text)
BOOLEAN = Codec(
    "Boolean",
    _parse_boolean,
    lambda value: "true" if value else "false",
    _BOOLEANS,
    pattern=rf"^\s*{spell(_BOOLEANS)}\s*$",
    literal="boolean",
)
INTEGER = Codec("Integer", _parse_integer, pattern=r"^\s*[+-]?\d+(_\d+)*\s*$", literal="integer")
DURATION = Codec(
    "Duration",
    _parse_duration,
    _show_duration,
    pattern=rf"^\s*-?\d+\s*{spell(_UNITS)}\s*$",
    literal="integer",
)
PATTERN = Codec("Regex", _check_pattern)
LIST = Codec("List<String>", _parse_list, ";".join)
#: The form of lists in the properties of Java clients: at least one item, separated by commas.
COMMA_LIST = Codec("List<String>", _parse_comma_list, ",".join)
#: Pairs, sorted by key. Each pair may also be a separate option: ``<option>.<key of the pair>``.
MAP = Codec("Map", _parse_map, _show_map)
CHARACTER = Codec("Character", _parse_character, _show_character)


def number(low: int, high: int = 2**31 - 1) -> Codec:
    """A whole number from ``low`` to ``high``."""

    def parse(text: str) -> int:
        value = _parse_integer(text)
        if not low <= value <= high:
            raise ValueError(f"expected a number between {low} and {high}")
        return value

    return replace(INTEGER, parse=parse, low=low, high=high)


def one_of(*names: str, fold: Callable[[str], str] = str) -> Codec:
    """One of these names, compared after ``fold``."""

    def parse(text: str) -> str:
        name = fold(text.strip())
        if name not in names:
            raise ValueError(f"expected one of {', '.join(repr(name) for name in names)}")
        return name

    folds = {str: False, str.upper: True, str.lower: True}
    pattern = rf"^\s*{spell(names, any_case=folds[fold])}\s*$" if fold in folds else ""
    return Codec("String", parse, values=names, pattern=pattern)


def choice(members: type[enum.Enum]) -> Codec:
    """One of an enum's values; case does not matter and ``-`` equals ``_``, as in Flink."""

    def parse(text: str) -> enum.Enum:
        wanted = text.strip().lower().replace("_", "-")
        for member in members:
            if str(member.value).lower().replace("_", "-") == wanted:
                return member
        raise ValueError(f"expected one of {', '.join(str(member.value) for member in members)}")

    values = tuple(str(member.value) for member in members)
    pattern = rf"^\s*{spell(values, dashes=True)}\s*$"
    return Codec("Enum", parse, lambda member: str(member.value), values, pattern=pattern)
