"""Regular expressions of Java by Python's engine, one text at a time: for patterns that RE2 cannot compute
(``penstock.flow.kernels.texts.regex``), and for the functions that need every match.

A pattern that Java refuses gives NULL, or matches nothing, as in Flink. One that only Java's engine computes has no
kernel; in a column, it fails its rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from penstock.flow.kernels.characters import from_units, is_one_unit, to_units
from penstock.flow.kernels.rowwise import ValueFailure, row_by_row
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.texts.java_patterns import NoCounterpartError, Reader, RefusedError
from penstock.flow.kernels.vectors import Kernel
from penstock.plan.expressions import Call, Literal


@lru_cache(maxsize=256)
def _read(pattern: str) -> re.Pattern[str] | None:
    """The pattern for Python; None for one that Java refuses. Raises NoCounterpartError."""
    try:
        return re.compile(Reader(pattern).rewrite(), re.ASCII)
    except (RefusedError, OverflowError, RecursionError):
        return None
    except re.error as error:
        if "look-behind" in error.msg or "open group" in error.msg:
            raise NoCounterpartError from None
        return None


def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern for Python; None for one that Java refuses. Raises ValueFailure for one that only Java computes."""
    try:
        return _read(pattern)
    except NoCounterpartError:
        raise ValueFailure(f"the regular expression '{pattern}' has parts that only Java's engine supports") from None


def _is_computable(call: Call) -> bool:
    """False where the second argument is a constant pattern that only Java computes."""
    pattern = call.args[1]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return True
    try:
        _read(pattern.value)
    except NoCounterpartError:
        return False
    return True


def _make_pattern_kernel(function: Callable[..., object]) -> Callable[[Call, Session], Kernel | None]:
    """Makes kernels of ``function`` of a text, a pattern and more."""
    maker = row_by_row(function)
    return lambda call, session: maker(call, session) if _is_computable(call) else None


def _find_matches(found: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """All matches in Java's way: after an empty one, the next begins a character later."""
    matches = list(found.finditer(text))
    if all(each.end() > each.start() for each in matches):
        return matches
    matches, at = [], 0
    while at <= len(text) and (match := found.search(text, at)) is not None:
        matches.append(match)
        at = match.end() + (match.end() == match.start())
    return matches


def _regexp(text: str, pattern: str) -> bool:
    found = compile_pattern(pattern) if pattern else None
    return found is not None and found.search(text) is not None


def extract_group(text: str, pattern: str, group: int = 0) -> str | None:
    """``REGEXP_EXTRACT``: null without a match, or if the group has no part in it."""
    found = compile_pattern(pattern)
    match = found.search(text) if found else None
    return match[group] if match and 0 <= group <= match.re.groups else None


def _make_subject(found: re.Pattern[str], text: str) -> str:
    """The text to search. Java finds an empty match between the two units of a character too."""
    return to_units(text) if found.match("") else text


def _extract_all(text: str, pattern: str, group: int = 1) -> list[str | None] | None:
    found = compile_pattern(pattern)
    if found is None or not 0 <= group <= found.groups:
        return None
    matches = _find_matches(found, _make_subject(found, text))
    return [None if match[group] is None else from_units(match[group]) for match in matches]


def _count(text: str, pattern: str) -> int | None:
    found = compile_pattern(pattern)
    return None if found is None else len(_find_matches(found, _make_subject(found, text)))


def _instr(text: str, pattern: str) -> int | None:
    found = compile_pattern(pattern)
    if found is None:
        return None
    match = found.search(text)
    return 0 if match is None else len(to_units(text[: match.start()])) + 1


def _substr(text: str, pattern: str) -> str | None:
    return extract_group(text, pattern)


def _replace(text: str, pattern: str, replacement: str) -> str | None:
    found = compile_pattern(pattern)
    if found is None:
        return None
    subject = _make_subject(found, text)
    parts, at = [], 0
    for match in _find_matches(found, subject):
        parts += [subject[at : match.start()], replacement]
        at = match.end()
    return from_units("".join([*parts, subject[at:]]))


REGEXP = _make_pattern_kernel(_regexp)
REGEXP_EXTRACT = _make_pattern_kernel(extract_group)
REGEXP_EXTRACT_ALL = _make_pattern_kernel(_extract_all)
REGEXP_COUNT = _make_pattern_kernel(_count)
REGEXP_INSTR = _make_pattern_kernel(_instr)
REGEXP_SUBSTR = _make_pattern_kernel(_substr)
REGEXP_REPLACE = _make_pattern_kernel(_replace)


# --- patterns of SQL -------------------------------------------------------------------------------------------


def like_regex(pattern: str, escape: str, quote: Callable[[str], str]) -> str:
    """The regular expression of a pattern of LIKE, in which ``quote`` escapes a literal character. Raises ValueFailure
    for an escape that precedes neither a wildcard nor itself."""
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
def _make_like_pattern(pattern: str, escape: str = "") -> re.Pattern[str]:
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
    """The pattern of SIMILAR TO: a regular expression with the wildcards of LIKE. Raises ValueFailure for an invalid
    pattern."""
    parts, at = [], 0
    while at < len(pattern):
        each = pattern[at]
        named = next((name for name in _SIMILAR_CLASSES if pattern.upper().startswith(name, at)), None)
        if escape and each == escape:
            at += 1
            if at == len(pattern):
                raise ValueFailure(f"the escape in '{pattern}' is at its end")
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
        raise ValueFailure(f"'{pattern}' is not a regular expression: {error}") from None


def _make_matcher(made: Callable[[str, str], re.Pattern[str]]) -> Callable[..., bool]:
    def matches(text: str, pattern: str, escape: str | None = None) -> bool:
        if escape is not None and not is_one_unit(escape):
            raise ValueFailure(f"ESCAPE takes one character, not '{escape}'")
        return made(pattern, escape or "").fullmatch(text) is not None

    return matches


LIKE, SIMILAR = row_by_row(_make_matcher(_make_like_pattern)), row_by_row(_make_matcher(similar_pattern))
