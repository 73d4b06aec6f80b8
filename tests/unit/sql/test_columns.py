"""Columns that are declared outside of CREATE TABLE."""

from __future__ import annotations

import pytest

from penstock.errors import DefinitionError
from penstock.spi import Column, ColumnKind
from penstock.sql import parse_expression, parse_table_columns
from penstock.sql.bind.tables.definitions import ComputedColumn
from penstock.types import BIGINT, INT, STRING, TimestampType, parse_columns


def test_columns_are_those_of_create_table() -> None:
    found = parse_table_columns(
        "id INT PRIMARY KEY NOT ENFORCED, `a name` STRING NOT NULL COMMENT 'of it', ts TIMESTAMP(3) METADATA VIRTUAL, "
        "o BIGINT METADATA FROM 'offset', twice AS id * 2"
    )
    assert found == (
        Column("id", INT.with_nullability(False)),
        Column("a name", STRING.with_nullability(False)),
        Column("ts", TimestampType(3), ColumnKind.METADATA, "ts", virtual=True),
        Column("o", BIGINT, ColumnKind.METADATA, "offset"),
        ComputedColumn(
            "twice", INT, ColumnKind.COMPUTED, expression=parse_expression("id * 2", parse_columns("id INT"))
        ),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["here, line 1, column 1: expected a column, found the end of the text"]),
        ("a INT,", ["here, line 1, column 7: expected a column, found the end of the text"]),
        ("a INT)", ["here, line 1, column 6: expected the end of the statement, found ')'"]),
        ("a INT b", ["here, line 1, column 7: expected ',' or ')', found 'b'"]),
        (
            "a INT, a INT, b AS c",
            [
                "here, line 1, column 8: column 'a' is declared twice (rename one of them)",
                "here, line 1, column 20: there is no column 'c' (there are a)",
            ],
        ),
    ],
)
def test_every_problem_is_reported_with_its_place(text: str, expected: list[str]) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse_table_columns(text, origin="here")
    assert str(raised.value).splitlines() == expected
