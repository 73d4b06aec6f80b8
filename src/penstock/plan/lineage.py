"""What the columns of a step are made of: expressions of the columns of tables, independent of the columns' names in
between.

An expression has two texts: its ``meaning``, the same for equivalent computations, and the text that users read, as
they wrote it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace

from penstock.plan.explain import more_arguments
from penstock.plan.expressions import (
    AggregateExpression,
    Call,
    Cast,
    ColumnRef,
    Expression,
    Literal,
    Place,
    rewrite,
    substitute,
    walk,
)
from penstock.plan.flink_sql import SqlText, Text
from penstock.plan.nodes import (
    AggregateCall,
    AssignWatermarks,
    Filter,
    GroupAggregate,
    InWindows,
    Join,
    MapRows,
    Node,
    OverAggregate,
    Project,
    Rank,
    Scan,
    Step,
    TwoInputs,
    Union,
    Unnest,
    WindowAggregate,
    WindowTable,
)
from penstock.plan.windowing import Attached, WindowColumns, Windowing
from penstock.types import BIGINT, STRING, DataType, TimestampType, quoted_name
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
class _Origin(ColumnRef):
    """The column of the table that is read as ``table``; of its metadata the ``key``."""

    table: str
    key: str = ""


@dataclass(frozen=True)
class _Implied(Cast):
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


@dataclass
class Lineage:
    """Finds what columns are made of. Each column of a node is looked at once."""

    _known: dict[tuple[int, str], Expression] = field(default_factory=dict)
    #: Keeps the nodes alive whose ids are known.
    _nodes: list[Node] = field(default_factory=list)

    def column(self, node: Node, name: str) -> Expression:
        """What the column ``name`` of the rows of ``node`` is made of."""
        key = id(node), name
        if key not in self._known:
            self._nodes.append(node)
            self._known[key] = self._column(node, name)
        return self._known[key]

    def expression(self, node: Node, expression: Expression) -> Expression:
        """An expression of the columns of ``node``, in terms of their origins."""
        found = rewrite(expression, _implied)
        names = {each.name for each in walk(found) if isinstance(each, ColumnRef)}
        return substitute(found, {name: self.column(node, name) for name in names})

    def join_condition(self, node: Join, condition: Expression) -> Expression:
        """The condition of a join, in terms of the origins of both sides' columns."""
        found, lefts = rewrite(condition, _implied), node.left.schema.names
        names = {each.name for each in walk(found) if isinstance(each, ColumnRef)}
        sides = {each: node.left if each in lefts else node.right for each in names}
        return substitute(found, {each: self.column(side, each) for each, side in sides.items()})

    def aggregate(self, node: Node, call: AggregateCall) -> Aggregated:
        """The aggregate of the rows of ``node``."""
        argument, condition = (
            None if each is None else self.column(node, each) for each in (call.argument, call.filter)
        )
        return Aggregated(call, argument=argument, filter=condition, type=call.type)

    def window(self, node: Node, windowing: Windowing | Attached, part: str = "start") -> Expression:
        """The ``part`` of the windows of the rows of ``node``."""
        if isinstance(windowing, Attached):
            return self.column(node, windowing.end if part == "end" else windowing.start)
        time = None if windowing.processing else self.column(node, windowing.time)
        keys = tuple(self.column(node, each) for each in windowing.keys)
        return WindowBound(part, windowing, time, keys, type=TimestampType(3))

    def conditions(self, node: Node) -> tuple[Expression, ...]:
        """The conditions by which rows are left out between ``node`` and what is below it: scans, and steps that keep
        rows."""
        found = []
        while isinstance(node, Filter | Project | AssignWatermarks):
            if isinstance(node, Filter):
                found.append(self.expression(node.input, node.condition))
            node = node.input
        return tuple(found)

    def _column(self, node: Node, name: str) -> Expression:
        match node:
            case Scan():
                key = dict(node.spec.capabilities.metadata).get(name, "")
                return _Origin(name, node.uid or node.table, key, type=_type(node, name))
            case Project(items=items):
                (item,) = (each for each in items if each.name == name)
                return self.expression(node.input, item.expression)
            case InWindows(inner=inner):
                return self.column(inner, name)
            case GroupAggregate(keys=keys, calls=calls):
                return self._grouped(node, name, keys, calls)
            case WindowAggregate(keys=keys, calls=calls, windowing=windowing, columns=columns):
                part = _part(columns, name)
                if part:
                    return self.window(node.input, windowing, part)
                return self._grouped(node, name, keys, calls)
            case WindowTable(windowing=windowing, columns=columns) if _part(columns, name):
                return self.window(node.input, windowing, _part(columns, name))
            case Unnest(collection=collection, columns=columns) if name in columns:
                whole = self.column(node.input, collection)
                number = Literal(columns.index(name), type=BIGINT)
                return Call("UNNEST", (whole, number), type=_type(node, name))
            case Rank(number=number) if name == number:
                return Call("ROW_NUMBER", (), type=_type(node, name))
            case OverAggregate(calls=calls) if any(each.name == name for each in calls):
                return self._over(node, name)
            case Join():
                at, lefts = node.schema.names.index(name), node.left.schema.names
                side = node.left if at < len(lefts) else node.right
                return self.column(side, (*lefts, *node.right.schema.names)[at])
            case Union(members=members):
                at = node.schema.names.index(name)
                found = tuple(dict.fromkeys(self.column(each, each.schema.names[at]) for each in members))
                return found[0] if len(found) == 1 else Call("UNION ALL", found, type=_type(node, name))
            case MapRows(rows=rows):
                function = getattr(rows, "__qualname__", type(rows).__name__)
                return _Origin(name, f"map {function}", type=_type(node, name))
            case TwoInputs(left=left):
                return self.column(left, left.schema.names[node.schema.names.index(name)])
            case Step():
                return self.column(node.input, name)
        raise TypeError(f"unknown plan node {type(node).__name__}")

    def _over(self, node: OverAggregate, name: str) -> Expression:
        (call,) = (each for each in node.calls if each.name == name)
        names = (*node.keys, *([node.time] if node.time else []), *(each.name for each in node.order))
        frame = Literal(node.frame.describe(), type=STRING)
        args = (self.aggregate(node.input, call), *(self.column(node.input, each) for each in names), frame)
        return Call("OVER", args, type=call.type)

    def _grouped(self, node: Step, name: str, keys: tuple[str, ...], calls: tuple[AggregateCall, ...]) -> Expression:
        if name in keys:
            return self.column(node.input, name)
        (call,) = (each for each in calls if each.name == name)
        return self.aggregate(node.input, call)


def meaning(expression: Expression) -> str:
    """The text of what an expression computes: one for one computation, which depends on nothing but names, types and
    constants."""
    return _cut(_Meaning().text(expression).sql)


def _cut(text: str) -> str:
    """``text``, or if it is long its beginning and a digest."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}.. #{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def display_text(expression: Expression) -> str:
    """The text of an expression as its user may have written it."""
    return _short(_Shown().text(expression).sql)


def _short(text: str) -> str:
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


def _type(node: Node, name: str) -> DataType:
    found = node.schema.field(name)
    return STRING if found is None else found.type


def _part(columns: WindowColumns, name: str) -> str:
    """Which part of a window a column is; empty for none."""
    return dict(zip(columns.names, ("start", "end", "time"), strict=True)).get(name, "")


def _implied(expression: Expression) -> Expression:
    """A cast that has the place of its operand is implicit."""
    if isinstance(expression, Cast) and expression.place is not None and expression.place == expression.operand.place:
        return _Implied(expression.operand, safe=expression.safe, type=expression.type, place=expression.place)
    return expression


class _Meaning(SqlText):
    """Expressions with all that they depend on."""

    def text(self, expression: Expression) -> Text:
        match expression:
            case _Origin(name=name, table=table, key=key):
                of = f" METADATA FROM {self.string(key)}" if key else ""
                return Text(f"{quoted_name(table)}.{quoted_name(name)}{of}")
            case Aggregated():
                return Text(self.aggregated(expression))
            case WindowBound(part=part):
                return Text(f"{part} of {self.window(expression)}")
        return super().text(expression)

    def cast(self, cast: Cast) -> Text:
        given = cast.type.with_nullability(True).text()
        return Text(f"{'TRY_CAST' if cast.safe else 'CAST'}({self.text(cast.operand).sql} AS {given})")

    def aggregated(self, given: Aggregated) -> str:
        """The text of an aggregate."""
        call = given.call
        argument = "*" if given.argument is None else self.text(given.argument).sql
        condition = "" if given.filter is None else f" FILTER (WHERE {self.text(given.filter).sql})"
        distinct = "DISTINCT " if call.distinct else ""
        return f"{call.function}({distinct}{argument}{more_arguments(call)}){condition}"

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
            case _Implied(operand=operand):
                return self.text(operand)
            case _Origin(name=name):
                return Text(name if _PLAIN.fullmatch(name) else quoted_name(name))
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
    found = _call(place.text, place.offset)
    condition = _FILTER.match(place.text, place.offset + len(found))
    if found and condition:
        found += place.text[place.offset + len(found) : condition.end()] + _call(place.text, condition.end())
    return _short(" ".join(found.split()))


def _call(text: str, at: int) -> str:
    """The text from ``at`` to the parenthesis that closes the first one; empty without any."""
    depth = 0
    for found in _MARKS.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if depth <= 0:
            return text[at : found.end()] if found[0] == ")" else ""
    return ""
