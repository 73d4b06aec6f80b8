"""What types and schemas become when they have to hold more."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.schemas import (
    AddColumns,
    AlterColumnTypes,
    CreateTable,
    NewColumn,
    TableSchema,
    apply_change,
    find_changes,
    widen_schema,
    widen_type,
)
from penstock.types import NULL, Field, parse_columns, parse_type

NAMES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20, 4)", "FLOAT", "DOUBLE", "DATE", "TIME(3)"),
    *("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "CHAR(5)", "VARCHAR(9)", "STRING", "BINARY(5)", "BYTES"),
    *("ARRAY<INT>", "MAP<STRING, INT>", "ROW<`a` INT>"),
)
#: Pairs of different types that do not become STRING.
WIDENED = {
    ("TINYINT", "SMALLINT"): "SMALLINT",
    ("TINYINT", "INT"): "INT",
    ("TINYINT", "BIGINT"): "BIGINT",
    ("TINYINT", "FLOAT"): "FLOAT",
    ("TINYINT", "DOUBLE"): "DOUBLE",
    ("TINYINT", "DECIMAL(20, 4)"): "DECIMAL(20, 4)",
    ("SMALLINT", "INT"): "INT",
    ("SMALLINT", "BIGINT"): "BIGINT",
    ("SMALLINT", "FLOAT"): "FLOAT",
    ("SMALLINT", "DOUBLE"): "DOUBLE",
    ("SMALLINT", "DECIMAL(20, 4)"): "DECIMAL(20, 4)",
    ("INT", "BIGINT"): "BIGINT",
    ("INT", "FLOAT"): "DOUBLE",
    ("INT", "DOUBLE"): "DOUBLE",
    ("INT", "DECIMAL(20, 4)"): "DECIMAL(20, 4)",
    ("BIGINT", "FLOAT"): "DOUBLE",
    ("BIGINT", "DOUBLE"): "DOUBLE",
    ("BIGINT", "DECIMAL(20, 4)"): "DECIMAL(23, 4)",
    ("FLOAT", "DOUBLE"): "DOUBLE",
    ("DATE", "TIMESTAMP(3)"): "TIMESTAMP(3)",
    ("DATE", "TIMESTAMP_LTZ(6)"): "TIMESTAMP_LTZ(6)",
    ("TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"): "TIMESTAMP_LTZ(6)",
    ("VARCHAR(9)", "STRING"): "STRING",
}


@pytest.mark.parametrize("one", NAMES)
def test_every_pair_of_types_has_one_that_holds_both(one: str):
    for other in NAMES:
        wanted = one if one == other else WIDENED.get((one, other)) or WIDENED.get((other, one)) or "STRING"
        assert str(widen_type(parse_type(one), parse_type(other))) == wanted, other


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("VARCHAR(10)", "VARCHAR(17)", "VARCHAR(17)"),
        ("CHAR(9)", "CHAR(5)", "CHAR(9)"),
        ("CHAR(5)", "VARCHAR(5)", "STRING"),
        ("VARBINARY(3)", "VARBINARY(7)", "VARBINARY(7)"),
        ("BINARY(3)", "VARBINARY(7)", "STRING"),
        ("TIME(0)", "TIME(6)", "TIME(6)"),
        ("TIMESTAMP(9)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"),
        ("DECIMAL(10, 2)", "DECIMAL(8, 5)", "DECIMAL(13, 5)"),
        ("DECIMAL(38, 0)", "DECIMAL(20, 10)", "DECIMAL(38, 0)"),
        ("DECIMAL(30, 10)", "DECIMAL(38, 30)", "DECIMAL(38, 18)"),
        ("DECIMAL(38, 30)", "BIGINT", "STRING"),
        ("DECIMAL(38, 0)", "BIGINT", "DECIMAL(38, 0)"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "STRING"),
        ("INT NOT NULL", "INT NOT NULL", "INT NOT NULL"),
        ("INT NOT NULL", "INT", "INT"),
        ("INT", "BIGINT NOT NULL", "BIGINT"),
    ],
)
def test_lengths_digits_and_nulls(one: str, other: str, wanted: str):
    for left, right in ((one, other), (other, one)):
        assert str(widen_type(parse_type(left), parse_type(right))) == wanted


def test_a_null_says_nothing_about_a_type():
    assert widen_type(NULL, NULL) == NULL
    assert widen_type(parse_type("INT NOT NULL"), NULL) == parse_type("INT")
    assert widen_type(NULL, parse_type("DATE")) == parse_type("DATE")


@pytest.mark.parametrize("one", NAMES)
def test_a_type_that_was_widened_holds_both_from_then_on(one: str):
    for other, third in product(NAMES, NAMES):
        types = [parse_type(each) for each in (one, other, third)]
        wide = widen_type(types[0], types[1])
        assert widen_type(wide, types[0]) == widen_type(wide, types[1]) == wide, other
        wider = widen_type(wide, types[2])
        assert widen_type(wider, wide) == wider, (other, third)


def schema(columns: str, key: tuple[str, ...] = ()) -> TableSchema:
    return TableSchema(parse_columns(columns), key)


def test_a_schema_keeps_its_order_and_gets_new_columns_at_its_end():
    before = schema("id INT NOT NULL, name VARCHAR(10), old DATE", ("id",))
    after = widen_schema(before, schema("size DOUBLE NOT NULL, name VARCHAR(17), id INT NOT NULL"))
    assert after == schema("id INT NOT NULL, name VARCHAR(17), old DATE, size DOUBLE", ("id",))
    assert find_changes("db.t", before, after) == (
        AddColumns("db.t", (NewColumn(Field("size", parse_type("DOUBLE")), "old"),)),
        AlterColumnTypes("db.t", (("name", parse_type("VARCHAR(17)")),)),
    )
    assert widen_schema(after, before) == after
    assert find_changes("db.t", after, after) == ()


def test_the_first_schema_of_a_table_creates_it():
    first = schema("id INT, name STRING")
    assert widen_schema(None, first) is first
    assert find_changes("t", None, first) == (CreateTable("t", first),)
    assert find_changes("t", first, None) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a INT, b INT", "x INT, a INT, y INT, b BIGINT, z INT"),
        ("a INT, b INT", "b INT"),
        ("a INT", "b INT, a STRING"),
        ("a INT, b INT, c INT", "x DATE, y DATE, c DOUBLE"),
    ],
)
def test_changes_turn_one_schema_into_the_other(before: str, after: str):
    found = schema(before)
    for change in find_changes("t", schema(before), schema(after)):
        applied = apply_change(found, change)
        assert applied is not None
        found = applied
    assert found == schema(after)
