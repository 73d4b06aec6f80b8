"""Regular expressions of Java by Python's engine, one text at a time: for patterns that RE2 cannot compute
(``penstock.flow.kernels.regex``), and for the functions that need every match.

Both engines backtrack in the same order. They differ in names, in classes within classes, in ``\\Q..\\E`` and in what
``$`` and ``.`` take for the end of a line. What has no counterpart is refused with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from penstock.flow.kernels.characters import is_one_unit, joined, units
from penstock.flow.kernels.rowwise import ValueFailure, row_by_row

_LINES = "\\n\\r\\x85\\u2028\\u2029"
_ASCII_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "0-9A-Za-z",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "XDigit": "0-9A-Fa-f",
    "Space": " \\t\\n\\x0b\\f\\r",
}
#: Unicode classes in Python's words: letters are word characters that are neither digits nor ``_``.
_UNICODE = {"L": "[^\\W\\d_]", "N": "\\d", "Nd": "\\d", "IsAlphabetic": "[^\\W\\d_]", "IsDigit": "\\d"}
_SETS = {
    "d": "0-9",
    "w": "0-9A-Za-z_",
    "s": " \\t\\n\\x0b\\f\\r",
    "h": " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    "v": "\\n\\x0b\\f\\r\\x85\\u2028\\u2029",
}
_CONTROLS = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f", "a": "\\x07", "e": "\\x1b"}
_GROUP = re.compile(r"\(\?(?:<([A-Za-z][A-Za-z0-9]*)>|([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)]))")
_FLAGS = set("imsx")


class _RefusedError(Exception):
    """A part of a pattern that Java refuses, or that Python cannot express."""


class _Reader:
    """Rewrites a pattern from left to right."""

    def __init__(self, pattern: str):
        self._pattern, self._at = pattern, 0

    def all(self) -> str:
        parts = []
        opened = 0
        while self._at < len(self._pattern):
            each = self._pattern[self._at]
            if each == "(":
                text, closes = self._group()
                parts.append(text)
                opened += closes
                continue
            self._at += 1
            match each:
                case "\\":
                    parts.append(self._escape())
                case "[":
                    parts.append(self._class())
                case ".":
                    parts.append(f"[^{_LINES}]")
                case "$":
                    parts.append("(?=(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])?\\Z)(?<![\\r](?=\\n\\Z))")
                case ")":
                    opened -= 1
                    if opened < 0:
                        raise _RefusedError
                    parts.append(each)
                case _:
                    parts.append(each)
        return "".join(parts)

    def _group(self) -> tuple[str, int]:
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            self._at += 1
            return "(", 1
        self._at = found.end()
        if found[1]:
            return f"(?P<{found[1]}>", 1
        on, off, end = found[2], found[3] or "", found[4]
        if not set(on + off) <= _FLAGS:
            raise _RefusedError
        if "m" in on or "s" in on:
            raise _RefusedError  # the point and the dollar sign are rewritten without them
        flags = on + (f"-{off}" if off else "")
        if end == ":":
            return f"(?{flags}:", 1
        if not flags:
            return "", 0
        # flags apply up to the end of the group that they stand in
        rest, depth, at = self._pattern[self._at :], 0, 0
        while at < len(rest):
            if rest[at] == "\\":
                at += 1
            elif rest[at] == "(":
                depth += 1
            elif rest[at] == ")":
                depth -= 1
                if depth < 0:
                    break
            at += 1
        self._pattern = self._pattern[: self._at] + rest[:at] + ")" + rest[at:]
        return f"(?{flags}:", 1

    def _escape(self) -> str:
        each = self._next()
        if each in _SETS:
            return f"[{_SETS[each]}]"
        if each.lower() in _SETS:
            return f"[^{_SETS[each.lower()]}]"
        if each in _CONTROLS:
            return _CONTROLS[each]
        match each:
            case "b" | "B" | "A":
                return f"\\{each}"
            case "z":
                return "\\Z"
            case "Z":
                return f"(?=[{_LINES}]?\\Z)"
            case "R":
                return f"(?:\\r\\n|[{_SETS['v']}])"
            case "Q":
                end = self._pattern.find("\\E", self._at)
                text = self._pattern[self._at :] if end < 0 else self._pattern[self._at : end]
                self._at = len(self._pattern) if end < 0 else end + 2
                return re.escape(text)
            case "k":
                found = re.compile("<([A-Za-z0-9]+)>").match(self._pattern, self._at)
                if found is None:
                    raise _RefusedError
                self._at = found.end()
                return f"(?P={found[1]})"
            case "p" | "P":
                return self._property(each == "P")
            case "x" | "u":
                return self._code(each)
        if each.isdigit() and each != "0":
            return f"\\{each}"
        if each.isalnum():
            raise _RefusedError
        return re.escape(each)

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _RefusedError
        self._at += 1
        return self._pattern[self._at - 1]

    def _code(self, kind: str) -> str:
        found = re.compile("[0-9A-Fa-f]{2}" if kind == "x" else "[0-9A-Fa-f]{4}").match(self._pattern, self._at)
        if found is None:
            raise _RefusedError
        self._at = found.end()
        return f"\\{kind}{found[0]}"

    def _name(self) -> str:
        found = re.compile(r"\{(\w+)\}|([A-Z])").match(self._pattern, self._at)
        if found is None:
            raise _RefusedError
        self._at = found.end()
        return found[1] or found[2]

    def _property(self, negated: bool) -> str:
        name = self._name()
        if name in _ASCII_CLASSES:
            return f"[{'^' if negated else ''}{_ASCII_CLASSES[name]}]"
        if name not in _UNICODE:
            raise _RefusedError
        text = f"(?u:{_UNICODE[name]})"
        return f"(?!{text})(?s:.)" if negated else text

    def _class(self) -> str:
        """A class, as one that looks ahead for each class that it is intersected with."""
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        sets: list[list[str]] = [[]]
        first = True
        while True:
            each = self._next()
            if each == "]" and not first:
                break
            first = False
            if each == "&" and self._pattern.startswith("&", self._at):
                self._at += 1
                sets.append([])
            elif each == "[":
                sets[-1].append(self._class())
            elif each == "\\":
                sets[-1].append(self._member())
            elif each == "-" and self._pattern.startswith("[", self._at):
                raise _RefusedError
            else:
                sets[-1].append(each if each in "-^" else re.escape(each))
        texts = [self._union(each) for each in sets if each]
        if not texts:
            raise _RefusedError
        joined = "".join(f"(?={each})" for each in texts[:-1]) + texts[-1]
        if not negated:
            return joined
        plain = len(texts) == 1 and texts[0].startswith("[") and not texts[0].startswith("[^")
        return f"[^{texts[0][1:]}" if plain else f"(?!{joined})(?s:.)"

    def _union(self, members: list[str]) -> str:
        nested = [each for each in members if each.startswith(("[", "(")) and len(each) > 1]
        plain = "".join(each for each in members if each not in nested)
        if plain.startswith("^"):
            plain = "\\" + plain
        texts = [*nested, *([f"[{plain}]"] if plain else [])]
        return texts[0] if len(texts) == 1 else f"(?:{'|'.join(texts)})"

    def _member(self) -> str:
        each = self._pattern[self._at : self._at + 1]
        if each in _SETS:
            self._at += 1
            return _SETS[each]
        if each.lower() in _SETS or each in ("p", "P", "Q", "R"):
            return self._escape()
        self._at += 1
        if each in _CONTROLS:
            return _CONTROLS[each]
        if each in ("x", "u"):
            return self._code(each)
        if not each or each.isalnum():
            raise _RefusedError
        return re.escape(each)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern for Python; None for one that Java refuses, or that has no counterpart."""
    try:
        return re.compile(_Reader(pattern).all(), re.ASCII)
    except (_RefusedError, re.error, OverflowError, RecursionError):
        return None


def _regexp(text: str, pattern: str) -> bool:
    found = compiled(pattern) if pattern else None
    return found is not None and found.search(text) is not None


def extracted(text: str, pattern: str, group: int = 0) -> str | None:
    """``REGEXP_EXTRACT``: null without a match, or if the group has no part in it."""
    found = compiled(pattern)
    match = found.search(text) if found else None
    return match[group] if match and 0 <= group <= match.re.groups else None


def _subject(found: re.Pattern[str], text: str) -> str:
    """The text to search. Java finds an empty match between the two units of a character too."""
    return units(text) if found.match("") else text


def _extract_all(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
    found = compiled(pattern)
    if found is None or not 0 <= group <= found.groups:
        return None
    matches = found.finditer(_subject(found, text))
    return [None if match[group] is None else joined(match[group]) for match in matches]


def _count(text: str, pattern: str) -> int | None:
    found = compiled(pattern)
    return None if found is None else sum(1 for _ in found.finditer(_subject(found, text)))


def _instr(text: str, pattern: str) -> int | None:
    found = compiled(pattern)
    if found is None:
        return None
    match = found.search(text)
    return 0 if match is None else len(units(text[: match.start()])) + 1


def _substr(text: str, pattern: str) -> str | None:
    return extracted(text, pattern)


def _replace(text: str, pattern: str, replacement: str) -> str | None:
    found = compiled(pattern)
    return None if found is None else joined(found.sub(lambda _: replacement, _subject(found, text)))


REGEXP = row_by_row(_regexp)
REGEXP_EXTRACT = row_by_row(extracted)
REGEXP_EXTRACT_ALL = row_by_row(_extract_all)
REGEXP_COUNT = row_by_row(_count)
REGEXP_INSTR = row_by_row(_instr)
REGEXP_SUBSTR = row_by_row(_substr)
REGEXP_REPLACE = row_by_row(_replace)


# --- patterns of SQL -------------------------------------------------------------------------------------------


def like_regex(pattern: str, escape: str, quote: Callable[[str], str]) -> str:
    """The regular expression of a pattern of LIKE, in which ``quote`` makes a character stand for itself. Raises
    ValueFailure for an escape before another character than a mark."""
    parts, at = [], 0
    while at < len(pattern):
        each = pattern[at]
        if escape and each == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise ValueFailure(f"the escape in '{pattern}' does not precede %, _ or itself")
            parts.append(quote(pattern[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(each) or quote(each))
        at += 1
    return "".join(parts)


@lru_cache(maxsize=256)
def _like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    return re.compile(like_regex(pattern, escape, re.escape), re.DOTALL)


_SIMILAR_CLASSES = {
    "[:ALPHA:]": "[A-Za-z]",
    "[:UPPER:]": "[A-Z]",
    "[:LOWER:]": "[a-z]",
    "[:DIGIT:]": "\\d",
    "[:SPACE:]": " ",
    "[:WHITESPACE:]": "\\s",
    "[:ALNUM:]": "[0-9A-Za-z]",
}


@lru_cache(maxsize=256)
def similar_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
    """The pattern of SIMILAR TO: a regular expression with the marks of LIKE. Raises ValueFailure for a pattern that
    is none."""
    parts, at = [], 0
    while at < len(pattern):
        each = pattern[at]
        named = next((name for name in _SIMILAR_CLASSES if pattern.upper().startswith(name, at)), None)
        if escape and each == escape:
            at += 1
            if at == len(pattern):
                raise ValueFailure(f"the escape in '{pattern}' stands at its end")
            parts.append(re.escape(pattern[at]))
        elif named:
            parts.append(_SIMILAR_CLASSES[named])
            at += len(named) - 1
        elif each == "[":
            end = pattern.find("]", at)
            if end < 0:
                raise ValueFailure(f"'{pattern}' has a class without an end")
            parts.append(pattern[at : end + 1])
            at = end
        else:
            parts.append({"%": ".*", "_": ".", ".": "\\.", "$": "\\$", "^": "\\^", "\\": "\\\\"}.get(each, each))
        at += 1
    try:
        return re.compile("".join(parts), re.DOTALL | re.ASCII)
    except re.error as error:
        raise ValueFailure(f"'{pattern}' is no pattern: {error}") from None


def _matching(made: Callable[[str, str], re.Pattern[str]]) -> Callable[..., bool]:
    def matches(text: str, pattern: str, escape: str | None = None) -> bool:
        if escape is not None and not is_one_unit(escape):
            raise ValueFailure(f"ESCAPE takes one character, not '{escape}'")
        return made(pattern, escape or "").fullmatch(text) is not None

    return matches


LIKE, SIMILAR = row_by_row(_matching(_like_pattern)), row_by_row(_matching(similar_pattern))
