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


def _of_one(function: Callable[[float], float]) -> Callable[[Any], Any]:
    @compiled
    def each(x: Vector, out: Vector) -> None:
        for row in range(len(x)):
            out[row] = function(x[row])

    def run(x: Any) -> Any:
        given = _vector(x)
        out = np.empty(len(given))
        each(given, out)
        return out.reshape(np.shape(x))

    return run


def _of_two(function: Callable[[float, float], float]) -> Callable[[Any, Any], Any]:
    @compiled
    def each(x: Vector, y: Vector, out: Vector) -> None:
        for row in range(len(x)):
            out[row] = function(x[row], y[row])

    def run(x: Any, y: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(x), np.shape(y))
        first, second = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
        given, other = _vector(first), _vector(second)
        out = np.empty(len(given))
        each(given, other, out)
        return out.reshape(first.shape)

    return run


def _vector(values: Any) -> Any:
    return np.ascontiguousarray(values, np.float64).reshape(-1)


_pow, _log, _tan = _of_two(math.pow), _of_one(math.log), _of_one(math.tan)


def _power(base: Any, exponent: Any) -> Any:
    """By Java's rules: NaN for an exponent that is NaN, and for 1 or -1 with an infinite one."""
    found = _pow(base, exponent)
    return np.where(np.isnan(exponent) | ((np.abs(base) == 1) & np.isinf(exponent)), np.nan, found)


def _square_root(x: Any) -> Any:
    """As Java's power of 0.5: 0.0 for -0.0, and infinite for both infinities."""
    return np.where(np.isneginf(x), np.inf, np.sqrt(x) + 0.0)


def _logarithm(*base_and_number: Any) -> Any:
    *base, number = map(_log, base_and_number)
    return number / base[0] if base else number


#: Functions of DOUBLE whose last digit depends on the library.
OF_REALS: dict[str, Callable[..., Any]] = {
    "POWER": _power,
    "SQRT": _square_root,
    "EXP": _of_one(math.exp),
    "LN": _log,
    "LOG10": _of_one(math.log10),
    "LOG2": _of_one(math.log2),
    "LOG": _logarithm,
    "SIN": _of_one(math.sin),
    "COS": _of_one(math.cos),
    "TAN": _tan,
    "ATAN2": _of_two(math.atan2),
    "COT": lambda x: 1.0 / _tan(x),
    "ASIN": _of_one(math.asin),
    "ACOS": _of_one(math.acos),
    "ATAN": _of_one(math.atan),
    "SINH": _of_one(math.sinh),
    "COSH": _of_one(math.cosh),
    "TANH": _of_one(math.tanh),
    "DEGREES": lambda x: x * (180.0 / np.pi),
    "RADIANS": lambda x: x * (np.pi / 180.0),
}
