"""Calls as others that have kernels: operands in one type, and functions that are short for a few others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.flow.kernels.arithmetic import OF_REALS
from penstock.plan.expressions import Call, Cast, Expression, Literal, cast
from penstock.types import BOOLEAN, DOUBLE, FLOAT, DataType, DecimalType, NullType, TimestampType
from penstock.types.casts import alike, as_decimal, common_type, is_integer, is_numeric
from penstock.types.logical import root


def rewritten(call: Call) -> Expression:
    """The call, or another expression with the same value."""
    found = _REWRITES.get(call.function)
    return call if found is None else found(call)


def simplified(given: Cast) -> Cast:
    """The cast without one below it that Spark's optimizer takes for lossless: of integers to FLOAT, then DOUBLE."""
    below = given.operand
    if not isinstance(below, Cast) or root(given.type) != "DOUBLE":
        return given
    lossless = root(below.type) == "FLOAT" and is_integer(below.operand.type)
    return replace(given, operand=below.operand) if lossless else given


def comparison_type(types: Sequence[DataType]) -> DataType | None:
    """The type in which Spark compares numbers of these types: DOUBLE as soon as two kinds of them meet. None if there
    is none that holds all of them."""
    if all(root(each) == "FLOAT" for each in types):
        return FLOAT
    if any(root(each) in ("FLOAT", "DOUBLE") for each in types):
        return DOUBLE
    found = common_type(tuple(types))
    if isinstance(found, DecimalType):
        decimals = [as_decimal(each) for each in types]
        whole = max(each.precision - each.scale for each in decimals)
        return found if whole + found.scale <= found.precision else None
    return found


def _alike(operands: Sequence[Expression]) -> tuple[Expression, ...]:
    """Numbers in the type in which they are compared; other operands as they are."""
    types = [each.type for each in operands if not isinstance(each.type, NullType)]
    common = comparison_type(types) if types and all(map(is_numeric, types)) else None
    if common is None:
        return tuple(operands)
    return tuple(_as(each, common) for each in operands)


def _as(operand: Expression, target: DataType) -> Expression:
    if isinstance(operand.type, NullType) or alike(operand.type, target):
        return operand
    return cast(operand, target)


def _compared(call: Call) -> Expression:
    return replace(call, args=_alike(call.args))


def _member(call: Call) -> Expression:
    """IN stays where all members are constants that a set can hold; otherwise it is an OR of comparisons."""
    value, *others = _alike(call.args)
    if all(map(_is_constant, others)) and root(value.type) not in ("FLOAT", "DOUBLE", "NULL"):
        return replace(call, args=(value, *others))
    same = tuple(_compared(Call("=", (value, each), type=BOOLEAN, place=call.place)) for each in others)
    return same[0] if len(same) == 1 else replace(call, function="OR", args=same)


def _is_constant(given: Expression) -> bool:
    return isinstance(given, Literal) or (isinstance(given, Cast) and _is_constant(given.operand))


def _between(call: Call) -> Expression:
    value, low, high = call.args
    bounds = tuple(
        _compared(Call(sign, (value, bound), type=BOOLEAN, place=call.place))
        for sign, bound in ((">=", low), ("<=", high))
    )
    return replace(call, function="AND", args=bounds)


def _if(call: Call) -> Expression:
    return replace(call, function="CASE")


def _nullif(call: Call) -> Expression:
    first, second = call.args
    same = _compared(Call("=", (first, second), type=BOOLEAN, place=call.place))
    return replace(call, function="CASE", args=(same, Literal(None, type=call.type), first))


def _arithmetic(call: Call) -> Expression:
    """Operands of ``+ - *`` in the type of the result, unless they are decimals, whose types decide about it."""
    if not is_integer(call.type):
        return call
    return replace(call, args=tuple(_as(each, call.type) for each in call.args))


def _division(call: Call) -> Expression:
    """A FLOAT is the quotient of two DOUBLE."""
    if root(call.type) != "FLOAT":
        return call
    args = tuple(_as(each, DOUBLE) for each in call.args)
    return cast(replace(call, args=args, type=DOUBLE.with_nullability(call.type.nullable)), call.type)


def _of_double(call: Call) -> Expression:
    """The arguments as the DOUBLE that the function computes with."""
    return replace(call, args=tuple(_as(each, DOUBLE) for each in call.args))


def _of_one_type(call: Call) -> Expression:
    """The arguments in the type of the value."""
    return replace(call, args=tuple(_as(each, call.type) for each in call.args))


def _tried(call: Call) -> Expression:
    """Without a pattern, a cast that does not fail, and cuts no digits off."""
    if len(call.args) == 2:
        return call
    target = TimestampType(6) if isinstance(call.type, TimestampType) else call.type
    return cast(call.args[0], target, safe=True)


def _of_moment(call: Call) -> Expression:
    """The first argument as a timestamp, if it is text."""
    first, *rest = call.args
    if root(first.type) != "STRING":
        return call
    return replace(call, args=(cast(first, TimestampType(6)), *rest))


_REWRITES: dict[str, Callable[[Call], Expression]] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"), _compared),
    "IN": _member,
    "BETWEEN": _between,
    "IF": _if,
    "NULLIF": _nullif,
    **dict.fromkeys(("+", "-", "*"), _arithmetic),
    "/": _division,
    **dict.fromkeys(("SQRT", "LOG", "LOG2", *OF_REALS), _of_double),
    **dict.fromkeys(("GREATEST", "LEAST"), _of_one_type),
    **dict.fromkeys(("TO_TIMESTAMP", "TO_DATE"), _tried),
    "DATE_FORMAT": _of_moment,
}
