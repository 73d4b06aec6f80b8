"""Calls in transforms of pipelines, where Flink CDC means something else than Flink SQL.

Comparisons are false where an operand is NULL. ``LIKE`` without ESCAPE looks for a regular expression of Java. ``||``
takes values of all types, and writes ``null``. DECIMALs have the digits of Calcite's type system. The functions that
only transforms have are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.flow.kernels.moments.local import is_known_zone
from penstock.flow.kernels.rowwise import ValueFailure
from penstock.flow.kernels.texts.java_regex import compile_pattern
from penstock.plan.expressions import Call, ColumnRef, Expression, FieldAccess, Literal, call, cast, coerce
from penstock.sql.bind.expressions.binding import Bound, ExpressionBinder
from penstock.sql.bind.expressions.transform_casts import in_utc, limit_type, require, to_text, with_type
from penstock.sql.parse.syntax import Unbound, UnboundCall, UnboundLiteral
from penstock.types import (
    BOOLEAN,
    BYTES,
    DATE,
    INT,
    STRING,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    Field,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)
from penstock.types.casts import as_decimal, is_integer
from penstock.types.logical import MAX_PRECISION, root

_Bind = Callable[[ExpressionBinder, UnboundCall], Expression]
_FULL = TimestampType(6)
#: What FROM_BASE64_BINARY gives, by Calcite's longest VARBINARY.
_DECODED = BinaryType(65536)
_SIGNS = ("+", "-", "*", "/", "MOD")
_DAY = "yyyy-MM-dd"
_SECOND = "yyyy-MM-dd HH:mm:ss"


def bind_call(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """A call, without the NOT before its operator. Raises SqlError, SchemaError or UnsupportedError with its place."""
    bind = None if given.spaces else _FORMS.get(given.name)
    return scope.bind_flink_call(given) if bind is None else bind(scope, given)


def _bind_first(scope: ExpressionBinder, given: UnboundCall, count: int = 1) -> tuple[UnboundCall, list[Expression]]:
    """The call with its first arguments bound, which are bound once; and these."""
    bound = [scope.bind(each) for each in given.args[:count]]
    parts = (Bound(each.at, value) for each, value in zip(given.args, bound, strict=False))
    return replace(given, args=(*parts, *given.args[count:])), bound


def limit_column(scope: ExpressionBinder, value: Expression) -> Expression:
    """A column of a projection: a DECIMAL that is computed has the digits that Calcite derives, and is NULL if it has
    more. Inside of an expression, as in a filter, all digits count."""
    if not isinstance(value.type, DecimalType) or isinstance(value, ColumnRef):
        return value
    target = _find_decimal(scope, value).with_nullability(value.type.nullable)
    return value if value.type == target else cast(value, target)


def _find_decimal(scope: ExpressionBinder, value: Expression) -> DecimalType:
    found = limit_type(scope, as_decimal(value.type))
    assert isinstance(found, DecimalType)  # noqa: S101
    if isinstance(value, Call) and value.function in _SIGNS and len(value.args) == 2:
        left, right = (_find_decimal(scope, each) for each in value.args)
        return _derive_digits(value.function, left, right, scope.dialect.decimal_digits)
    return found


def _text(value: str) -> Literal:
    return Literal(value, type=STRING.with_nullability(False))


def _check_count(scope: ExpressionBinder, given: UnboundCall, least: int, most: int) -> None:
    if not least <= len(given.args) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        reason = f"{given.name} takes {expected} argument{'' if most == 1 else 's'}, not {len(given.args)}"
        raise scope.source.error(given.at, reason)


def _refuse_type(scope: ExpressionBinder, given: Unbound, name: str, expected: str, found: DataType) -> Exception:
    return scope.source.error(given.at, f"{name} takes {expected} here, not {found.text()}", "CAST it")


# --- conditions ------------------------------------------------------------------------------------------------


def _compare(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """False where Flink SQL's comparison is unknown."""
    return _decide(scope.bind_flink_call(given))


def _differ(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``<>`` is the opposite of ``=``: true where an operand is NULL."""
    same = _compare(scope, UnboundCall(given.at, "=", given.args))
    return Call("NOT", (same,), type=same.type, place=same.place)


def _decide(condition: Expression) -> Expression:
    return call("IS TRUE", condition, type=BOOLEAN.with_nullability(False), place=condition.place)


def _like(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``LIKE`` looks for a regular expression of Java anywhere in the text; with ESCAPE it is that of SQL."""
    if len(given.args) == 3:
        return scope.bind_flink_call(given)
    given, (_, pattern) = _bind_first(scope, given, 2)
    if isinstance(pattern, Literal) and isinstance(pattern.value, str) and not _is_regex(pattern.value):
        reason = f"LIKE without ESCAPE takes a regular expression of Java, and '{pattern.value}' is not one"
        raise scope.source.error(given.args[1].at, reason, "for a pattern of SQL, write ESCAPE '!' behind it")
    return scope.bind_flink_call(UnboundCall(given.at, "REGEXP", given.args))


def _is_regex(pattern: str) -> bool:
    try:
        return compile_pattern(pattern) is not None
    except ValueFailure:  # one that only Java computes, which is refused later
        return True


# --- values ----------------------------------------------------------------------------------------------------


def _concat(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``||`` and ``CONCAT``, which write NULL as ``null``."""
    parts = []
    for arg in given.args:
        part = to_text(scope.value(arg))
        if part.type.nullable:
            part = Call("COALESCE", (part, _text("null")), type=STRING.with_nullability(False), place=part.place)
        parts.append(part)
    if not parts:
        raise scope.source.error(given.at, "CONCAT takes at least 1 argument, not 0")
    return call("CONCAT", *parts, type=STRING, place=scope.source.at(given.at))


def _coalesce(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """Nullable, unlike IFNULL."""
    found = scope.bind_flink_call(given)
    if not isinstance(found, Call):
        return found
    return Call("COALESCE", found.operands, type=found.type.with_nullability(True), place=found.place)


def _row(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """Fields are ``f0``, ``f1`` and so on."""
    found = scope.bind_flink_call(given)
    assert isinstance(found.type, RowType)  # noqa: S101
    fields = tuple(Field(f"f{at}", each.type.with_nullability(True)) for at, each in enumerate(found.type.fields))
    return Call("ROW", found.operands, type=RowType(fields, nullable=False), place=found.place)


def _collect(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``ARRAY[..]`` and ``MAP[..]``, whose elements may be NULL."""
    found = scope.bind_flink_call(given)
    return with_type(found, _allow_nulls(found.type))


def _allow_nulls(given: DataType) -> DataType:
    match given:
        case ArrayType(element=element):
            return ArrayType(_allow_nulls(element).with_nullability(True), nullable=given.nullable)
        case MapType(key=key, value=value):
            keys = _allow_nulls(key).with_nullability(True)
            return MapType(keys, _allow_nulls(value).with_nullability(True), nullable=given.nullable)
    return given


def _element(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """An element of an array or a map, or a field of a row by its constant number."""
    index = given.args[1]
    given, (found,) = _bind_first(scope, given)
    number = int(index.text) if isinstance(index, UnboundLiteral) and _is_whole(index) else None
    if isinstance(found.type, RowType):
        if number is None or not 1 <= number <= len(found.type.fields):
            reason = f"a row of {len(found.type.fields)} fields is indexed by a constant from 1"
            raise scope.source.error(index.at, reason, f"such as [1] for '{found.type.names[0]}'")
        field = found.type.fields[number - 1]
        return FieldAccess(found, field.name, type=field.type.with_nullability(True), place=scope.source.at(given.at))
    if isinstance(found.type, ArrayType) and number is not None and number < 1:
        return Literal(None, type=found.type.element.with_nullability(True), place=scope.source.at(given.at))
    return scope.bind_flink_call(given)


def _is_whole(given: UnboundLiteral) -> bool:
    return given.form == "NUMBER" and given.text.lstrip("-").isdigit()


def _has_no_variant(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    hint = "keep the document as STRING, and read it with JSON_VALUE(column, '$.name') or JSON_QUERY"
    raise scope.source.unsupported_feature(given.at, f"{given.name} is not supported: no column is a VARIANT", hint)


def _has_no_model(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    hint = "call the model in a Python function, which 'user-defined-function' defines"
    raise scope.source.unsupported_feature(given.at, f"{given.name} is not supported: there are no models here", hint)


# --- numbers ---------------------------------------------------------------------------------------------------


def _calculate(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``+ - * /``: of decimals with all digits after the point, where Flink SQL cuts some off to have more before; of a
    point in time and an interval in UTC."""
    found = scope.bind_flink_call(given)
    if isinstance(found, Call) and isinstance(found.type, TimestampType):
        return _from_utc(replace(found, args=tuple(map(in_utc, found.args))), found.type)
    if not isinstance(found, Call) or not isinstance(found.type, DecimalType):
        return found
    left, right = (as_decimal(each.type) for each in found.args)
    exact = _derive_digits(given.name, left, right, MAX_PRECISION)
    return replace(found, type=exact.with_nullability(found.type.nullable))


def _derive_digits(sign: str, left: DecimalType, right: DecimalType, most: int) -> DecimalType:
    """By Calcite's ``RelDataTypeSystem``."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    match sign:
        case "*":
            return DecimalType(min(left.precision + right.precision, most), min(left.scale + right.scale, most))
        case "/":
            whole = left.precision - left.scale + right.scale
            scale = max(0, min(max(6, left.scale + right.precision + 1), most - whole))
            return DecimalType(min(whole + scale, most), scale)
        case "MOD":
            whole = min(left.precision - left.scale, right.precision - right.scale)
            return DecimalType(min(whole + scale, most), scale)
    return DecimalType(min(whole + scale + 1, most), scale)


# --- text and bytes --------------------------------------------------------------------------------------------


def _bind_bytes(scope: ExpressionBinder, given: UnboundCall, count: int) -> tuple[Expression, ...]:
    """The arguments of a function of ``count`` BYTES and of numbers."""
    args = [scope.bind(each) for each in given.args]
    for at, (arg, value) in enumerate(zip(given.args, args, strict=True)):
        if root(value.type) != "NULL" and not (root(value.type) == "BYTES" if at < count else is_integer(value.type)):
            raise _refuse_type(scope, arg, given.name, "BYTES" if at < count else "INT", value.type)
    return tuple(coerce(each, BYTES if at < count else INT) for at, each in enumerate(args))


def _position(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``POSITION`` and ``LOCATE``, of BYTES too."""
    _check_count(scope, given, 2, 3)
    given, sides = _bind_first(scope, given, 2)
    if any(root(each.type) == "BYTES" for each in sides):
        args = _bind_bytes(scope, given, 2)
        return call("POSITION OF BYTES", *args, type=INT, place=scope.source.at(given.at))
    return scope.bind_flink_call(UnboundCall(given.at, "LOCATE", given.args))


def _overlay(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    given, (text,) = _bind_first(scope, given)
    if root(text.type) != "BYTES":
        return scope.bind_flink_call(given)
    args = _bind_bytes(scope, given, 2)
    return call("OVERLAY OF BYTES", *args, type=BYTES, place=scope.source.at(given.at))


def _substring(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    length = given.args[2] if len(given.args) == 3 else None
    found = scope.bind_flink_call(given)
    bound = found.operands[2] if length is not None and len(found.operands) == 3 else None
    if length is not None and isinstance(bound, Literal) and isinstance(bound.value, int) and bound.value < 0:
        raise scope.source.error(length.at, "the length of SUBSTRING is not negative", "write 0 or more")
    return found


def _decode(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    _check_count(scope, given, 1, 1)
    text = scope.string(given.args[0], given.name)
    return call("FROM_BASE64_BINARY", text, type=_DECODED, place=scope.source.at(given.at))


# --- dates and times -------------------------------------------------------------------------------------------


def _format(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_FORMAT``, of TIME too."""
    given, moments = _bind_first(scope, given)
    if len(given.args) != 2 or not isinstance(moments[0].type, TimeType):
        return scope.bind_flink_call(given)
    pattern = scope.string(given.args[1], given.name)
    return call("DATE_FORMAT", cast(moments[0], _FULL), pattern, type=STRING, place=scope.source.at(given.at))


def _format_in_zone(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_FORMAT_TZ(moment [, pattern], zone)``."""
    _check_count(scope, given, 2, 3)
    moment = scope.bind(given.args[0])
    if not isinstance(moment.type, TimestampType):
        raise _refuse_type(scope, given.args[0], given.name, "a TIMESTAMP", moment.type)
    *patterns, zone = (scope.string(each, given.name) for each in given.args[1:])
    if isinstance(zone, Literal) and isinstance(zone.value, str) and not is_known_zone(zone.value):
        reason = f"'{zone.value}' is not a time zone that is known here"
        raise scope.source.error(given.args[-1].at, reason, "write a name such as 'Asia/Shanghai', or 'UTC'")
    pattern = patterns[0] if patterns else _text(_SECOND)
    place = scope.source.at(given.at)
    if not moment.type.local_zone:  # a local time is the same in each zone
        return call("DATE_FORMAT", moment, pattern, type=STRING, place=place)
    return Call("DATE_FORMAT_TZ", (moment, pattern, zone), type=STRING, place=place)


def _to_date(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """Of text by a pattern, and the date of a timestamp, which is in UTC for a TIMESTAMP_LTZ."""
    if len(given.args) != 1:
        return scope.bind_flink_call(given)
    given, (value,) = _bind_first(scope, given)
    if isinstance(value.type, TimestampType):
        return cast(in_utc(value), DATE)
    pattern = UnboundLiteral(given.at, "STRING", _DAY)
    return scope.bind_flink_call(UnboundCall(given.at, given.name, (*given.args, pattern)))


def _to_instant(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TO_TIMESTAMP_LTZ``: of text, the row fails where Flink SQL has NULL."""
    given, values = _bind_first(scope, given)
    found = scope.bind_flink_call(given)
    return require(found, values[0]) if root(values[0].type) == "STRING" else found


def _to_timestamp(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """The row fails where Flink SQL has NULL."""
    pattern = (UnboundLiteral(given.at, "STRING", _SECOND),) if len(given.args) == 1 else ()
    given, texts = _bind_first(scope, given)
    found = scope.bind_flink_call(UnboundCall(given.at, given.name, (*given.args, *pattern)))
    return require(found, texts[0])


def _add_time(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TIMESTAMPADD``, in milliseconds and in UTC."""
    found = scope.bind_flink_call(given)
    if not isinstance(found.type, TimestampType) or not isinstance(found, Call):
        return found
    unit, count, moment = found.args
    target = limit_type(scope, moment.type).with_nullability(found.type.nullable)
    whole = TimestampType(3)
    local = cast(with_type(in_utc(moment), _FULL), whole)
    made = call("TIMESTAMPADD", unit, count, local, type=whole, place=found.place)
    return with_type(_from_utc(made, replace(found.type, precision=3)), target)


def _from_utc(local: Call, target: TimestampType) -> Expression:
    """What was computed in UTC, as a point in time if that is its type."""
    if not target.local_zone:
        return local
    local = replace(local, type=TimestampType(target.precision, nullable=target.nullable))
    return Call("FROM UTC", (local,), type=target, place=local.place)


def _subtract_times(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``TIMESTAMPDIFF``, and ``TIMESTAMP_DIFF`` with its unit in quotes."""
    if len(given.args) != 3:
        raise scope.source.error(given.at, f"{given.name} takes a unit and two timestamps", "such as ('DAY', a, b)")
    unit, *moments = given.args
    if not isinstance(unit, UnboundLiteral):
        raise scope.source.error(unit.at, f"{given.name} takes a unit in quotes here", "such as 'DAY'")
    word = UnboundLiteral(unit.at, "STRING", unit.text.upper())
    found = scope.bind_flink_call(UnboundCall(given.at, "TIMESTAMPDIFF", (word, *moments)))
    assert isinstance(found, Call)  # noqa: S101
    kinds = {root(each.type) for each in found.args[1:]}
    args = map(in_utc, found.args) if kinds == {"TIMESTAMP_LTZ"} else found.args
    return Call("TIMESTAMPDIFF", tuple(args), type=found.type, place=found.place)


def _add_days(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``DATE_ADD(a, days)``: the date as text."""
    _check_count(scope, given, 2, 2)
    value, days = (scope.bind(each) for each in given.args)
    if not is_integer(days.type):
        raise _refuse_type(scope, given.args[1], given.name, "INT", days.type)
    match root(value.type):
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            day: Expression = cast(value, DATE)
        case "DATE":
            day = value
        case "STRING" | "NULL":
            text = coerce(value, STRING)
            dated = Call("TO_DATE", (text, _text(_DAY)), type=DATE, place=value.place)
            timed = Call("TO_TIMESTAMP", (text, _text(_SECOND)), type=TimestampType(3), place=value.place)
            day = require(Call("COALESCE", (dated, cast(timed, DATE)), type=DATE, place=value.place), text)
        case _:
            raise _refuse_type(scope, given.args[0], given.name, "a DATE, a TIMESTAMP or text", value.type)
    moved = call("TIMESTAMPADD", _text("DAY"), days, day, type=DATE, place=scope.source.at(given.at))
    return cast(moved, STRING)


_FORMS: Mapping[str, _Bind] = {
    **dict.fromkeys(("=", "<", "<=", ">", ">=", "BETWEEN", "IN"), _compare),
    "<>": _differ,
    "LIKE": _like,
    **dict.fromkeys(("||", "CONCAT"), _concat),
    "COALESCE": _coalesce,
    "ROW": _row,
    **dict.fromkeys(("ARRAY[]", "MAP[]"), _collect),
    "[]": _element,
    **dict.fromkeys(("AI_CHAT_PREDICT", "AI_LANGCHAIN_PREDICT", "GET_EMBEDDING"), _has_no_model),
    **dict.fromkeys(("+", "-", "*", "/"), _calculate),
    **dict.fromkeys(("PARSE_JSON", "TRY_PARSE_JSON"), _has_no_variant),
    **dict.fromkeys(("LOCATE", "POSITION FROM"), _position),
    "OVERLAY": _overlay,
    **dict.fromkeys(("SUBSTRING", "SUBSTR"), _substring),
    "FROM_BASE64_BINARY": _decode,
    "DATE_FORMAT": _format,
    "DATE_FORMAT_TZ": _format_in_zone,
    "TO_DATE": _to_date,
    "TO_TIMESTAMP": _to_timestamp,
    "TO_TIMESTAMP_LTZ": _to_instant,
    "TIMESTAMPADD": _add_time,
    **dict.fromkeys(("TIMESTAMPDIFF", "TIMESTAMP_DIFF"), _subtract_times),
    "DATE_ADD": _add_days,
}
#: Functions that only transforms have.
NAMES = ("DATE_ADD", "DATE_FORMAT_TZ", "FROM_BASE64_BINARY", "TIMESTAMP_DIFF")
