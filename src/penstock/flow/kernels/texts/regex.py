"""Regular expressions of Java rewritten for Arrow's engine, RE2, with the same meaning.

Both choose matches as Perl does. They differ in what a point and a dollar sign match, in classes with names, and in
what only Java has: lookaround, backreferences, possessive quantifiers. Patterns with those have no kernel.
"""

from __future__ import annotations

import re
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.texts.java_regex import extract_group
from penstock.flow.kernels.vectors import Kernel, Strict
from penstock.plan.expressions import Call, Literal

#: Java's line terminators.
_LINES = r"\n\r\x{85}\x{2028}\x{2029}"
_SPACE = r"\t\n\x0B\f\r "
#: Of what follows a backslash: the text outside of a class, and inside of one; empty if there is none.
_ESCAPES = {
    "d": ("[0-9]", "0-9"),
    "D": ("[^0-9]", ""),
    "w": ("[0-9A-Za-z_]", "0-9A-Za-z_"),
    "W": ("[^0-9A-Za-z_]", ""),
    "s": (f"[{_SPACE}]", _SPACE),
    "S": (f"[^{_SPACE}]", ""),
    "t": (r"\t", r"\t"),
    "n": (r"\n", r"\n"),
    "r": (r"\r", r"\r"),
    "f": (r"\f", r"\f"),
}
_COUNT = re.compile(r"\{[0-9]{1,3}(?:,(?:[0-9]{1,3})?)?\}")


class _UnknownError(Exception):
    """A part of a pattern that has no counterpart."""


class _Translation:
    """Reads a pattern from left to right. ``chosen`` is the number of the group that becomes the only capturing one,
    named ``g``; 0 means the whole pattern."""

    def __init__(self, pattern: str, chosen: int):
        self._pattern, self._at = pattern, 0
        self._chosen = chosen
        self.groups = 0

    def translate(self) -> str:
        """The pattern for RE2."""
        found = self._translate_alternatives()
        if self._at < len(self._pattern):
            raise _UnknownError
        return f"(?P<g>{found})" if self._chosen == 0 else found

    def _translate_alternatives(self) -> str:
        parts = [self._translate_sequence()]
        while self._take("|"):
            parts.append(self._translate_sequence())
        return "|".join(parts)

    def _translate_sequence(self) -> str:
        parts = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            parts.append(self._translate_quantified())
        return "".join(parts)

    def _translate_quantified(self) -> str:
        atom = self._translate_atom()
        if atom == "^":
            return r"\A"
        count = _COUNT.match(self._pattern, self._at)
        if count is not None:
            quantifier = count[0]
        elif self._at < len(self._pattern) and self._pattern[self._at] in "*+?":
            quantifier = self._pattern[self._at]
        else:
            return atom
        self._at += len(quantifier)
        if self._take("+") or self._pattern[self._at : self._at + 1] in ("*", "{"):
            raise _UnknownError
        return f"{atom}{quantifier}?" if self._take("?") else f"{atom}{quantifier}"

    def _translate_atom(self) -> str:
        each = self._pattern[self._at]
        self._at += 1
        match each:
            case "(":
                return self._translate_group()
            case "[":
                return self._translate_class()
            case "\\":
                return self._translate_escape(inside=False)
            case ".":
                return f"[^{_LINES}]"
            case "^":
                return "^"
            case "$" | "*" | "+" | "?" | "{" | "}" | "]":
                raise _UnknownError
        return _write_literal(each)

    def _translate_group(self) -> str:
        captures = not self._take("?:")
        if captures and self._pattern[self._at : self._at + 1] == "?":
            raise _UnknownError
        self.groups += captures
        named = captures and self.groups == self._chosen
        found = self._translate_alternatives()
        if not self._take(")"):
            raise _UnknownError
        return f"(?P<g>{found})" if named else f"(?:{found})"

    def _translate_class(self) -> str:
        parts = ["[^" if self._take("^") else "["]
        while not self._take("]"):
            first, single = self._translate_member()
            parts.append(first)
            if self._pattern.startswith("-", self._at) and self._pattern[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                last, also = self._translate_member()
                if not (single and also):
                    raise _UnknownError
                parts += ["-", last]
        if len(parts) == 1:
            raise _UnknownError
        return "".join(parts) + "]"

    def _translate_member(self) -> tuple[str, bool]:
        """A part of a class, and whether it is a single character."""
        each = self._pattern[self._at : self._at + 1]
        if not each or each in "[]^" or self._pattern.startswith("&&", self._at):
            raise _UnknownError
        self._at += 1
        if each != "\\":
            return _write_literal(each), True
        named = self._pattern[self._at : self._at + 1] in tuple("dDwWsS")
        return self._translate_escape(inside=True), not named

    def _translate_escape(self, *, inside: bool) -> str:
        each = self._pattern[self._at : self._at + 1]
        self._at += 1
        if each in ("b", "B") and not inside:
            return f"\\{each}"
        found = _ESCAPES.get(each)
        if found is not None and found[inside]:
            return found[inside]
        if not each or each.isalnum() or not each.isascii():
            raise _UnknownError
        return _write_literal(each)

    def _take(self, text: str) -> bool:
        if not self._pattern.startswith(text, self._at):
            return False
        self._at += len(text)
        return True


def _write_literal(character: str) -> str:
    """A character as itself."""
    return character if character.isalnum() else rf"\x{{{ord(character):x}}}"


def translate_pattern(pattern: str, group: int = 0) -> str | None:
    """The pattern for RE2 with one group ``g``, which is all of it or the group of that number. None if it has no
    counterpart, or fewer groups."""
    made = _Translation(pattern, group)
    try:
        found = made.translate()
        pc.match_substring_regex(pa.array([""]), found)
    except (_UnknownError, pa.ArrowInvalid):
        return None
    return found if group <= made.groups else None


def _read_constant(call: Call, index: int) -> str | int | None:
    given = call.args[index] if len(call.args) > index else None
    return given.value if isinstance(given, Literal) and isinstance(given.value, str | int) else None


def matching(call: Call, session: Session) -> Kernel | None:
    """``REGEXP`` with a constant pattern."""
    pattern = _read_constant(call, 1)
    regex = translate_pattern(pattern) if isinstance(pattern, str) and pattern else None
    if regex is None:
        return None
    return Strict(pa.bool_(), lambda values, _: pc.match_substring_regex(values, regex))


def extraction(call: Call, session: Session) -> Kernel | None:
    """``REGEXP_EXTRACT`` with a constant pattern and group: null without a match, or if the group has no part in it."""
    pattern, group = _read_constant(call, 1), 0 if len(call.args) == 2 else _read_constant(call, 2)
    if not isinstance(pattern, str) or not isinstance(group, int) or group < 0:
        return None
    regex = translate_pattern(pattern, group)
    if regex is None:
        return None
    return Strict(pa.string(), partial(_extract, regex, pattern, group))


def _extract(regex: str, pattern: str, group: int, values: pa.Array, *_: pa.Scalar) -> pa.Array:
    """By RE2, which does not distinguish an empty group from one that has no part in the match."""
    found = pc.extract_regex(values, regex)
    texts = pc.if_else(pc.is_valid(found), pc.fill_null(pc.struct_field(found, "g"), ""), None)
    empty = pc.fill_null(pc.equal(texts, ""), False)
    if group == 0 or not empty.true_count:
        return texts
    sought = pc.if_else(empty, values, None).to_pylist()
    exact = [None if each is None else extract_group(each, pattern, group) for each in sought]
    return pc.if_else(empty, pa.array(exact, pa.string()), texts)


def replacement(call: Call, session: Session) -> Kernel | None:
    """``REGEXP_REPLACE`` by a constant text, of a constant pattern that does not match the empty text."""
    pattern, text = _read_constant(call, 1), _read_constant(call, 2)
    if not isinstance(pattern, str) or not isinstance(text, str):
        return None
    regex = translate_pattern(pattern)
    if regex is None or "$" in text or "\\" in text or pc.match_substring_regex(pa.array([""]), regex)[0].as_py():
        return None
    return Strict(pa.string(), lambda values, *_: pc.replace_substring_regex(values, regex, text))
