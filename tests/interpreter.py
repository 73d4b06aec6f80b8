"""Plans computed row by row, as plainly as can be: what a plan means, for plans of a few types and functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.plan.expressions import Call, Cast, ColumnRef, Expression, Literal
from penstock.plan.nodes import (
    AggregateCall,
    AssignWatermarks,
    Deduplicate,
    Filter,
    GroupAggregate,
    Join,
    JoinKind,
    Node,
    Normalize,
    Project,
    Rank,
    Scan,
    SetKind,
    SetOperation,
    Sink,
    Union,
    Unnest,
)
from penstock.plan.walk import fold
from penstock.types.logical import root

_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
#: A row: its values by column. A table is a bag of rows.
Row = dict[str, Any]


def rows_of(
    node: Node,
    tables: Mapping[str, Sequence[Row]],
    literal_rows: Callable[[Scan], list[Row]],
    *,
    of_nothing: bool = True,
) -> list[Row]:
    """The rows of a plan over tables; ``literal_rows`` has those of VALUES. ``of_nothing``: whether aggregates of all
    rows give a row when there is none, as in a database; a stream gives none before the first row."""

    def visit(node: Node, inputs: tuple[list[Row], ...]) -> list[Row]:
        if isinstance(node, Scan):
            found = tables[node.table] if node.table in tables else literal_rows(node)
            return [{name: row[name] for name in node.schema.names} for row in found]
        if isinstance(node, GroupAggregate) and not inputs[0] and not of_nothing:
            return []
        return _rows(node, inputs)

    return fold((node,), visit)[0]


def bag(rows: Iterable[Row], names: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Rows, each with its number."""
    return Counter(tuple(row[name] for name in names) for row in rows)


def _rows(node: Node, inputs: tuple[list[Row], ...]) -> list[Row]:
    match node:
        case AssignWatermarks() | Normalize():
            return inputs[0]
        case Filter(condition=condition):
            return [row for row in inputs[0] if value(condition, row) is True]
        case Project(items=items):
            return [{each.name: value(each.expression, row) for each in items} for row in inputs[0]]
        case Sink():
            names = zip(node.schema.names, node.input.schema.names, strict=True)
            pairs = list(names)
            return [{name: row[own] for name, own in pairs} for row in inputs[0]]
        case Union(members=members):
            return [
                dict(zip(node.schema.names, (row[name] for name in member.schema.names), strict=True))
                for member, rows in zip(members, inputs, strict=True)
                for row in rows
            ]
        case GroupAggregate():
            return _groups(node, inputs[0])
        case Join():
            return _joined(node, *inputs)
        case Unnest():
            return [made for row in inputs[0] for made in _unnested(node, row)]
        case Deduplicate():
            return _first(node, inputs[0])
        case SetOperation():
            return _compared(node, *inputs)
        case Rank():
            return _ranked(node, inputs[0])
    raise TypeError(type(node).__name__)


def _groups(node: GroupAggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {} if node.keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in node.keys), []).append(row)
    return [
        {**dict(zip(node.keys, key, strict=True)), **{call.name: _aggregate(call, members) for call in node.calls}}
        for key, members in groups.items()
    ]


def _aggregate(call: AggregateCall, rows: list[Row]) -> Any:
    if call.filter is not None:
        rows = [row for row in rows if row[call.filter] is True]
    if call.argument is None:
        return len(rows)
    found = [row[call.argument] for row in rows if call.nulls or row[call.argument] is not None]
    if call.distinct:
        found = list(dict.fromkeys(found))
    if call.function == "COUNT":
        return len(found)
    if call.function == "COLLECT":
        return Counter(found)
    return _of_values(call, found) if found else None


def _of_values(call: AggregateCall, found: list[Any]) -> Any:
    match call.function:
        case "SINGLE_VALUE":
            (only,) = found
            return only
        case "FIRST_VALUE" | "LAST_VALUE":
            return found[0 if call.function == "FIRST_VALUE" else -1]
        case "LISTAGG":
            return call.separator.join(found)
        case "ARRAY_AGG":
            return found
    return {"SUM": sum, "MIN": min, "MAX": max, "AVG": _average}[call.function](found)


def _average(found: list[int]) -> int:
    """Cut towards zero."""
    return int(sum(found) / len(found))


def _unnested(node: Unnest, row: Row) -> list[Row]:
    """The rows of a collection of values that are not rows themselves."""
    rest = {name: value for name, value in row.items() if name != node.collection}
    elements = list(enumerate(row[node.collection] or (), 1))
    empty = [(None, None)] if node.outer and not elements else []
    return [{**rest, **dict(zip(node.columns, (each, n), strict=False))} for n, each in elements or empty]


def _joined(node: Join, left: list[Row], right: list[Row]) -> list[Row]:
    count = len(node.left.schema.names)
    lefts = dict(zip(node.left.schema.names, node.schema.names[:count], strict=True))
    rights = dict(zip(node.right.schema.names, node.schema.names[count:], strict=True))
    found: list[Row] = []
    matched: set[int] = set()
    for row in left:
        key = [row[name] for name in node.left_keys]
        matches = [n for n, other in enumerate(right) if None not in key and key == [other[k] for k in node.right_keys]]
        matched.update(matches)
        own = {lefts[name]: row[name] for name in lefts}
        found += [{**own, **{rights[name]: right[n][name] for name in rights}} for n in matches]
        if not matches and node.kind in (JoinKind.LEFT, JoinKind.FULL):
            found.append({**own, **dict.fromkeys(rights.values())})
    if node.kind in (JoinKind.RIGHT, JoinKind.FULL):
        alone = (row for n, row in enumerate(right) if n not in matched)
        found += [{**dict.fromkeys(lefts.values()), **{rights[name]: row[name] for name in rights}} for row in alone]
    return found


def _first(node: Deduplicate, rows: list[Row]) -> list[Row]:
    kept: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: row[node.order]) if node.order else rows:
        key = tuple(row[name] for name in node.keys)
        if node.last or key not in kept:
            kept[key] = row
    return list(kept.values())


def _compared(node: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    names = node.left.schema.names
    here, there = bag(left, names), bag(right, node.right.schema.names)
    found: Counter[tuple[Any, ...]] = {
        SetKind.INTERSECT: Counter({row: 1 for row in here if row in there}),
        SetKind.INTERSECT_ALL: here & there,
        SetKind.EXCEPT: Counter({row: 1 for row in here if row not in there}),
        SetKind.EXCEPT_ALL: here - there,
        SetKind.SEMI: Counter({row: count for row, count in here.items() if row in there}),
        SetKind.ANTI: Counter({row: count for row, count in here.items() if row not in there}),
    }[node.kind]
    return [dict(zip(names, row, strict=True)) for row in found.elements()]


def _ranked(node: Rank, rows: list[Row]) -> list[Row]:
    """The first rows by columns that tell all different rows apart."""
    for each in reversed(node.order):
        valued = [row for row in rows if row[each.name] is not None]
        valued.sort(key=lambda row: row[each.name], reverse=each.descending)
        nulls = [row for row in rows if row[each.name] is None]
        rows = [*nulls, *valued] if each.nulls_first else [*valued, *nulls]
    numbers: Counter[tuple[Any, ...]] = Counter()
    kept = []
    for row in rows:
        key = tuple(row[name] for name in node.keys)
        numbers[key] += 1
        if node.first <= numbers[key] <= node.last:
            kept.append({**row, node.number: numbers[key]} if node.number else row)
    return kept


def value(expression: Expression, row: Row) -> Any:
    """The value of an expression; None is NULL, also of a condition."""
    match expression:
        case Literal(value=found):
            return found
        case ColumnRef(name=name):
            return row[name]
        case Cast(operand=operand, type=to):
            found = value(operand, row)
            if found is None:
                return None
            return str(found) if root(to) == "STRING" else int(found) if root(to) in _WHOLE else found
        case Call(function=function, args=args):
            return _call(function, args, row)
    raise TypeError(type(expression).__name__)


def _call(function: str, args: Sequence[Expression], row: Row) -> Any:
    match function:
        case "AND" | "OR":
            found = [value(each, row) for each in args]
            decided = function == "OR"
            return decided if decided in found else None if None in found else not decided
        case "CASE":
            for when, then in zip(args[::2], args[1::2], strict=False):
                if value(when, row) is True:
                    return value(then, row)
            return value(args[-1], row) if len(args) % 2 else None
        case "COALESCE":
            return next((each for each in (value(arg, row) for arg in args) if each is not None), None)
        case "IS NULL":
            return value(args[0], row) is None
        case "ARRAY" | "ROW":
            return tuple(value(each, row) for each in args)
        case "NULLIF":
            first, second = (value(each, row) for each in args)
            return None if first == second else first
    found = [value(each, row) for each in args]
    return None if None in found else _PLAIN[function](*found)


#: Functions that are NULL if an argument is.
_PLAIN: Mapping[str, Callable[..., Any]] = {
    "NOT": lambda a: not a,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "SQRT": math.sqrt,
    "CARDINALITY": len,
    "CHAR_LENGTH": len,
    "*": lambda a, b: a * b,
    "CONCAT": lambda *given: "".join(given),
    "UPPER": lambda a: a.upper(),
}
