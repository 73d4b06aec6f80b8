"""Whatever is written, the answer is a plan or a PenstockError."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PenstockError, UnsupportedError
from penstock.plan.scalar_functions import functions
from penstock.sql import parse_expression, parse_projection, parse_script
from penstock.types import IntervalType, NullType, parse_columns
from tests.corpora import parsed
from tests.plans import check_job
from tests.queries import QUERIES, TABLES

_WORDS = """
CREATE TEMPORARY TABLE IF NOT EXISTS t s ( ) , ; . * + - / % || = <> < > <= >= [ ] { } $ ${V} x${V}y ${W} 'x' 'a''b'
'${V}' ' `q` ` " 1 2.5 1e9 1e999 0x1 -- /* */ /*+ AS SELECT FROM WHERE AND OR NOT NULL IS IN LIKE BETWEEN CASE WHEN
THEN ELSE END CAST TRY_CAST INT STRING DECIMAL ARRAY MAP ROW INSERT INTO WITH 'connector' 'print' METADATA VIRTUAL
PRIMARY KEY ENFORCED WATERMARK FOR INTERVAL '1' DAY TO SECOND DATE '2026-01-01' TIMESTAMP EXECUTE STATEMENT SET BEGIN
RESET EXTRACT YEAR TRIM BOTH TRUE DISTINCT GROUP BY JOIN HAVING ON USING UNION ALL VALUES VIEW EXISTS LEFT FULL NATURAL
CROSS COUNT( COUNT(*) SUM( FILTER ROW_NUMBER() OVER PARTITION ORDER DROP é 表 \\ \x00 ? ! X'ab' X'a'
"""
SCHEMA = parse_columns(
    "a STRING, i INT, d DOUBLE, p DECIMAL(38, 10), ts TIMESTAMP(3), dt DATE, tm TIME, r ROW<x INT>, arr ARRAY<INT>, "
    "m MAP<STRING, INT>, b BOOLEAN, y BYTES, n BIGINT"
)
ATOMS = [*SCHEMA.names, "NULL", "1", "-2.5", "'x'", "r.x", "arr[1]", "INTERVAL '1' DAY", "DATE '2026-01-31'"]
OPERATORS = ["+", "-", "*", "/", "%", "||", "=", "<>", "<", "AND", "OR", "LIKE", "IS DISTINCT FROM"]
TYPES = [
    "INT",
    "STRING",
    "CHAR(2)",
    "DECIMAL(5, 2)",
    "TIMESTAMP(0)",
    "DATE",
    "BYTES",
    "BOOLEAN",
    "ROW<z BIGINT>",
    "FOO",
]
FORMS = ["COALESCE", "IF", "NULLIF", "ROUND", "CONCAT_WS", "TIMESTAMPADD", "TO_TIMESTAMP_LTZ", "SUM", "NOPE"]


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("CAST({} AS {})".format, inner, st.sampled_from(TYPES)),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("{} NOT IN ({}, {})".format, inner, inner, inner),
        st.builds("{} BETWEEN {} AND {}".format, inner, inner, inner),
        st.builds("EXTRACT({} FROM {})".format, st.sampled_from(["YEAR", "SECOND", "DOW", "EON"]), inner),
        st.builds("{}[{}, {}]".format, st.sampled_from(["ARRAY", "MAP"]), inner, inner),
        st.builds(
            lambda name, args: f"{name}({', '.join(args)})",
            st.sampled_from([*(name for name, each in functions().items() if each.overloads), *FORMS]),
            st.lists(inner, max_size=4),
        ),
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(_WORDS.split()), max_size=40).map(" ".join))
def test_words_in_any_order(text: str):
    with contextlib.suppress(PenstockError):
        parse_script(text, variables={"V": "v' ${W} `"})
    head = "CREATE TABLE t (i INT, a STRING) WITH ('connector' = 'print'); INSERT INTO t SELECT "
    with contextlib.suppress(PenstockError):
        parse_script(head + text, variables={"V": "i", "W": ""})


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str):
    with contextlib.suppress(PenstockError):
        parse_script(text)
    with contextlib.suppress(PenstockError):
        parse_projection(text, SCHEMA)


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=8))
def test_expressions_of_any_type(text: str):
    with contextlib.suppress(PenstockError):
        found = parse_expression(text, SCHEMA)
        assert parse_expression(text, SCHEMA) == found
        assert not isinstance(found.type, NullType | IntervalType)


@settings(max_examples=100, deadline=None)
@given(QUERIES, st.sampled_from(["bag", "keyed"]))
def test_queries_of_any_shape(query: str, table: str):
    """Whatever has a plan has one that can run: see tests/plans.py."""
    refusal = ""
    try:
        (job,) = parsed(f"{TABLES} INSERT INTO {table} {query}").jobs
        check_job(job)
    except UnsupportedError as error:
        refusal = str(error)

    assert not refusal or "other than '='" in refusal or "primary key" in refusal
