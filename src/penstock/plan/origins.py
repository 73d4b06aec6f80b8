"""What the columns of a step are made of: expressions of the columns of tables, independent of the columns' names in
between.

An expression has two texts: its ``meaning``, the same for equivalent computations, and the text that users read, as
they wrote it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from penstock.plan.aggregate_call import AggregateCall
from penstock.plan.expressions import (
    AggregateExpression,
    Call,
    Cast,
    ColumnRef,
    Expression,
    Place,
    walk,
)
from penstock.plan.flink_sql import SqlText, Text
from penstock.plan.windowing import Windowing
from penstock.types import DataType, TimestampType, quote_name
from penstock.types.logical import root

#: The longest meaning that is kept; a longer one becomes a digest.
_LONGEST = 400
#: The longest text that users read.
_LONGEST_SHOWN = 160
#: Functions that depend on the time zone whatever their arguments are, and those that never do.
_ZONED = frozenset({"FROM_UNIXTIME", "UNIX_TIMESTAMP", "LOCALTIMESTAMP", "LOCALTIME", "CURRENT_DATE", "CURRENT_TIME"})
_EVERYWHERE = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "IS DISTINCT FROM", "COALESCE", "NULLIF", "IF"}
) | {"CASE", "PROCTIME", "CURRENT_TIMESTAMP", "UNION ALL", "ITEM", "ROW", "ARRAY", "CARDINALITY", "AND", "OR", "NOT"}


#: Parentheses, and what they may be in: strings, quoted names and comments.
_MARKS = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|--[^\n]*|[();]")
_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_FILTER = re.compile(r"\s*FILTER\s*(?=\()", re.IGNORECASE)


@dataclass(frozen=True)
class Origin(ColumnRef):
    """The column of the table that is read as ``table``; of its metadata the ``key``."""

    table: str
    key: str = ""


@dataclass(frozen=True)
class Implied(Cast):
    """An implicit CAST."""


@dataclass(frozen=True)
class Aggregated(AggregateExpression):
    """The result of an aggregate ``call``."""

    call: AggregateCall


@dataclass(frozen=True)
class WindowBound(Expression):
    """The ``start``, ``end`` or ``time`` of the window that a row is in, by the columns ``time`` (None: by processing
    time) and, of sessions, ``keys``."""

    part: str
    windowing: Windowing
    time: Expression | None
    keys: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return (*([] if self.time is None else [self.time]), *self.keys)

    def with_operands(self, operands: tuple[Expression, ...]) -> Expression:
        time = None if self.time is None else operands[0]
        return replace(self, time=time, keys=operands[0 if time is None else 1 :])


def meaning(expression: Expression) -> str:
    """The text of what an expression computes, which is the same for the same computation: it depends on nothing but
    names, types and constants."""
    return _shorten_meaning(_Meaning().text(expression).sql)


def _shorten_meaning(text: str) -> str:
    """``text``, or if it is long its beginning and a digest."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}.. #{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def display_text(expression: Expression) -> str:
    """The text of an expression as its user may have written it."""
    return _shorten_text(_Shown().text(expression).sql)


def _shorten_text(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]} .."


def depends_on_zone(expression: Expression) -> bool:
    """Whether the value depends on the session's time zone."""
    return any(_depends_on_zone(each) for each in walk(expression))


def _depends_on_zone(expression: Expression) -> bool:
    match expression:
        case WindowBound(windowing=windowing):
            return windowing.zoned
        case Cast(operand=operand):
            return _is_moment(operand.type) != _is_moment(expression.type)
        case Call(function="TO_TIMESTAMP_LTZ", args=args):
            return root(args[0].type) == "STRING"
        case Call(function=function, args=args) if function not in _EVERYWHERE:
            return function in _ZONED or any(_is_moment(each.type) for each in (expression, *args))
    return False


def _is_moment(given: DataType) -> bool:
    return isinstance(given, TimestampType) and given.local_zone


def mark_implied(expression: Expression) -> Expression:
    """A cast that has the place of its operand is implicit."""
    if isinstance(expression, Cast) and expression.place is not None and expression.place == expression.operand.place:
        return Implied(expression.operand, safe=expression.safe, type=expression.type, place=expression.place)
    return expression


class _Meaning(SqlText):
    """Expressions with all that they depend on."""

    def text(self, expression: Expression) -> Text:
        match expression:
            case Origin(name=name, table=table, key=key):
                of = f" METADATA FROM {self.string(key)}" if key else ""
                return Text(f"{quote_name(table)}.{quote_name(name)}{of}")
            case Aggregated():
                return Text(self.show_aggregate(expression))
            case WindowBound(part=part):
                return Text(f"{part} of {self.window(expression)}")
        return super().text(expression)

    def cast(self, cast: Cast) -> Text:
        given = cast.type.with_nullability(True).text()
        return Text(f"{'TRY_CAST' if cast.safe else 'CAST'}({self.text(cast.operand).sql} AS {given})")

    def show_aggregate(self, given: Aggregated) -> str:
        """The text of an aggregate."""
        call = given.call
        argument = "*" if given.argument is None else self.text(given.argument).sql
        condition = "" if given.filter is None else f" FILTER (WHERE {self.text(given.filter).sql})"
        distinct = "DISTINCT " if call.distinct else ""
        return f"{call.function}({distinct}{argument}{call.more_arguments}){condition}"

    def window(self, bound: WindowBound) -> str:
        """The text of a window."""
        time = "processing time" if bound.time is None else self.text(bound.time).sql
        keys = tuple(self.text(each).sql for each in bound.keys)
        name = bound.windowing.kind.name
        text = replace(bound.windowing, time=time, keys=keys, place=None).describe()
        zone = " of local time" if bound.windowing.zoned else ""
        return name + text[len(name) :] + zone


class _Shown(_Meaning):
    """Expressions as users write them."""

    def text(self, expression: Expression) -> Text:
        match expression:
            case Implied(operand=operand):
                return self.text(operand)
            case Origin(name=name):
                return Text(name if _PLAIN.fullmatch(name) else quote_name(name))
            case WindowBound(part=part):
                return Text(f"window_{part}")
            case Call(function="UNNEST", args=(whole, _)):
                return Text(f"an element of {self.text(whole).sql}")
            case Call(function="UNION ALL", args=args):
                return self.text(args[0])
        return super().text(expression)


def describe_window(expression: Expression) -> str:
    """The text of a window, or of anything else that distinguishes windows, as users read it."""
    return _Shown().window(expression) if isinstance(expression, WindowBound) else display_text(expression)


def text_at(place: Place | None) -> str:
    """The call at a place, as it is written there; empty if it is from no text."""
    if place is None:
        return ""
    found = _extract_call(place.text, place.offset)
    condition = _FILTER.match(place.text, place.offset + len(found))
    if found and condition:
        found += place.text[place.offset + len(found) : condition.end()] + _extract_call(place.text, condition.end())
    return _shorten_text(" ".join(found.split()))


def _extract_call(text: str, at: int) -> str:
    """The text from ``at`` to the parenthesis that closes the first one; empty without any."""
    depth = 0
    for found in _MARKS.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth <= 0:
            return text[at : found.end()] if found[0] == ")" else ""
    return ""
