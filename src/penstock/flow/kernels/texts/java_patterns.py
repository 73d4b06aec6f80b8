"""Regular expressions of Java rewritten for Python's engine, which backtracks in the same order.

They differ in names, in classes within classes, in ``\\Q..\\E``, in flags, and in what ``$``, ``^`` and ``.`` treat as
the end of a line. So flags are applied to each part as it is rewritten. Features without a counterpart in Python, such
as lookbehind of variable length, are distinguished from patterns that Java refuses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby

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
_SETS = {
    "d": "0-9",
    "w": "0-9A-Za-z_",
    "s": " \\t\\n\\x0b\\f\\r",
    "h": " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000",
    "v": "\\n\\x0b\\f\\r\\x85\\u2028\\u2029",
}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_ALPHABETIC = frozenset(("Lu", "Ll", "Lt", "Lm", "Lo", "Nl"))
#: Properties of a character, by the names of Java.
_PROPERTIES: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(("javaLowerCase", "IsLowercase"), str.islower),
    **dict.fromkeys(("javaUpperCase", "IsUppercase"), str.isupper),
    **dict.fromkeys(("javaLetter", "IsLetter"), lambda each: unicodedata.category(each)[0] == "L"),
    **dict.fromkeys(("javaDigit", "IsDigit"), lambda each: unicodedata.category(each) == "Nd"),
    **dict.fromkeys(("IsAlphabetic", "javaAlphabetic"), lambda each: unicodedata.category(each) in _ALPHABETIC),
    "javaLetterOrDigit": lambda each: unicodedata.category(each)[0] == "L" or unicodedata.category(each) == "Nd",
    "IsPunctuation": lambda each: unicodedata.category(each)[0] == "P",
    "IsControl": lambda each: unicodedata.category(each) == "Cc",
    "IsTitlecase": lambda each: unicodedata.category(each) == "Lt",
}
_CATEGORIES = frozenset(
    (
        *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs"),
        *("Cn", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf", "L", "M", "N", "Z", "C", "P", "S"),
    )
)
_GROUP = re.compile(r"\(\?(?:<([A-Za-z][A-Za-z0-9]*)>|([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)]))")
_LOOKING = re.compile(r"\(\?(?:=|!|<=|<!|>)")
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_FLAGS = set("idmsuxU")


class RefusedError(Exception):
    """A pattern that Java refuses."""


class NoCounterpartError(Exception):
    """A pattern with a part that Java accepts and Python cannot express."""


def _wrap_parts(text: str) -> str:
    """Several parts as one, which a quantifier takes as a whole."""
    return f"(?:{text})"


class Reader:
    """Rewrites a pattern from left to right. Raises RefusedError or NoCounterpartError."""

    def __init__(self, pattern: str):
        self._pattern, self._at = pattern, 0
        self._flags: frozenset[str] = frozenset()
        #: How many capturing groups have begun.
        self._groups = 0

    def rewrite(self) -> str:
        """The pattern for Python, to be compiled with the flag ASCII."""
        parts = []
        outer: list[frozenset[str]] = []  # the flags around each open group
        while self._at < len(self._pattern):
            each = self._pattern[self._at]
            if each == "(":
                flags = self._flags
                text = self._read_group()
                if text:
                    outer.append(flags)
                    parts.append(text)
                continue
            self._at += 1
            if "x" in self._flags and each in " \t\n\x0b\f\r":
                continue
            if "x" in self._flags and each == "#":
                self._skip_comment()
                continue
            if each == ")":
                if not outer:
                    raise RefusedError
                self._flags = outer.pop()
                parts.append(each)
                continue
            parts.append(self._read_part(each))
        return "".join(parts)

    def _skip_comment(self) -> None:
        end = re.compile(f"[{_LINES}]").search(self._pattern, self._at)
        self._at = end.end() if end else len(self._pattern)

    def _read_part(self, each: str) -> str:
        match each:
            case "\\":
                return self._read_escape()
            case "[":
                return self._apply_case(self._read_class())
            case ".":
                return "(?s:.)" if "s" in self._flags else "[^\\n]" if "d" in self._flags else f"[^{_LINES}]"
            case "^":
                return self._write_line_start()
            case "$":
                return self._write_line_end()
            case "{":
                count = _COUNT.match(self._pattern, self._at - 1)
                if count is None:
                    raise RefusedError
                self._at = count.end()
                return count[0]
            case "*" | "+" | "?" | "|":
                return each
        return self._apply_case(re.escape(each))

    def _apply_case(self, text: str) -> str:
        """A part under the flags about case."""
        if "i" not in self._flags:
            return text
        return f"(?{'iu' if self._flags & {'u', 'U'} else 'i'}:{text})"

    def _write_line_start(self) -> str:
        if "m" not in self._flags:
            return "\\A"
        if "d" in self._flags:
            return "(?:\\A|(?<=\\n)(?!\\Z))"
        return "(?:\\A|(?:(?<=[\\n\\x85\\u2028\\u2029])|(?<=\\r)(?!\\n))(?!\\Z))"

    def _write_line_end(self) -> str:
        if "d" in self._flags:
            return "(?=\\n|\\Z)" if "m" in self._flags else "(?=\\n?\\Z)"
        if "m" in self._flags:
            return "(?:(?=[\\r\\x85\\u2028\\u2029]|\\Z)|(?<!\\r)(?=\\n))"
        return "(?=(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])?\\Z)(?<![\\r](?=\\n\\Z))"

    # --- groups ----------------------------------------------------------------------------------------------

    def _read_group(self) -> str:
        """The start of a group, empty for flags that apply from here on."""
        if not self._pattern.startswith("(?", self._at):
            self._at += 1
            self._groups += 1
            return "("
        looking = _LOOKING.match(self._pattern, self._at)
        if looking is not None:
            self._at = looking.end()
            return looking[0]
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            raise RefusedError
        self._at = found.end()
        if found[1]:
            self._groups += 1
            return f"(?P<{found[1]}>"
        on, off = set(found[2]), set(found[3] or "")
        if not on | off <= _FLAGS:
            raise RefusedError
        flags = (self._flags | on) - off
        if found[4] == ")":
            self._flags = flags
            return ""
        # the caller restores the flags around the group at its end
        self._flags = flags
        return "(?:"

    # --- escapes ---------------------------------------------------------------------------------------------

    def _read_escape(self) -> str:
        each = self._read_next()
        if each in _SETS or each.lower() in _SETS:
            return self._write_set(each)
        match each:
            case "b" | "B":
                return f"(?u:\\{each})" if "U" in self._flags else f"\\{each}"
            case "A":
                return "\\A"
            case "z":
                return "\\Z"
            case "Z":
                return "(?=(?:\\r\\n|[\\n\\r\\x85\\u2028\\u2029])?\\Z)(?<![\\r](?=\\n\\Z))"
            case "R":
                return f"(?:\\r\\n|[{_SETS['v']}])"
            case "Q":
                return "".join(self._apply_case(re.escape(quoted)) for quoted in self._read_quoted())
            case "k":
                found = re.compile("<([A-Za-z][A-Za-z0-9]*)>").match(self._pattern, self._at)
                if found is None:
                    raise RefusedError
                self._at = found.end()
                return self._apply_case(f"(?P={found[1]})")
            case "p" | "P":
                return self._read_property(each == "P")
            case "G" | "X":
                raise NoCounterpartError
        if each.isdigit() and each.isascii() and each != "0":
            return self._read_reference(each)
        return self._apply_case(re.escape(self._read_character(each)))

    def _write_set(self, each: str) -> str:
        if "U" in self._flags and each.lower() in "dws":
            return f"(?u:\\{each})"
        return f"[{'' if each in _SETS else '^'}{_SETS[each.lower()]}]"

    def _read_quoted(self) -> str:
        end = self._pattern.find("\\E", self._at)
        text = self._pattern[self._at :] if end < 0 else self._pattern[self._at : end]
        self._at = len(self._pattern) if end < 0 else end + 2
        return text

    def _read_reference(self, first: str) -> str:
        """A reference back: as many digits as there are groups for."""
        number = int(first)
        while self._pattern[self._at : self._at + 1].isdigit():
            longer = number * 10 + int(self._pattern[self._at])
            if longer > self._groups:
                break
            number = longer
            self._at += 1
        if number <= self._groups:
            return self._apply_case(f"(?:\\{number})")
        if number <= len(re.findall(r"\((?!\?)|\(\?<[A-Za-z]", self._pattern)):
            raise NoCounterpartError
        return "(?!)"  # Java takes it, and it matches nothing

    def _read_character(self, each: str) -> str:
        """The character that an escape means."""
        if each in _CONTROLS:
            return _CONTROLS[each]
        match each:
            case "x":
                return chr(self._read_number(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})", 16))
            case "0":
                return chr(self._read_number(r"([0-3][0-7]{2})|([0-7]{1,2})", 8))
            case "u":
                return self._read_unit()
            case "c":
                return chr(ord(self._read_next()) ^ 64)
            case "N":
                return self._read_name()
        if each.isalpha() and each.isascii():
            raise RefusedError
        return each

    def _read_number(self, form: str, base: int) -> int:
        found = re.compile(form).match(self._pattern, self._at)
        if found is None:
            raise RefusedError
        self._at = found.end()
        value = int(found[1] or found[2], base)
        if value > 0x10FFFF:
            raise RefusedError
        return value

    def _read_unit(self) -> str:
        """A character of one or two units."""
        first = self._read_number("([0-9A-Fa-f]{4})()", 16)
        second = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})").match(self._pattern, self._at)
        if not 0xD800 <= first < 0xDC00 or second is None:
            return chr(first)
        self._at = second.end()
        return chr(0x10000 + (first - 0xD800 << 10) + int(second[1], 16) - 0xDC00)

    def _read_name(self) -> str:
        found = re.compile(r"\{([^}]*)\}").match(self._pattern, self._at)
        try:
            name = unicodedata.lookup(found[1]) if found else ""
        except KeyError:
            raise RefusedError from None
        if found is None:
            raise RefusedError
        self._at = found.end()
        return name

    def _read_next(self) -> str:
        if self._at >= len(self._pattern):
            raise RefusedError
        self._at += 1
        return self._pattern[self._at - 1]

    def _read_property(self, negated: bool) -> str:
        found = re.compile(r"\{(?:(?:general_category|gc)=)?([\w=]+)\}|([A-Z])").match(self._pattern, self._at)
        if found is None:
            raise RefusedError
        self._at = found.end()
        return f"[{'^' if negated else ''}{_list_members(found[1] or found[2])}]"

    # --- classes ---------------------------------------------------------------------------------------------

    def _read_class(self) -> str:
        """A class, with a lookahead for each class that it is intersected with."""
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        sets: list[list[str]] = [[]]
        first = True
        while True:
            each = self._read_next()
            if each == "]" and not first:
                break
            if "x" in self._flags and each in " \t\n\x0b\f\r":
                continue
            first = False
            if each == "&" and self._pattern.startswith("&", self._at):
                self._at += 1
                sets.append([])
            elif each == "[":
                sets[-1].append(self._read_class())
            elif each == "\\":
                sets[-1] += self._read_member()
            elif each == "-" and self._pattern.startswith("[", self._at):
                raise NoCounterpartError
            else:
                sets[-1].append(each if each in "-^" else re.escape(each))
        texts = [self._join_members(each) for each in sets if each]
        if not texts:
            raise RefusedError
        joined = "".join(f"(?={each})" for each in texts[:-1]) + texts[-1]
        if not negated:
            return texts[0] if len(texts) == 1 else _wrap_parts(joined)
        plain = len(texts) == 1 and texts[0].startswith("[") and not texts[0].startswith("[^")
        return f"[^{texts[0][1:]}" if plain else _wrap_parts(f"(?!{joined})(?s:.)")

    def _join_members(self, members: list[str]) -> str:
        nested = [each for each in members if each.startswith(("[", "(")) and len(each) > 1]
        plain = "".join(each for each in members if each not in nested)
        if plain.startswith("^"):
            plain = "\\" + plain
        texts = [*nested, *([f"[{plain}]"] if plain else [])]
        return texts[0] if len(texts) == 1 else f"(?:{'|'.join(texts)})"

    def _read_member(self) -> list[str]:
        each = self._read_next()
        if each in _SETS and "U" not in self._flags:
            return [_SETS[each]]
        if each.lower() in _SETS:
            return [self._write_set(each)]
        match each:
            case "p" | "P":
                return [self._read_property(each == "P")]
            case "Q":
                return [re.escape(quoted) for quoted in self._read_quoted()]
            case "R" | "X" | "G" | "b" | "B" | "A" | "z" | "Z" | "k":
                raise RefusedError
        if each.isdigit() and each != "0":
            raise RefusedError
        return [re.escape(self._read_character(each))]


def _list_members(name: str) -> str:
    """The characters of a property as the inside of a class."""
    plain = name.removeprefix("Is")
    if name in _ASCII_CLASSES:
        return _ASCII_CLASSES[name]
    if name in _PROPERTIES:
        return _find_ranges(name)
    if plain in _CATEGORIES:
        return _find_ranges(plain)
    if name.startswith(("Is", "In", "java", "script=", "sc=", "block=", "blk=")):
        raise NoCounterpartError
    raise RefusedError


@lru_cache(maxsize=64)
def _find_ranges(name: str) -> str:
    """The ranges of the characters with a property or of a category."""

    def of_category(each: str) -> bool:
        return unicodedata.category(each).startswith(name)

    has = _PROPERTIES.get(name, of_category)
    found = []
    for belongs, each in groupby(range(0x110000), lambda code: has(chr(code))):
        if belongs:
            codes = list(each)
            found.append(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}")
    return "".join(found)
