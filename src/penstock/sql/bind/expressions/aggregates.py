"""The aggregate functions, and the types of their arguments and results, as in Flink."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from penstock.plan.expressions import (
    TRUE,
    AggregateExpression,
    Call,
    Cast,
    Expression,
    Literal,
    coerce,
    conjunction,
    is_not_null,
    walk,
)
from penstock.sql.bind.expressions.arithmetic import bind_arithmetic
from penstock.sql.parse.source import SourceText
from penstock.sql.parse.syntax import UnboundAggregate, UnboundCall
from penstock.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    STRING,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    MapType,
    NullType,
    RowType,
)
from penstock.types.casts import is_integer, is_numeric, is_point
from penstock.types.logical import root

#: Functions of variance that are computed from sums and counts, and whether they are of a sample, and a square root.
_VARIANCES = {
    "VAR_POP": (False, False),
    **dict.fromkeys(("VAR_SAMP", "VARIANCE"), (True, False)),
    "STDDEV_POP": (False, True),
    **dict.fromkeys(("STDDEV_SAMP", "STDDEV"), (True, True)),
}
#: Functions of values of any type.
_OF_ANY = ("FIRST_VALUE", "LAST_VALUE", "ARRAY_AGG", "COLLECT", "SINGLE_VALUE")
#: Functions that build a JSON document from a group.
JSON_AGGREGATES = ("JSON_ARRAYAGG", "JSON_OBJECTAGG")
#: All functions.
FUNCTIONS = ("COUNT", "SUM", "AVG", "MIN", "MAX", *_OF_ANY, "LISTAGG", "PERCENTILE", *_VARIANCES, *JSON_AGGREGATES)
#: Functions that count NULL too, unless IGNORE NULLS says otherwise.
_WITH_NULLS = ("ARRAY_AGG", "SINGLE_VALUE")
_ORDERED = {"STRING", "BOOLEAN", "INTERVAL"}
_MAX_PRECISION = 38
#: The least scale of an average of decimals.
_LEAST_SCALE = 6


class Grouping(enum.Enum):
    """The rows that aggregates are over: none, where aggregates are not allowed; all rows; or the rows of each key."""

    NONE = "none"
    WHOLE = "whole"
    KEYS = "keys"


@dataclass(frozen=True)
class Aggregate(AggregateExpression):
    """An aggregate of the rows of a group: ``COUNT(*)``, which has no ``argument``, or ``SUM(DISTINCT argument) FILTER
    (WHERE filter)``. ``nulls`` and ``separator`` are those of the plan's call. Exists while a query is bound; the plan
    has aggregates in nodes only."""

    function: str
    distinct: bool
    nulls: bool = False
    separator: str = ""


@dataclass(frozen=True)
class GroupingBits(Expression):
    """GROUPING and GROUPING_ID: a bit for each of the ``args``, the first one highest; the bit is set where the row
    was not grouped by the argument. Exists while a query is bound."""

    args: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.args

    def number(self, keys: Sequence[Expression]) -> int:
        """The value for rows that were grouped by ``keys``."""
        found = 0
        for each in self.args:
            found = found * 2 + (each not in keys)
        return found


@dataclass(frozen=True)
class GroupId(Expression):
    """GROUP_ID: how many equal sets of keys precede the row's set. Exists while a query is bound."""


def has_aggregate(expression: Expression) -> bool:
    """Whether an expression contains an aggregate or GROUP_ID."""
    return any(isinstance(each, Aggregate | GroupId) for each in walk(expression))


def aggregate(
    given: UnboundAggregate,
    args: Sequence[Expression],
    condition: Expression | None,
    grouping: Grouping,
    source: SourceText,
) -> Expression:
    """The aggregate that ``given`` writes, or the expression of aggregates. Raises SqlError for other arguments, and
    UnsupportedError for a function that only Flink has."""
    name = given.name
    if name not in FUNCTIONS:
        raise source.unsupported_feature(
            given.at, f"aggregate {name} is not supported", f"there are {', '.join(FUNCTIONS)}"
        )
    if name in JSON_AGGREGATES:
        return _bind_json_aggregate(given, args, condition, source)
    if name == "PERCENTILE":
        return _bind_percentile(given, args, condition, source)
    separator, args = _bind_separator(given, args, source)
    if (len(args) > 1 and name != "COUNT") or (not args and name != "COUNT"):
        shown = len(args) or "'*'"
        raise source.error(given.at, f"{name} takes one argument, not {shown}", "aggregate one value")
    nulls = _counts_nulls(given, source)
    argument = _combine_arguments(args, distinct=given.distinct) if len(args) > 1 else args[0] if args else None
    distinct = given.distinct and name not in ("MIN", "MAX")  # which it does not change
    place = source.at(given.at)
    if argument is None or name == "COUNT":
        if argument is not None and not argument.type.nullable and not distinct:
            argument = None  # it counts rows
        return Aggregate(
            "COUNT", distinct, argument=argument, filter=condition, type=BIGINT.with_nullability(False), place=place
        )
    if not _takes(name, argument.type):
        expected = _list_accepted_types(name)
        raise source.error(given.args[0].at, f"{name} takes {expected}, not {argument.type.text()}", "CAST it")
    if name in _VARIANCES:
        return _bind_variance(given, argument, condition, source)
    nullable = argument.type.nullable or grouping is not Grouping.KEYS or condition is not None
    if name in ("ARRAY_AGG", "COLLECT"):  # which need values, not values that are not null
        nullable = name == "ARRAY_AGG" and (grouping is not Grouping.KEYS or condition is not None or not nulls)
    result = _find_result_type(name, argument.type).with_nullability(nullable or name == "SINGLE_VALUE")
    return Aggregate(name, distinct, nulls, separator, argument=argument, filter=condition, type=result, place=place)


def _bind_separator(
    given: UnboundAggregate, args: Sequence[Expression], source: SourceText
) -> tuple[str, Sequence[Expression]]:
    """The separator of LISTAGG, and the other arguments."""
    if given.name != "LISTAGG":
        return "", args
    if len(args) < 2:
        return ",", args
    found = args[1]
    if len(args) > 2 or not isinstance(found, Literal) or not isinstance(found.value, str):
        hint = "write the separator in quotes, as in LISTAGG(name, '; ')"
        raise source.error(given.args[1].at, "LISTAGG takes a value and a separator that is a string", hint)
    return found.value, args[:1]


def _counts_nulls(given: UnboundAggregate, source: SourceText) -> bool:
    """Whether values that are null count."""
    if given.nulls == "RESPECT" and given.name not in _WITH_NULLS:
        raise source.unsupported_feature(
            given.at, f"{given.name} with RESPECT NULLS is not supported", "it ignores NULL"
        )
    if given.nulls == "IGNORE" and given.name == "SINGLE_VALUE":
        raise source.unsupported_feature(
            given.at, "SINGLE_VALUE with IGNORE NULLS is not supported", "filter with WHERE"
        )
    return given.name in _WITH_NULLS and given.nulls != "IGNORE"


def _combine_arguments(args: Sequence[Expression], *, distinct: bool) -> Expression:
    """A value for COUNT of several arguments: NULL where one of them is, and with ``distinct`` distinct where they
    are."""
    condition = conjunction([is_not_null(each) for each in args])
    if not distinct:
        return Call("CASE", (condition, TRUE), type=BOOLEAN)
    fields = tuple(Field(f"EXPR${number}", each.type) for number, each in enumerate(args))
    row = Call("ROW", tuple(args), type=RowType(fields, nullable=False))
    return Call("CASE", (condition, row), type=RowType(fields))


def _bind_json_aggregate(
    given: UnboundAggregate, args: Sequence[Expression], condition: Expression | None, source: SourceText
) -> Expression:
    """JSON_ARRAYAGG, as the values' texts in the order of their arrival, or JSON_OBJECTAGG, as entries with distinct
    keys."""
    on_null, *keys, value = args
    absent, place = isinstance(on_null, Literal) and on_null.value == "ABSENT", source.at(given.at)
    if isinstance(value.type, NullType):
        raise source.error(given.args[-1].at, f"{given.name} takes a value of a known type, not NULL", "CAST it")
    null = value.type.nullable
    text: Expression = Call("JSON_STRING", (value,), type=STRING.with_nullability(null), place=place)
    if null and not absent:
        text = Call("COALESCE", (text, _make_text("null")), type=_make_text("").type, place=place)
    if not keys:
        listed = Aggregate("LISTAGG", False, argument=text, filter=condition, separator=",", type=STRING, place=place)
        every = Call("COALESCE", (listed, _make_text("")), type=_make_text("").type, place=place)
        return Call("CONCAT", (_make_text("["), every, _make_text("]")), type=_make_text("").type, place=place)
    (key,) = keys
    if root(key.type) != "STRING":
        raise source.error(given.args[1].at, f"a key of {given.name} is STRING, not {key.type.text()}", "CAST it")
    row = RowType((Field("key", key.type), Field("value", text.type)), nullable=False)
    entry: Expression = Call("ROW", (key, text), type=row, place=place)
    if null and absent:
        entry = Call("CASE", (is_not_null(value), entry), type=row.with_nullability(True), place=place)
    entries = Aggregate(
        "ARRAY_AGG", False, not absent, argument=entry, filter=condition, type=ArrayType(entry.type), place=place
    )
    return Call(given.name, (entries,), type=_make_text("").type, place=place)


def _bind_percentile(
    given: UnboundAggregate, args: Sequence[Expression], condition: Expression | None, source: SourceText
) -> Expression:
    """PERCENTILE, from the values of a group, or from the values and their frequencies."""
    if len(args) not in (2, 3):
        reason = f"PERCENTILE takes a value, a percentage and optionally a frequency, not {len(args)} arguments"
        raise source.error(given.at, reason, "PERCENTILE(amount, 0.95)")
    value, place = args[0], source.at(given.at)
    if not is_numeric(value.type):
        raise source.error(given.args[0].at, f"PERCENTILE takes a number, not {value.type.text()}", "CAST it")
    percentages = _read_percentages(args[1])
    if percentages is None or not all(0 <= each <= 1 for each in percentages):
        reason = "the percentage of PERCENTILE must be a number from 0 to 1, or an ARRAY of such numbers"
        raise source.error(given.args[1].at, reason, "PERCENTILE(amount, 0.95), PERCENTILE(amount, ARRAY[0.5, 0.95])")
    entry: Expression = coerce(value, DOUBLE)
    if len(args) == 3:
        frequency = args[2]
        if not is_integer(frequency.type):
            reason = f"the frequency of PERCENTILE must be a whole number, not {frequency.type.text()}"
            raise source.error(given.args[2].at, reason, "CAST it to BIGINT")
        row = RowType((Field("value", entry.type), Field("frequency", BIGINT)), nullable=False)
        known = conjunction([is_not_null(value), is_not_null(frequency)])
        made = Call("ROW", (entry, coerce(frequency, BIGINT)), type=row, place=place)
        entry = Call("CASE", (known, made), type=row.with_nullability(True), place=place)
    of_values = ArrayType(entry.type.with_nullability(False))
    entries = Aggregate("ARRAY_AGG", given.distinct, argument=entry, filter=condition, type=of_values, place=place)
    double = DOUBLE.with_nullability(False)
    literals = (Literal(each, type=double) for each in percentages)
    several = isinstance(args[1].type, ArrayType)
    return Call("PERCENTILE", (entries, *literals), type=ArrayType(DOUBLE) if several else DOUBLE, place=place)


def _read_percentages(given: Expression) -> list[float] | None:
    """The numbers of a constant, or of an array of constants; None for another expression."""
    parts = given.args if isinstance(given, Call) and given.function == "ARRAY" else (given,)
    found = []
    for each in parts:
        part: Expression = each
        while isinstance(part, Cast):
            part = part.operand
        if not isinstance(part, Literal) or not isinstance(part.value, int | float | Decimal):
            return None
        found.append(float(part.value))
    return found


def _make_text(value: str) -> Literal:
    return Literal(value, type=STRING.with_nullability(False))


def _bind_variance(
    given: UnboundAggregate, argument: Expression, condition: Expression | None, source: SourceText
) -> Expression:
    """As in Flink, the variance is computed from the sum of the values, the sum of their squares and their number, in
    the type of an average; for decimals as DOUBLE, since quotients of so many digits have no kernel."""
    sample, root_of = _VARIANCES[given.name]
    place = source.at(given.at)
    result = _find_result_type("AVG", argument.type).with_nullability(True)
    value = coerce(argument, DOUBLE if isinstance(result, DecimalType) else result)

    def combine(sign: str, left: Expression, right: Expression) -> Expression:
        return bind_arithmetic(UnboundCall(given.at, sign, (given.args[0], given.args[0])), (left, right), source)

    def make_sum(each: Expression) -> Expression:
        kind = _find_result_type("SUM", each.type).with_nullability(True)
        return Aggregate("SUM", given.distinct, argument=each, filter=condition, type=kind, place=place)

    total = make_sum(value)
    number: Expression = Aggregate(
        "COUNT", given.distinct, argument=value, filter=condition, type=BIGINT.with_nullability(False), place=place
    )
    of_mean = combine("/", combine("*", total, total), number)
    divisor = number
    if sample:
        zero = Literal(0, type=BIGINT.with_nullability(False))
        one = Literal(1, type=BIGINT.with_nullability(False))
        divisor = Call("NULLIF", (combine("-", number, one), zero), type=BIGINT, place=place)
    found = combine("/", combine("-", make_sum(combine("*", value, value)), of_mean), divisor)
    if root_of:
        found = Call("SQRT", (coerce(found, DOUBLE),), type=DOUBLE, place=place)
    return coerce(found, result)


def _takes(function: str, given: DataType) -> bool:
    if isinstance(given, NullType):
        return False
    if function in _OF_ANY:
        return True
    if function == "LISTAGG":
        return root(given) == "STRING"
    return is_numeric(given) or (function in ("MIN", "MAX") and (is_point(given) or root(given) in _ORDERED))


def _list_accepted_types(function: str) -> str:
    """The types that a function takes."""
    if function in ("MIN", "MAX"):
        return "a number, STRING, BOOLEAN, date or time"
    return {"LISTAGG": "STRING", **dict.fromkeys(_OF_ANY, "a value of a known type")}.get(function, "a number")


def _find_result_type(function: str, given: DataType) -> DataType:
    """The type of the value: the argument's type, except for collections, and for decimals, which get the greatest
    precision."""
    if function == "ARRAY_AGG":
        return ArrayType(given)
    if function == "COLLECT":
        return MapType(given, INT.with_nullability(False), multiset=True)
    if not isinstance(given, DecimalType) or function not in ("SUM", "AVG"):
        return given
    return DecimalType(_MAX_PRECISION, given.scale if function == "SUM" else max(given.scale, _LEAST_SCALE))
