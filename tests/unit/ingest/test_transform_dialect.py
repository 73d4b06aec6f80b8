"""Expressions of transforms: Flink CDC's dialect, which is not that of Flink SQL."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DefinitionError, PenstockError
from penstock.ingest.definition import TransformDef
from penstock.ingest.transforms import DecimalPrecisionMode, TableTransform, TransformBinder
from penstock.plan.expressions import Call, walk
from penstock.plan.scalar_functions import functions, transform_functions
from penstock.schemas import TableSchema
from penstock.sql import parse_expression
from penstock.sql.bind.expressions.scope import known_functions
from penstock.types import RowType, arrow_schema, parse_columns


def bind(expression: str, row: RowType, **settings: Any) -> TableTransform:
    """The transform that computes one column."""
    rule = TransformDef(r"\.*", projection=f"{expression} AS y")
    return TransformBinder((rule,), **settings).bind("t", TableSchema(row))


def value_of(expression: str, value: Any = None, data_type: str = "STRING", **settings: Any) -> Any:
    """The value of an expression of the column ``x``, and its type."""
    row = parse_columns(f"x {data_type}")
    transform = bind(expression, row, **settings)
    made = transform.apply(pa.RecordBatch.from_arrays([pa.array([value], arrow_schema(row)[0].type)], names=["x"]))
    return made.column(0)[0].as_py(), str(transform.schema.row.fields[0].type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("20 - 4 - 3", 13), ("NOT 1 = 2 AND 2 = 2 OR 1 = 1", True)],
)
def test_operators_bind_as_they_are_written(expression, expected):
    assert value_of(expression)[0] == expected


def test_a_decimal_of_38_digits_is_kept():
    exact = Decimal("12345678901234567890123456789.012345678")
    more = Decimal("12345678901234567890123456790.012345678")

    assert value_of("x", exact, "DECIMAL(38, 9)") == (exact, "DECIMAL(38, 9)")
    wide = DecimalPrecisionMode.UP_TO_38
    assert value_of("x + 1", exact, "DECIMAL(38, 9)", decimals=wide) == (more, "DECIMAL(38, 9)")
    assert value_of("x + 1", exact, "DECIMAL(38, 9)") == (None, "DECIMAL(19, 9)")
    assert value_of("x + 1 > x", exact, "DECIMAL(38, 9)")[0] is True  # inside, all digits count


@pytest.mark.parametrize("text", ["ünïcödé", "天地玄黄", "🙂", "it''s"])
def test_literals_have_any_characters(text):
    assert value_of(f"'{text}'")[0] == text.replace("''", "'")
    assert value_of(f"x = '{text}'", text.replace("''", "'"))[0] is True


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("x = 'a'", None, False),
        ("x <> 'a'", None, True),
        ("x > 'a'", None, False),
        ("NOT x > 'a'", None, True),
        ("x IN ('a', NULL)", "b", False),
        ("x NOT IN ('a')", None, True),
        ("x BETWEEN 'a' AND 'c'", None, False),
        ("x LIKE 'a.c'", "xabcx", True),
        ("x LIKE 'a%'", "abc", False),
        ("x LIKE 'a%' ESCAPE '!'", "abc", True),
        ("x || 1 || TRUE", None, "null1true"),
        ("CAST(x AS INT)", "-7.9", -7),
        ("CAST(x AS INT)", "99999999999", 2**31 - 1),
        ("CAST(x AS BIGINT)", "9223372036854775807", 2**63 - 1),
        ("CAST(x AS INT)", "seven", None),
        ("TRY_CAST(x AS INT)", "7.9", None),
        ("TRY_CAST(x AS INT)", " 7 ", 7),
        ("CAST(x AS BOOLEAN)", "yes", False),
        ("TRY_CAST(x AS BOOLEAN)", "yes", True),
        ("TRY_CAST(x AS TIMESTAMP)", "2020-01-01 00:00:00", None),
        ("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-02T03:04", "2020-01-02T03:04"),
        ("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-02T03:04:05.120", "2020-01-02T03:04:05.120"),
        ("TO_DATE(x)", "2020-01-01 00:00:00", None),
        ("TO_BASE64(FROM_BASE64_BINARY(x))", "AP8=", "AP8="),
        ("ARRAY[1, 2][0]", None, None),
        ("ROW('a', 2)[2]", None, 2),
    ],
)
def test_expressions_mean_what_they_mean_in_flink_cdc(expression, value, expected):
    assert value_of(expression, value)[0] == expected


def test_points_in_time_are_in_the_session_or_in_utc():
    moment = pa.scalar(1_600_000_000_000_000, pa.timestamp("us", "UTC")).as_py()
    tokyo = {"zone": "Asia/Tokyo"}

    assert value_of("DATE_FORMAT(x, 'HH')", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == "21"
    assert value_of("EXTRACT(HOUR FROM x)", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == 21
    assert value_of("CAST(x AS STRING)", moment, "TIMESTAMP_LTZ(3)", **tokyo)[0] == "2020-09-13T12:26:40"
    assert value_of("CAST(CAST(x AS TIMESTAMP) AS STRING)", "2020-01-01T00:00:00Z", **tokyo)[0] == "2020-01-01T09:00"


def test_functions_of_transforms_are_not_in_flink_sql():
    assert not transform_functions().keys() & functions().keys()
    assert not {"DATE_ADD", "DATE_FORMAT_TZ", "TIMESTAMP_DIFF", "FROM_BASE64_BINARY"} & set(known_functions())
    for text in ("DATE_ADD(a, 1)", "DATE_FORMAT_TZ(t, 'UTC')", "POSITION('a' IN a FROM 2)", "FROM_BASE64_BINARY(a)"):
        with pytest.raises(DefinitionError, match=r"there is no function|POSITION takes no FROM"):
            parse_expression(text, parse_columns("a STRING, t TIMESTAMP(3)"))


def test_the_binder_knows_every_function_of_transforms():
    every = (
        *("CAST(x AS TIMESTAMP)", "CAST(CAST(x AS TIMESTAMP) AS STRING)", "DATE_FORMAT_TZ(z, 'UTC')"),
        *(
            "FROM_BASE64_BINARY(x)",
            "z + INTERVAL '1' DAY",
            "CAST(c AS STRING)",
            "OVERLAY(y PLACING y FROM 1)",
            "POSITION(y IN y)",
        ),
    )
    row, found = parse_columns("x STRING, y BYTES, z TIMESTAMP_LTZ(3), c CHAR(3)"), set()
    for text in every:
        found |= {each.function for each in walk(bind(text, row).rule.columns[0]) if isinstance(each, Call)}

    assert transform_functions().keys() <= found


def test_arguments_are_bound_once():
    """Not twice at each level."""
    text = "x"
    for _ in range(40):
        text = f"CAST(TO_DATE({text}) AS STRING)"

    assert value_of(text, "2020-01-31")[0] == "2020-01-31"


ATOMS = ["a", "i", "p", "t", "z", "y", "r", "r[1]", "m['x']", "l[1]", "NULL", "1", "-2.5", "'2020-01-31'", "TRUE"]
ATOMS += ["INTERVAL '1' MONTH", "__table_name__", "b"]
FORMS = ["({} + {})", "({} / {})", "({} || {})", "({} = {})", "({} <> {})", "({} AND {})", "({} LIKE {})", "{}[{}]"]
FORMS += ["CAST({} AS INT)", "CAST({} AS TIMESTAMP)", "CAST({} AS DECIMAL(20, 2))", "TRY_CAST({} AS TINYINT)"]
FORMS += ["CAST({} AS STRING)", "DATE_ADD({}, {})", "COALESCE({})", "IFNULL({}, {})", "ROW({}, {})", "ARRAY[{}, {}]"]
FORMS += [
    "POSITION({} IN {} FROM {})",
    "OVERLAY({} PLACING {} FROM {})",
    "TIMESTAMP_DIFF('DAY', {}, {})",
    "TO_DATE({})",
]
FORMS += ["DATE_FORMAT_TZ({}, {})", "DATE_FORMAT({}, {})", "SUBSTRING({}, {}, {})", "({} NOT IN ({}, {}))", "UPPER({})"]
FORMS += ["TIMESTAMPADD(DAY, {}, {})", "CASE WHEN {} THEN {} ELSE {} END", "TO_TIMESTAMP_LTZ({})", "ABS({})"]


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(
        lambda form, parts: form.format(*parts[: form.count("{}")]), st.sampled_from(FORMS), st.tuples(*[inner] * 3)
    )


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.sampled_from(ATOMS), _grow, max_leaves=6))
def test_an_expression_is_computed_or_refused(text: str):
    """And a column that is NOT NULL has no NULL."""
    row = parse_columns(
        "a STRING, i INT, p DECIMAL(38, 9), t TIMESTAMP(3), z TIMESTAMP_LTZ(3), y BYTES, r ROW<x INT>, "
        "m MAP<STRING, INT>, l ARRAY<STRING>, b BOOLEAN"
    )
    nulls = pa.RecordBatch.from_arrays([pa.nulls(2, each.type) for each in arrow_schema(row)], row.names)
    with contextlib.suppress(PenstockError):
        transform = bind(text, row)
        column = transform.apply(nulls).column(0)
        column.validate(full=True)
        assert column.null_count == 0 or transform.schema.row.fields[0].type.nullable
