"""Rewrites of calls to others that have kernels: operands in one type, and functions that abbreviate others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.plan.expressions import Call, ColumnRef, Expression, Literal, call, cast, is_constant
from penstock.spi import WATERMARK
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    RowType,
    TimestampType,
)
from penstock.types.casts import as_decimal, find_common_type, is_alike, is_beyond_decimal, is_integer, is_numeric
from penstock.types.logical import root


def comparison_type(types: Sequence[DataType], *, equality: bool = False) -> DataType | None:
    """The type in which Flink compares numbers of these types. None for decimals whose values no type has all.

    Java compares integers with a FLOAT as FLOAT. For ``equality`` with a FLOAT before it, Flink casts a DOUBLE to it.
    """
    roots = [root(each) for each in types]
    if "DOUBLE" in roots or "FLOAT" in roots:
        first = next(each for each in roots if each in ("FLOAT", "DOUBLE"))
        single = "DECIMAL" not in roots and (first == "FLOAT" if equality else "DOUBLE" not in roots)
        return FLOAT if single else DOUBLE
    return None if is_beyond_decimal(types) else find_common_type(tuple(types))


def _cast_alike(operands: Sequence[Expression], *, equality: bool = True) -> tuple[Expression, ...]:
    """Numbers, timestamps with and without a zone, and collections, in the type in which they are compared; decimals
    without one, and other operands, as they are."""
    types = [each.type for each in operands]
    common: DataType | None = None
    if all(map(is_numeric, types)):
        common = comparison_type(types, equality=equality)
        if common is None:
            return tuple(_cast_to(each, as_decimal(each.type)) if is_integer(each.type) else each for each in operands)
    elif all(isinstance(each, TimestampType) for each in types):
        common = find_common_type(tuple(types)) if len({root(each) for each in types}) == 2 else None
    elif all(isinstance(each, ArrayType | MapType | RowType) for each in types):
        common = find_common_type(tuple(types))
    if common is None:
        return tuple(operands)
    return tuple(_cast_to(each, common) for each in operands)


def _cast_to(operand: Expression, target: DataType) -> Expression:
    return operand if is_alike(operand.type, target) else cast(operand, target)


def compare_alike(call: Call) -> Expression:
    """Comparisons have operands of one type."""
    equality = call.function in ("=", "<>", "IS DISTINCT FROM")
    args = _cast_alike(call.args, equality=equality)
    if not equality and _orders(call.args):
        args = tuple(map(_make_ordered, args))
    return replace(call, args=args)


def _orders(operands: Sequence[Expression]) -> bool:
    """Whether Flink orders the operands by Java's ``Double.compare``: a decimal and a floating-point number."""
    roots = {root(each.type) for each in operands}
    return "DECIMAL" in roots and bool(roots & {"FLOAT", "DOUBLE"})


def _make_ordered(operand: Expression) -> Expression:
    return call("ORDERED", _cast_to(operand, DOUBLE), type=BIGINT)


def member(given: Call) -> Expression:
    """IN stays where all members are constants that a set can hold; otherwise it is an OR of comparisons. A set of
    floating-point numbers holds their bits: 0.0 is not -0.0. A set of decimals has one type."""
    if all(isinstance(each, Call) and each.function == "ROW" for each in given.args):
        return _compare_fields(given)
    value, *others = _cast_alike(given.args)
    decimals = {each.type.with_nullability(True) for each in (value, *others) if isinstance(each.type, DecimalType)}
    collections = isinstance(value.type, ArrayType | MapType | RowType)
    if all(map(is_constant, others)) and not collections and len(decimals) < 2:
        if root(value.type) not in ("FLOAT", "DOUBLE"):
            return replace(given, args=(value, *others))
        if len(others) > 1:
            return replace(given, args=tuple(map(_make_ordered, (value, *others))))
    same = tuple(compare_alike(Call("=", (value, each), type=BOOLEAN, place=given.place)) for each in others)
    return same[0] if len(same) == 1 else replace(given, function="OR", args=same)


def _compare_fields(given: Call) -> Expression:
    """A row IN others: by its fields, so that it is null where one of them decides and is null."""

    def equal(one: Expression, other: Expression) -> Expression:
        pairs = zip(one.operands, other.operands, strict=True)
        same = tuple(compare_alike(Call("=", pair, type=BOOLEAN, place=given.place)) for pair in pairs)
        return same[0] if len(same) == 1 else Call("AND", same, type=BOOLEAN, place=given.place)

    value, *others = given.args
    found = tuple(equal(value, each) for each in others)
    return found[0] if len(found) == 1 else replace(given, function="OR", args=found)


def between(call: Call) -> Expression:
    """``BETWEEN`` is two comparisons."""
    value, low, high = call.args
    bounds = tuple(
        compare_alike(Call(sign, (value, bound), type=BOOLEAN, place=call.place))
        for sign, bound in ((">=", low), ("<=", high))
    )
    return replace(call, function="AND", args=bounds)


def choose(call: Call) -> Expression:
    """``IF`` is a CASE."""
    return replace(call, function="CASE")


def nullif(call: Call) -> Expression:
    """``NULLIF`` is a CASE."""
    first, second = call.args
    same = compare_alike(Call("=", (first, second), type=BOOLEAN, place=call.place))
    return replace(call, function="CASE", args=(same, Literal(None, type=call.type), first))


def to_integer_type(call: Call) -> Expression:
    """Operands of ``+ - *`` in the type of the result, unless they are decimals, whose types determine it."""
    if not is_integer(call.type):
        return call
    return replace(call, args=tuple(_cast_to(each, call.type) for each in call.args))


def remainder(call: Call) -> Expression:
    """Of integers that one of the operands is a decimal without digits after the point, as BIGINT."""
    if not is_integer(call.type):
        return call
    return replace(call, args=tuple(each if is_integer(each.type) else _cast_to(each, BIGINT) for each in call.args))


def to_double(call: Call) -> Expression:
    """The arguments as the DOUBLE that the function computes with."""
    return replace(call, args=tuple(_cast_to(each, DOUBLE) for each in call.args))


def to_result_type(call: Call) -> Expression:
    """The arguments in the type of the value."""
    return replace(call, args=tuple(_cast_to(each, call.type) for each in call.args))


def try_cast(call: Call) -> Expression:
    """Without a pattern, a cast that does not fail."""
    if len(call.args) == 2:
        return call
    return cast(call.args[0], call.type, safe=True)


def to_instants(call: Call) -> Expression:
    """Moments of which one is a point in time, as points in time."""
    unit, *moments = call.args
    kinds = {root(each.type) for each in moments}
    if len(kinds) == 1 or "TIMESTAMP_LTZ" not in kinds:
        return call
    return replace(call, args=(unit, *(_cast_to(each, TimestampType(6, local_zone=True)) for each in moments)))


def read_instant(call: Call) -> Expression:
    """Text without a pattern follows the usual one, in UTC; other text fails."""
    if len(call.args) > 1 or root(call.args[0].type) != "STRING":
        return call
    usual = Literal("yyyy-MM-dd HH:mm:ss", type=STRING)
    return replace(call, args=(cast(cast(call.args[0], TimestampType(3)), STRING), usual))


def read_watermark(call: Call) -> Expression:
    """``CURRENT_WATERMARK`` is a column of the batch."""
    return replace(call, args=(ColumnRef(WATERMARK, type=BIGINT),))
