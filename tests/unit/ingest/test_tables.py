"""Patterns of table ids, and schemas as CREATE TABLE."""

from __future__ import annotations

import pytest

from penstock.errors import SchemaError
from penstock.ingest.ddl import TableSchema, parse_ddls
from penstock.ingest.tables import TablePattern, table_id, topic_of
from penstock.types import parse_columns


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("db.orders", "db.orders", True),
        ("db.orders", "dbxorders", False),
        (r"db.\.*", "db.orders", True),
        (r"db.\.*", "other.orders", False),
        (r"\.*\.\.*", "db.orders", True),
        (r"db.order\d+", "db.order17", True),
        (r"db.order\d+", "db.order17x", False),
        ("a.x, a.y", "a.y", True),
        ("orders", "db.orders", False),
    ],
)
def test_a_dot_separates_and_an_escaped_dot_is_any_character(pattern, name, matches):
    assert bool(TablePattern(pattern).match(name)) is matches


def test_the_first_entry_that_fits_names_the_topic():
    mapping = r"db.a,db.b:first; db.\.*:rest"

    assert [topic_of(mapping, name) for name in ("db.b", "db.c", "x.c")] == ["first", "rest", None]


@pytest.mark.parametrize("mapping", ["db.a", ":topic", "db.a:", "db.(:topic"])
def test_a_mapping_that_cannot_mean_anything_is_refused(mapping):
    with pytest.raises(ValueError, match=r"expected|no pattern"):
        topic_of(mapping, "db.a")


def test_ids_have_parts():
    assert table_id("db.`my table`") == ("db", "my table")


def test_tables_are_read_from_ddl():
    text = "CREATE TABLE db1.t1 (id BIGINT, name VARCHAR(10));"
    text += "create table if not exists t2 (id BIGINT,\n x MAP<INT, INT>);"

    assert parse_ddls(text) == (
        TableSchema(("db1", "t1"), parse_columns("id BIGINT, name VARCHAR(10)")),
        TableSchema(("t2",), parse_columns("id BIGINT, x MAP<INT, INT>")),
    )


@pytest.mark.parametrize(
    "columns",
    [
        "id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED",
        "PRIMARY KEY (`id`) NOT ENFORCED, id BIGINT, name STRING",
        "id BIGINT, CONSTRAINT pk PRIMARY KEY (id), name STRING",
    ],
)
def test_a_primary_key_may_stand_anywhere_and_is_not_null(columns):
    (found,) = parse_ddls(f"CREATE TABLE t ({columns})")

    assert found == TableSchema(("t",), parse_columns("id BIGINT NOT NULL, name STRING"), ("id",))


@pytest.mark.parametrize(
    "text", ["SELECT 1", "CREATE TABLE t", "CREATE TABLE t (id BIGIT)", "CREATE TABLE t (id INT, PRIMARY KEY (x))"]
)
def test_what_is_no_table_is_refused(text):
    with pytest.raises(SchemaError):
        parse_ddls(text)
