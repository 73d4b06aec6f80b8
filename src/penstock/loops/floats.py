"""Doubles and floats to their shortest text, and decimal digits to doubles, exactly, inside compiled loops.

Printing follows the Schubfach method (R. Giulietti, "The Schubfach way to render doubles", 2020), like
``Double.toString`` since Java 19. Reading follows D. Lemire, "Number parsing at a gigabyte per second" (2021): it
returns the correctly rounded double, or reports that it cannot decide. Both need powers of ten to 128 bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from penstock.loops import chars
from penstock.loops.bytes import high_product, leading_zeros
from penstock.loops.compiled import Vector, Word, compiled, inlined
from penstock.loops.digits import digit_count

#: The most bytes that :func:`write_double` writes, as in ``-1.2345678901234567E-308``.
LONGEST_FLOAT = 26

_LEAST_PRINTED, _MOST_PRINTED = -293, 325
_LEAST_READ, _MOST_READ = -342, 308


def _scale_power(exponent: int) -> int:
    """``10**exponent`` scaled by a power of two into 128 bits, rounded down."""
    scaled: int = (10 ** max(exponent, 0) << 1300) // 10 ** max(-exponent, 0)
    return scaled >> (scaled.bit_length() - 128)


def _split_halves(values: list[int]) -> tuple[Vector, Vector]:
    high = np.array([value >> 64 for value in values], np.uint64)
    low = np.array([value & (2**64 - 1) for value in values], np.uint64)
    return high, low


def _printing_power(exponent: int) -> int:
    """128 bits of ``10**exponent`` rounded up, unless it is exact."""
    down = _scale_power(exponent)
    return down if 0 <= exponent <= 55 else down + 1


def _reading_power(exponent: int) -> int:
    """128 bits of ``5**exponent``, rounded down for positive exponents and up for negative ones."""
    down = _scale_power(exponent)
    return down if exponent >= 0 else down + 1


_PRINT_HIGH, _PRINT_LOW = _split_halves([_printing_power(each) for each in range(_LEAST_PRINTED, _MOST_PRINTED + 1)])
_READ_HIGH, _READ_LOW = _split_halves([_reading_power(each) for each in range(_LEAST_READ, _MOST_READ + 1)])
_TENS = np.array([10.0**each for each in range(23)])

#: Doubles in this range are tried as decimals with this exponent, which then have at most 15 digits.
_SHORT_FROM, _SHORT_TO, _SHORT_SCALE, _SHORT_EXPONENT = 1e-3, 1e7, 1e4, -4

_U0, _U1, _U2, _U10 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(10)
_U63 = np.uint64(63)


@intrinsic  # type: ignore[untyped-decorator]
def double_value(context: Any, bits: Any) -> Any:
    """The double with these 64 bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float64))

    return types.float64(types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def double_bits(context: Any, value: Any) -> Any:
    """The 64 bits of a double, as a signed number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_value(context: Any, value: Any) -> Any:
    """The float whose bits are the lower 32 of a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        narrow = builder.trunc(arguments[0], context.get_value_type(types.int32))
        return builder.bitcast(narrow, context.get_value_type(types.float32))

    return types.float32(types.int64), generate


@compiled
def _round_to_odd(high: Word, low: Word, value: Word) -> Word:
    """The upper 64 bits of ``(high, low) * value``, with the lowest bit set when anything was lost."""
    x = high_product(low, value)
    y_low = high * value
    y_high = high_product(high, value)
    mid = y_low + x
    if mid < y_low:
        y_high += _U1
    return y_high | (_U1 if mid > _U1 else _U0)


@compiled
def _decimal(fraction: Word, power: Word, irregular: Word) -> tuple[Word, Word]:
    """The shortest decimal ``digits * 10**exponent`` within the rounding interval of ``fraction * 2**power``.

    ``irregular``: the next smaller float is half as far away as the next larger one.
    """
    odd = fraction & _U1
    four = fraction << _U2
    if irregular:
        below = four - _U1
        exponent = (power * 1262611 - 524031) >> 22
    else:
        below = four - _U2
        exponent = (power * 1262611) >> 22
    above = four + _U2
    shift = np.uint64(power + ((-exponent * 1741647) >> 19) + 1)
    at = -exponent - _LEAST_PRINTED
    high, low = _PRINT_HIGH[at], _PRINT_LOW[at]
    lower = _round_to_odd(high, low, below << shift) + odd
    exact = _round_to_odd(high, low, four << shift)
    upper = _round_to_odd(high, low, above << shift) - odd
    digits = exact >> _U2
    if digits >= np.uint64(100):  # Java prefers the nearest of two digits to one digit
        tenth = digits // _U10
        short_in = lower <= np.uint64(40) * tenth
        next_in = np.uint64(40) * tenth + np.uint64(40) <= upper
        if short_in != next_in:
            return tenth + (_U1 if next_in else _U0), exponent + 1
    lower_in = lower <= digits << _U2
    upper_in = (digits << _U2) + np.uint64(4) <= upper
    if lower_in != upper_in:
        return digits + (_U1 if upper_in else _U0), exponent
    middle = (digits << _U2) + _U2
    up = exact > middle or (exact == middle and (digits & _U1) != _U0)
    return digits + (_U1 if up else _U0), exponent


@compiled
def _put_text(out: Vector, at: int, text: Vector) -> int:
    for each in text:
        out[at] = each
        at += 1
    return at


_NAN = np.frombuffer(b'"NaN"', np.uint8)
_PLUS_INFINITY = np.frombuffer(b'"Infinity"', np.uint8)
_MINUS_INFINITY = np.frombuffer(b'"-Infinity"', np.uint8)


@compiled
def _write(out: Vector, at: int, negative: bool, digits: Word, exponent: int) -> int:
    """``digits * 10**exponent`` in Java's notation: plain from 1E-3 to below 1E7, otherwise with an exponent."""
    if negative:
        out[at] = chars.MINUS
        at += 1
    if digits == _U0:
        out[at], out[at + 1], out[at + 2] = chars.ZERO, chars.POINT, chars.ZERO
        return at + 3
    while digits % _U10 == _U0:
        digits = digits // _U10
        exponent += 1
    count = digit_count(digits)
    point = count + exponent
    if 0 < point <= 7:
        start, dot = at, at + point
    elif -3 < point <= 0:
        out[at], out[at + 1] = chars.ZERO, chars.POINT
        for pos in range(at + 2, at + 2 - point):
            out[pos] = chars.ZERO
        start, dot = at + 2 - point, -1
    else:
        start, dot = at, at + 1
    end = start + count + (1 if start <= dot < start + count else 0)
    pos = end - 1
    for _ in range(count):
        if pos == dot:
            pos -= 1
        out[pos] = np.uint64(chars.ZERO) + digits % _U10
        digits = digits // _U10
        pos -= 1
    if dot >= 0:
        while end < dot:
            out[end] = chars.ZERO
            end += 1
        out[dot] = chars.POINT
        if end <= dot:
            out[dot + 1] = chars.ZERO
            end = dot + 2
    if not -3 < point <= 7:
        out[end] = chars.UPPER_E
        end += 1
        value = point - 1
        if value < 0:
            out[end] = chars.MINUS
            end += 1
            value = -value
        size = 3 if value >= 100 else 2 if value >= 10 else 1
        for pos in range(end + size - 1, end - 1, -1):
            out[pos] = chars.ZERO + value % 10
            value //= 10
        end += size
    return end


@compiled
def _write_special(out: Vector, at: int, nan: bool, negative: bool, quoted: bool) -> int:
    text = _NAN if nan else _MINUS_INFINITY if negative else _PLUS_INFINITY
    return _put_text(out, at, text) if quoted else _put_text(out, at, text[1:-1])


@inlined
def _write_real(
    out: Vector, at: int, fraction: Word, exponent: Word, negative: bool, size: int, bias: int, tiny: int, quoted: bool
) -> int:
    """Write ``fraction * 2**(exponent - bias)``, with a hidden bit above the ``size`` bits of the fraction."""
    digits, power = fraction, 0
    if exponent == 2 * (bias - size) + 1:
        return _write_special(out, at, fraction != _U0, negative, quoted)
    if exponent == 0:
        if _U0 < fraction < np.uint64(tiny):  # Java asks for two digits where one would do
            digits, power = _decimal(fraction * _U10, 1 - bias, False)
            power -= 1
        elif fraction != _U0:
            digits, power = _decimal(fraction, 1 - bias, False)
        return _write(out, at, negative, digits, power)
    whole = fraction | _U1 << np.uint64(size)
    shift = bias - exponent
    if 0 < shift <= size and whole & ((_U1 << np.uint64(shift)) - _U1) == _U0:
        return _write(out, at, negative, whole >> np.uint64(shift), 0)
    digits, power = _decimal(whole, exponent - bias, fraction == _U0 and exponent > 1)
    return _write(out, at, negative, digits, power)


@compiled
def write_double(out: Vector, at: int, bits: int, quoted: bool) -> int:
    """Write the double with these 64 ``bits`` (signed); returns the position after it.

    NaN and the infinities are quoted if ``quoted``.
    """
    value = abs(double_value(np.uint64(bits)))
    if _SHORT_FROM <= value < _SHORT_TO:
        # Two decimals of at most 15 digits are never the same double, so one that is this double is the shortest.
        scaled = np.rint(value * _SHORT_SCALE)
        if scaled / _SHORT_SCALE == value:
            return _write(out, at, bits < 0, np.uint64(scaled), _SHORT_EXPONENT)
    raw = np.uint64(bits)
    exponent = np.int64((raw >> np.uint64(52)) & np.uint64(0x7FF))
    return _write_real(out, at, raw & np.uint64(0xFFFFFFFFFFFFF), exponent, bits < 0, 52, 1075, 3, quoted)


@compiled
def write_float(out: Vector, at: int, bits: int, quoted: bool) -> int:
    """Write the single-precision number with these lower 32 ``bits``; like :func:`write_double`."""
    raw = np.uint64(bits & 0xFFFFFFFF)
    exponent, negative = np.int64((raw >> np.uint64(23)) & np.uint64(0xFF)), raw >> np.uint64(31) != _U0
    return _write_real(out, at, raw & np.uint64(0x7FFFFF), exponent, negative, 23, 150, 8, quoted)


@compiled
def to_double(digits: int, exponent: int) -> Word:
    """``digits * 10**exponent`` as the nearest double, for ``0 <= digits < 10**19``; NaN if it cannot decide."""
    if digits == 0:
        return 0.0
    if digits < 1 << 53 and -22 <= exponent <= 22:
        return digits / _TENS[-exponent] if exponent < 0 else digits * _TENS[exponent]
    if exponent < _LEAST_READ or exponent > _MOST_READ:
        return np.nan
    word = np.uint64(digits)
    zeros = leading_zeros(word)
    word = word << np.uint64(zeros)
    at = exponent - _LEAST_READ
    low = word * _READ_HIGH[at]
    high = high_product(word, _READ_HIGH[at])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more = high_product(word, _READ_LOW[at])
        low = low + more
        if low < more:
            high += _U1
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and not -27 <= exponent <= 55:
        return np.nan
    top = np.int64(high >> _U63)
    mantissa = high >> np.uint64(top + 9)
    power = ((217706 * exponent) >> 16) + 63 + top - zeros + 1023
    if power <= 0 or power >= 2046:
        return np.nan
    halfway = low <= _U1 and -4 <= exponent <= 23 and mantissa & np.uint64(3) == _U1
    if halfway and mantissa << np.uint64(top + 9) == high:
        mantissa = mantissa & ~_U1
    mantissa = (mantissa + (mantissa & _U1)) >> _U1
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        power += 1
    return double_value((mantissa & np.uint64(0xFFFFFFFFFFFFF)) | (np.uint64(power) << np.uint64(52)))
