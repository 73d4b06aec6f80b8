"""What debezium-json makes of messages, and of changes."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import OptionsError, SchemaError
from penstock.formats.debezium_json.factory import FORMAT
from penstock.formats.debezium_json.options import DebeziumJsonOptions
from penstock.spi import BadRecord, Decoded
from penstock.types import arrow_schema, parse_columns
from tests.unit.formats.changes import decoded, shown

COLUMNS = "id INT, name STRING"
SOURCE = '"source":{"db":"shop","schema":"public","table":"items","ts_ms":1769000000123,"lsn":5},"ts_ms":1769000000999'
MOMENT = dt.datetime(2026, 1, 21, 12, 53, 20, 123000, dt.UTC)


def read(*messages: str | bytes | None, metadata: tuple[str, ...] = (), **options: str) -> Decoded:
    return decoded("debezium-json", COLUMNS, *messages, metadata=metadata, **options)


def test_creations_and_snapshot_reads_are_insertions() -> None:
    found = read('{"before":null,"after":{"id":1,"name":"a"},"op":"c"}', '{"after":{"id":2,"name":"b"},"op":"r"}')
    assert shown(found) == [(0, "+I", 1, "a"), (1, "+I", 2, "b")]


def test_an_update_is_the_row_before_and_the_row_after() -> None:
    found = read('{"before":{"id":1,"name":"a"},"after":{"id":1,"name":null},"op":"u"}')
    assert shown(found) == [(0, "-U", 1, "a"), (0, "+U", 1, None)]


def test_a_deletion_is_the_row_before() -> None:
    assert shown(read('{"before":{"id":1,"name":"a"},"after":null,"op":"d"}')) == [(0, "-D", 1, "a")]


def test_tombstones_give_nothing() -> None:
    found = read(None, b"", '{"after":{"id":1},"op":"c"}')
    assert (shown(found), found.bad) == ([(2, "+I", 1, None)], ())


@pytest.mark.parametrize("more", ["5", "null", '{"after":{"id":2},"op":"c"}'])
def test_an_array_of_more_than_a_message_gives_nothing_when_errors_are_ignored(more: str) -> None:
    single = '{"after":{"id":1},"op":"c"}'
    found = read(f"[{single}]", f"[{single},{more}]", **{"ignore-parse-errors": "true"})
    assert shown(found) == [(0, "+I", 1, None)]
    assert [bad.index for bad in found.bad] == [1]
    assert shown(read(f"[{single},{more}]", **{"ignore-parse-errors": "true"})) == []


@pytest.mark.parametrize("op", ["u", "d"])
def test_without_the_row_before_the_error_names_replica_identity(op: str) -> None:
    found = read(f'{{"before":null,"after":{{"id":1}},"op":"{op}"}}')
    assert shown(found) == []
    (bad,) = found.bad
    assert (bad.index, bad.field) == (0, "before")
    assert "REPLICA IDENTITY FULL" in bad.reason


@pytest.mark.parametrize(
    ("message", "field", "reason"),
    [
        ('{"after":{"id":1},"op":"t"}', "op", "unknown operation 't'; expected c, r, u or d"),
        ('{"after":{"id":1}}', "op", "the field is missing or null; expected c, r, u or d"),
        ('{"before":{"id":1},"op":"u"}', "after", "the field is missing or null; expected the row after the change"),
        ('{"after":{"id":"x"},"op":"c"}', "after.id", "expected a whole number, not 'x'"),
        ("[]", "", "expected a JSON object, not an array of 0"),
        ('[{"op":"c"},{"op":"c"}]', "", "expected a JSON object, not an array of 2"),
    ],
)
def test_a_bad_message_says_which_field_is_to_blame(message: str, field: str, reason: str) -> None:
    found = read('{"after":{"id":1},"op":"c"}', message, '{"after":{"id":2},"op":"c"}')
    assert found.bad == (BadRecord(1, reason, field),)
    assert [row[:3] for row in shown(found)] == [(0, "+I", 1), (2, "+I", 2)]


def test_ignored_errors_leave_values_null_and_messages_out() -> None:
    messages = ('{"after":{"id":"x","name":"a"},"op":"c"}', '{"before":null,"op":"u"}', '{"op":"t"}', "{")
    found = read(*messages, ignore_parse_errors="true")
    assert shown(found) == [(0, "+I", None, "a")]
    assert [each.index for each in found.bad] == [1, 2, 3]


def test_with_a_schema_the_change_stands_under_payload() -> None:
    found = read(
        '{"schema":{"type":"struct"},"payload":{"before":{"id":1},"after":{"id":2},"op":"u"}}',
        '{"before":{"id":1},"after":{"id":2},"op":"u"}',
        '{"payload":{"op":"u","after":{"id":2}}}',
        schema_include="true",
    )
    assert shown(found) == [(0, "-U", 1, None), (0, "+U", 2, None)]
    assert [each.field for each in found.bad] == ["payload", "payload.before"]
    assert "schema-include" in found.bad[0].reason


def test_metadata_columns_follow_those_of_the_table_in_the_order_asked_for() -> None:
    keys = ("source.table", "ingestion-timestamp", "source.timestamp", "source.database", "source.schema", "schema")
    found = read(f'{{"before":{{"id":1}},"after":{{"id":2}},"op":"u",{SOURCE}}}', metadata=keys)
    assert tuple(found.rows.schema.names[2:]) == keys
    rest = ("items", MOMENT.replace(microsecond=999000), MOMENT, "shop", "public", None)
    assert shown(found) == [(0, "-U", 1, None, *rest), (0, "+U", 2, None, *rest)]


def test_all_of_the_source_is_a_map_of_texts() -> None:
    keys = ("source.properties", "source.table", "source.timestamp")
    found = read(f'{{"after":{{"id":1}},"op":"c",{SOURCE}}}', '{"after":{"id":2},"op":"c"}', metadata=keys)
    properties = [
        ("db", "shop"),
        ("schema", "public"),
        ("table", "items"),
        ("ts_ms", "1769000000123"),
        ("lsn", "5"),
    ]
    assert shown(found) == [(0, "+I", 1, None, properties, "items", MOMENT), (1, "+I", 2, None, None, None, None)]


def test_several_columns_may_have_the_same_metadata() -> None:
    keys = ("source.table", "ingestion-timestamp", "source.table", "source.database", "ingestion-timestamp")
    found = read(f'{{"after":{{"id":1}},"op":"c",{SOURCE}}}', metadata=keys)
    moment = MOMENT.replace(microsecond=999000)
    assert [column.to_pylist() for column in found.rows.columns[2:]] == [
        ["items"],
        [moment],
        ["items"],
        ["shop"],
        [moment],
    ]


def test_metadata_beside_a_payload_is_found_in_its_place() -> None:
    message = f'{{"schema":{{"type":"struct"}},"payload":{{"after":{{"id":1}},"op":"c",{SOURCE}}}}}'
    found = read(message, metadata=("schema", "source.table"), schema_include="true")
    assert shown(found) == [(0, "+I", 1, None, '{"type":"struct"}', "items")]


@pytest.mark.parametrize("text", ['"x"', '" 5"', "1.5", "9223372036854775807", "-9223372036854775808"])
def test_a_source_timestamp_that_is_no_moment_is_an_error_where_it_is_asked_for(text: str) -> None:
    message = f'{{"after":{{"id":1}},"op":"c","source":{{"ts_ms":{text}}}}}'
    assert read(message).bad == ()
    found = read(message, metadata=("source.timestamp",))
    assert shown(found) == []
    reason = f"expected a value that can be read as TIMESTAMP_LTZ(3), not '{text.strip(chr(34))}'"
    assert found.bad == (BadRecord(0, reason, "source.ts_ms"),)


def test_metadata_that_is_not_known_is_refused() -> None:
    with pytest.raises(
        SchemaError, match=r"debezium-json has no metadata 'source\.tabel'.*did you mean 'source\.table'"
    ):
        read(metadata=("source.tabel",))


def test_values_before_a_change_keep_their_nesting() -> None:
    message = '{"before":{"r":{"a":[1,null]}},"after":{"r":null},"op":"u"}'
    found = decoded("debezium-json", "r ROW<a ARRAY<INT>>", message, message)
    assert shown(found) == [
        (0, "-U", {"a": [1, None]}),
        (0, "+U", None),
        (1, "-U", {"a": [1, None]}),
        (1, "+U", None),
    ]


def test_a_slice_of_messages_is_read_like_a_whole_column() -> None:
    messages = pa.array([b"{", b'{"after":{"id":1},"op":"c"}', b"", b'{"before":{"id":2},"op":"d"}', b"{"])
    decoder = FORMAT.decoder(parse_columns(COLUMNS), DebeziumJsonOptions())
    assert shown(decoder.decode(messages.slice(1, 3))) == [(0, "+I", 1, None), (2, "-D", 2, None)]


def test_no_message_is_no_row() -> None:
    found = read()
    assert (found.rows.num_rows, shown(found), found.bad) == (0, [], ())


def test_changes_are_written_as_creations_and_deletions() -> None:
    schema = parse_columns(COLUMNS)
    rows = pa.RecordBatch.from_pylist([{"id": each, "name": None} for each in range(4)], schema=arrow_schema(schema))
    encoder = FORMAT.encoder(schema, DebeziumJsonOptions())
    assert encoder.encode(rows, np.arange(4, dtype=np.int8)).to_pylist() == [
        b'{"before":null,"after":{"id":0,"name":null},"op":"c"}',
        b'{"before":{"id":1,"name":null},"after":null,"op":"d"}',
        b'{"before":null,"after":{"id":2,"name":null},"op":"c"}',
        b'{"before":{"id":3,"name":null},"after":null,"op":"d"}',
    ]
    assert encoder.encode(rows.slice(3)).to_pylist() == [b'{"before":null,"after":{"id":3,"name":null},"op":"c"}']
    terse = FORMAT.encoder(schema, DebeziumJsonOptions(ignore_null_fields=True))
    assert terse.encode(rows.slice(2), np.array([0, 3], np.int8)).to_pylist() == [
        b'{"after":{"id":2},"op":"c"}',
        b'{"before":{"id":3},"op":"d"}',
    ]


def test_messages_cannot_be_written_with_a_schema() -> None:
    with pytest.raises(OptionsError, match=r"'schema-include': messages cannot be written with their schema"):
        FORMAT.encoder(parse_columns(COLUMNS), DebeziumJsonOptions(schema_include=True))
