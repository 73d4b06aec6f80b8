"""What each function of Flink SQL is in Spark SQL, where the arguments decide about it."""

from __future__ import annotations

import pytest

from penstock.engine.translate import spark_sql
from penstock.engine.translate.expressions import has_spark_sql
from penstock.engine.translate.functions import RENDERINGS
from penstock.flow.kernels.registry import KERNELS
from penstock.sql import expression
from penstock.sql.bind.functions import ALIASES, SIGNATURES
from penstock.types import parse_columns

COLUMNS = parse_columns(
    "s STRING, i INT, b BIGINT, d DECIMAL(10, 2), x DOUBLE, dt DATE, ts TIMESTAMP(3), ltz TIMESTAMP_LTZ(3)"
)


def test_every_function_that_can_be_bound_is_computed_by_spark_or_a_kernel():
    assert SIGNATURES.keys() - RENDERINGS.keys() - KERNELS.keys() == set()
    assert ALIASES.keys() & (SIGNATURES.keys() | RENDERINGS.keys()) == set()
    assert set(ALIASES.values()) <= RENDERINGS.keys()


@pytest.mark.parametrize(
    "flink",
    [
        "INITCAP(s)",
        "LPAD(s, 3, '0')",
        "SUBSTRING(s, -1)",
        "REPLACE(s, '', 'x')",
        "REGEXP_EXTRACT(s, 'a', 1)",
        "UPPER(INITCAP(s)) || 'x'",
        "x > 1",
        "x / 2",
        "CEIL(x)",
        "LN(x)",
        "dt + INTERVAL '1' DAY",
        "ts + i * INTERVAL '1' DAY",
        "TIMESTAMPDIFF(MONTH, dt, ts)",
        "TIMESTAMPDIFF(SECOND, ts, ts)",
        "TO_DATE(s)",
        "TO_TIMESTAMP_LTZ(b, 0)",
        "DATE_FORMAT(s, 'HH')",
        "UNIX_TIMESTAMP(s)",
        "CAST(s AS INT)",
        "CAST(CAST(i AS FLOAT) AS DOUBLE)",
        "REGEXP(s, '(')",
        "ROUND(i, b)",
    ],
)
def test_what_spark_computes_in_another_way_has_no_text(flink):
    assert not has_spark_sql(expression(flink, COLUMNS))


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        # as many arguments as there are
        ("TRIM(s)", "trim(`s`)"),
        ("LTRIM(s)", "ltrim(`s`)"),
        ("LTRIM(s, 'x')", "trim(LEADING 'x' FROM `s`)"),
        ("UNIX_TIMESTAMP()", "unix_timestamp()"),
        ("REGEXP_EXTRACT(s, 'a')", "CASE WHEN `s` RLIKE 'a' THEN regexp_extract(`s`, 'a', 0) END"),
        ("REGEXP_EXTRACT(s, 'a', 0)", "CASE WHEN `s` RLIKE 'a' THEN regexp_extract(`s`, 'a', 0) END"),
        # what the type of an argument decides
        ("DATE_FORMAT(ts, 'HH')", "date_format(`ts`, 'HH')"),
        ("ROUND(x, 1)", "round(`x`, 1)"),
        ("ROUND(x, 0)", "round(`x`)"),
        # what Spark would give in another type
        ("ROUND(d, 1)", "CAST(round(`d`, 1) AS DECIMAL(10,1))"),
        ("FLOOR(d)", "CAST(floor(`d`) AS DECIMAL(10,0))"),
        ("MOD(i, 2)", "CAST(mod(`i`, 2) AS INT)"),
        # a unit is a word
        ("EXTRACT(YEAR FROM ts)", "CAST(extract(YEAR FROM `ts`) AS BIGINT)"),
        ("TIMESTAMPADD(DAY, 1, ts)", "timestampadd(DAY, 1, `ts`)"),
        ("TIMESTAMPADD(DAY, 1, dt)", "CAST(timestampadd(DAY, 1, `dt`) AS DATE)"),
        ("TIMESTAMPDIFF(DAY, ts, ts)", "CAST(timestampdiff(DAY, `ts`, `ts`) AS INT)"),
    ],
)
def test_a_function_is_what_flink_means_by_it(flink, spark):
    assert spark_sql(expression(flink, COLUMNS)) == spark
