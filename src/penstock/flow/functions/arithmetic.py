"""Functions of numbers, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.flow.kernels import nondeterministic, rewrites
from penstock.flow.kernels.numbers import arithmetic, division
from penstock.flow.kernels.numbers import real_functions as reals
from penstock.flow.kernels.texts import encodings
from penstock.plan.expressions import Expression, Literal
from penstock.plan.overloads import first_type, overloads
from penstock.plan.scalar_functions import Function, Varies
from penstock.types import BYTES, DOUBLE, INT, STRING, DataType, DecimalType
from penstock.types.casts import as_decimal, is_integer

GROUP = "Arithmetic"


def _type_of_whole(args: tuple[Expression, ...]) -> DataType:
    """CEIL and FLOOR: a decimal loses its scale, other types stay."""
    found = first_type(args)
    return DecimalType(found.precision, 0) if isinstance(found, DecimalType) else found


def _type_of_remainder(args: tuple[Expression, ...]) -> DataType:
    """MOD: the type of the divisor, as in Calcite; for decimals the type of the remainder."""
    left, right = args[0].type, args[1].type
    if not isinstance(left, DecimalType) and not isinstance(right, DecimalType):
        return right
    if is_integer(right) and isinstance(left, DecimalType) and not left.scale:
        return right
    a, b = as_decimal(left), as_decimal(right)
    scale = max(a.scale, b.scale)
    return DecimalType(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _type_of_truncated(args: tuple[Expression, ...]) -> DataType:
    """TRUNCATE: a decimal loses the digits that are cut off, if their number is known."""
    found = first_type(args)
    if not isinstance(found, DecimalType):
        return found
    given = args[1] if len(args) == 2 else None
    digits = given.value if isinstance(given, Literal) else 0 if given is None else None
    if not isinstance(digits, int) or digits >= found.scale:
        return found
    kept = max(digits, 0)
    return DecimalType(min(found.precision - found.scale + 1 + kept, 38), kept)


def _make_real_function(name: str, syntax: str, function: Callable[..., Any], *signatures: str) -> Function:
    """A ``function`` of DOUBLE."""
    return Function(
        name,
        syntax,
        kernel=arithmetic.make_real_kernel(function),
        rewrite=rewrites.to_double,
        overloads=overloads(DOUBLE, *signatures),
    )


FUNCTIONS = (
    Function(
        "+",
        "+ a, - a, a + b, a - b, a * b, a / b, a % b",
        "overflow as in Flink, or an error: `penstock.overflow`",
        kernel=arithmetic.arithmetic,
        rewrite=rewrites.to_integer_type,
    ),
    Function("-", kernel=arithmetic.arithmetic, rewrite=rewrites.to_integer_type),
    Function("*", kernel=arithmetic.arithmetic, rewrite=rewrites.to_integer_type),
    Function("/", kernel=division.division),
    Function("NEGATE", kernel=arithmetic.negation),
    Function(
        "MOD",
        "MOD(a, b)",
        kernel=division.remainder,
        rewrite=rewrites.remainder,
        overloads=overloads(_type_of_remainder, "ee"),
    ),
    _make_real_function("POWER", "POWER(a, b)", reals.power, "nn"),
    Function("ABS", "ABS(a)", kernel=arithmetic.magnitude, overloads=overloads(first_type, "n")),
    _make_real_function("SQRT", "SQRT(a)", reals.square_root, "n"),
    _make_real_function("LN", "LN(a)", reals.log, "n"),
    _make_real_function("LOG10", "LOG10(a)", reals.log10, "n"),
    _make_real_function("LOG2", "LOG2(a)", reals.log2, "n"),
    _make_real_function("LOG", "LOG([base,] a)", reals.logarithm, "n", "nn"),
    _make_real_function("EXP", "EXP(a)", reals.exp, "n"),
    Function(
        "CEIL",
        "CEIL(a), CEILING(a)",
        kernel=arithmetic.ceiling,
        overloads=overloads(_type_of_whole, "n"),
        aliases=("CEILING",),
    ),
    Function("FLOOR", "FLOOR(a)", kernel=arithmetic.floor, overloads=overloads(_type_of_whole, "n")),
    _make_real_function("SIN", "SIN(a)", reals.sin, "n"),
    _make_real_function("SINH", "SINH(a)", reals.sinh, "n"),
    _make_real_function("COS", "COS(a)", reals.cos, "n"),
    _make_real_function("COSH", "COSH(a)", reals.cosh, "n"),
    _make_real_function("TAN", "TAN(a)", reals.tan, "n"),
    _make_real_function("TANH", "TANH(a)", reals.tanh, "n"),
    _make_real_function("COT", "COT(a)", reals.cot, "n"),
    _make_real_function("ASIN", "ASIN(a)", reals.asin, "n"),
    _make_real_function("ACOS", "ACOS(a)", reals.acos, "n"),
    _make_real_function("ATAN", "ATAN(a)", reals.atan, "n"),
    _make_real_function("ATAN2", "ATAN2(a, b)", reals.atan2, "nn"),
    _make_real_function("DEGREES", "DEGREES(a)", reals.degrees, "n"),
    _make_real_function("RADIANS", "RADIANS(a)", reals.radians, "n"),
    Function("SIGN", "SIGN(a)", kernel=arithmetic.sign, overloads=overloads(first_type, "n")),
    Function("ROUND", "ROUND(a [, digits])", kernel=arithmetic.round_number),
    Function(
        "TRUNCATE",
        "TRUNCATE(a [, digits])",
        kernel=arithmetic.truncate,
        overloads=overloads(_type_of_truncated, "n", "ni"),
    ),
    Function("PI", "PI()", kernel=arithmetic.pi, overloads=overloads(DOUBLE, "")),
    Function("E", "E()", kernel=arithmetic.pi, overloads=overloads(DOUBLE, "")),
    Function(
        "UUID",
        "UUID()",
        kernel=nondeterministic.uuids,
        overloads=overloads(STRING, ""),
        varies=Varies.BY_ROW,
    ),
    Function("BIN", "BIN(a)", kernel=encodings.BIN, overloads=overloads(STRING, "i")),
    Function("HEX", "HEX(a)", kernel=encodings.HEX, overloads=overloads(STRING, "i", "s")),
    Function("UNHEX", "UNHEX(a)", kernel=encodings.UNHEX, overloads=overloads(BYTES, "s", nullable=True)),
    Function(
        "RAND",
        "RAND([seed])",
        "numbers of another generator than Java's",
        kernel=nondeterministic.random_numbers,
        overloads=overloads(DOUBLE, "", "i"),
        varies=Varies.BY_ROW,
    ),
    Function(
        "RAND_INTEGER",
        "RAND_INTEGER([seed,] bound)",
        "numbers of another generator than Java's",
        kernel=nondeterministic.random_numbers,
        overloads=overloads(INT, "i", "ii"),
        varies=Varies.BY_ROW,
    ),
)
