"""Functions that are computed row by row: of text with arguments that are not constant, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Kernel, Strict, Values
from penstock.plan.expressions import Call
from penstock.types import arrow_type

_FAR = 2**31 - 1


def row_by_row(function: Callable[..., Any]) -> Callable[[Call, Session], Kernel | None]:
    """Makes kernels that call ``function`` for each row, with arguments that are not null."""

    def maker(call: Call, session: Session) -> Kernel | None:
        arrow = arrow_type(call.type)

        def compute(*args: Values) -> pa.Array:
            rows = max(len(each) for each in args if isinstance(each, pa.Array))
            columns = [[each.as_py()] * rows if isinstance(each, pa.Scalar) else each.to_pylist() for each in args]
            return pa.array(
                [None if None in given else function(*given) for given in zip(*columns, strict=True)], arrow
            )

        return Strict(arrow, compute)

    return maker


def _substring(text: str, start: int, length: int = _FAR) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = min(max(first + length, 0), len(text))
    return text[max(first, 0) : end] if end > first else ""


def _padding(text: str, length: int, padding: str) -> str:
    missing = length - len(text)
    return (padding * (missing // len(padding) + 1))[:missing] if padding and missing > 0 else ""


def _left_padded(text: str, length: int, padding: str) -> str:
    return _padding(text, length, padding) + text[: max(length, 0)]


def _right_padded(text: str, length: int, padding: str) -> str:
    return text[: max(length, 0)] + _padding(text, length, padding)


def _place(sought: str, text: str, start: int = 1) -> int:
    if start <= 0:
        return 0
    return text.find(sought, start - 1) + 1 if sought else 1


def _trimmed(side: str) -> Callable[[str, str], str]:
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


def _digest(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


SUBSTRING = row_by_row(_substring)
LEFT = row_by_row(lambda text, length: text[: max(length, 0)])
RIGHT = row_by_row(lambda text, length: text[-length:] if length > 0 else "")
LPAD, RPAD = row_by_row(_left_padded), row_by_row(_right_padded)
REPEAT = row_by_row(lambda text, count: text * count)
REPLACE = row_by_row(lambda text, old, new: text.replace(old, new) if old else text)
LOCATE = row_by_row(_place)
BTRIM, LTRIM, RTRIM = (row_by_row(_trimmed(side)) for side in "blr")
MD5, SHA1, SHA256 = (row_by_row(_digest(name)) for name in ("md5", "sha1", "sha256"))
ASCII = row_by_row(lambda text: ord(text[0]) if text else 0)
