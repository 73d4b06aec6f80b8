"""Functions that are computed row by row: of text with arguments that are not constant, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.flow.kernels.characters import from_units, to_units, whole_characters
from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Values, Vector, rows_of
from penstock.plan.expressions import Call
from penstock.types import arrow_type
from penstock.types.arrow import fits_python

_FAR = 2**31 - 1


class ValueFailure(Exception):
    """A row's value cannot be computed, for the reason that the text says."""


def row_by_row(function: Callable[..., Any], *, strict: bool = True) -> Callable[[Call, Session], Kernel]:
    """Makes kernels that call ``function`` for each row. Unless ``strict``, it is called for nulls too, as None. Rows
    for which it raises ValueFailure fail. Equal arguments are computed once in a batch."""

    def maker(call: Call, session: Session) -> Kernel:
        arrow = arrow_type(call.type)
        if strict:
            return Strict(arrow, lambda *args: compute_each(function, arrow, args))

        def kernel(args: Sequence[Vector], rows: int) -> Vector:
            failures = tuple(failure for each in args for failure in each.failures)
            made = compute_each(function, arrow, [each.spread(rows) for each in args], strict=False)
            return Vector(made.values, (*failures, *made.failures))

        return kernel

    return maker


def compute_each(
    function: Callable[..., Any], arrow: pa.DataType, args: Sequence[Values], *, strict: bool = True
) -> Vector:
    """The values of ``function`` for the arguments of each row, of which at least one is a column."""
    rows = rows_of(*args)
    varying = [at for at, each in enumerate(args) if isinstance(each, pa.Array)]
    if len(varying) == 1 and (pa.types.is_string(args[varying[0]].type) or pa.types.is_binary(args[varying[0]].type)):
        return _compute_once(function, arrow, args, varying[0], strict=strict)
    columns = [[each.as_py()] * rows if isinstance(each, pa.Scalar) else _list_values(each) for each in args]
    # Arrays and maps have no hash here, and numbers that are equal may differ: 0.0 and -0.0.
    hashable = not any(pa.types.is_nested(each.type) or pa.types.is_floating(each.type) for each in args)
    known: dict[tuple[Any, ...], Any] = {}
    reasons: dict[int, str] = {}
    made: list[Any] = []
    for row, given in enumerate(zip(*columns, strict=True)):
        if strict and any(each is None for each in given):
            made.append(None)
            continue
        if any(each is _FOREIGN for each in given):
            reasons[row] = "[DATETIME_OVERFLOW] the function takes dates and timestamps of the years 1 to 9999"
            made.append(None)
            continue
        if hashable and given in known:
            made.append(known[given])
            continue
        try:
            value = function(*given)
        except ValueFailure as error:
            reasons[row], value = str(error), None
        else:
            if hashable:
                known[given] = value
        made.append(value)
    values = _make_column(made, arrow)
    if not reasons:
        return Vector(values)
    failed = np.zeros(rows, np.bool_)
    failed[list(reasons)] = True
    return Vector(values, (Failure(failed, reasons.__getitem__),))


def _compute_once(
    function: Callable[..., Any], arrow: pa.DataType, args: Sequence[Values], place: int, *, strict: bool
) -> Vector:
    """The same where one argument, at ``place``, is a column of texts: each text is computed once."""
    encoded = args[place].dictionary_encode("mask" if strict else "encode")
    constants = [None if at == place else each.as_py() for at, each in enumerate(args)]
    before, after = constants[:place], constants[place + 1 :]
    if strict and None in (*before, *after):
        return Vector(pa.nulls(len(encoded), arrow))
    reasons: dict[int, str] = {}
    made: list[Any] = []
    for at, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            made.append(function(*before, text, *after))
        except ValueFailure as error:
            reasons[at] = str(error)
            made.append(None)
    values = _make_column(made, arrow).take(encoded.indices)
    if not reasons:
        return Vector(values)
    index = encoded.indices.fill_null(-1).to_numpy()
    failed = np.isin(index, list(reasons))
    return Vector(values, (Failure(failed, lambda row: reasons[int(index[row])]),))


def _make_column(made: list[Any], arrow: pa.DataType) -> pa.Array:
    try:
        return pa.array(made, arrow)
    except UnicodeEncodeError:  # a document has half of a surrogate pair as an escape
        return pa.array([whole_characters(each) for each in made], arrow)


#: Replaces a value that Python cannot represent.
_FOREIGN = object()


def _list_values(values: pa.Array) -> list[Any]:
    try:
        return values.to_pylist()  # type: ignore[no-any-return]
    except OverflowError:
        return [each.as_py() if fits_python(each) else _FOREIGN for each in values]


def _substring(text: str, start: int, length: int = _FAR) -> str | None:
    if length < 0:
        return None
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[first : first + length] if first >= 0 else ""


def _make_padding(text: str, length: int, padding: str) -> str:
    missing = length - len(text)
    return (padding * (missing // len(padding) + 1))[:missing] if missing > 0 else ""


def _pad_left(text: str, length: int, padding: str) -> str | None:
    """Padded or cut to the length in UTF-16 units; null for a negative length, or without a padding."""
    text, padding = to_units(text), to_units(padding)
    if length < 0 or not padding:
        return None
    return from_units((_make_padding(text, length, padding) + text)[:length])


def _pad_right(text: str, length: int, padding: str) -> str | None:
    text, padding = to_units(text), to_units(padding)
    if length < 0 or not padding:
        return None
    return from_units((text + _make_padding(text, length, padding))[:length])


def _replace(text: str, old: str, new: str) -> str:
    """As in Java, an empty text is between all characters."""
    return text.replace(old, new) if old else from_units(to_units(text).replace("", to_units(new)))


def _ascii(text: str) -> int:
    """The first byte, with a sign."""
    first = text[:1].encode()[:1]
    return int.from_bytes(first, signed=True) if first else 0


def _find_place(sought: str, text: str, start: int = 1) -> int:
    if not sought:
        return 1
    first = start - 1 if start > -_FAR - 1 else _FAR  # Java's number wraps
    return text.find(sought, max(first, 0)) + 1


def _make_trim(side: str) -> Callable[[str, str], str]:
    def trim(text: str, characters: str) -> str:
        if not characters:
            return text
        return (
            text.strip(characters)
            if side == "b"
            else text.lstrip(characters)
            if side == "l"
            else text.rstrip(characters)
        )

    return trim


def _make_digest(name: str) -> Callable[[str | bytes], str]:
    def digest(value: str | bytes) -> str:
        given = value.encode() if isinstance(value, str) else value
        return hashlib.new(name, given, usedforsecurity=False).hexdigest()

    return digest


SUBSTRING = row_by_row(_substring)
LEFT = row_by_row(lambda text, length: text[: max(length, 0)])
RIGHT = row_by_row(lambda text, length: text[-length:] if length > 0 else "")
LPAD, RPAD = row_by_row(_pad_left), row_by_row(_pad_right)
REPEAT = row_by_row(lambda text, count: text * count)
REPLACE = row_by_row(_replace)
LOCATE = row_by_row(_find_place)
BTRIM, LTRIM, RTRIM = (row_by_row(_make_trim(side)) for side in "blr")
MD5, SHA1, SHA224, SHA256, SHA384, SHA512 = (
    row_by_row(_make_digest(name)) for name in ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
)
ASCII = row_by_row(_ascii)
