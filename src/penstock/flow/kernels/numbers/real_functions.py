"""Powers, logarithms and trigonometric functions of DOUBLE, by the C library.

NumPy's own loops give another last digit on processors with AVX-512, but a job must give the same rows on every
machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.loops.compiled import Vector, compiled


def compile_unary(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """Computes a function of numbers in a compiled loop."""

    @compiled
    def each(x: Vector, out: Vector) -> None:
        for row in range(len(x)):
            out[row] = function(x[row])

    def run(x: Any) -> Any:
        given = _make_vector(x)
        out = np.empty(len(given))
        each(given, out)
        return out.reshape(np.shape(x))

    return run


def compile_binary(function: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    """Computes a function of pairs of numbers in a compiled loop."""

    @compiled
    def each(x: Vector, y: Vector, out: Vector) -> None:
        for row in range(len(x)):
            out[row] = function(x[row], y[row])

    def run(x: Any, y: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        first, second = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
        given, other = _make_vector(first), _make_vector(second)
        out = np.empty(len(given))
        each(given, other, out)
        return out.reshape(first.shape)

    return run


def _make_vector(values: Any) -> Any:
    return np.ascontiguousarray(values, np.float64).reshape(-1)


_pow, log, tan = compile_binary(math.pow), compile_unary(math.log), compile_unary(math.tan)


def power(base: Any, exponent: Any) -> Any:
    """By Java's rules: NaN for an exponent that is NaN, and for 1 or -1 with an infinite one."""
    found = _pow(base, exponent)
    return np.where(np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent)), np.nan, found)


def square_root(x: Any) -> Any:
    """As Java's power of 0.5: 0.0 for -0.0, and infinite for both infinities."""
    return np.where(np.isneginf(x), np.inf, np.sqrt(x) + 0.0)


def logarithm(*base_and_number: Any) -> Any:
    """Natural, unless a base comes before the number."""
    *base, number = map(log, base_and_number)
    return number / base[0] if base else number


sin, cos, asin, acos, atan = map(compile_unary, (math.sin, math.cos, math.asin, math.acos, math.atan))
sinh, cosh, tanh = map(compile_unary, (math.sinh, math.cosh, math.tanh))
exp, log10, log2, atan2 = (
    compile_unary(math.exp),
    compile_unary(math.log10),
    compile_unary(math.log2),
    compile_binary(math.atan2),
)


def cot(x: Any) -> Any:
    """One divided by the tangent."""
    return 1.0 / tan(x)


def degrees(x: Any) -> Any:
    """Of an angle in radians."""
    return x * (180.0 / np.pi)


def radians(x: Any) -> Any:
    """Of an angle in degrees."""
    return x * (np.pi / 180.0)
