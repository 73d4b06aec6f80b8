"""Expressions as SQL text that people read: Flink SQL, with parentheses only where they are needed."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, ClassVar

from penstock.plan.expressions import Call, Cast, ColumnRef, Expression, FieldAccess, Literal, Unrepeatable
from penstock.types import DataType, IntervalType, TimestampType, TimeType, quote_name

_LARGEST_FIRST = (("DAY", timedelta(days=1)), ("HOUR", timedelta(hours=1)), ("MINUTE", timedelta(minutes=1)))


def flink_sql(expression: Expression) -> str:
    """The Flink SQL of an expression. Equal expressions have equal texts."""
    return SqlText().text(expression).sql


def quote_names(names: Iterable[str]) -> str:
    """Columns as a list."""
    return ", ".join(map(quote_name, names))


class Binding(enum.IntEnum):
    """How tightly the outermost operator of a text binds."""

    OR = 1
    AND = 2
    NOT = 3
    PREDICATE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    ATOM = 8


@dataclass(frozen=True)
class Text:
    """The text of an expression."""

    sql: str
    binding: Binding = Binding.ATOM

    def wrap(self, binding: Binding) -> str:
        """The text as an operand that must bind at least this tightly."""
        return self.sql if self.binding >= binding else f"({self.sql})"


class SqlText:
    """Renders expressions. A dialect overrides the methods for its differences."""

    #: The word before a literal TIMESTAMP.
    timestamp: ClassVar[str] = "TIMESTAMP"

    def text(self, expression: Expression) -> Text:
        """The text of an expression."""
        match expression:
            case ColumnRef(name=name) | Unrepeatable(name=name):
                return Text(quote_name(name))
            case Literal():
                return self.literal(expression)
            case Call(function="NOT", args=(Call() as operand,)) if operand.function in _PREDICATES:
                return self._predicate(operand, " NOT")
            case Call(function=function):
                if function in _PREDICATES:
                    return self._predicate(expression, "")
                return _OPERATORS[function](self, expression) if function in _OPERATORS else self.call(expression)
            case Cast():
                return self.cast(expression)
            case FieldAccess(row=row, name=name):
                base = self.text(row).sql
                plain = isinstance(row, ColumnRef | FieldAccess)
                return Text(f"{base if plain else f'({base})'}.{quote_name(name)}")
        raise TypeError(f"no text for {type(expression).__name__}")

    # --- differences between dialects ---------------------------------------------------------------------------

    def call(self, call: Call) -> Text:
        """A function."""
        args = [self.text(arg).sql for arg in call.args]
        match call.function:
            case "ITEM":
                return Text(f"{args[0]}[{args[1]}]")
            case "ARRAY" | "MAP":
                return Text(f"{call.function}[{', '.join(args)}]")
            case "EXTRACT":
                return Text(f"EXTRACT({_read_word(call.args[0])} FROM {args[1]})")
            case "FLOOR TO" | "CEIL TO":
                return Text(f"{call.function.split()[0]}({args[1]} TO {_read_word(call.args[0])})")
            case "JSON_VALUE" | "JSON_QUERY" | "JSON_EXISTS" | "JSON_OBJECT" | "JSON_ARRAY":
                return Text(f"{call.function}({_write_json_arguments(call, args)})")
            case "IS JSON":
                return Text(f"({args[0]} IS JSON {_read_word(call.args[1])})")
            case "SIMILAR":
                return Text(f"({' ESCAPE '.join((f'{args[0]} SIMILAR TO {args[1]}', *args[2:]))})")
            case "TIMESTAMPADD" | "TIMESTAMPDIFF":
                return Text(f"{call.function}({_read_word(call.args[0])}, {args[1]}, {args[2]})")
        return Text(f"{call.function}({', '.join(args)})")

    def cast(self, cast: Cast) -> Text:
        """CAST and TRY_CAST."""
        return Text(f"{'TRY_CAST' if cast.safe else 'CAST'}({self.text(cast.operand).sql} AS {cast.type.text()})")

    def number(self, value: int | float | Decimal) -> str:
        """A numeric literal."""
        match value:
            case float():
                return f"{Decimal(repr(value)):E}".replace("E+", "E")
            case Decimal():
                return f"{value:f}"
        return str(value)

    def string(self, value: str) -> str:
        """A string literal."""
        return "'" + value.replace("'", "''") + "'"

    def division(self, call: Call) -> Text:
        """A quotient."""
        return self.infix("/", Binding.PRODUCT, call.args)

    def pattern(self, pattern: Expression, escape: Expression | None) -> str:
        """The pattern of LIKE, and its escape."""
        return self.text(pattern).sql + ("" if escape is None else f" ESCAPE {self.text(escape).sql}")

    # --- the same in all dialects -------------------------------------------------------------------------------

    def literal(self, literal: Literal) -> Text:
        """A constant."""
        match literal.value:
            case None:
                return Text("NULL")
            case bool(value):
                return Text("TRUE" if value else "FALSE")
            case int(months) if isinstance(literal.type, IntervalType):
                return _write_interval(*((months // 12, "YEAR") if months % 12 == 0 else (months, "MONTH")))
            case int() | float() | Decimal() as number:
                text = self.number(number)
                return Text(text, Binding.SIGN if text.startswith("-") else Binding.ATOM)
            case str(value):
                return Text(self.string(value))
            case bytes(value):
                return Text(f"X'{value.hex().upper()}'")
            case datetime() | time() as value:
                word = self.timestamp if isinstance(value, datetime) else "TIME"
                return Text(f"{word} '{value.replace(microsecond=0)}{_write_fraction(value, literal.type)}'")
            case date() as value:
                return Text(f"DATE '{value}'")
            case timedelta() as value:
                for unit, length in _LARGEST_FIRST:
                    if value % length == timedelta(0):
                        return _write_interval(value // length, unit)
                return _write_interval(Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize(), "SECOND")
        raise TypeError(f"no text for a {type(literal.value).__name__}")

    def infix(self, sign: str, binding: Binding, operands: Iterable[Expression]) -> Text:
        """Operands joined by a left-associative operator. AND and OR stay flat, since they are associative."""
        first, *rest = (self.text(each) for each in operands)
        tighter = binding if binding in (Binding.AND, Binding.OR) else Binding(binding + 1)
        least = tighter if binding is Binding.PREDICATE else binding
        return Text(f" {sign} ".join([first.wrap(least), *(each.wrap(tighter) for each in rest)]), binding)

    def _negative(self, call: Call) -> Text:
        return Text(f"-{self.text(call.args[0]).wrap(Binding.ATOM)}", Binding.SIGN)

    def _not(self, call: Call) -> Text:
        return Text(f"NOT {self.text(call.args[0]).wrap(Binding.ATOM)}", Binding.NOT)

    def _case(self, call: Call) -> Text:
        args = [self.text(arg).sql for arg in call.args]
        otherwise = f" ELSE {args.pop()}" if len(args) % 2 else ""
        branches = " ".join(f"WHEN {when} THEN {then}" for when, then in zip(args[::2], args[1::2], strict=True))
        return Text(f"CASE {branches}{otherwise} END")

    def _predicate(self, call: Call, negation: str) -> Text:
        """A predicate, which has its NOT in the middle."""
        first, *rest = call.args
        match call.function:
            case "IN":
                others = [", ".join(self.text(each).sql for each in rest)]
            case "LIKE":
                others = [self.pattern(rest[0], rest[1] if len(rest) > 1 else None)]
            case _:
                others = [self.text(each).wrap(Binding.SUM) for each in rest]
        sql = _PREDICATES[call.function].format(self.text(first).wrap(Binding.SUM), *others, negation=negation)
        return Text(sql, Binding.PREDICATE)


def _write_interval(count: int | Decimal, unit: str) -> Text:
    return Text(f"INTERVAL '{Decimal(count):f}' {unit}")


def _write_fraction(value: datetime | time, data_type: DataType) -> str:
    """The fraction of a second, with as many digits as the literal had; its type has that number."""
    digits = min(data_type.precision, 6) if isinstance(data_type, TimestampType | TimeType) else 0
    return f".{value.microsecond:06d}"[: digits + 1] if digits else ""


def _read_word(expression: Expression) -> Any:
    return expression.value if isinstance(expression, Literal) else ""


def _write_json_arguments(call: Call, args: list[str]) -> str:
    """What is between the parentheses of a JSON function, without defaults."""
    words = [_read_word(each) for each in call.args]
    root, first, second = call.type.text().removesuffix(" NOT NULL"), ", ".join(args[:2]), ", ".join(args[1:])
    returning = f" RETURNING {root}" if root != "STRING" else ""
    match call.function:
        case "JSON_VALUE":
            found = ((words[at], args[at + 1], on) for at, on in ((2, "EMPTY"), (4, "ERROR")))
            told = (
                f" {word}{f' {default}' * (word == 'DEFAULT')} ON {on}" for word, default, on in found if word != "NULL"
            )
            return first + returning + "".join(told)
        case "JSON_QUERY":
            wrapper = f" WITH {words[2]} WRAPPER" if words[2] != "WITHOUT" else ""
            told = (
                f" {word} ON {on}" for word, on in zip(words[3:], ("EMPTY", "ERROR"), strict=True) if word != "NULL"
            )
            return first + returning + wrapper + "".join(told)
        case "JSON_EXISTS":
            return first + (f" {words[2]} ON ERROR" if words[2] != "FALSE" else "")
        case "JSON_OBJECT":
            pairs = zip(args[1::2], args[2::2], strict=True)
            second = ", ".join(f"KEY {key} VALUE {value}" for key, value in pairs)
    default = "NULL" if call.function == "JSON_OBJECT" else "ABSENT"
    return second + (f" {words[0]} ON NULL".removeprefix("" if second else " ") if words[0] != default else "")


def _join_operands(binding: Binding) -> Callable[[SqlText, Call], Text]:
    return lambda dialect, call: dialect.infix(call.function, binding, call.args)


#: The texts of predicates. ``{negation}`` is NOT or nothing.
_PREDICATES = {
    "IS NULL": "{0} IS{negation} NULL",
    "IS TRUE": "{0} IS{negation} TRUE",
    "IS FALSE": "{0} IS{negation} FALSE",
    "IS DISTINCT FROM": "{0} IS{negation} DISTINCT FROM {1}",
    "BETWEEN": "{0}{negation} BETWEEN {1} AND {2}",
    "IN": "{0}{negation} IN ({1})",
    "LIKE": "{0}{negation} LIKE {1}",
}
_OPERATORS: Mapping[str, Callable[[SqlText, Call], Text]] = {
    "OR": _join_operands(Binding.OR),
    "AND": _join_operands(Binding.AND),
    "NOT": SqlText._not,
    **{sign: _join_operands(Binding.PREDICATE) for sign in ("=", "<>", "<", "<=", ">", ">=")},
    **{
        sign: _join_operands(binding)
        for sign, binding in (("+", Binding.SUM), ("-", Binding.SUM), ("*", Binding.PRODUCT))
    },
    "/": lambda dialect, call: dialect.division(call),
    "NEGATE": SqlText._negative,
    "CASE": SqlText._case,
}
