"""Typed expressions over the columns of a node's input.

SQL, YAML and Python bind to these trees; the kernels of ``penstock.flow`` compute them. Two expressions are equal when
they compute the same from the same columns in the same way, wherever they were written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache

from penstock.types import BOOLEAN, DataType, NullType, RowType
from penstock.types.casts import is_alike

#: The value of a literal: a timedelta for an interval of days and seconds, an int for one of months.
Value = None | bool | int | float | Decimal | str | bytes | date | time | datetime | timedelta


@lru_cache(maxsize=4)
def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


@dataclass(frozen=True)
class Place:
    """A position in a text, for errors: ``flights.sql, line 3, column 5``. ``name`` is that of the text, if it has
    one."""

    text: str = field(repr=False)
    offset: int
    name: str = ""

    @property
    def spot(self) -> str:
        """Line and column, both counted from 1."""
        starts = _line_starts(self.text)
        line = bisect_right(starts, self.offset)
        return f"line {line}, column {self.offset - starts[line - 1] + 1}"

    def __str__(self) -> str:
        return f"{self.name}, {self.spot}" if self.name else self.spot


@dataclass(frozen=True, kw_only=True)
class Expression:
    """The root of all expressions. ``type`` is that of the value; ``place`` is its position, if it is from a text."""

    type: DataType
    place: Place | None = field(default=None, compare=False, repr=False)

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions that the value is computed from."""
        return ()

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        """The same computation of other operands, of the same types."""
        assert not operands  # noqa: S101
        return self


@dataclass(frozen=True)
class ColumnRef(Expression):
    """A column of the input."""

    name: str


@dataclass(frozen=True)
class Literal(Expression):
    """A constant. None is NULL, of NullType while nothing else is known."""

    value: Value


@dataclass(frozen=True)
class FieldAccess(Expression):
    """A field of a row; null if the row is."""

    row: Expression
    name: str

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.row,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, row=operands[0])


@dataclass(frozen=True)
class Call(Expression):
    """A function or operator, by its name in Flink SQL in capitals: ``UPPER``, ``+``, ``IS NULL``, ``ITEM``. The
    arguments of ``CASE`` are pairs of a condition and a value, then the value of ELSE, if there is one."""

    function: str
    args: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.args

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, args=operands)


@dataclass(frozen=True)
class Cast(Expression):
    """CAST to ``type`` by Flink's rules; with ``safe`` TRY_CAST, which gives NULL for a value that cannot be cast."""

    operand: Expression
    safe: bool = False

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (self.operand,)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        return replace(self, operand=operands[0])


@dataclass(frozen=True, kw_only=True)
class AggregateExpression(Expression):
    """An aggregate of ``argument`` (None: of rows) over the rows of a group for which ``filter`` is true."""

    argument: Expression | None
    filter: Expression | None

    @property
    def operands(self) -> tuple[Expression, ...]:
        return tuple(each for each in (self.argument, self.filter) if each is not None)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        found = list(operands)
        argument = found.pop(0) if self.argument is not None else None
        return replace(self, argument=argument, filter=found.pop() if found else None)


@dataclass(frozen=True)
class Unrepeatable(Expression):
    """The nondeterministic column ``name`` above steps that read their rows twice; ``reason`` says why it cannot be
    read there. Exists until unread columns are removed."""

    name: str
    reason: str


def call(function: str, *args: Expression, type: DataType = BOOLEAN, place: Place | None = None) -> Call:
    """Makes a call. Its value may be null if an argument may, unless ``type`` is NOT NULL."""
    nullable = type.nullable and any(arg.type.nullable for arg in args)
    return Call(function, args, type=type.with_nullability(nullable), place=place)


def cast(operand: Expression, target: DataType, *, safe: bool = False) -> Cast:
    """CAST, or TRY_CAST if ``safe``. The value may be null if the operand may, or if a failed cast gives NULL."""
    return Cast(operand, safe, type=target.with_nullability(safe or operand.type.nullable), place=operand.place)


#: The conditions that hold for every row, and for none.
TRUE = Literal(True, type=BOOLEAN.with_nullability(False))
FALSE = Literal(False, type=BOOLEAN.with_nullability(False))


def is_null(operand: Expression) -> Call:
    """``operand IS NULL``."""
    return call("IS NULL", operand, type=TRUE.type)


def is_not_null(operand: Expression) -> Call:
    """``operand IS NOT NULL``."""
    return call("NOT", is_null(operand))


def coerce(operand: Expression, target: DataType, *, safe: bool = False) -> Expression:
    """The operand cast to another type, as by :func:`cast`, unless the two differ in length only. An untyped NULL gets
    the type."""
    if isinstance(target, NullType) or is_alike(operand.type, target):
        return operand
    if isinstance(operand, Literal) and isinstance(operand.type, NullType):
        return replace(operand, type=target.with_nullability(True))
    return cast(operand, target, safe=safe)


def offset_of(expression: Expression) -> int:
    """The offset of an expression in its text; 0 if it is from none."""
    return expression.place.offset if expression.place else 0


def fields_of(row: RowType) -> tuple[ColumnRef, ...]:
    """A reference to each column of a row."""
    return tuple(ColumnRef(each.name, type=each.type) for each in row.fields)


def walk(expression: Expression) -> Iterator[Expression]:
    """An expression and all expressions in it, itself first."""
    waiting = [expression]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += reversed(found.operands)


def columns_of(expression: Expression) -> frozenset[str]:
    """The input's columns that an expression reads."""
    return frozenset(each.name for each in walk(expression) if isinstance(each, ColumnRef))


def is_constant(expression: Expression) -> bool:
    """Whether the expression is a constant, or a cast of one."""
    return isinstance(expression, Literal) or (isinstance(expression, Cast) and is_constant(expression.operand))


def rewrite(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """An expression with ``change`` applied to each part of it, operands first."""
    operands = tuple(rewrite(each, change) for each in expression.operands)
    return change(expression.with_operands(operands) if operands != expression.operands else expression)


def conjuncts(condition: Expression) -> tuple[Expression, ...]:
    """The conditions that are all true when ``condition`` is."""
    return condition.args if isinstance(condition, Call) and condition.function == "AND" else (condition,)


def conjunction(conditions: Sequence[Expression]) -> Expression:
    """The condition that is true when all of ``conditions``, of which there is at least one, are."""
    flat = [each for condition in conditions for each in conjuncts(condition)]
    return flat[0] if len(flat) == 1 else call("AND", *flat, place=flat[0].place)


def disjunction(conditions: Sequence[Expression]) -> Expression:
    """The condition that is true when one of ``conditions``, of which there is at least one, is."""
    return conditions[0] if len(conditions) == 1 else call("OR", *conditions, place=conditions[0].place)


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """An expression with columns replaced by ``values``, by name."""
    return rewrite(expression, lambda each: values.get(each.name, each) if isinstance(each, ColumnRef) else each)


def rename_columns(expression: Expression, name: Callable[[str], str]) -> Expression:
    """The expression with its columns renamed by ``name``."""
    return rewrite(
        expression, lambda each: replace(each, name=name(each.name)) if isinstance(each, ColumnRef) else each
    )
