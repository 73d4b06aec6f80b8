"""CREATE TABLE statements without options, as a pipeline's source has them."""

from __future__ import annotations

import pytest

from penstock.errors import DefinitionError, SqlError
from penstock.plan.flink_sql import flink_sql
from penstock.spi import Column, ColumnKind
from penstock.sql import ComputedColumn, TableSchema, parse_tables
from penstock.types import BIGINT, INT, STRING, MapType, StringType, TimestampType

KEY = BIGINT.with_nullability(False)


def test_tables_have_ids_of_one_to_three_parts():
    text = "CREATE TABLE db1.t1 (id BIGINT, name VARCHAR(10));"
    text += "create table if not exists t2 (id BIGINT,\n x MAP<INT, INT>);CREATE TEMPORARY TABLE a.`b c`.d (x INT)"

    assert parse_tables(text) == (
        TableSchema(("db1", "t1"), (Column("id", BIGINT), Column("name", StringType(10)))),
        TableSchema(("t2",), (Column("id", BIGINT), Column("x", MapType(INT, INT)))),
        TableSchema(("a", "b c", "d"), (Column("x", INT),)),
    )
    assert parse_tables("") == parse_tables(" ;; -- nothing") == ()


@pytest.mark.parametrize(
    "columns",
    [
        "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED",
        "PRIMARY KEY (`id`) NOT ENFORCED, id BIGINT, name STRING",
        "id BIGINT, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED, name STRING",
        "id BIGINT PRIMARY KEY NOT ENFORCED, name STRING",
        "id BIGINT, -- the number; PRIMARY KEY (name)\n name STRING, /* , */ PRIMARY KEY (id) NOT ENFORCED",
        "id BIGINT PRIMARY KEY NOT ENFORCED COMMENT 'first; PRIMARY KEY', name STRING COMMENT ';'",
    ],
)
def test_the_parser_is_that_of_sql(columns: str):
    assert parse_tables(f"CREATE TABLE t ({columns});") == (
        TableSchema(("t",), (Column("id", KEY), Column("name", STRING)), ("id",)),
    )


def test_names_may_have_blanks_and_columns_may_be_computed_or_metadata():
    text = "CREATE TABLE t (`a b` INT, ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', next AS `a b` + 1)"
    ((_, ts, computed),) = [found.columns for found in parse_tables(text)]

    assert ts == Column("ts", TimestampType(3, True), ColumnKind.METADATA, "timestamp")
    assert isinstance(computed, ComputedColumn)
    assert flink_sql(computed.expression) == "`a b` + 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", "y.yaml, line 1, column 1: expected CREATE TABLE, found 'SELECT'"),
        ("CREATE TABLE t", "y.yaml, line 1, column 14: a table without columns"),
        ("CREATE TABLE t (id BIGIT)", "y.yaml, line 1, column 20: unknown type BIGIT (did you mean 'BIGINT'?)"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (x) NOT ENFORCED)", "column 38: there is no column 'x'"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (id))", "column 41: expected NOT ENFORCED"),
        ("CREATE TABLE t (id INT) WITH ('a' = 'b')", "column 31: a table in a pipeline has no WITH clause"),
        ("CREATE TABLE t (t TIMESTAMP, WATERMARK FOR t AS t)", "column 44: WATERMARK FOR is not supported"),
        ("CREATE TABLE t (id INT) PARTITIONED BY (id)", "column 41: PARTITIONED BY is not supported"),
        ("CREATE TABLE t (id INT, id INT)", "column 25: column 'id' is declared twice"),
    ],
)
def test_what_a_pipeline_cannot_have_is_refused(text: str, expected: str):
    with pytest.raises(DefinitionError) as caught:
        parse_tables(text, origin="y.yaml")

    assert expected in str(caught.value)


def test_every_problem_is_reported():
    with pytest.raises(SqlError) as caught:
        parse_tables("CREATE TABLE a (x INTT);\nCREATE TABLE b (y AS nope, z INT);\nDROP TABLE c")

    assert [problem.where for problem in caught.value.problems] == [
        "line 1, column 19",
        "line 2, column 22",
        "line 3, column 1",
    ]
