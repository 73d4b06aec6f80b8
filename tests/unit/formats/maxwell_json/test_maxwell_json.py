"""What maxwell-json makes of messages, and of changes."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats.changes.options import ChangeOptions
from penstock.formats.maxwell_json.factory import FORMAT
from penstock.spi import BadRecord, Decoded
from penstock.types import arrow_schema, parse_columns
from tests.unit.formats.changes import decoded, shown

COLUMNS = "id INT, name STRING"


def read(*messages: str | None, metadata: tuple[str, ...] = (), **options: str) -> Decoded:
    return decoded("maxwell-json", COLUMNS, *messages, metadata=metadata, **options)


def test_insertions_and_deletions_are_the_row_in_data() -> None:
    found = read('{"type":"insert","data":{"id":1,"name":"a"}}', '{"type":"delete","data":{"id":2,"name":"b"}}')
    assert shown(found) == [(0, "+I", 1, "a"), (1, "-D", 2, "b")]


def test_the_row_before_an_update_has_values_of_old_and_else_of_the_row_after() -> None:
    found = read(
        '{"type":"update","data":{"id":1,"name":"b"},"old":{"name":"a"}}',
        '{"type":"update","data":{"id":1,"name":"b"},"old":{"name":null}}',
        '{"type":"update","data":{"id":1,"name":"b"},"old":{}}',
        '{"type":"update","data":{"id":1,"name":"b"},"old":{"other":{"name":null}}}',
        '{"type":"update","data":{"id":1,"name":"b"},"old":{"n\\u0061me":null,"id":2.5}}',
    )
    assert [row for row in shown(found) if row[1] == "-U"] == [
        (0, "-U", 1, "a"),
        (1, "-U", 1, None),
        (2, "-U", 1, "b"),
        (3, "-U", 1, "b"),
        (4, "-U", 2, None),
    ]
    assert [row for row in shown(found) if row[1] == "+U"] == [(each, "+U", 1, "b") for each in range(5)]


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ('{"type":"bootstrap-insert","data":{"id":1}}', "type"),
        ('{"type":"INSERT","data":{"id":1}}', "type"),
        ('{"data":{"id":1}}', "type"),
        ('{"type":"insert"}', "data"),
        ('{"type":"update","data":{"id":1}}', "old"),
        ('{"type":"update","old":{"id":1}}', "data"),
    ],
)
def test_other_messages_are_refused(message: str, field: str) -> None:
    found = read('{"type":"insert","data":{"id":1}}', message)
    assert shown(found) == [(0, "+I", 1, None)]
    assert [(each.index, each.field) for each in found.bad] == [(1, field)]
    assert shown(read(message, ignore_parse_errors="true")) == []


def test_metadata_columns_with_the_time_in_seconds() -> None:
    keys = ("ingestion-timestamp", "primary-key-columns", "table", "database")
    message = (
        '{"database":"shop","table":"items","ts":1769000000,"primary_key_columns":["id"],'
        '"type":"insert","data":{"id":1}}'
    )
    moment = dt.datetime(2026, 1, 21, 12, 53, 20, tzinfo=dt.UTC)
    assert shown(read(message, metadata=keys)) == [(0, "+I", 1, None, moment, ["id"], "items", "shop")]


def test_a_time_that_columns_cannot_hold_is_an_error() -> None:
    found = read('{"type":"insert","data":{"id":1},"ts":10000000000000}', metadata=("ingestion-timestamp",))
    assert found.bad == (
        BadRecord(0, "expected a value that can be read as TIMESTAMP_LTZ(3), not '10000000000000'", "ts"),
    )


def test_changes_are_written_as_insertions_and_deletions() -> None:
    schema = parse_columns(COLUMNS)
    rows = pa.RecordBatch.from_pylist([{"id": each, "name": None} for each in range(4)], schema=arrow_schema(schema))
    encoder = FORMAT.encoder(schema, ChangeOptions())
    assert encoder.encode(rows, np.arange(4, dtype=np.int8)).to_pylist() == [
        b'{"data":{"id":0,"name":null},"type":"insert"}',
        b'{"data":{"id":1,"name":null},"type":"delete"}',
        b'{"data":{"id":2,"name":null},"type":"insert"}',
        b'{"data":{"id":3,"name":null},"type":"delete"}',
    ]
