"""Pieces of text to values, inside compiled loops: what several formats read alike.

Everything here refuses what it is not sure of; the format's exact path decides then.
"""

from __future__ import annotations

import numpy as np

from penstock.formats.calendar import REFUSED, parse_date, parse_time, parse_timestamp
from penstock.formats.chunks import copy_bytes
from penstock.formats.compiled import Vector, Word, compiled, eight_bytes, first_mark, inlined
from penstock.formats.kinds import BIGINT, DATE, DECIMAL, DOUBLE, TIME, TIMESTAMP, TIMESTAMP_LTZ
from penstock.formats.shortest import double_bits, to_double

__all__ = [
    "FAILED",
    "base64_size",
    "gather_base64",
    "gather_strings",
    "is_utf8",
    "number_value",
    "scan_number",
    "scan_word",
    "text_value",
]

#: What a scanner returns in the place of a position for text that it does not take.
FAILED = -1

_LONGEST_NUMBER, _LARGEST_EXPONENT = 300, 9999
_POWERS = np.array([10**each for each in range(19)], np.int64)
_ZEROS, _BEYOND_NINE = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676)
_HIGH_BITS, _NONE, _TEN = np.uint64(0x8080808080808080), np.uint64(0), np.uint64(10)
_EVERY_FOURTH, _U8, _U16, _U32 = np.uint64(0x000000FF000000FF), np.uint64(8), np.uint64(16), np.uint64(32)
_TO_EVEN, _TO_ODD = np.uint64(100 + (1_000_000 << 32)), np.uint64(1 + (10_000 << 32))
_LEAST = np.array([-(2**7), -(2**15), -(2**31), -(2**63)], np.int64)
_MOST = np.array([2**7 - 1, 2**15 - 1, 2**31 - 1, 2**63 - 1], np.int64)


def _base64_values() -> Vector:
    values = np.full(256, 255, np.uint8)
    for value, each in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"):
        values[each] = value
    return values


_SEXTETS = _base64_values()


@compiled
def is_utf8(text: Vector, at: int, end: int) -> bool:
    """Whether the bytes are well-formed UTF-8."""
    while at < end:
        first = text[at]
        if first < 0x80:
            at += 1
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if at + more >= end:
            return False
        second = text[at + 1]
        low, high = 0x80, 0xBF
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
        elif first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
        if second < low or second > high:
            return False
        for place in range(at + 2, at + more + 1):
            if text[place] & 0xC0 != 0x80:
                return False
        at += more + 1
    return True


@inlined
def _more_digits(text: Vector, at: int, end: int, value: Word) -> tuple[int, Word]:
    """The end of the digits at ``at``, and the number that they make behind those of ``value``; it may wrap.

    Eight at a time: how many there are is hard to foresee, and a wrong guess costs more than all the rest.
    """
    while at + 8 <= end:
        word = eight_bytes(text, at) ^ _ZEROS
        marks = ((word & ~_HIGH_BITS) + _BEYOND_NINE | word) & _HIGH_BITS
        if marks == _NONE:
            value = value * 100_000_000 + _eight_digits(word)
            at += 8
            continue
        count = first_mark(marks)
        if count > 0:
            value = value * _POWERS[count] + _eight_digits(word << np.uint64(64 - 8 * count))
        return at + count, value
    while at < end and 48 <= text[at] <= 57:
        value = value * 10 + (text[at] - 48)
        at += 1
    return at, value


@inlined
def _eight_digits(word: Word) -> Word:
    """The number in eight bytes of 0 to 9, the first one lowest: pairs of digits first, then pairs of pairs."""
    pairs = word * _TEN + (word >> _U8)
    even = (pairs & _EVERY_FOURTH) * _TO_EVEN
    odd = (pairs >> _U16 & _EVERY_FOURTH) * _TO_ODD
    return np.int64(even + odd >> _U32)


@inlined
def scan_number(text: Vector, at: int, end: int) -> tuple[int, Word, int, bool]:
    """A number by JSON's grammar: its end, digits without point, power of ten, and whether it is a whole one.

    The end is FAILED where it is malformed; the digits are FAILED where they exceed 63 bits.
    """
    start = at
    if at < end and text[at] == 45:
        at += 1
    if at >= end or text[at] < 48 or text[at] > 57:
        return FAILED, 0, 0, False
    power, whole = 0, True
    if text[at] == 48 and at + 1 < end and 48 <= text[at + 1] <= 57:
        return FAILED, 0, 0, False
    first = at
    at, digits = _more_digits(text, at, end, np.int64(0))
    count = at - first
    if at < end and text[at] == 46:
        whole = False
        at += 1
        first = at
        at, digits = _more_digits(text, at, end, digits)
        power = first - at
        count -= power
        if power == 0:
            return FAILED, 0, 0, False
    last = at
    if at < end and text[at] | 32 == 101:
        whole = False
        at += 1
        negative = False
        if at < end and (text[at] == 43 or text[at] == 45):
            negative = text[at] == 45
            at += 1
        first, given = at, 0
        while at < end and 48 <= text[at] <= 57:
            if given < 100000:
                given = given * 10 + (text[at] - 48)
            at += 1
        if at == first or given > _LARGEST_EXPONENT:
            return FAILED, 0, 0, False
        power += -given if negative else given
    if at - start > _LONGEST_NUMBER:
        return FAILED, 0, 0, False
    if count > 18:
        while start < last and (text[start] < 49 or text[start] > 57):
            count -= 1 if text[start] == 48 else 0
            start += 1
        if count > 19 or digits < 0:  # 19 digits are less than 64 bits, so that the sign tells
            digits = np.int64(FAILED)
    return at, digits, power, whole


@inlined
def scan_word(text: Vector, at: int, end: int) -> int:
    """The end of ``true``, ``false`` or ``null`` at ``at``, or FAILED."""
    if at + 4 <= end:
        if text[at] == 116 and text[at + 1] == 114 and text[at + 2] == 117 and text[at + 3] == 101:
            return at + 4
        if text[at] == 110 and text[at + 1] == 117 and text[at + 2] == 108 and text[at + 3] == 108:
            return at + 4
        if (
            at + 5 <= end
            and text[at] == 102
            and text[at + 1] == 97
            and text[at + 2] == 108
            and text[at + 3] == 115
            and text[at + 4] == 101
        ):
            return at + 5
    return FAILED


@compiled
def base64_size(text: Vector, start: int, end: int) -> int:
    """How many bytes the base64 text stands for, or FAILED where it is not plain, padded base64."""
    size = end - start
    if size % 4:
        return FAILED
    padding = 0
    if size and text[end - 1] == 61:
        padding = 2 if text[end - 2] == 61 else 1
    for at in range(start, end - padding):
        if _SEXTETS[text[at]] == 255:
            return FAILED
    return size // 4 * 3 - padding


@compiled
def _single_is_safe(value: float, bits: int) -> bool:
    """Whether rounding this double to a float gives the float nearest to the text that it was read from."""
    return value == 0.0 or (1.2e-38 <= abs(value) <= 3.4e38 and bits & 0x1FFFFFFF != 0x10000000)


@compiled
def _scaled(digits: Word, power: int, scale: int, precision: int) -> int:
    """``digits * 10**power`` at ``scale``, rounded half up, or FAILED where 18 digits or ``precision`` are too few."""
    shift = power + scale
    if shift >= 0:
        if digits and (shift > 18 or digits >= _POWERS[18 - shift]):
            return FAILED
        digits = digits * _POWERS[shift] if digits else digits
    elif shift < -18:
        digits = np.int64(0)
    else:
        unit = _POWERS[-shift]
        rest = digits % unit
        digits = digits // unit + (1 if rest >= unit - rest else 0)
    return digits if digits < _POWERS[min(precision, 18)] else FAILED


@inlined
def number_value(
    kind: int, negative: bool, digits: Word, power: int, whole: bool, scale: int, precision: int
) -> tuple[bool, Word]:
    """The 64 bits that a numeric column stores for a number; False where that is for the exact path."""
    if digits < 0:
        return False, digits
    if kind <= BIGINT:
        value = -digits if negative else digits
        return whole and _LEAST[kind] <= value <= _MOST[kind], value
    if kind == DECIMAL:
        value = _scaled(digits, power, scale, precision)
        return value >= 0, -value if negative else value
    real = to_double(digits, power)
    if np.isnan(real):
        return False, digits
    bits = double_bits(-real if negative else real)
    return kind == DOUBLE or _single_is_safe(real, bits), bits


@inlined
def text_value(
    kind: int, text: Vector, start: int, close: int, scale: int, precision: int, separator: int
) -> tuple[bool, Word]:
    """The 64 bits that a column stores for a string without escapes; False where that is for the exact path."""
    if kind == DATE:
        value = parse_date(text, start, close)
    elif kind == TIME:
        value = parse_time(text, start, close)
        if value != REFUSED:
            value -= value % _POWERS[9 - precision]
    elif kind in (TIMESTAMP, TIMESTAMP_LTZ):
        value = parse_timestamp(text, start, close, separator, kind == TIMESTAMP_LTZ)
    elif kind <= DECIMAL:
        end, digits, power, whole = scan_number(text, start, close)
        if end != close:
            return False, end
        return number_value(kind, text[start] == 45, digits, power, whole, scale, precision)
    else:
        return False, start
    return value != REFUSED, value


@compiled
def gather_base64(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Decode base64 strings one after the other into ``out``, as ``offsets`` says."""
    for row in range(len(valid)):
        if not valid[row]:
            continue
        at, last, start = offsets[row], offsets[row + 1], spans[row, 0]
        while at < last:
            word = (
                np.int64(_SEXTETS[text[start]]) << 18
                | np.int64(_SEXTETS[text[start + 1]]) << 12
                | (np.int64(_SEXTETS[text[start + 2]]) & 63) << 6
                | np.int64(_SEXTETS[text[start + 3]]) & 63
            )
            for shift in (16, 8, 0):
                if at < last:
                    out[at] = word >> shift & 255
                    at += 1
            start += 4


@compiled
def gather_strings(text: Vector, spans: Vector, valid: Vector, offsets: Vector, out: Vector) -> None:
    """Copy strings one after the other into ``out``, as ``offsets`` says."""
    for row in range(len(valid)):
        if valid[row]:
            copy_bytes(text, spans[row, 0], out, offsets[row], spans[row, 1])
