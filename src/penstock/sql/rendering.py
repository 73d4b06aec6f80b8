"""Canonical Spark SQL: one text for one meaning, with parentheses only where they are needed."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.plan import column_text
from penstock.sql.coercion import NullType, same_in_spark
from penstock.types import (
    STRING,
    BinaryType,
    DataType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    spark_type,
)

__all__ = [
    "Binding",
    "Expression",
    "cast",
    "coerce",
    "column",
    "infix",
    "member",
    "millis_of",
    "moment_of",
    "number",
    "quoted",
]


class Binding(enum.IntEnum):
    """How tightly a text's outermost operator binds in Spark's grammar."""

    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


@dataclass(frozen=True)
class Expression:
    """Spark SQL over a schema's columns, and the type of its value."""

    text: str
    type: DataType
    binding: Binding = field(default=Binding.ATOM, compare=False, repr=False)

    def within(self, binding: Binding) -> str:
        """The text as an operand that must bind at least this tightly."""
        return self.text if self.binding >= binding else f"({self.text})"


def quoted(text: str) -> str:
    """A Spark string literal. Spark reads backslashes as escapes and ``${`` as a reference to its configuration."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def millis_of(moment: Expression) -> str:
    """A TIMESTAMP or TIMESTAMP_LTZ as ms since 1970, the former as if it were in UTC."""
    if isinstance(moment.type, TimestampType) and moment.type.local_zone:
        return f"unix_millis({moment.text})"
    return f"timestampdiff(MILLISECOND, {_EPOCH}, {moment.text})"


def moment_of(millis: str, zoned: bool) -> str:
    """What :func:`millis_of` was made of: a TIMESTAMP_LTZ if ``zoned``, else a TIMESTAMP."""
    return f"timestamp_millis({millis})" if zoned else f"{_EPOCH} + {millis} * INTERVAL '0.001' SECOND"


def column(name: str, data_type: DataType) -> Expression:
    """A reference to a column."""
    return Expression(column_text(name), data_type)


def member(base: Expression, name: str, data_type: DataType) -> Expression:
    """A field of a row; it is null when the row is."""
    nullable = data_type.nullable or base.type.nullable
    text = base.text if base.text.startswith("`") else f"({base.text})"
    return Expression(f"{text}.{column_text(name)}", data_type.with_nullability(nullable))


def number(text: str, data_type: DataType) -> Expression:
    """A numeric literal; a negative one binds as a sign does."""
    return Expression(text, data_type, Binding.SIGN if text.startswith("-") else Binding.ATOM)


def infix(operands: Iterable[Expression], sign: str, binding: Binding, data_type: DataType) -> Expression:
    """Operands joined by a left-associative operator. AND and OR stay flat, since they are associative."""
    first, *rest = operands
    tighter = binding if binding in (Binding.AND, Binding.OR) else Binding(binding + 1)
    least = tighter if binding is Binding.PREDICATE else binding
    text = f" {sign} ".join([first.within(least), *(each.within(tighter) for each in rest)])
    return Expression(text, data_type, binding)


def coerce(operand: Expression, target: DataType) -> Expression:
    """The operand with another type where Spark sees a difference; untyped NULL is left to Spark."""
    if isinstance(operand.type, NullType) or same_in_spark(operand.type, target):
        return Expression(operand.text, target.with_nullability(operand.type.nullable), operand.binding)
    return Expression(f"CAST({operand.text} AS {spark_type(target)})", target.with_nullability(operand.type.nullable))


def cast(operand: Expression, target: DataType, safe: bool) -> Expression:
    """CAST or TRY_CAST with Flink's result: TRUE in capitals, as many digits of a second as the type has, text cut
    to its length, timestamps to their precision."""
    source, verb = operand.type, "try_cast" if safe else "CAST"
    result = target.with_nullability(safe or source.nullable)
    if isinstance(target, StringType):
        return Expression(_sized(_string(operand, verb), target), result)
    if isinstance(target, BinaryType):
        text = operand.text if isinstance(source, BinaryType) else f"{verb}({operand.text} AS BINARY)"
        if target.fixed:
            text = f"rpad({text}, {target.length}, X'00')"
        elif target.length != BinaryType().length:
            text = f"substring({text}, 1, {target.length})"
        return Expression(text, result, operand.binding if text == operand.text else Binding.ATOM)
    unchanged = not isinstance(source, NullType) and same_in_spark(source, target) and not isinstance(target, RowType)
    plain = operand if unchanged else Expression(f"{verb}({operand.text} AS {spark_type(target)})", result)
    if isinstance(target, TimestampType) and target.precision < min(_second_digits(source), 6):
        cut = f"extract(SECOND FROM {plain.text}) % {10**-target.precision:.{target.precision}f}BD"
        text = f"{plain.within(Binding.SUM)} - make_dt_interval(0, 0, 0, {cut})"
        return Expression(text, result, Binding.SUM)
    return Expression(plain.text, result, plain.binding)


def _second_digits(source: DataType) -> int:
    """How many digits of a second a value may have once it is a timestamp."""
    match source:
        case TimestampType(precision=precision):
            return precision
        case StringType():
            return 9
    return 0


def _string(operand: Expression, verb: str) -> str:
    match operand.type:
        case StringType():
            return operand.text
        case PrimitiveType(name="BOOLEAN"):
            return f"upper({verb}({operand.text} AS STRING))"
        case TimestampType(precision=precision) | TimeType(precision=precision):
            # Spark leaves trailing zeros out; Flink prints as many digits as the type declares.
            whole, digits = (19 if isinstance(operand.type, TimestampType) else 8), min(precision, 6)
            text = f"{verb}({operand.text} AS STRING)"
            seconds = f"substring({text}, 1, {whole})"
            return f"concat({seconds}, '.', rpad(substring({text}, {whole + 2}), {digits}, '0'))" if digits else seconds
    return f"{verb}({operand.text} AS STRING)"


def _sized(text: str, target: StringType) -> str:
    if target.length == STRING.length:
        return text
    cut = f"substring({text}, 1, {target.length})"
    return f"rpad({text}, {target.length}, ' ')" if target.fixed else cut
