"""The constraints of a sink's columns on their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.flow.kernels.session import Session
from penstock.flow.kernels.vectors import Failure, Kernel, Strict, Vector
from penstock.plan.expressions import Call, Literal
from penstock.types.logical import BinaryType, StringType


@dataclass(frozen=True)
class _NotNull:
    """A kernel that fails where its first argument is null."""

    reason: str

    def __call__(self, args: Sequence[Vector], rows: int) -> Vector:
        found = args[0]
        null = ~found.validity(rows)
        if not null.any():
            return found
        return Vector(found.values, (*found.failures, Failure(null, lambda _: self.reason)))


def not_null(call: Call, session: Session) -> Kernel:
    """A value that must not be NULL."""
    return _NotNull(not_null_reason(call))


def not_null_reason(call: Call) -> str:
    """Why a value that must not be NULL cannot be written."""
    table, column = _read_texts(call)
    reason = f"column '{column}' of table '{table}' is NOT NULL, and NULL is written into it"
    return f"{reason} ('table.exec.sink.not-null-enforcer' = 'DROP' leaves such rows out)"


def fit_length(call: Call, session: Session) -> Kernel:
    """A value in the length of its type: cut, and padded if the length is fixed; or an error for another length."""
    table, column, strategy = _read_texts(call)
    kind = call.type
    assert isinstance(kind, StringType | BinaryType)  # noqa: S101 - so it was planned
    compute: Callable[..., pa.Array | Vector]
    if strategy == "ERROR":
        compute = partial(_check_lengths, f"column '{column}' of table '{table}' is {kind.text()}", kind)
    else:
        compute = partial(_cut_values, kind)
    arrow = pa.string() if isinstance(kind, StringType) else pa.binary()
    kernel = Strict(arrow, compute)
    return lambda args, rows: kernel(args[:1], rows)


def _cut_values(kind: StringType | BinaryType, values: pa.Array) -> pa.Array:
    if isinstance(kind, StringType):
        cut = pc.utf8_slice_codeunits(values, 0, kind.length)
        return pc.utf8_rpad(cut, kind.length, " ") if kind.fixed else cut
    cut = pc.binary_slice(values, 0, kind.length)
    if not kind.fixed:
        return cut
    zeros = np.array([bytes(size) for size in range(kind.length + 1)], object)
    missing = kind.length - np.asarray(pc.fill_null(pc.binary_length(cut), kind.length))
    return pc.binary_join_element_wise(cut, pa.array(zeros, pa.binary()).take(pa.array(missing)), b"")


def _check_lengths(column: str, kind: StringType | BinaryType, values: pa.Array) -> Vector:
    of_text = isinstance(kind, StringType)
    lengths = pc.utf8_length(values) if of_text else pc.binary_length(values)
    known = np.asarray(pc.fill_null(lengths, kind.length))
    wrong = known != kind.length if kind.fixed else known > kind.length

    def reason(row: int) -> str:
        what = "text" if of_text else "binary value"
        hint = "'table.exec.sink.type-length-enforcer' = 'TRIM_PAD' cuts and fills"
        return f"{column}, and a {what} of length {known[row]} is written into it ({hint})"

    return Vector(values, (Failure(wrong, reason),) if wrong.any() else ())


def _read_texts(call: Call) -> list[str]:
    """The arguments after the value."""
    return [str(each.value) for each in call.args[1:] if isinstance(each, Literal)]
