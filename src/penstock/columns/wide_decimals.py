"""Exact sums and averages of decimals: whole numbers of 256 bits in limbs, a row of limbs per number.

A sum of DECIMAL(38, s) may leave 128 bits in between and come back by retractions, so it is kept as decimal256.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import Flags, is_valid, wide_values
from penstock.columns.sums import weighted_sums

#: A column per limb of 32 bits, the lowest first: together a two's complement of 256 bits.
Limbs: TypeAlias = npt.NDArray[np.int64]

_LIMBS = 8
_LOW = np.int64(0xFFFFFFFF)
_ODD, _HALF = np.int64(0xFFFF), np.int64(16)


def to_limbs(column: pa.Array) -> Limbs:
    """The unscaled values of a decimal column; nulls are 0."""
    words = wide_values(column, column.type.byte_width // 8)
    limbs = np.empty((_LIMBS, len(column)), np.int64)
    for at in range(_LIMBS):
        if at // 2 < words.shape[1]:
            limbs[at] = (words[:, at // 2] >> np.uint64(32 * (at % 2))).view(np.int64) & _LOW
        else:
            limbs[at] = (words[:, -1].view(np.int64) >> 63) & _LOW
    valid = is_valid(column)
    if valid is not None:
        limbs *= valid
    return limbs


def weighted_limb_sums(
    index: npt.NDArray[np.int64], column: pa.Array, weights: npt.NDArray[np.int64], groups: int
) -> Limbs:
    """The sum of the decimals of each group, each times its weight. Weights of a group add up to less than 2**31."""
    words = np.ascontiguousarray(wide_values(column, column.type.byte_width // 8)[:, :2].T)
    parts = []
    for word in words if column.type.precision > _SHORT else words[:1]:
        parts += [(word & np.uint64(_LOW)).view(np.int64), word.view(np.int64) >> 32]
    for at in range(1, len(parts) - 1, 2):
        parts[at] &= _LOW  # only the last part has a sign
    return _carry([weighted_sums(index, part, weights, groups) for part in parts], groups)


#: Decimals of up to this many digits fit in one word.
_SHORT = 18


def _carry(parts: list[npt.NDArray[np.int64]], rows: int) -> Limbs:
    """Limbs of 32 bits from parts that are larger."""
    limbs = np.empty((_LIMBS, rows), np.int64)
    carry = np.zeros(rows, np.int64)
    for at in range(_LIMBS):
        if at < len(parts):
            carry = carry + parts[at]
        limbs[at] = carry & _LOW
        carry >>= 32
    return limbs


def add_limbs(one: Limbs, other: Limbs) -> Limbs:
    """The sums of pairs of numbers."""
    return _carry(list(one + other), one.shape[1])


def wide_column(limbs: Limbs, scale: int) -> pa.Array:
    """A column of decimal256(76, scale)."""
    return _build_column(limbs, pa.decimal256(76, scale), np.ones(limbs.shape[1], np.bool_))


def decimal_column(limbs: Limbs, kind: pa.Decimal128Type, valid: Flags) -> pa.Array:
    """A column of decimal128; null where not ``valid``, and where the value has too many digits."""
    magnitude, _ = _split_sign(limbs)
    return _build_column(limbs, kind, valid & _fits(magnitude, kind.precision))


def quotients(limbs: Limbs, divisors: npt.NDArray[np.int64], shift: int) -> Limbs:
    """Each number times ``10**shift``, divided by its positive divisor and rounded half up (away from zero).

    Divisors are less than 2**46.
    """
    magnitude, negative = _split_sign(limbs)
    for _ in range(shift):
        magnitude = _carry(list(magnitude * 10), limbs.shape[1])
    result = np.zeros_like(magnitude)
    rest = np.zeros(limbs.shape[1], np.int64)
    for at in range(_LIMBS - 1, -1, -1):
        for part in (magnitude[at] >> _HALF, magnitude[at] & _ODD):
            rest = rest << _HALF | part
            result[at] = result[at] << _HALF | rest // divisors
            rest %= divisors
    result[0] += rest * 2 >= divisors
    return _negate(_carry(list(result), limbs.shape[1]), negative)


def _split_sign(limbs: Limbs) -> tuple[Limbs, Flags]:
    negative = limbs[-1] > _LOW >> 1
    return _negate(limbs, negative), negative


def _negate(limbs: Limbs, which: Flags) -> Limbs:
    """The numbers, some negated."""
    if not which.any():
        return limbs
    flipped = np.where(which, limbs ^ _LOW, limbs)
    flipped[0] += which
    return _carry(list(flipped), limbs.shape[1])


def _fits(magnitude: Limbs, digits: int) -> Flags:
    """Whether numbers have at most this many digits: compared with the power of ten from the highest limb on."""
    bound = 10**digits
    less = np.zeros(magnitude.shape[1], np.bool_)
    equal = ~less
    for at in range(_LIMBS - 1, -1, -1):
        limit = np.int64(bound >> 32 * at & int(_LOW))
        less |= equal & (magnitude[at] < limit)
        equal &= magnitude[at] == limit
    return less


def _build_column(limbs: Limbs, kind: pa.DataType, valid: Flags) -> pa.Array:
    size = kind.byte_width // 8
    words: npt.NDArray[Any] = np.empty((limbs.shape[1], size), np.uint64)
    for at in range(size):
        words[:, at] = limbs[2 * at].view(np.uint64) | limbs[2 * at + 1].view(np.uint64) << np.uint64(32)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(words), [bitmap, pa.py_buffer(words)])
