"""Arithmetic with Flink's result types: INT / INT is INT, decimals have exact precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from penstock.plan.expressions import Call, Expression, Literal, cast, coerce
from penstock.sql.bind.expressions.literals import MONTHS_END, TIME_END, TOO_LONG
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import UnboundCall
from penstock.types import (
    BIGINT,
    DataType,
    DecimalType,
    IntervalType,
    NullType,
    StringType,
    TimestampType,
)
from penstock.types.casts import as_decimal, find_common_type, is_integer, is_numeric, is_point
from penstock.types.logical import root


def bind_sign(call: UnboundCall, operand: Expression, source: SourceText) -> Expression:
    """``-x`` and ``+x``. Raises SqlError if the operand is not a number or an interval."""
    if isinstance(operand, Literal) and isinstance(operand.type, IntervalType) and call.name == "-x":
        return replace(operand, value=-operand.value)  # type: ignore[operator]
    if not is_numeric(operand.type) and not isinstance(operand.type, IntervalType):
        raise source.error(call.args[0].at, f"a sign needs a number, not {operand.type.text()}", "CAST it")
    return operand if call.name == "+x" else Call("NEGATE", (operand,), type=operand.type, place=source.at(call.at))


def bind_arithmetic(call: UnboundCall, operands: Sequence[Expression], source: SourceText) -> Expression:
    """``+ - * /`` of numbers, and a moment plus or minus an interval. Raises SqlError for other types."""
    left, right = operands
    if isinstance(left.type, IntervalType) or isinstance(right.type, IntervalType):
        return _shift_moment(call, left, right, source)
    for arg, value in zip(call.args, operands, strict=True):
        if not is_numeric(value.type) and not isinstance(value.type, NullType):
            hint = "'||' joins strings" if isinstance(value.type, StringType) and call.name == "+" else ""
            if isinstance(value.type, TimestampType):
                hint = "add INTERVAL '1' DAY; TIMESTAMPDIFF(unit, a, b) subtracts timestamps"
            raise source.error(arg.at, f"'{call.name}' takes numbers, not {value.type.text()}", hint)
    common = find_common_type((left.type, right.type))
    if root(left.type) == "FLOAT" and root(right.type) == "DOUBLE":
        common = left.type.with_nullability(left.type.nullable or right.type.nullable)  # as Flink: the first of them
    if common is None or isinstance(common, NullType):
        raise source.error(call.at, "the type of NULL is not known here", "write CAST(NULL AS INT)")
    left, right = (cast(v, common) if isinstance(v.type, NullType) else v for v in (left, right))
    if isinstance(common, DecimalType):
        left, right = (coerce(value, as_decimal(value.type)) for value in (left, right))
        nullable = left.type.nullable or right.type.nullable
        common = _find_decimal_type(call.name, as_decimal(left.type), as_decimal(right.type)).with_nullability(nullable)
    elif not (is_integer(left.type) and is_integer(right.type)):  # integers of different sizes widen by themselves
        left, right = coerce(left, common), coerce(right, common)
    return Call(call.name, (left, right), type=common, place=source.at(call.at))


def _find_decimal_type(operator: str, a: DecimalType, b: DecimalType) -> DataType:
    """The precision that Flink and Spark agree on, once integers are decimals."""
    match operator:
        case "*":
            precision, scale = a.precision + b.precision + 1, a.scale + b.scale
        case "/":
            scale = max(6, a.scale + b.precision + 1)
            precision = a.precision - a.scale + b.scale + scale
        case _:
            scale = max(a.scale, b.scale)
            precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    if precision > 38:
        whole = precision - scale
        precision, scale = 38, max(38 - whole, min(scale, 6))
    return DecimalType(precision, scale)


def _shift_moment(call: UnboundCall, left: Expression, right: Expression, source: SourceText) -> Expression:
    """A moment plus or minus an interval, a multiple of an interval, or the sum of two."""
    if call.name in "+-" and left.type.with_nullability(False) == right.type.with_nullability(False):
        return _add_intervals(call, left, right, source)
    types = f"{left.type.text()} and {right.type.text()}"
    if call.name in "+*" and isinstance(left.type, IntervalType):
        left, right = right, left
    if call.name == "*" and is_integer(left.type) and isinstance(right.type, IntervalType):
        nullable = left.type.nullable or right.type.nullable
        return Call(
            "*", (coerce(left, BIGINT), right), type=right.type.with_nullability(nullable), place=source.at(call.at)
        )
    if call.name not in "+-" or not isinstance(right.type, IntervalType) or not is_point(left.type):
        reason = f"'{call.name}' does not combine {types}"
        raise source.error(call.at, reason, "an interval is added to or subtracted from a DATE, TIME or TIMESTAMP")
    nullable = left.type.nullable or right.type.nullable
    return Call(call.name, (left, right), type=left.type.with_nullability(nullable), place=source.at(call.at))


def _add_intervals(call: UnboundCall, left: Expression, right: Expression, source: SourceText) -> Expression:
    """The sum or the difference of two intervals of one kind."""
    place = source.at(call.at)
    match left, right:
        case Literal(value=int(one)), Literal(value=int(other)):
            months = one + other if call.name == "+" else one - other
            if abs(months) < MONTHS_END:
                return Literal(months, type=left.type, place=place)
        case Literal(value=timedelta() as one), Literal(value=timedelta() as other):
            time = one + other if call.name == "+" else one - other
            if abs(time) < TIME_END:
                return Literal(time, type=left.type, place=place)
        case _:
            type_ = left.type.with_nullability(left.type.nullable or right.type.nullable)
            return Call(call.name, (left, right), type=type_, place=place)
    raise source.error(call.at, *TOO_LONG)
