"""CAST and TRY_CAST in transforms of pipelines, as in Flink CDC: a CAST to a number or a DECIMAL that fails gives NULL,
text forms are those of Java's ``toString``, and timestamps are read in ISO 8601's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal

from penstock.plan.expressions import Call, Expression, Literal, call, cast
from penstock.sql.bind.expressions.binding import ExpressionBinder
from penstock.sql.parse.syntax import UnboundCast
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    STRING,
    DataType,
    DecimalType,
    StringType,
    TimestampType,
)
from penstock.types.casts import is_castable, is_integer, is_numeric
from penstock.types.logical import root

#: Timestamps that transforms compute are of milliseconds, at most. Their values keep all digits that they are given.
_MOST_PRECISION = 3
_FULL = TimestampType(6)
_WHOLE = Literal(r"^\s*[+-]?\d+\s*$", type=STRING.with_nullability(False))


def bind_cast(scope: ExpressionBinder, given: UnboundCast, operand: Expression) -> Expression:
    """``CAST`` and ``TRY_CAST``. Raises SqlError for types that have no cast."""
    target = given.target
    if isinstance(target, TimestampType) and not target.local_zone:
        target = limit_type(scope, target)
    if isinstance(target, StringType) and not target.fixed and target.length == 1:
        target = STRING  # VARCHAR without a length
    if not is_castable(operand.type, target):
        reason = f"{operand.type.text()} cannot be CAST to {target.text()}"
        raise scope.source.error(given.at, reason, "CAST it to STRING first")
    if isinstance(operand, Literal) and operand.value is None:
        return Literal(None, type=target.with_nullability(True), place=operand.place)
    if is_integer(target):
        return _to_integer(operand, target, given.safe)
    if target == STRING:
        return to_text(operand)
    read = _READERS.get((root(operand.type), root(target)))
    if read is not None:
        return read(operand, target, given.safe)
    return cast(operand, target, safe=given.safe or (is_numeric(target) and not _fits(operand, target)))


def _fits(operand: Expression, target: DataType) -> bool:
    """Whether it is a constant that a DECIMAL holds."""
    value = operand.value if isinstance(operand, Literal) else None
    if not isinstance(target, DecimalType) or not isinstance(value, int | Decimal):
        return False
    whole: int = 10 ** (target.precision - target.scale)
    return 1 - whole < value < whole - 1


def limit_type(scope: ExpressionBinder, given: DataType) -> DataType:
    """The type that a transform can compute: a DECIMAL with fewer digits, or a timestamp of milliseconds."""
    match given:
        case DecimalType() if given.precision > scope.dialect.decimal_digits:
            digits = scope.dialect.decimal_digits
            return DecimalType(digits, min(given.scale, digits), nullable=given.nullable)
        case TimestampType() if given.precision > _MOST_PRECISION:
            return TimestampType(_MOST_PRECISION, given.local_zone, nullable=given.nullable)
    return given


def with_type(operand: Expression, target: DataType) -> Expression:
    """The same values under another type of the same layout."""
    if operand.type.with_nullability(True) == target.with_nullability(True):
        return operand
    return call("AS TYPE", operand, type=target, place=operand.place)


def in_utc(operand: Expression) -> Expression:
    """The date and the time in UTC of a point in time; other values as they are."""
    if not isinstance(operand.type, TimestampType) or not operand.type.local_zone:
        return operand
    return call("IN UTC", operand, type=TimestampType(operand.type.precision), place=operand.place)


def _to_integer(operand: Expression, target: DataType, safe: bool) -> Expression:
    """As Java's ``Double.valueOf(text).byteValue()`` and the like: text may have a fraction, and a number that is too
    large keeps its lowest bits. TRY_CAST takes the text of a whole number that fits, and no other."""
    if root(operand.type) == "STRING" and safe:
        whole = call("REGEXP", operand, _WHOLE, type=BOOLEAN, place=operand.place)
        read = cast(operand, target, safe=True)
        return Call("CASE", (whole, read), type=read.type, place=operand.place)
    if root(operand.type) == "STRING":
        found = cast(cast(operand, DOUBLE, safe=True), target)
        if target.with_nullability(True) != BIGINT:
            return found
        exact = cast(operand, target, safe=True)  # a DOUBLE has not all digits of a BIGINT
        return Call("COALESCE", (exact, found), type=target.with_nullability(True), place=operand.place)
    if is_integer(operand.type) and operand.type.with_nullability(True) == BIGINT != target.with_nullability(True):
        operand = cast(operand, DOUBLE)
    return cast(operand, target)


def to_text(operand: Expression) -> Expression:
    """A value as Java's ``toString`` writes it."""
    match root(operand.type):
        case "STRING" if operand.type.with_nullability(True) == STRING:
            return operand
        case "STRING":
            return with_type(operand, STRING)
        case "NULL":
            return Literal(None, type=STRING, place=operand.place)
        case "BOOLEAN":
            return call("LOWER", cast(operand, STRING), type=STRING, place=operand.place)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return call("ISO TEXT", in_utc(operand), type=STRING, place=operand.place)
        case "TIME":
            text = call("ISO TEXT", cast(operand, _FULL), type=STRING, place=operand.place)
            start = Literal(len("1970-01-01T") + 1, type=BIGINT.with_nullability(False))
            return call("SUBSTRING", text, start, type=STRING, place=operand.place)
    return cast(operand, STRING)


def _read_boolean(operand: Expression, target: DataType, safe: bool) -> Expression:
    if safe:
        return cast(operand, target, safe=True)
    text = call("LOWER", operand, type=STRING, place=operand.place)
    return call("=", text, Literal("true", type=STRING.with_nullability(False)), type=BOOLEAN, place=operand.place)


def _read_timestamp(operand: Expression, target: DataType, safe: bool) -> Expression:
    found = Call("ISO TIMESTAMP", (operand,), type=target.with_nullability(True), place=operand.place)
    return found if safe else require(found, operand)


def require(found: Expression, given: Expression) -> Expression:
    """A value that was read from ``given``. The row fails if there is none."""
    return Call("READABLE", (found, given), type=found.type, place=given.place)


def _convert_timestamp(operand: Expression, target: DataType, safe: bool) -> Expression:
    """A local time, with all of its digits."""
    assert isinstance(operand.type, TimestampType)  # noqa: S101
    if operand.type.local_zone:
        operand = cast(with_type(operand, TimestampType(6, local_zone=True)), _FULL)
    return with_type(operand, target)


#: By the roots of the operand and the target.
_READERS: Mapping[tuple[str, str], Callable[[Expression, DataType, bool], Expression]] = {
    ("STRING", "BOOLEAN"): _read_boolean,
    ("STRING", "TIMESTAMP"): _read_timestamp,
    ("TIMESTAMP", "TIMESTAMP"): _convert_timestamp,
    ("TIMESTAMP_LTZ", "TIMESTAMP"): _convert_timestamp,
}
