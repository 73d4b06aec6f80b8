"""Regular expressions in the syntax of Java's ``Pattern``, which Flink's options use."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

#: Java's names for ASCII character classes, as the content of brackets.
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1F\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0B\f\r",
}
#: Escapes for character classes, in the same way.
_SPACES = {"h": r" \t\xA0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000", "v": r"\n\x0B\f\r\x85\u2028\u2029"}
#: Escapes that Python does not have or reads differently.
_ESCAPES = {"z": r"\Z", "Z": r"(?=\n?\Z)", "R": rf"(?:\r\n|[{_SPACES['v']}])", "e": r"\x1B"}
_PART = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|\Z)"
    r"|\\(?P<sign>[pP])\{(?P<named>\w*)\}"
    r"|\\k<(?P<group>\w+)>"
    r"|\\x\{(?P<code>[0-9a-fA-F]{1,6})\}"
    r"|\\0(?P<octal>[0-3]?[0-7]{1,2})"
    r"|\\(?P<escape>.)"
    r"|(?P<name>\(\?<)(?![=!])"
    r"|(?P<intersection>&&)"
    r"|(?P<open>\[\^?\]?)"
    r"|(?P<plain>.)",
    re.DOTALL,
)


@lru_cache
def java_pattern(text: str) -> re.Pattern[str]:
    """The Java regular expression ``text``, compiled.

    ``\\d``, ``\\w``, ``\\s`` and case apply to ASCII only, as in Java. Raises ValueError with the reason for an invalid
    expression, and for features that Python lacks: Unicode properties, character classes within classes and flags in
    the middle. (``.`` also matches line separators beyond ASCII.)
    """
    try:
        with warnings.catch_warnings():
            # Warns of characters that may get a meaning inside brackets in future
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile("".join(_translate(text)), re.ASCII)
    except re.error as error:
        raise ValueError(error.msg) from None
    except (OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _translate(text: str) -> Iterator[str]:
    inside = False
    for part in _PART.finditer(text):
        name, found = str(part.lastgroup), part[0]
        if inside and name in ("open", "intersection"):
            shown = found.rstrip("]^")
            raise ValueError(f"'{shown}' within brackets is not supported; write a single character class")
        if name == "open":
            inside = True
        elif inside and found == "]":
            inside = False
        yield found if name in ("open", "plain", "intersection") else _replace(name, part, inside)


def _replace(name: str, part: re.Match[str], inside: bool) -> str:
    match name:
        case "quoted":
            return re.escape(part["quoted"])
        case "named":
            if part["named"] not in _CLASSES or (inside and part["sign"] == "P"):
                raise ValueError(f"'{part[0]}' is not supported; list the characters in brackets")
            return _format_class(_CLASSES[part["named"]], inside, "^" if part["sign"] == "P" else "")
        case "group":
            return f"(?P={part['group']})"
        case "name":
            return part[0] if inside else "(?P<"
        case "code":
            return re.escape(chr(int(part["code"], 16)))
        case "octal":
            return re.escape(chr(int(part["octal"], 8)))
    letter = part["escape"]
    if letter in _SPACES:
        return _format_class(_SPACES[letter], inside)
    return part[0] if inside else _ESCAPES.get(letter, part[0])


def _format_class(characters: str, inside: bool, sign: str = "") -> str:
    return characters if inside else f"[{sign}{characters}]"
