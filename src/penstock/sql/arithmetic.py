"""Arithmetic with Flink's result types: INT / INT is INT, decimals have exact precision."""

from __future__ import annotations

from penstock.errors import UnsupportedError
from penstock.sql.coercion import (
    IntervalType,
    NullType,
    as_decimal,
    common_type,
    is_integer,
    is_numeric,
    is_point,
    same_in_spark,
)
from penstock.sql.rendering import Binding, Expression, cast, coerce, infix
from penstock.sql.source import Source
from penstock.sql.syntax import Call
from penstock.types import BIGINT, DOUBLE, FLOAT, DecimalType, StringType, TimestampType

__all__ = ["arithmetic", "sign"]


def sign(tree: Call, operand: Expression, source: Source) -> Expression:
    """``-x`` and ``+x``. Raises SqlError for what is no number."""
    if not is_numeric(operand.type):
        raise source.error(tree.args[0].at, f"a sign needs a number, not {operand.type.text()}")
    if tree.name == "+x":
        return operand
    return Expression(f"-{operand.within(Binding.ATOM)}", operand.type, Binding.SIGN)


def arithmetic(tree: Call, left: Expression, right: Expression, source: Source) -> Expression:
    """``+ - * /`` of numbers, and a timestamp plus or minus an interval. Raises SqlError for other types."""
    if isinstance(left.type, IntervalType) or isinstance(right.type, IntervalType):
        return _shifted(tree, left, right, source)
    for arg, value in zip(tree.args, (left, right), strict=True):
        if not is_numeric(value.type) and not isinstance(value.type, NullType):
            hint = "'||' joins strings" if isinstance(value.type, StringType) and tree.name == "+" else ""
            if isinstance(value.type, TimestampType):
                hint = "add INTERVAL '1' DAY; TIMESTAMPDIFF(unit, a, b) subtracts timestamps"
            raise source.error(arg.at, f"'{tree.name}' takes numbers, not {value.type.text()}", hint)
    common = common_type((left.type, right.type))
    if common is None or isinstance(common, NullType):
        raise source.error(tree.at, "the type of NULL is not known here", "write CAST(NULL AS INT)")
    left, right = (cast(v, common, safe=False) if isinstance(v.type, NullType) else v for v in (left, right))
    if isinstance(common, DecimalType):
        return _decimal(tree, left, right)
    if not same_in_spark(left.type, right.type) and not (is_integer(left.type) and is_integer(right.type)):
        left, right = coerce(left, common), coerce(right, common)
    if tree.name == "/" and is_integer(common):
        divided = infix((left, right), "div", Binding.PRODUCT, BIGINT.with_nullability(common.nullable))
        return coerce(divided, common)
    if tree.name == "/" and common.with_nullability(True) == FLOAT:  # Spark divides floats as doubles
        return coerce(infix((left, right), "/", Binding.PRODUCT, DOUBLE.with_nullability(common.nullable)), common)
    return infix((left, right), tree.name, Binding.SUM if tree.name in "+-" else Binding.PRODUCT, common)


def _decimal(tree: Call, left: Expression, right: Expression) -> Expression:
    """Decimal arithmetic with the precision that Flink and Spark agree on, once integers are decimals."""
    operands = [coerce(value, as_decimal(value.type)) for value in (left, right)]
    a, b = (as_decimal(operand.type) for operand in operands)
    match tree.name:
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
    result = DecimalType(precision, scale, nullable=left.type.nullable or right.type.nullable)
    return infix(operands, tree.name, Binding.SUM if tree.name in "+-" else Binding.PRODUCT, result)


def _shifted(tree: Call, left: Expression, right: Expression, source: Source) -> Expression:
    """A moment plus or minus an interval."""
    if tree.name == "+" and isinstance(left.type, IntervalType):
        left, right = right, left
    if tree.name not in "+-" or not isinstance(right.type, IntervalType) or not is_point(left.type):
        reason = f"'{tree.name}' does not combine {left.type.text()} and {right.type.text()}"
        raise source.error(tree.at, reason, "an interval is added to or subtracted from a TIMESTAMP")
    if not isinstance(left.type, TimestampType):
        reason = f"{left.type.text()} and an interval are not supported"
        raise UnsupportedError((source.problem(tree.at, reason, "CAST it to TIMESTAMP first"),))
    return infix((left, right), tree.name, Binding.SUM, left.type)
