"""Expressions in Spark SQL: literals that Spark reads as they were meant, and casts with Flink's result.

What Spark computes from them is in tests/specs/sql/expressions.yaml.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal

import pytest

from penstock.engine.translate import millis, spark_sql
from penstock.engine.translate.expressions import has_spark_sql
from penstock.plan.expressions import ColumnRef, FieldAccess, Literal, call, cast
from penstock.spi import WATERMARK
from penstock.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TINYINT,
    ArrayType,
    BinaryType,
    DecimalType,
    Field,
    IntervalType,
    MapType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
)

A, B = (ColumnRef(name, type=BOOLEAN) for name in "ab")
D, N = ColumnRef("d", type=DOUBLE), ColumnRef("n", type=INT)
S = ColumnRef("s", type=STRING)
TS, LTZ = TimestampType(3), TimestampType(3, local_zone=True)


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, NULL, "NULL"),
        (True, BOOLEAN, "TRUE"),
        (-1, INT, "-1"),
        (1.5, DOUBLE, "1.5D"),
        (1e300, DOUBLE, "1e+300D"),
        (Decimal("1E-7"), DecimalType(8, 7), "0.0000001BD"),
        ("it's", STRING, r"'it\'s'"),
        ("a\\b", STRING, r"'a\\b'"),
        ("${spark.app.name}", STRING, r"'\u0024{spark.app.name}'"),
        (b"\x00\xff", BYTES, "X'00FF'"),
        (date(2026, 1, 2), DATE, "DATE '2026-01-02'"),
        (time(3, 4, 5, 600_000), TimeType(1), "TIME '03:04:05.6'"),
        (datetime(2026, 1, 2, 3, 4, 5), TimestampType(0), "TIMESTAMP_NTZ '2026-01-02 03:04:05'"),
        (timedelta(hours=26), IntervalType(months=False), "INTERVAL '26' HOUR"),
        (14, IntervalType(months=True), "INTERVAL '14' MONTH"),
    ],
)
def test_a_literal_is_one_that_spark_reads_as_it_was_meant(value, type, text):
    assert spark_sql(Literal(value, type=type)) == text


def test_names_are_quoted():
    row = ColumnRef("odd`name", type=RowType((Field("in ner", INT),)))
    assert spark_sql(FieldAccess(row, "in ner", type=INT)) == "`odd``name`.`in ner`"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (call("AND", A, call("OR", A, B)), "`a` AND (`a` OR `b`)"),
        (call("OR", call("AND", A, B), B), "`a` AND `b` OR `b`"),
        (call("NOT", call("AND", A, B)), "NOT (`a` AND `b`)"),
        (call("NOT", call("IS NULL", A)), "`a` IS NOT NULL"),
        (call("-", D, call("-", D, D, type=DOUBLE), type=DOUBLE), "`d` - (`d` - `d`)"),
        (call("*", call("+", D, D, type=DOUBLE), D, type=DOUBLE), "(`d` + `d`) * `d`"),
        (call("NEGATE", Literal(-1.5, type=DOUBLE), type=DOUBLE), "-(-1.5D)"),
    ],
)
def test_parentheses_stand_where_they_are_needed(expression, text):
    assert spark_sql(expression) == text


@pytest.mark.parametrize("function", ["+", "-", "*", "/"])
def test_what_may_overflow_is_not_left_to_spark(function):
    for wide in (INT, BIGINT, DecimalType(38, 6)):
        assert not has_spark_sql(call(function, N, N, type=wide))
    assert has_spark_sql(call(function, N, N, type=DecimalType(37, 6))) == (function != "/")


@pytest.mark.parametrize(
    ("source", "target", "holds"),
    [
        *((INT, BIGINT, True), (BIGINT, INT, False), (DOUBLE, BIGINT, False), (INT, DecimalType(10, 0), True)),
        *((INT, DecimalType(10, 1), False), (DecimalType(9, 0), INT, True), (DecimalType(10, 0), INT, False)),
        *((DecimalType(5, 2), DecimalType(5, 1), True), (DecimalType(5, 2), DecimalType(4, 1), False)),
        *((ArrayType(BIGINT), ArrayType(INT), False), (MapType(STRING, INT), MapType(STRING, BIGINT), True)),
        *((RowType((Field("a", INT),)), RowType((Field("a", TINYINT),)), False), (DOUBLE, DecimalType(38, 6), False)),
        *((LTZ, STRING, False), (TS, STRING, False), (DATE, STRING, False)),
    ],
)
def test_a_cast_is_left_to_spark_if_the_type_holds_all_values(source, target, holds):
    assert has_spark_sql(cast(ColumnRef("c", type=source), target)) == holds


def test_like_has_no_escape_character_unless_one_is_given():
    def like(pattern, *escape):
        return spark_sql(call("LIKE", S, pattern, *escape))

    assert like(Literal("a\\_%", type=STRING)) == r"`s` LIKE 'a\\\\_%'"
    assert like(S) == r"`s` LIKE replace(`s`, '\\', '\\\\')"
    assert like(Literal("a!_%", type=STRING), Literal("!", type=STRING)) == "`s` LIKE 'a!_%' ESCAPE '!'"


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        (INT, BIGINT, "CAST(`c` AS BIGINT)"),
        (INT, INT, "`c`"),
        (BOOLEAN, STRING, "upper(CAST(`c` AS STRING))"),
        (STRING, StringType(3), "substring(`c`, 1, 3)"),
        (STRING, StringType(3, fixed=True), "rpad(`c`, 3, ' ')"),
        (INT, StringType(3), "substring(CAST(`c` AS STRING), 1, 3)"),
        (BYTES, BinaryType(2), "substring(`c`, 1, 2)"),
        (BYTES, BinaryType(2, fixed=True), "rpad(`c`, 2, X'00')"),
        (STRING, BYTES, "CAST(`c` AS BINARY)"),
        (TimeType(0), STRING, "substring(CAST(`c` AS STRING), 1, 8)"),
        (
            TimeType(3),
            STRING,
            "concat(substring(CAST(`c` AS STRING), 1, 8), '.', rpad(substring(CAST(`c` AS STRING), 10), 3, '0'))",
        ),
        (
            TimestampType(6),
            TimestampType(3),
            "`c` - make_dt_interval(0, 0, 0, extract(SECOND FROM `c`) % 0.001BD)",
        ),
        (TINYINT, LTZ, "CAST(`c` AS TIMESTAMP)"),
        (NULL, INT, "CAST(`c` AS INT)"),
    ],
)
def test_a_cast_has_the_result_of_flinks(source, target, text):
    assert spark_sql(cast(ColumnRef("c", type=source), target)) == text


def test_try_cast_gives_null_for_what_cannot_be_cast():
    assert spark_sql(cast(S, BOOLEAN, safe=True)) == "try_cast(`s` AS BOOLEAN)"


def test_moments_are_milliseconds_since_1970():
    assert millis(ColumnRef("t", type=LTZ)) == "unix_millis(`t`)"
    assert millis(ColumnRef("t", type=TS)) == ("timestampdiff(MILLISECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', `t`)")


def test_the_present_watermark_is_a_column_of_the_source():
    assert spark_sql(call("CURRENT_WATERMARK", type=LTZ)) == f"timestamp_millis(`{WATERMARK}`)"
    assert spark_sql(call("CURRENT_WATERMARK", type=TS)).endswith(f"+ `{WATERMARK}` * INTERVAL '0.001' SECOND")
