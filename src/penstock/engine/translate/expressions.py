"""Expressions in canonical Spark SQL: one text for one expression."""

from __future__ import annotations

from decimal import Decimal

from penstock.engine.translate.functions import RENDERINGS
from penstock.plan.expressions import Call, Cast, ColumnRef, Expression, Literal
from penstock.plan.flink_sql import Binding, SqlText, Text
from penstock.spi import WATERMARK
from penstock.types import (
    STRING,
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntervalType,
    MapType,
    NullType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    quoted_name,
    spark_type,
)
from penstock.types.casts import alike, as_decimal, beyond_decimal, is_integer, is_numeric, widens
from penstock.types.logical import root


class NoSparkSqlError(Exception):
    """A function that Spark SQL does not have, or not with Flink's meaning for these arguments."""


_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"


def spark_sql(expression: Expression) -> str:
    """The Spark SQL of an expression over the columns of a frame. Raises NoSparkSqlError if there is none."""
    return _SparkSql().text(expression).sql


def has_spark_sql(expression: Expression) -> bool:
    """Whether there is Spark SQL for all parts of an expression."""
    try:
        spark_sql(expression)
    except NoSparkSqlError:
        return False
    return True


def millis(moment: Expression) -> str:
    """A TIMESTAMP or TIMESTAMP_LTZ as ms since 1970, the former as if it were in UTC: BIGINT."""
    if isinstance(moment.type, TimestampType) and moment.type.local_zone:
        return f"unix_millis({spark_sql(moment)})"
    return f"timestampdiff(MILLISECOND, {_EPOCH}, {spark_sql(moment)})"


_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "BETWEEN", "IN", "NULLIF"})
_REALS = frozenset({"FLOAT", "DOUBLE"})
_OVERFLOWING = frozenset({"+", "-", "*", "/", "NEGATE", "ABS"})
#: The most digits of a decimal.
_MOST = 38
_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
#: What text is cast to by rules of Flink's own.
_READ = _INTEGERS | _REALS | {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"}
_DATED = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_LTZ"})


class _SparkSql(SqlText):
    timestamp = "TIMESTAMP_NTZ"

    def text(self, expression: Expression) -> Text:
        if isinstance(expression, Call) and _differs_in_spark(expression):
            raise NoSparkSqlError(expression.function)
        return super().text(expression)

    def call(self, call: Call) -> Text:
        if call.function == "CURRENT_WATERMARK":
            return _current_watermark(call.type)
        rendering = RENDERINGS.get(call.function)
        found = rendering(call, [self.text(arg).sql for arg in call.args]) if rendering else None
        if found is None:
            raise NoSparkSqlError(call.function)
        return Text(found)

    def number(self, value: int | float | Decimal) -> str:
        match value:
            case float():
                return f"{value!r}D"
            case Decimal():
                return f"{value:f}BD"
        return str(value)

    def string(self, value: str) -> str:
        """Spark reads backslashes as escapes and ``${`` as a reference to its configuration."""
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
        return f"'{escaped}'"

    def pattern(self, pattern: Expression, escape: Expression | None) -> str:
        """Spark's default escape character is the backslash; Flink has none."""
        if escape is not None and not (isinstance(escape, Literal) and escape.value is not None):
            raise NoSparkSqlError("LIKE .. ESCAPE")
        if escape is not None:
            return super().pattern(pattern, escape)
        if isinstance(pattern, Literal) and isinstance(pattern.value, str):
            return self.string(pattern.value.replace("\\", "\\\\"))
        return f"replace({self.text(pattern).sql}, '\\\\', '\\\\\\\\')"

    def cast(self, cast: Cast) -> Text:
        """CAST or TRY_CAST with Flink's result: TRUE in capitals, as many digits of a second as the type has, text cut
        to its length, timestamps to their precision."""
        source, target = cast.operand.type, cast.type
        if _differs_when_cast(cast.operand, target):
            raise NoSparkSqlError(f"CAST({source.text()} AS {target.text()})")
        operand = self.text(cast.operand)
        verb = "try_cast" if cast.safe else "CAST"
        if isinstance(target, StringType):
            if isinstance(source, ArrayType | MapType | RowType):
                raise NoSparkSqlError(f"CAST({source.text()} AS STRING)")
            return _sized(_string(operand, source, verb), target)
        if isinstance(target, BinaryType):
            found = operand if isinstance(source, BinaryType) else Text(f"{verb}({operand.sql} AS BINARY)")
            if target.fixed:
                return Text(f"rpad({found.sql}, {target.length}, X'00')")
            whole = target.length == BinaryType().length
            return found if whole else Text(f"substring({found.sql}, 1, {target.length})")
        unchanged = not isinstance(source, NullType) and alike(source, target) and not isinstance(target, RowType)
        if isinstance(source, ArrayType) and isinstance(target, ArrayType) and _differs(source, target):
            element = ColumnRef("element", type=source.element)
            each = self.text(Cast(operand=element, safe=cast.safe, type=target.element)).sql
            return Text(f"transform({operand.sql}, {self.text(element).sql} -> {each})")
        plain = operand if unchanged else Text(f"{verb}({operand.sql} AS {spark_type(target)})")
        if isinstance(target, TimestampType) and target.precision < min(_second_digits(source), 6):
            cut = f"extract(SECOND FROM {plain.sql}) % {10**-target.precision:.{target.precision}f}BD"
            return Text(f"{plain.within(Binding.SUM)} - make_dt_interval(0, 0, 0, {cut})", Binding.SUM)
        return plain


def _differs_in_spark(call: Call) -> bool:
    """Whether an operator has another result in Spark: NaN equals itself there, and is larger than other numbers;
    decimals are rounded to one type before they are compared, and twice in wide products and quotients; a
    floating-point number divided by zero fails; a date plus an interval may be a timestamp; points in time are moved
    in the session's zone; what overflows fails."""
    types = [each.type for each in call.args]
    roots = {root(each) for each in types}
    match call.function:
        case function if function in _COMPARISONS:
            return bool(roots & _REALS) or beyond_decimal(types)
        case "/" if root(call.type) in _REALS or isinstance(call.type, DecimalType):
            return True
        case "+" | "-" if isinstance(call.args[-1].type, IntervalType):
            return root(call.args[0].type) in ("DATE", "TIME", "TIMESTAMP_LTZ")
        case "TIMESTAMPADD" | "TIMESTAMPDIFF":
            return "TIMESTAMP_LTZ" in roots
        case "*" if isinstance(call.type, IntervalType):
            return True
        case function if function in _OVERFLOWING:
            return root(call.type) in _INTEGERS or (isinstance(call.type, DecimalType) and call.type.precision == _MOST)
        case "ROUND":
            return root(call.type) in _INTEGERS and len(types) > 1
    return False


def _differs_when_cast(operand: Expression, target: DataType) -> bool:
    """Whether a cast has another result in Spark, which reads text in more forms, takes a cast of an integer to FLOAT
    and DOUBLE for one to DOUBLE, writes floating-point numbers as its Java does, and years of more than four digits
    with a sign."""
    source, to = root(operand.type), root(target)
    if _narrows(operand.type, target):
        return True
    if source == "STRING":
        return to in _READ
    if source in _REALS and to in ("STRING", "DECIMAL"):
        return True
    if source == "TIME":
        return to in ("TIMESTAMP", "TIMESTAMP_LTZ")
    if source in _DATED and to == "STRING":
        return True
    return source == "FLOAT" and to == "DOUBLE" and isinstance(operand, Cast)


def _narrows(source: DataType, target: DataType) -> bool:
    """Whether a cast may meet a number that the target cannot hold: that fails in Spark."""
    match source, target:
        case ArrayType(element=one), ArrayType(element=other):
            return _narrows(one, other)
        case MapType(), MapType():
            return _narrows(source.key, target.key) or _narrows(source.value, target.value)
        case RowType(), RowType():
            return any(map(_narrows, (each.type for each in source.fields), (each.type for each in target.fields)))
    if not is_numeric(source) or not (is_integer(target) or isinstance(target, DecimalType)):
        return False
    if root(source) in _REALS:
        return True
    given, wanted = as_decimal(source), as_decimal(target)
    if is_integer(target):
        return given.scale > 0 or given.precision + isinstance(source, DecimalType) > wanted.precision
    rounds = given.scale > wanted.scale
    return given.precision - given.scale + rounds > wanted.precision - wanted.scale


def _differs(source: ArrayType, target: ArrayType) -> bool:
    """Whether Spark's cast of the elements has other results than Flink's."""
    one, other = source.element, target.element
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return _differs(one, other)
    return isinstance(other, StringType | BinaryType | TimestampType) and not widens(one, other)


def _current_watermark(data_type: DataType) -> Text:
    column = quoted_name(WATERMARK)
    if isinstance(data_type, TimestampType) and data_type.local_zone:
        return Text(f"timestamp_millis({column})")
    return Text(f"{_EPOCH} + {column} * INTERVAL '0.001' SECOND", Binding.SUM)


def _second_digits(source: DataType) -> int:
    """How many digits of a second a value may have once it is a timestamp."""
    match source:
        case TimestampType(precision=precision):
            return precision
        case StringType():
            return 9
    return 0


def _string(operand: Text, source: DataType, verb: str) -> Text:
    text = f"{verb}({operand.sql} AS STRING)"
    match source:
        case StringType():
            return operand
        case PrimitiveType(name="BOOLEAN"):
            return Text(f"upper({text})")
        case TimeType(precision=precision):
            # Spark leaves trailing zeros out; Flink prints as many digits as the type declares.
            digits = min(precision, 6)
            seconds = f"substring({text}, 1, 8)"
            if not digits:
                return Text(seconds)
            return Text(f"concat({seconds}, '.', rpad(substring({text}, 10), {digits}, '0'))")
    return Text(text)


def _sized(text: Text, target: StringType) -> Text:
    if target.length == STRING.length:
        return text
    padded = f"rpad({text.sql}, {target.length}, ' ')"
    return Text(padded if target.fixed else f"substring({text.sql}, 1, {target.length})")
