"""Flink SQL expressions: the cases of tests/specs/sql/expressions.yaml, and their rules."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from penstock.errors import DefinitionError, SchemaError, SqlError
from penstock.flow.kernels.session import Session
from penstock.flow.rows.expressions import Evaluator, compile_expression
from penstock.plan.expressions import cast
from penstock.plan.flink_sql import flink_sql
from penstock.plan.nodes import row_of
from penstock.sql import parse_condition, parse_expression, parse_projection
from penstock.types import STRING, arrow_schema, arrow_type, parse_columns

SPEC = yaml.safe_load((Path(__file__).parents[2] / "specs/sql/expressions.yaml").read_text("utf-8"))
CASES = SPEC["cases"]
SCHEMA = parse_columns(SPEC["columns"])
ROW: dict[str, Any] = {
    "a": "Hello",
    "i": 7,
    "b": 10_000_000_000,
    "s": 4,
    "d": 2.5,
    "f": 1.5,
    "price": Decimal("19.99"),
    "flag": True,
    "dt": date(2026, 1, 31),
    "ts": datetime(2026, 1, 31, 10, 20, 30, 500_000),
    "micros": datetime(2026, 1, 31, 10, 20, 30, 123_456),
    "ltz": datetime(2026, 1, 31, 15, 20, 30, tzinfo=UTC),
    "blob": b"hi",
    "arr": ["x", "y"],
    "m": [("k", 3)],
    "r": {"name": "Ann", "inner": {"x": 5}},
    "rows": [{"x": 1}, {"x": 2}],
    "js": '{"owner":{"name":"Ann"},"tags":["x"],"age":41}',
    "path": "C:\\dir",
    "n": None,
    "nul": None,
    "odd`name": 1,
}


def test_no_case_is_lost():
    assert len(CASES) == SPEC["count"]
    assert len({case["sql"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"])
def test_an_expression_has_one_type_and_one_value(case: dict[str, Any]):
    found = parse_expression(case["sql"], SCHEMA)

    assert str(found.type) == case["type"]
    shown = compile_expression(cast(found, STRING), arrow_schema(SCHEMA), Session(SPEC["zone"]))
    assert isinstance(shown, Evaluator)
    columns = [pa.array([ROW[field.name]], arrow_type(field.type)) for field in SCHEMA.fields]
    (value,) = shown.column(pa.RecordBatch.from_arrays(columns, schema=arrow_schema(SCHEMA))).to_pylist()
    assert "value" not in case or value == case["value"]


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
    assert len({parse_expression(text, SCHEMA) for text in texts}) == 1


def test_names_are_case_sensitive():
    with pytest.raises(SchemaError) as caught:
        parse_expression("A", SCHEMA)

    assert str(caught.value) == "line 1, column 1: there is no column 'A' (did you mean 'a'? names are case-sensitive)"


def test_a_projection_names_its_columns():
    items = parse_projection("i, i AS k, r.name, a || 'x', i", SCHEMA)

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
    items = parse_projection("*, i + 1 AS next", parse_columns("i INT, `odd``name` STRING"))

    assert [(item.name, flink_sql(item.expression)) for item in items] == [
        ("i", "`i`"),
        ("odd`name", "`odd``name`"),
        ("next", "`i` + 1"),
    ]
    assert row_of(items).names == ("i", "odd`name", "next")


def test_a_projection_reports_all_its_problems():
    with pytest.raises(DefinitionError) as caught:
        parse_projection("nope, i,\n  UPPER(i), NULL", SCHEMA, origin="job.yaml, transform 1")

    assert str(caught.value).splitlines() == [
        "job.yaml, transform 1, line 1, column 1: there is no column 'nope'"
        f" (there are {', '.join(SCHEMA.names[:12])})",
        "job.yaml, transform 1, line 2, column 3: UPPER takes (STRING), not (INT) (CAST the arguments)",
        "job.yaml, transform 1, line 2, column 13: the type of NULL is not known here (write CAST(NULL AS STRING))",
    ]


def test_a_condition_is_boolean():
    assert flink_sql(parse_condition("i > 60", SCHEMA)) == "`i` > 60"
    assert flink_sql(parse_condition("NULL", SCHEMA)) == "CAST(NULL AS BOOLEAN)"
    with pytest.raises(SqlError, match="line 1, column 1: a condition must be BOOLEAN, not INT"):
        parse_condition("i", SCHEMA)


@pytest.mark.parametrize("text", ["", " ", "i i", "i,", "(i", "i)", "i +", "a AS b", "SELECT i", "*", "i;"])
def test_an_expression_is_one_whole_expression(text: str):
    with pytest.raises(SqlError, match=r"line 1, column \d+: "):
        parse_expression(text, SCHEMA)


@pytest.mark.parametrize("text", ["(" * 5000 + "i" + ")" * 5000, "i + " * 5000 + "i", "NOT " * 5000 + "flag"])
def test_nesting_has_a_limit_and_says_so(text: str):
    with pytest.raises(SqlError, match="nested too deeply"):
        parse_expression(text, SCHEMA)


def test_long_conjunctions_are_not_nesting():
    assert flink_sql(parse_condition(" AND ".join(["flag"] * 5000), SCHEMA)).count("`flag`") == 5000
