"""Functions of Flink SQL with their own typing rules, or with constants among their arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from penstock.flow.kernels.characters import is_one_unit
from penstock.flow.kernels.json.path import InvalidPathError, UnsupportedPathError, parse_path
from penstock.plan.expressions import Call, Expression, Literal, call, cast, coerce
from penstock.sql.bind.expressions.binding import ExpressionBinder
from penstock.sql.bind.expressions.literals import type_text
from penstock.sql.parse.syntax import Unbound, UnboundCall, UnboundLiteral
from penstock.types import (
    BIGINT,
    BOOLEAN,
    INT,
    STRING,
    ArrayType,
    DataType,
    Field,
    IntervalType,
    MapType,
    NullType,
    RowType,
    TimestampType,
    TimeType,
    parse_type,
)
from penstock.types.casts import find_common_type, is_integer, is_point
from penstock.types.logical import root

_STEPS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_FLOORS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
#: The units of EXTRACT, and the name of the part in the plan.
_PARTS = {
    **{
        unit: unit
        for unit in (
            *("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"),
            *("MICROSECOND", "NANOSECOND", "EPOCH", "ISODOW", "ISOYEAR", "CENTURY", "DECADE", "MILLENNIUM"),
        )
    },
    "DOW": "DAYOFWEEK",
}
#: The parts of intervals: of days and seconds, and of months.
_INTERVAL_PARTS = (
    ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"),
    ("MILLENNIUM", "CENTURY", "YEAR", "QUARTER", "MONTH"),
)
_TIME_PARTS = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "NANOSECOND")
_PATH = re.compile(r"\s*(?:(lax|strict)\s+)?(.*)", re.IGNORECASE | re.DOTALL)


def _make_call(scope: ExpressionBinder, given: UnboundCall, args: Sequence[Expression], type_: DataType) -> Expression:
    return scope.make_call(given, given.name, args, type_)


def _read_keyword(given: Unbound) -> str:
    """The keyword that the grammar put in an argument."""
    assert isinstance(given, UnboundLiteral)  # noqa: S101
    return given.text


def _is_nullable(args: Sequence[Expression]) -> bool:
    return any(each.type.nullable for each in args)


# --- values ----------------------------------------------------------------------------------------------------


def greatest(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``GREATEST`` and ``LEAST``: null if one of the values is."""
    common, values = scope.bind_to_common_type(given.args)
    if isinstance(common, ArrayType | MapType | RowType):
        raise scope.source.error(given.at, f"{given.name} does not compare {common.text()}", "compare parts of them")
    return _make_call(scope, given, values, common.with_nullability(_is_nullable(values)))


def row(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``ROW(a, b)`` and ``(a, b)``, whose fields have Flink's names."""
    values = [scope.bind(each) for each in given.args]
    for each, value in zip(given.args, values, strict=True):
        if isinstance(value.type, NullType):
            raise scope.source.error(each.at, "the type of NULL is not known here", "write CAST(NULL AS STRING)")
    fields = tuple(Field(f"EXPR${i}", value.type) for i, value in enumerate(values))
    return _make_call(scope, given, values, RowType(fields, nullable=False))


def typeof(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TYPEOF``, a constant."""
    first = scope.bind(given.args[0])
    return Literal(type_text(first), type=STRING, place=scope.source.at(given.at))


def current_database(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``CURRENT_DATABASE``, a constant. Raises UnsupportedError outside of queries."""
    if scope.database is None:
        reason = "CURRENT_DATABASE() is not supported outside of queries"
        raise scope.source.unsupported_feature(given.at, reason, "write the database's name in quotes")
    return Literal(scope.database, type=STRING.with_nullability(False), place=scope.source.at(given.at))


def overlaps(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``(start, end) OVERLAPS (start, end)``, where an end may be an interval, and start and end may be exchanged."""
    spans = []
    for each in given.args:
        if not (isinstance(each, UnboundCall) and each.name == "ROW" and len(each.args) == 2):
            raise scope.source.error(each.at, "OVERLAPS takes two pairs", "(start, end) OVERLAPS (start, end)")
        start, end = (scope.bind(arg) for arg in each.args)
        if isinstance(end.type, IntervalType):
            end = scope.bind(UnboundCall(each.args[1].at, "+", each.args))
        if not is_point(start.type) or find_common_type((start.type, end.type)) is None:
            reason = f"OVERLAPS does not take {start.type.text()} and {end.type.text()}"
            raise scope.source.error(each.at, reason, "take dates, times or timestamps, or an interval as the end")
        spans.append((start, end))
    (one, other), (first, last) = spans
    common = find_common_type(tuple(each.type for each in (one, other, first, last)))
    if common is None:
        raise scope.source.error(
            given.at, f"{one.type.text()} and {first.type.text()} cannot be compared", "CAST one of them"
        )
    one, other, first, last = (coerce(each, common) for each in (one, other, first, last))
    place = scope.source.at(given.at)

    def order_pair(a: Expression, b: Expression) -> tuple[Expression, Expression]:
        type_ = common.with_nullability(a.type.nullable or b.type.nullable)
        within = call("<=", a, b, place=place)
        return Call("CASE", (within, a, b), type=type_, place=place), Call(
            "CASE", (within, b, a), type=type_, place=place
        )

    (early, late), (begin, finish) = order_pair(one, other), order_pair(first, last)
    return call("AND", call(">=", late, begin, place=place), call(">=", finish, early, place=place), place=place)


# --- patterns --------------------------------------------------------------------------------------------------


def like(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``LIKE`` and ``SIMILAR TO``."""
    values = [scope.string(arg, "SIMILAR TO" if given.name == "SIMILAR" else "LIKE") for arg in given.args]
    if len(values) == 3:
        mark = values[2].value if isinstance(values[2], Literal) else None
        if isinstance(mark, str) and not is_one_unit(mark):
            raise scope.source.error(given.args[2].at, "ESCAPE takes one character in quotes", "such as '!'")
    return call(given.name, *values, place=scope.source.at(given.at))


# --- JSON ------------------------------------------------------------------------------------------------------


def _read_path(scope: ExpressionBinder, given: Unbound, name: str) -> Literal:
    path = scope.bind(given)
    if not (isinstance(path, Literal) and isinstance(path.value, str)):
        raise scope.source.error(given.at, f"the path of {name} must be a string in quotes", "such as '$.owner.name'")
    try:
        parse_path(path.value)
    except UnsupportedPathError:
        hint = "use names, indices and wildcards only, such as '$.owner.tags[0]'"
        raise scope.source.unsupported_feature(given.at, "this JSON path is not supported", hint) from None
    except InvalidPathError:
        pass  # as in Flink, an error of each row
    return path


def _make_word(given: Unbound) -> Literal:
    return Literal(_read_keyword(given), type=STRING.with_nullability(False))


def is_json(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``IS JSON [VALUE | SCALAR | ARRAY | OBJECT]``."""
    document = scope.string(given.args[0], "IS JSON")
    return _make_call(scope, given, (document, _make_word(given.args[1])), BOOLEAN.with_nullability(False))


def json_exists(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``JSON_EXISTS``."""
    document, path = scope.string(given.args[0], given.name), _read_path(scope, given.args[1], given.name)
    return _make_call(scope, given, (document, path, _make_word(given.args[2])), BOOLEAN)


def json_value(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``JSON_VALUE``, whose defaults are cast to what it returns."""
    document, path, returned, on_empty, empty, on_error, error = given.args
    target = _read_returned_type(scope, returned, ("STRING", "BOOLEAN", "INT", "DOUBLE"), given.name)
    args: list[Expression] = [scope.string(document, given.name), _read_path(scope, path, given.name)]
    for behaviour, default in ((on_empty, empty), (on_error, error)):
        value = scope.value(default)
        args += [_make_word(behaviour), value if isinstance(value.type, NullType) else cast(value, target)]
    return _make_call(scope, given, args, target)


def json_query(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``JSON_QUERY``."""
    document, path, returned, *words = given.args
    target = _read_returned_type(scope, returned, ("STRING", "ARRAY<STRING>"), given.name)
    args = [scope.string(document, given.name), _read_path(scope, path, given.name), *map(_make_word, words)]
    return _make_call(scope, given, args, target)


def _read_returned_type(scope: ExpressionBinder, given: Unbound, known: Sequence[str], name: str) -> DataType:
    text = _read_keyword(given)
    if text not in known and not text.startswith(("VARCHAR", "CHAR")):
        raise scope.source.error(given.at, f"{name} does not return {text}", f"one of {', '.join(known)}")
    return parse_type(text)


def json_object(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``JSON_OBJECT``: keys are constants."""
    on_null, *entries = given.args
    args: list[Expression] = [_make_word(on_null)]
    for key, value in zip(entries[::2], entries[1::2], strict=True):
        bound = scope.bind(key)
        if not (isinstance(bound, Literal) and isinstance(bound.value, str)):
            raise scope.source.error(key.at, "a key of JSON_OBJECT must be a string in quotes", "such as 'id'")
        args += [bound, unwrap_document(scope, value)]
    return _make_call(scope, given, args, STRING.with_nullability(False))


def json_array(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``JSON_ARRAY``."""
    on_null, *values = given.args
    return _make_call(
        scope,
        given,
        [_make_word(on_null), *(unwrap_document(scope, each) for each in values)],
        STRING.with_nullability(False),
    )


def unwrap_document(scope: ExpressionBinder, given: Unbound) -> Expression:
    """A value for a JSON document; the value of ``JSON('..')`` becomes a part of it without quotes."""
    if isinstance(given, UnboundCall) and given.name == "JSON" and len(given.args) == 1:
        return _make_call(scope, given, (scope.string(given.args[0], "JSON"),), STRING)
    return scope.value(given)


# --- dates and times -------------------------------------------------------------------------------------------


def extract(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``EXTRACT``."""
    operand = scope.bind(given.args[1])
    if isinstance(operand.type, NullType):
        operand = coerce(operand, TimestampType(3))
    unit = scope.read_unit(given.args[0], _PARTS)
    dated = root(operand.type) in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
    timed = isinstance(operand.type, TimestampType | TimeType)
    timed = timed or (dated and unit in ("HOUR", "MINUTE", "SECOND"))
    if isinstance(operand.type, IntervalType):
        known = _INTERVAL_PARTS[operand.type.months]
        if unit not in known:
            reason = f"an {operand.type.text()} has no {unit}"
            raise scope.source.error(given.args[1].at, reason, f"one of {', '.join(known)}")
    elif not (timed if unit in _TIME_PARTS else dated):
        expected = "a TIME or TIMESTAMP" if unit in _TIME_PARTS else "a DATE or TIMESTAMP"
        raise scope.source.error(
            given.args[1].at, f"{unit} needs {expected}, not {operand.type.text()}", "CAST it first"
        )
    part = Literal(_PARTS[unit], type=STRING.with_nullability(False))
    return _make_call(scope, given, (part, operand), BIGINT.with_nullability(operand.type.nullable))


def round_moment(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``FLOOR(x TO unit)`` and ``CEIL(x TO unit)``."""
    scope.read_unit(given.args[0], _FLOORS)
    operand = scope.bind(given.args[1])
    units = ("HOUR", "MINUTE", "SECOND")
    if not is_point(operand.type) or (isinstance(operand.type, TimeType) and _read_keyword(given.args[0]) not in units):
        expected = "a DATE or TIMESTAMP" if isinstance(operand.type, TimeType) else "a DATE, TIME or TIMESTAMP"
        reason = f"{given.name} takes {expected} here, not {operand.type.text()}"
        raise scope.source.error(given.args[1].at, reason, "CAST it first")
    return _make_call(scope, given, (scope.bind(given.args[0]), operand), operand.type)


def timestamp_arithmetic(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TIMESTAMPADD`` and ``TIMESTAMPDIFF``, of dates too; a time of day wraps around at midnight."""
    scope.read_unit(given.args[0], _STEPS)
    unit, first, second = (scope.bind(arg) for arg in given.args)
    adding = given.name == "TIMESTAMPADD"
    for arg, value in zip(given.args[1:], (first, second), strict=True):
        counts = adding and value is first
        timed = isinstance(value.type, TimeType) and not adding
        if not (is_integer(value.type) if counts else is_point(value.type) and not timed):
            expected = "INT" if counts else "a DATE or TIMESTAMP"
            raise scope.source.error(arg.at, f"{given.name} takes {expected} here, not {value.type.text()}", "CAST it")
    nullable = first.type.nullable or second.type.nullable
    if not adding:
        return _make_call(scope, given, (unit, first, second), INT.with_nullability(nullable))
    type_ = second.type
    if root(type_) == "DATE" and unit.value in ("HOUR", "MINUTE", "SECOND"):  # type: ignore[attr-defined]
        second = cast(second, TimestampType(6))
        type_ = TimestampType(6)
    return _make_call(scope, given, (unit, first, second), type_.with_nullability(nullable))


# --- arrays and maps -------------------------------------------------------------------------------------------


def _bind_array(scope: ExpressionBinder, given: UnboundCall, arg: Unbound) -> Expression:
    found = scope.bind(arg)
    if not isinstance(found.type, ArrayType):
        raise scope.source.error(arg.at, f"{given.name} takes an ARRAY, not {found.type.text()}", "CAST it")
    return found


def with_element(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``ARRAY_APPEND``, ``ARRAY_PREPEND``, ``ARRAY_REMOVE``, ``ARRAY_CONTAINS`` and ``ARRAY_POSITION``, with the
    element cast to the array's element type."""
    array, value = _bind_array(scope, given, given.args[0]), scope.bind(given.args[1])
    assert isinstance(array.type, ArrayType)  # noqa: S101
    element = array.type.element
    common = find_common_type((element, value.type))
    if common is None or root(common) != root(element):
        reason = f"{given.name} of {array.type.text()} takes {element.text()}, not {value.type.text()}"
        raise scope.source.error(given.args[1].at, reason, "CAST it")
    grows = given.name in ("ARRAY_APPEND", "ARRAY_PREPEND") and value.type.nullable
    kept = element.with_nullability(element.nullable or grows)
    value = cast(value, element) if isinstance(value.type, NullType) else coerce(value, element)
    nullable = array.type.nullable
    match given.name:
        case "ARRAY_CONTAINS":
            return _make_call(scope, given, (array, value), BOOLEAN.with_nullability(nullable))
        case "ARRAY_POSITION":
            return _make_call(scope, given, (array, value), INT.with_nullability(nullable or value.type.nullable))
    return _make_call(scope, given, (array, value), replace(ArrayType(kept), nullable=nullable))


def combine_collections(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``ARRAY_CONCAT``, ``ARRAY_UNION``, ``ARRAY_INTERSECT``, ``ARRAY_EXCEPT`` and ``MAP_UNION``."""
    kind = MapType if given.name == "MAP_UNION" else ArrayType
    for arg in given.args:
        found = scope.bind(arg)
        if not isinstance(found.type, kind):
            expected = "a MAP" if kind is MapType else "an ARRAY"
            raise scope.source.error(arg.at, f"{given.name} takes {expected}, not {found.type.text()}", "CAST it")
    common, values = scope.bind_to_common_type(given.args)
    return _make_call(scope, given, values, common.with_nullability(_is_nullable(values)))
