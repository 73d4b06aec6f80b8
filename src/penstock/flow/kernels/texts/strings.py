"""Functions of text, counted in characters (code points)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels import rowwise
from penstock.flow.kernels.characters import has_pairs
from penstock.flow.kernels.rowwise import ValueFailure
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.texts.java_regex import like_regex
from penstock.flow.kernels.vectors import Kernel, Strict, Values, Vector, valid_rows
from penstock.plan.expressions import Call, Literal

_TEXT = pa.string()
_Maker = Callable[[Call, Session], Kernel | None]
#: A pattern of LIKE that has no marks but these at its ends.
_MARKS = re.compile(r"(%?)([^%_]*)(%?)", re.DOTALL)


def _strict(compute: Callable[..., pa.Array], arrow: pa.DataType = _TEXT) -> Callable[[Call, Session], Kernel]:
    return lambda call, session: Strict(arrow, compute)


def _read_constants(call: Call, first: int) -> list[Any] | None:
    """The values of the arguments from ``first`` on, if they are constants."""
    rest = call.args[first:]
    if not all(isinstance(each, Literal) for each in rest):
        return None
    return [each.value for each in rest if isinstance(each, Literal)]


def _with_constants(
    make: Callable[..., Callable[[pa.Array], pa.Array] | None], arrow: pa.DataType = _TEXT
) -> Callable[[Call, Session], Kernel | None]:
    """A kernel for a first argument of any kind, and constants: ``make`` takes those. A constant NULL makes the value
    null."""

    def maker(call: Call, session: Session) -> Kernel | None:
        constants = _read_constants(call, 1)
        if constants is None:
            return None
        if None in constants:
            return Strict(arrow, lambda values, *_: pa.nulls(len(values), arrow))
        compute = make(*constants)
        return None if compute is None else Strict(arrow, lambda values, *_: compute(values))

    return maker


# --- letters -------------------------------------------------------------------------------------------------


def _change_case(
    ascii_only: Callable[[pa.Array], pa.Array], convert: Callable[[str], str], values: pa.Array
) -> pa.Array:
    """Arrow converts ASCII. Other letters may become several, as in Spark, or depend on their place in a word."""
    plain = pc.string_is_ascii(values)
    found = ascii_only(values)
    if pc.all(plain, min_count=0).as_py():
        return found
    others = [None if each is None else convert(each) for each in pc.if_else(plain, None, values).to_pylist()]
    return pc.coalesce(pa.array(others, _TEXT), found)


def _make_replacement(search: str, replacement: str) -> Callable[[pa.Array], pa.Array] | None:
    if not search:
        return None
    return lambda values: pc.replace_substring(values, search, replacement)


def concatenation(call: Call, session: Session) -> Kernel:
    """``CONCAT``, which is null where an argument is."""
    return Strict(_TEXT, lambda *values: pc.binary_join_element_wise(*values, ""))


def joining(call: Call, session: Session) -> Kernel:
    """``CONCAT_WS``, which leaves out nulls; null where the separator is."""

    def kernel(args: Any, rows: int) -> Vector:
        separator, *values = (each.values for each in args)
        failures = tuple(failure for each in args for failure in each.failures)
        if not values:
            return Vector(pc.if_else(pc.is_null(separator), pa.scalar(None, _TEXT), ""), failures)
        # Arrow drops the whole row, not only its nulls, where no value is known.
        unknown = reduce(pc.and_, map(pc.is_null, values))
        values[0] = pc.if_else(unknown, "", values[0])
        return Vector(pc.binary_join_element_wise(*values, separator, null_handling="skip"), failures)

    return kernel


# --- parts ---------------------------------------------------------------------------------------------------


def _make_substring(start: int, length: int = 2**31 - 1) -> Callable[[pa.Array], pa.Array]:
    """From the character at ``start``, counted from 1, or from the end if it is negative: empty if that is before the
    first one. Null for a negative length."""
    if length < 0:
        return lambda values: pa.nulls(len(values), _TEXT)
    if start >= 0:
        first = max(start - 1, 0)
        end = first + length if first + length < 2**31 else None
        return lambda values: pc.utf8_slice_codeunits(values, first, end)
    end = start + length if start + length < 0 else None

    def from_end(values: pa.Array) -> pa.Array:
        reaches = pc.greater_equal(pc.utf8_length(values), -start)
        return pc.if_else(reaches, pc.utf8_slice_codeunits(values, start, end), "")

    return from_end


def _make_left(length: int) -> Callable[[pa.Array], pa.Array]:
    return _make_substring(1, max(length, 0))


def _make_right(length: int) -> Callable[[pa.Array], pa.Array]:
    if length <= 0:
        return _make_substring(1, 0)
    return lambda values: pc.utf8_slice_codeunits(values, -length)


def _make_trim(
    trim: Callable[..., pa.Array],
) -> Callable[..., Callable[[pa.Array], pa.Array]]:
    def make(characters: str = " ") -> Callable[[pa.Array], pa.Array]:
        return lambda values: trim(values, characters=characters) if characters else values

    return make


def _make_padding(pad: Callable[..., pa.Array], slow: Callable[[Call, Session], Kernel]) -> _Maker:
    """To a constant length with a constant character: Java counts those beyond the first plane twice."""

    def maker(call: Call, session: Session) -> Kernel | None:
        length, padding = _read_constants(call, 1) or (None, None)
        if not isinstance(length, int) or not isinstance(padding, str) or length <= 0 or len(padding) != 1:
            return None
        if has_pairs(pa.array([padding])):
            return None
        by_row = slow(call, session)

        def kernel(args: Sequence[Vector], rows: int) -> Vector:
            if has_pairs(args[0].spread(rows)):
                return by_row(args, rows)
            made = Strict(_TEXT, lambda values, *_: pc.utf8_slice_codeunits(pad(values, length, padding), 0, length))
            return made(args, rows)

        return kernel

    return maker


def _make_repetition(count: int) -> Callable[[pa.Array], pa.Array] | None:
    return lambda values: pc.binary_repeat(values, max(count, 0))


def _make_piece(separator: str | int, index: int) -> Callable[[pa.Array], pa.Array] | None:
    if not isinstance(separator, str) or not separator or "\\E" in separator:
        return None

    def compute(values: pa.Array) -> pa.Array:
        pieces = pc.split_pattern(values, separator)
        starts = pieces.offsets.to_numpy().astype(np.int64)
        at = starts[:-1] + index
        here = (
            (at < starts[1:])
            & (index >= 0)
            & valid_rows(pieces)
            & (np.asarray(pc.binary_length(values).fill_null(0)) > 0)
        )
        return pieces.values.take(pa.array(np.where(here, at, 0), mask=~here))

    return compute


# --- searching -----------------------------------------------------------------------------------------------


def length(call: Call, session: Session) -> Kernel:
    """``CHAR_LENGTH``."""
    return Strict(pa.int32(), pc.utf8_length)


def place(call: Call, session: Session) -> Kernel | None:
    """``LOCATE`` of a constant: the place of its first occurrence, counted from 1; 0 if there is none."""
    sought, *start = call.args
    if not isinstance(sought, Literal) or sought.value is None or len(start) != 1:
        return None
    return Strict(pa.int32(), partial(_find_places, str(sought.value)))


def _find_places(sought: str, _: Values, values: pa.Array) -> pa.Array:
    found = pc.find_substring(values, sought)
    if not pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        texts = values.to_pylist()
        found = pa.array([None if each is None else each.find(sought) for each in texts], pa.int32())
    return pc.add(found, pa.scalar(1, pa.int32()))


def like(call: Call, session: Session) -> Kernel | None:
    """``LIKE`` a constant pattern."""
    constants = _read_constants(call, 1)
    if constants is None:
        return None
    if None in constants:
        return Strict(pa.bool_(), lambda values, *_: pa.nulls(len(values), pa.bool_()))
    matched = _make_matching(*constants)
    return None if matched is None else Strict(pa.bool_(), lambda values, *_: matched(values))


def _make_matching(pattern: str, escape: str = "") -> Callable[[pa.Array], pa.Array] | None:
    plain = _MARKS.fullmatch(pattern)
    if plain is not None and not (escape and escape in pattern):
        before, text, after = plain.groups()
        if before and after:
            return lambda values: pc.match_substring(values, text)
        if before:
            return lambda values: pc.ends_with(values, text)
        if after:
            return lambda values: pc.starts_with(values, text)
        return lambda values: pc.equal(values, text)
    try:
        regex = rf"\A(?s:{like_regex(pattern, escape, _quote_character)})\z"
    except ValueFailure:  # the row-by-row kernel raises it, for the first row
        return None
    return lambda values: pc.match_substring_regex(values, regex)


def _quote_character(character: str) -> str:
    """A character as itself in a regular expression of RE2."""
    return character if character.isalnum() or not character.isascii() else rf"\x{{{ord(character):x}}}"


UPPER = _strict(partial(_change_case, pc.ascii_upper, str.upper))
LOWER = _strict(partial(_change_case, pc.ascii_lower, str.lower))
REVERSE = _strict(pc.utf8_reverse)
REPLACE = _with_constants(_make_replacement)
SUBSTRING = _with_constants(_make_substring)
LEFT, RIGHT = _with_constants(_make_left), _with_constants(_make_right)
BTRIM = _with_constants(_make_trim(pc.utf8_trim))
LTRIM = _with_constants(_make_trim(pc.utf8_ltrim))
RTRIM = _with_constants(_make_trim(pc.utf8_rtrim))
LPAD, RPAD = _make_padding(pc.utf8_lpad, rowwise.LPAD), _make_padding(pc.utf8_rpad, rowwise.RPAD)
REPEAT = _with_constants(_make_repetition)
SPLIT_INDEX = _with_constants(_make_piece)
