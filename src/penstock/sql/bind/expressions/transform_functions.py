"""Calls in transforms of pipelines, where Flink CDC means something else than Flink SQL.

Comparisons are false where an operand is NULL. ``LIKE`` without ESCAPE looks for a regular expression of Java. ``||``
takes values of all types, and writes ``null``. DECIMALs have the digits of Calcite's type system. The functions that
only transforms have are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from penstock.flow.kernels.rowwise import ValueFailure
from penstock.flow.kernels.texts.java_regex import compile_pattern
from penstock.plan.expressions import Call, ColumnRef, Expression, FieldAccess, Literal, call, cast, coerce
from penstock.sql.bind.expressions.binding import ExpressionBinder
from penstock.sql.bind.expressions.transform_arguments import bind_first, check_count, make_text, refuse_type
from penstock.sql.bind.expressions.transform_casts import in_utc, limit_type, to_text, with_type
from penstock.sql.bind.expressions.transform_times import FORMS, from_utc
from penstock.sql.parse.syntax import UnboundCall, UnboundLiteral
from penstock.types import (
    BOOLEAN,
    BYTES,
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
)
from penstock.types.casts import as_decimal, is_integer
from penstock.types.logical import MAX_PRECISION, root

_Bind = Callable[[ExpressionBinder, UnboundCall], Expression]
#: What FROM_BASE64_BINARY gives, by Calcite's longest VARBINARY.
_DECODED = BinaryType(65536)
_SIGNS = ("+", "-", "*", "/", "MOD")


def bind_call(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """A call, without the NOT before its operator. Raises SqlError, SchemaError or UnsupportedError with its place."""
    bind = None if given.spaces else _FORMS.get(given.name)
    return scope.bind_flink_call(given) if bind is None else bind(scope, given)


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
    given, (_, pattern) = bind_first(scope, given, 2)
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
            part = Call("COALESCE", (part, make_text("null")), type=STRING.with_nullability(False), place=part.place)
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
    given, (found,) = bind_first(scope, given)
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
        return from_utc(replace(found, args=tuple(map(in_utc, found.args))), found.type)
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
            raise refuse_type(scope, arg, given.name, "BYTES" if at < count else "INT", value.type)
    return tuple(coerce(each, BYTES if at < count else INT) for at, each in enumerate(args))


def _position(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    """``POSITION`` and ``LOCATE``, of BYTES too."""
    check_count(scope, given, 2, 3)
    given, sides = bind_first(scope, given, 2)
    if any(root(each.type) == "BYTES" for each in sides):
        args = _bind_bytes(scope, given, 2)
        return call("POSITION OF BYTES", *args, type=INT, place=scope.source.at(given.at))
    return scope.bind_flink_call(UnboundCall(given.at, "LOCATE", given.args))


def _overlay(scope: ExpressionBinder, given: UnboundCall) -> Expression:
    given, (text,) = bind_first(scope, given)
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
    check_count(scope, given, 1, 1)
    text = scope.string(given.args[0], given.name)
    return call("FROM_BASE64_BINARY", text, type=_DECODED, place=scope.source.at(given.at))


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
    **FORMS,
}
#: Functions that only transforms have.
NAMES = ("DATE_ADD", "DATE_FORMAT_TZ", "FROM_BASE64_BINARY", "TIMESTAMP_DIFF")
