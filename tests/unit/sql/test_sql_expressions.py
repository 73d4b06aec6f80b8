"""Flink SQL expressions to canonical Spark SQL: the cases of tests/specs/sql/expressions.yaml, and their rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.engine.translate import spark_sql
from penstock.engine.translate.expressions import has_spark_sql
from penstock.errors import DefinitionError, SchemaError, SqlError
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import row_of
from penstock.sql import condition, expression, projection
from penstock.types import parse_columns, spark_type

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/expressions.yaml").read_text("utf-8"))
CASES = SPEC["cases"]
SCHEMA = parse_columns(SPEC["columns"])


def test_no_case_is_lost():
    assert len(CASES) == SPEC["count"]
    assert len({case["sql"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
def test_an_expression_has_one_text_and_one_type(case: dict[str, Any]):
    found = expression(case["sql"], SCHEMA)

    assert (spark_sql(found) if has_spark_sql(found) else None) == case["text"]
    assert str(found.type) == case["type"]


@pytest.mark.spark
def test_spark_computes_the_value_and_type_that_flink_would():
    from penstock.engine.session import spark_session
    from penstock.engine.translate.kernels import computable
    from penstock.settings import Settings

    spark = spark_session(Settings(), "expressions").newSession()  # one that tests of jobs can go on with
    spark.conf.set("spark.sql.caseSensitive", "true")
    spark.conf.set("spark.sql.session.timeZone", SPEC["zone"])
    spark.conf.set("spark.sql.timeType.enabled", "true")
    found = [expression(case["sql"], SCHEMA) for case in CASES]
    row = spark.sql(SPEC["row"]).selectExpr("* EXCEPT (price)", "CAST(price AS DECIMAL(10,2)) AS price")
    # Spark's Python tasks take no column with a backtick in its name.
    given, computed = computable(row.selectExpr("* EXCEPT (`odd``name`)"), [e for e in found if not has_spark_sql(e)])
    kernels = iter(computed)
    frames = [(row, each) if has_spark_sql(each) else (given, next(kernels)) for each in found]
    shown, types = {}, {}
    for frame in (row, given):
        own = [(f"c{index}", spark_sql(each)) for index, (other, each) in enumerate(frames) if other is frame]
        shown |= frame.selectExpr(*(f"CAST({text} AS STRING) AS {name}" for name, text in own)).collect()[0].asDict()
        typed = frame.selectExpr(*(f"{text} AS {name}" for name, text in own)).schema
        types |= {field.name: field.dataType.simpleString().replace(" ", "").upper() for field in typed.fields}

    wrong = [
        (case["sql"], shown[f"c{index}"], case["value"])
        for index, case in enumerate(CASES)
        if "value" in case and shown[f"c{index}"] != case["value"]
    ]
    assert wrong == []
    other = [
        (case["sql"], types[f"c{index}"], spark_type(each.type))
        for index, (case, each) in enumerate(zip(CASES, found, strict=True))
        # A TIME literal has six digits in Spark, whatever it is written with.
        if types[f"c{index}"] != spark_type(each.type).replace("`", "").upper() and not case["sql"].startswith("TIME ")
    ]
    assert other == []


@pytest.mark.parametrize(
    "texts",
    [
        ("d>60", "d > 60", " ( d ) > ( 60 )", "`d` > 60 -- a comment", "d /* minutes */ > 60"),
        ("a || 'x' || 'y'", "CONCAT(a, 'x', 'y')", "concat(`a`, 'x', 'y')"),
        ("NOT i IN (1, 2)", "i NOT IN (1, 2)"),
        ("flag AND (i > 1 AND d > 1)", "(flag AND i > 1) AND d > 1"),
        ("YEAR(ts)", "EXTRACT(YEAR FROM ts)"),
        ("a <> 'x'", "a != 'x'"),
        ("CASE i WHEN 1 THEN a END", "CASE WHEN i = 1 THEN a END"),
        ("SUBSTRING(a FROM 2 FOR 1)", "SUBSTR(a, 2, 1)"),
    ],
    ids=lambda texts: texts[0],
)
def test_one_meaning_is_one_expression(texts: tuple[str, ...]):
    assert len({expression(text, SCHEMA) for text in texts}) == 1


def test_a_string_stays_a_string_in_spark():
    """Spark reads backslashes as escapes, and replaces ``${`` by its configuration."""
    literal = expression(r"'\'' OR 1'", SCHEMA)

    assert spark_sql(literal) == r"'\\\' OR 1'"


def test_names_are_case_sensitive():
    with pytest.raises(SchemaError) as caught:
        expression("A", SCHEMA)

    assert str(caught.value) == "line 1, column 1: there is no column 'A' (did you mean 'a'? names are case-sensitive)"


def test_a_projection_names_its_columns():
    items = projection("i, i AS k, r.name, a || 'x', i", SCHEMA)

    assert [(item.name, flink_sql(item.expression)) for item in items] == [
        ("i", "`i`"),
        ("k", "`i`"),
        ("name", "`r`.`name`"),
        ("EXPR$3", "CONCAT(`a`, 'x')"),
        ("i0", "`i`"),
    ]
    assert row_of(items).names == ("i", "k", "name", "EXPR$3", "i0")
    assert [str(field.type) for field in row_of(items).fields] == ["INT", "INT", "STRING", "STRING", "INT"]


def test_a_star_is_every_column():
    items = projection("*, i + 1 AS next", parse_columns("i INT, `odd``name` STRING"))

    assert [(item.name, flink_sql(item.expression)) for item in items] == [
        ("i", "`i`"),
        ("odd`name", "`odd``name`"),
        ("next", "`i` + 1"),
    ]
    assert row_of(items).names == ("i", "odd`name", "next")


def test_a_projection_reports_all_its_problems():
    with pytest.raises(DefinitionError) as caught:
        projection("nope, i,\n  UPPER(i), NULL", SCHEMA, origin="job.yaml, transform 1")

    assert str(caught.value).splitlines() == [
        "job.yaml, transform 1, line 1, column 1: there is no column 'nope'"
        f" (there are {', '.join(SCHEMA.names[:12])})",
        "job.yaml, transform 1, line 2, column 3: UPPER takes (STRING), not (INT) (CAST the arguments)",
        "job.yaml, transform 1, line 2, column 13: the type of NULL is not known here (write CAST(NULL AS STRING))",
    ]


def test_a_condition_is_boolean():
    assert spark_sql(condition("i > 60", SCHEMA)) == "`i` > 60"
    assert spark_sql(condition("NULL", SCHEMA)) == "CAST(NULL AS BOOLEAN)"
    with pytest.raises(SqlError, match="line 1, column 1: a condition must be BOOLEAN, not INT"):
        condition("i", SCHEMA)


@pytest.mark.parametrize("text", ["", " ", "i i", "i,", "(i", "i)", "i +", "a AS b", "SELECT i", "*", "i;"])
def test_an_expression_is_one_whole_expression(text: str):
    with pytest.raises(SqlError, match=r"line 1, column \d+: "):
        expression(text, SCHEMA)


@pytest.mark.parametrize("text", ["(" * 5000 + "i" + ")" * 5000, "i + " * 5000 + "i", "NOT " * 5000 + "flag"])
def test_nesting_has_a_limit_and_says_so(text: str):
    with pytest.raises(SqlError, match="nested too deeply"):
        expression(text, SCHEMA)


def test_long_conjunctions_are_not_nesting():
    assert spark_sql(condition(" AND ".join(["flag"] * 5000), SCHEMA)).count("`flag`") == 5000
