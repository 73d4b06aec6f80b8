"""FLOAT and DOUBLE by the digits of their shortest text, as in Java since version 19."""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.buffers import fixed_values, from_buffers
from penstock.exact.numbers import parse_float
from penstock.flow.kernels.vectors import column, valid_rows
from penstock.loops import chars, type_roots
from penstock.loops.compiled import Vector, borrow, compiled
from penstock.loops.floats import LONGEST_FLOAT, write_double, write_float
from penstock.loops.numbers import POWERS_OF_TEN, number_value, scan_number

_WIDE = decimal.Context(prec=2048, rounding=decimal.ROUND_HALF_UP)


@compiled
def _write_all(bits: Vector, single: bool, out: Vector, ends: Vector) -> None:
    """The text of each number, one after the other, and its end."""
    out = borrow(out)
    at = 0
    for row in range(len(bits)):
        at = write_float(out, at, bits[row], False) if single else write_double(out, at, bits[row], False)
        ends[row + 1] = at


@compiled
def _round_all(bits: Vector, places: int, root: int, undecided: Vector) -> None:
    """Round doubles half up in place, by their digits. ``undecided`` is set to 1 for those that are left unchanged."""
    text = np.empty(32, np.uint8)
    for row in range(len(bits)):
        undecided[row] = 0
        end = write_double(text, 0, bits[row], False)
        last, digits, power, _ = scan_number(text, 0, end)
        if last != end or digits < 0:  # NaN and the infinities
            continue
        drop = -power - places
        if drop <= 0:
            bits[row] = 0 if digits == 0 else bits[row]  # -0.0 loses its sign
            continue
        if drop > 18:
            digits = np.int64(0)
        else:
            unit = POWERS_OF_TEN[drop]
            rest = digits % unit
            digits = digits // unit + (1 if rest >= unit - rest else 0)
        negative = text[0] == chars.MINUS and digits != 0
        good, found = number_value(root, negative, digits, -places, False, 0, 0)
        undecided[row] = 0 if good else 1
        if good:
            bits[row] = np.int64(found)


def to_text(values: pa.Array) -> pa.Array:
    """As ``Double.toString`` and ``Float.toString`` write numbers."""
    single = values.type == pa.float32()
    bits = fixed_values(values, np.int32 if single else np.int64).astype(np.int64)
    out, ends = np.empty(len(values) * LONGEST_FLOAT, np.uint8), np.zeros(len(values) + 1, np.int64)
    _write_all(bits, single, out, ends)
    return from_buffers(pa.string(), valid_rows(values).view(np.uint8), ends.astype(np.int32), out[: ends[-1]].copy())


def round_reals(places: int, values: pa.Array) -> pa.Array:
    """Rounded half up to this many places after the point, by the digits of the text as a DOUBLE."""
    arrow = values.type
    given: NDArray[np.float64] = fixed_values(values, arrow.to_pandas_dtype()).astype(np.float64)
    bits, undecided = given.view(np.int64).copy(), np.empty(len(values), np.uint8)
    _round_all(bits, places, type_roots.FLOAT if arrow == pa.float32() else type_roots.DOUBLE, undecided)
    found: NDArray[Any] = bits.view(np.float64)
    for row in np.flatnonzero(undecided.view(np.bool_)).tolist():
        digits = Decimal(repr(float(given[row]))).quantize(Decimal(1).scaleb(-places), context=_WIDE)
        found[row] = parse_float(str(digits)) if arrow == pa.float32() else float(digits)
    with np.errstate(over="ignore"):
        made = found.astype(arrow.to_pandas_dtype())
    return column(made, valid_rows(values) if values.null_count else None, arrow)
