"""What canal-json makes of messages, and of changes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionsError
from penstock.formats.canal_json.factory import FORMAT
from penstock.formats.canal_json.options import CanalJsonOptions
from penstock.spi import BadRecord, Decoded
from penstock.types import arrow_schema, parse_columns
from tests.unit.formats.changes import decoded, shown

COLUMNS = "id INT, name STRING, price DECIMAL(5, 2)"


def read(*messages: str | None, metadata: tuple[str, ...] = (), **options: str) -> Decoded:
    return decoded("canal-json", COLUMNS, *messages, metadata=metadata, **options)


def rows(found: Decoded) -> list[Any]:
    """Rows with the price as text."""
    return [(*row[:4], str(row[4])) for row in shown(found)]


@pytest.mark.parametrize(("kind", "short"), [("INSERT", "+I"), ("DELETE", "-D")])
def test_each_element_of_data_is_a_change(kind: str, short: str) -> None:
    found = read(f'{{"data":[{{"id":"1","name":"a","price":"1.50"}},{{"id":"2"}}],"type":"{kind}"}}')
    assert rows(found) == [(0, short, 1, "a", "1.50"), (0, short, 2, None, "None")]


def test_the_row_before_an_update_has_values_of_old_and_else_of_the_row_after() -> None:
    found = read('{"data":[{"id":"1","name":"b","price":"2"}],"old":[{"name":"a"}],"type":"UPDATE"}')
    assert rows(found) == [(0, "-U", 1, "a", "2.00"), (0, "+U", 1, "b", "2.00")]


def test_a_null_in_old_was_a_null() -> None:
    found = read('{"data":[{"id":"1","name":"b","price":"2"}],"old":[{"name":null}],"type":"UPDATE"}')
    assert rows(found) == [(0, "-U", 1, None, "2.00"), (0, "+U", 1, "b", "2.00")]


def test_a_column_that_changed_in_one_row_is_copied_in_the_others() -> None:
    found = read(
        '{"data":[{"id":"1","name":"b","price":"2"},{"id":"2","name":"c","price":"3"}],'
        '"old":[{"name":null},{"price":"9"}],"type":"UPDATE"}'
    )
    assert rows(found) == [
        (0, "-U", 1, None, "2.00"),
        (0, "+U", 1, "b", "2.00"),
        (0, "-U", 2, "c", "9.00"),
        (0, "+U", 2, "c", "3.00"),
    ]


def test_a_value_of_old_that_reads_as_null_is_given_all_the_same() -> None:
    messages = (
        '{"data":[{"id":"1","price":"2"}],"old":[{"price":"12345"}],"type":"UPDATE"}',
        '{"data":[{"id":"1","name":"b"}],"old":[{"id":"x"}],"type":"UPDATE"}',
    )
    found = read(*messages, ignore_parse_errors="true")
    assert [row for row in rows(found) if row[1] == "-U"] == [(0, "-U", 1, None, "None"), (1, "-U", None, "b", "None")]


def test_names_with_escapes_are_names() -> None:
    """The compiled loop leaves such messages."""
    message = '{"data":[{"id":"1","name":"b","price":"2"}],"old":[{"n\\u0061me":null},{}],"type":"UPDATE"}'
    plain = message.replace("\\u0061", "a")
    found = read(message, plain, message)
    assert [row[1:] for row in rows(found)] == [("-U", 1, None, "2.00"), ("+U", 1, "b", "2.00")] * 3


def test_the_making_of_a_table_is_no_change() -> None:
    found = read('{"data":null,"type":"CREATE","sql":"CREATE TABLE t"}')
    assert (shown(found), found.bad) == ([], ())


@pytest.mark.parametrize("kind", ["ALTER", "QUERY", "TRUNCATE", "insert"])
def test_other_statements_are_errors(kind: str) -> None:
    found = read(f'{{"data":null,"type":"{kind}"}}')
    reason = f"unknown operation '{kind}'; expected INSERT, UPDATE, DELETE or CREATE"
    assert found.bad == (BadRecord(0, reason, "type"),)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ('{"data":[{"id":1}]}', "type"),
        ('{"data":null,"type":"INSERT"}', "data"),
        ('{"data":[{"id":1},null],"type":"INSERT"}', "data[1]"),
        ('{"data":[{"id":1}],"type":"UPDATE"}', "old[0]"),
        ('{"data":[{"id":1},{"id":2}],"old":[{"id":3}],"type":"UPDATE"}', "old[1]"),
        ('{"data":[{"id":1},{"id":2}],"old":[{"id":3},null],"type":"UPDATE"}', "old[1]"),
    ],
)
def test_a_message_with_a_fault_is_refused_whole(message: str, field: str) -> None:
    found = read(message, '{"data":[{"id":7}],"type":"INSERT"}')
    assert [(each.index, each.field) for each in found.bad] == [(0, field)]
    assert [row[:3] for row in rows(found)] == [(1, "+I", 7)]


def test_where_errors_are_ignored_the_changes_before_a_fault_are_kept() -> None:
    found = read(
        '{"data":[{"id":1},null,{"id":3}],"type":"INSERT"}',
        '{"data":[{"id":1},{"id":2}],"old":[{"id":4}],"type":"UPDATE"}',
        ignore_parse_errors="true",
    )
    assert [row[:3] for row in rows(found)] == [(0, "+I", 1), (1, "-U", 4), (1, "+U", 1)]
    assert [(each.index, each.field) for each in found.bad] == [(0, "data[1]"), (1, "old[1]")]


def test_only_databases_and_tables_that_match_whole_are_read() -> None:
    def message(database: str, table: str) -> str:
        return f'{{"data":[{{"id":1}}],"type":"INSERT","database":{database},"table":{table}}}'

    pairs = (("shop", "t1"), ("shop", "t12"), ("ashop", "t1"), ("shops", "xt1"))
    given = [*(message(f'"{database}"', f'"{table}"') for database, table in pairs), message("null", '"t2"')]
    for options, wanted in (
        ({"database__include": "shop"}, [0, 1]),
        ({"table__include": "t\\d"}, [0, 2, 4]),
        ({"database__include": "shop|null", "table__include": "t."}, [0, 4]),
        ({"database__include": r"\p{Lower}+\Qs\E", "table__include": r"(?<first>\p{Alpha})t\d\z"}, [3]),
    ):
        found = read(None, *given, **options)
        assert [row[0] - 1 for row in shown(found)] == wanted
        assert found.bad == ()


def test_messages_that_are_not_included_are_not_read() -> None:
    message = '{"data":[{"id":"x"}],"type":"ALTER","database":"other"}'
    assert read(message, message.replace("other", "shop"), database__include="shop").bad[0].index == 1
    found = read('{"data":[]}', "{", database__include="shop")
    assert found.bad == (
        BadRecord(0, "the field is missing, and 'database.include' needs it", "database"),
        BadRecord(1, "the text ends before the JSON value does"),
    )


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(OptionsError, match=r"'canal-json\.table\.include': expected a regular expression"):
        CanalJsonOptions.from_text({"canal-json.table.include": "("}, prefix="canal-json.")


def test_metadata_columns() -> None:
    keys = ("event-timestamp", "ingestion-timestamp", "pk-names", "sql-type", "table", "database")
    message = (
        '{"data":[{"id":1},{"id":2}],"type":"INSERT","database":"shop","table":"items","es":1000,"ts":2500,'
        '"pkNames":["id"],"sqlType":{"id":4,"name":12}}'
    )
    found = read(message, '{"data":[{"id":3}],"type":"INSERT"}', metadata=keys)
    moments = [dt.datetime.fromtimestamp(each, dt.UTC) for each in (1.0, 2.5)]
    rest = (*moments, ["id"], [("id", 4), ("name", 12)], "items", "shop")
    assert [(row[2], *row[5:]) for row in shown(found)] == [(1, *rest), (2, *rest), (3, *[None] * 6)]


def test_changes_are_written_as_insertions_and_deletions() -> None:
    schema = parse_columns("id INT, name STRING")
    batch = pa.RecordBatch.from_pylist([{"id": each, "name": None} for each in range(4)], schema=arrow_schema(schema))
    encoder = FORMAT.encoder(schema, CanalJsonOptions(ignore_null_fields=True))
    assert encoder.encode(batch, np.arange(4, dtype=np.int8)).to_pylist() == [
        b'{"data":[{"id":0}],"type":"INSERT"}',
        b'{"data":[{"id":1}],"type":"DELETE"}',
        b'{"data":[{"id":2}],"type":"INSERT"}',
        b'{"data":[{"id":3}],"type":"DELETE"}',
    ]
