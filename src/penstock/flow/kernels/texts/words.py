"""Functions of text that are computed row by row: parts, places and letters."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.exact.numbers import parse_double
from penstock.flow.kernels.characters import from_units, to_units
from penstock.flow.kernels.rowwise import ValueFailure, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Vector
from penstock.plan.expressions import Call
from penstock.types.casts import is_integer, is_numeric

#: What Java's BigDecimal reads: digits of any script.
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WORD = re.compile("[A-Za-z0-9]+")
#: What Java's ``Character.isWhitespace`` treats as white space.
_WHITE = re.compile("[\\t-\\r\\x1c-\\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")


# --- letters -------------------------------------------------------------------------------------------------


def _initcap(text: str) -> str:
    """Each word of ASCII letters and digits with a capital in front."""
    return _WORD.sub(lambda found: found[0][0].upper() + found[0][1:].lower(), text)


def _translate(text: str | None, source: str | None, target: str | None) -> str | None:
    """Each character of ``source`` replaced by the one at the same place of ``target``; left out if there is none."""
    table: dict[int, str | None] = {}
    for place, each in enumerate(source or ""):
        table.setdefault(ord(each), target[place] if target and place < len(target) else None)
    return None if text is None else text.translate(table)


def _chr(code: int) -> str:
    """The character of the last eight bits."""
    return "" if code < 0 else chr(code & 0xFF)


# --- parts ---------------------------------------------------------------------------------------------------


def _overlay(text: str, part: str, start: int, length: int | None = None) -> str:
    text, part = to_units(text), to_units(part)
    count = len(part) if length is None else length
    if start <= 0 or start > len(text):
        return from_units(text)
    rest = text[start - 1 + count :] if count > 0 and start + count <= len(text) else ""
    return from_units(text[: start - 1] + part + rest)


def pieces(text: str, separator: str) -> list[str]:
    """The pieces between separators; between white space if the separator is empty. An empty text has none."""
    if not text:
        return []
    return text.split(separator) if separator else _WHITE.split(text)


def _split_index(text: str, separator: str | int, index: int) -> str | None:
    if isinstance(separator, int):
        if not 0 < separator <= 0x10FFFF:
            return None
        separator = chr(separator)
    found = pieces(text, separator) if index >= 0 else []
    return found[index] if 0 <= index < len(found) else None


def _split_all(text: str, separator: str) -> list[str]:
    if not separator:
        return [from_units(each) for each in to_units(text)]
    return pieces(text, separator)


def _elt(index: int | None, *texts: str | None) -> str | None:
    return texts[index - 1] if index is not None and 1 <= index <= len(texts) else None


def _str_to_map(text: str, pairs: str = ",", parts: str = "=") -> list[tuple[str, str | None]]:
    """By separators that are regular expressions. The last of several values of a key counts."""
    from penstock.flow.kernels.texts.java_regex import compile_pattern

    between, within = compile_pattern(pairs), compile_pattern(parts)
    if between is None or within is None:
        raise ValueFailure(f"STR_TO_MAP takes regular expressions, not '{pairs}' and '{parts}'")
    found: dict[str, str | None] = {}
    for entry in _java_split(between, text) if text else ():
        key, *value = _java_split(within, entry, 2)
        found[key] = value[0] if value else None
    return list(found.items())


def _java_split(pattern: re.Pattern[str], text: str, limit: int = 0) -> list[str]:
    """As ``String.split``: without empty texts at the end, unless there is a limit, and without one at the start that
    an empty match makes."""
    found: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        if limit and len(found) == limit - 1:
            break
        if match.end() == 0:
            continue
        found.append(text[at : match.start()])
        at = match.end()
    found.append(text[at:])
    if not limit and len(found) > 1:
        while found and not found[-1]:
            found.pop()
    return found


# --- searching -----------------------------------------------------------------------------------------------


def _instr(text: str, sought: str, start: int = 1, nth: int = 1) -> int:
    """The place of the ``nth`` occurrence from ``start`` on, backwards if that is negative."""
    if nth <= 0:
        raise ValueFailure("INSTR takes a positive number for the occurrence")
    if start == 0:
        return 0
    backwards = start < 0
    if backwards:
        text, sought, start = text[::-1], sought[::-1], -start
    at = start - 1
    for _ in range(nth):
        found = text.find(sought, at) if sought else 0
        if found < 0:
            return 0
        at = found + 1
    return len(text) - at - len(sought) + 2 if backwards else at


def _is_alpha(value: Any) -> bool:
    return isinstance(value, str) and value.isalpha()


def _is_digit(value: Any) -> bool:
    if isinstance(value, str):
        return value != "" and all(each.isdecimal() for each in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_decimal(value: Any) -> bool:
    if isinstance(value, str):
        try:
            parse_double(value)
        except ValueError:
            return _DECIMAL.fullmatch(value) is not None
        return True
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _is_number(test: Callable[[Any], bool]) -> Callable[[Call, Session], Kernel]:
    """Of numbers, the type decides, also where they are null."""

    def maker(call: Call, session: Session) -> Kernel:
        given = call.args[0].type
        if not is_numeric(given):
            return row_by_row(test, strict=False)(call, session)
        true = is_integer(given) or test is _is_decimal
        return lambda args, rows: Vector(pa.scalar(true), args[0].failures)

    return maker


INITCAP = row_by_row(_initcap)
TRANSLATE = row_by_row(_translate, strict=False)
CHR = row_by_row(_chr)
OVERLAY = row_by_row(_overlay)
SPLIT_INDEX = row_by_row(_split_index)
SPLIT = row_by_row(_split_all)
ELT = row_by_row(_elt, strict=False)
STR_TO_MAP = row_by_row(_str_to_map)
INSTR = row_by_row(_instr)
STARTSWITH = row_by_row(lambda text, part: text.startswith(part))
ENDSWITH = row_by_row(lambda text, part: text.endswith(part))
IS_ALPHA = row_by_row(_is_alpha, strict=False)
IS_DIGIT, IS_DECIMAL = _is_number(_is_digit), _is_number(_is_decimal)
