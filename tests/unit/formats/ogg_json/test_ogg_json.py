"""What ogg-json makes of messages, and of changes."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from penstock.formats.changes.options import ChangeOptions
from penstock.formats.ogg_json.factory import FORMAT
from penstock.spi import Decoded
from penstock.types import arrow_schema, parse_columns
from tests.unit.formats.changes import decoded, shown

COLUMNS = "id INT, name STRING"


def read(*messages: str | None, metadata: tuple[str, ...] = (), **options: str) -> Decoded:
    return decoded("ogg-json", COLUMNS, *messages, metadata=metadata, **options)


def test_operations_are_insertions_updates_and_deletions() -> None:
    found = read(
        '{"op_type":"I","after":{"id":1,"name":"a"}}',
        '{"op_type":"U","before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"}}',
        '{"op_type":"D","before":{"id":1,"name":"b"}}',
    )
    assert shown(found) == [(0, "+I", 1, "a"), (1, "-U", 1, "a"), (1, "+U", 1, "b"), (2, "-D", 1, "b")]


@pytest.mark.parametrize(
    ("message", "field", "reason"),
    [
        ('{"op_type":"T"}', "op_type", "unknown operation 'T'"),
        ('{"after":{"id":1}}', "op_type", "the field is missing or null"),
        ('{"op_type":"U","after":{"id":1}}', "before", "REPLICA IDENTITY FULL"),
        ('{"op_type":"D","after":{"id":1}}', "before", "REPLICA IDENTITY FULL"),
        ('{"op_type":"I","before":{"id":1}}', "after", "the field is missing or null"),
    ],
)
def test_other_messages_are_refused(message: str, field: str, reason: str) -> None:
    found = read(message)
    assert shown(found) == []
    assert [(each.index, each.field) for each in found.bad] == [(0, field)]
    assert reason in found.bad[0].reason
    assert shown(read(message, ignore_parse_errors="true")) == []


def test_metadata_columns_have_microseconds() -> None:
    keys = ("event-timestamp", "ingestion-timestamp", "primary-keys", "table")
    message = (
        '{"table":"S.T","op_type":"I","op_ts":"2020-05-13 15:40:06.123456","current_ts":"2020-05-13T13:39:35.000007",'
        '"primary_keys":["id"],"after":{"id":1}}'
    )
    moments = (dt.datetime(2020, 5, 13, 15, 40, 6, 123456, dt.UTC), dt.datetime(2020, 5, 13, 13, 39, 35, 7, dt.UTC))
    assert shown(read(message, metadata=keys)) == [(0, "+I", 1, None, *moments, ["id"], "S.T")]


@pytest.mark.parametrize(
    ("text", "event", "ingestion"),
    [
        ("2020-05-13 01:02:03", (2020, 5, 13, 1, 2, 3), (2020, 5, 13, 1, 2, 3)),
        ("2020-5-3 1:2:3", (2020, 5, 3, 1, 2, 3), (2020, 5, 3, 1, 2, 3)),
        ("2020-05-31", (2020, 5, 31), (2020, 5, 31)),
        ("2020-02-30 00:00:00", (2020, 2, 29), (2020, 3, 1)),
        ("2020-02-30T00:00:00.000000", None, (2020, 2, 29)),
        ("2020-05-13T13:39:35.766", None, ()),
        ("1589377175766", None, ()),
        ("", None, ()),
    ],
)
def test_times_are_read_by_the_rules_of_their_field(
    text: str, event: tuple[int, ...] | None, ingestion: tuple[int, ...]
) -> None:
    """The first is refused where it is no time, the second is then null."""
    message = f'{{"op_type":"I","after":{{"id":1}},"FIELD":"{text}"}}'
    found = read(message.replace("FIELD", "op_ts"), metadata=("event-timestamp",))
    assert [row[4] for row in shown(found)] == ([] if event is None else [dt.datetime(*event, tzinfo=dt.UTC)])
    assert [each.field for each in found.bad] == (["op_ts"] if event is None else [])
    found = read(message.replace("FIELD", "current_ts"), metadata=("ingestion-timestamp",))
    assert [row[4] for row in shown(found)] == [dt.datetime(*ingestion, tzinfo=dt.UTC) if ingestion else None]


def test_changes_are_written_as_insertions_and_deletions() -> None:
    schema = parse_columns(COLUMNS)
    rows = pa.RecordBatch.from_pylist([{"id": each, "name": None} for each in range(4)], schema=arrow_schema(schema))
    encoder = FORMAT.encoder(schema, ChangeOptions())
    assert encoder.encode(rows, np.arange(4, dtype=np.int8)).to_pylist() == [
        b'{"before":null,"after":{"id":0,"name":null},"op_type":"I"}',
        b'{"before":{"id":1,"name":null},"after":null,"op_type":"D"}',
        b'{"before":null,"after":{"id":2,"name":null},"op_type":"I"}',
        b'{"before":{"id":3,"name":null},"after":null,"op_type":"D"}',
    ]
