"""Records to rows of the table, with the real formats on record batches as a broker stores them."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.dead_letters import LETTER, DeadLetter, build_letters
from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.decoding import RowReader
from penstock.connectors.kafka.source.positions import Split
from penstock.connectors.kafka.table.metadata import READABLE
from penstock.errors import RecordError
from penstock.kafka.columns import HEADERS_TYPE
from penstock.kafka.record_batches import encode, scan
from penstock.spi import (
    DEAD_LETTER,
    HIDDEN,
    KIND,
    BadRecord,
    Column,
    ColumnKind,
    Surface,
    TableDefinition,
    Watermark,
    formats,
)
from penstock.types import (
    BIGINT,
    BYTES,
    INT,
    STRING,
    ArrayType,
    Field,
    MapType,
    RowKind,
    RowType,
    TimestampType,
    arrow_type,
)

BASE = {
    "connector": "kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "localhost:9092",
    "scan.startup.mode": "earliest-offset",
}
KEYED = {
    "value.format": "json",
    "key.format": "json",
    "key.fields": "k",
    "value.fields-include": "EXCEPT_KEY",
}
FIRST_OFFSET, NUMBER = 100, 7


def reader(*columns, **options):
    given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return RowReader(KafkaConnector().scan(TableDefinition("t", columns, BASE | given)))


def metadata(*keys):
    return [Column(f"m_{key}", READABLE[key], ColumnKind.METADATA, key, virtual=True) for key in keys]


def records(values, keys=None, headers=None, timestamps=None, with_headers=True):
    """What a fetch of these messages gives, from offset 100 on."""
    count = len(values)
    times = np.array(timestamps or [1000] * count, np.int64)
    (batch,) = encode(
        keys=pa.array(keys or [None] * count, pa.binary()),
        values=pa.array(values, pa.binary()),
        timestamps=times,
        partitions=np.zeros(count, np.int32),
        headers=None
        if headers is None
        else pa.array([[{"key": k, "value": v} for k, v in each] for each in headers], HEADERS_TYPE),
    )
    batch.data[:8] = FIRST_OFFSET.to_bytes(8, "big")
    return scan(batch.data, start_offset=FIRST_OFFSET, end_offset=FIRST_OFFSET + count, headers=with_headers)


def read(row_reader, *args, **kwargs):
    return row_reader.rows(records(*args, **kwargs), Split(NUMBER, "orders", "", 3, FIRST_OFFSET, 1 << 40))


def text(document):
    return json.dumps(document).encode()


# --- pairing -------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_a_message_gives_a_row_for_each_pair_of_a_key_and_a_value(shapes):
    """A JSON array at the top stands for several rows, an empty one for none."""
    row_reader = reader(Column("k", INT), Column("v", STRING), *metadata("offset"), **as_options(KEYED))
    keys = [text([{"k": 10 * i + n} for n in range(count)]) for i, (count, _) in enumerate(shapes)]
    values = [text([{"v": f"{i}/{n}"} for n in range(count)]) for i, (_, count) in enumerate(shapes)]
    rows = read(row_reader, values, keys)

    wanted = [
        (10 * i + n, f"{i}/{m}", FIRST_OFFSET + i)
        for i, (keys_of, values_of) in enumerate(shapes)
        for m in range(values_of)
        for n in range(keys_of)
    ]
    columns = (rows.column(name).to_pylist() for name in ("k", "v", "m_offset"))
    assert list(zip(*columns, strict=True)) == wanted
    assert rows.column(HIDDEN.names[1]).to_pylist() == [offset for *_, offset in wanted]
    assert set(rows.column(HIDDEN.names[0]).to_pylist()) <= {NUMBER}
    assert rows.schema.equals(row_reader.schema)


def as_options(options):
    return {key.replace("-", "__").replace(".", "_"): value for key, value in options.items()}


def test_values_that_are_arrays_alone_keep_their_record():
    rows = read(
        reader(Column("v", INT), *metadata("offset"), format="json"),
        [text({"v": 1}), text([{"v": 2}, {"v": 3}]), None, text([]), text({"v": 4})],
    )

    assert rows.column("v").to_pylist() == [1, 2, 3, 4]
    assert rows.column("m_offset").to_pylist() == rows.column(HIDDEN.names[1]).to_pylist() == [100, 101, 101, 104]


def test_one_row_per_message_needs_no_pairing():
    columns = (Column("k", STRING), Column("v", INT))
    options = as_options(KEYED | {"key.format": "raw"})
    rows = read(reader(*columns, **options), [text({"v": i}) for i in range(3)], [b"a", None, b"c"])

    assert rows.column("k").to_pylist() == ["a", None, "c"]
    assert rows.column("v").to_pylist() == [0, 1, 2]


def test_where_key_and_value_have_a_column_the_value_s_counts():
    options = as_options(KEYED | {"value.fields-include": "ALL"})
    rows = read(reader(Column("k", INT), Column("v", INT), **options), [text({"k": 1, "v": 2})], [text({"k": 9})])

    assert rows.to_pylist() == [{"k": 1, "v": 2, HIDDEN.names[0]: NUMBER, HIDDEN.names[1]: 100}]


def test_prefixes_are_the_table_s_and_not_the_message_s():
    options = as_options(KEYED | {"key.fields": "key_id", "key.fields-prefix": "key_"})
    rows = read(reader(Column("key_id", INT), Column("id", INT), **options), [text({"id": 2})], [text({"id": 1})])

    assert rows.to_pylist()[0] | {"key_id": 1, "id": 2} == rows.to_pylist()[0]


# --- bad messages --------------------------------------------------------------------------------------------


def test_the_first_bad_message_is_named():
    with pytest.raises(RecordError) as raised:
        read(reader(Column("v", INT), format="json"), [text({"v": 1}), b'{"v": "x"}', b"{"])

    error = raised.value
    assert (error.topic, error.partition, error.offset) == ("orders", 3, 101)
    assert (error.format, error.field) == ("json", "v")
    assert "'json.ignore-parse-errors' = 'true'" in error.hint


@pytest.mark.parametrize("part", ["key", "value"])
def test_the_option_that_leaves_bad_records_out_is_named_as_the_table_has_to_write_it(part):
    good, bad = [text({"k": 1, "v": 1})], [b"{"]
    values, keys = (good, bad) if part == "key" else (bad, good)
    with pytest.raises(RecordError) as raised:
        read(reader(Column("k", INT), Column("v", INT), **as_options(KEYED)), values, keys)

    assert f"'{part}.json.ignore-parse-errors' = 'true' leaves records like it out" in raised.value.hint


def test_a_bad_key_is_named_too():
    with pytest.raises(RecordError) as raised:
        read(
            reader(Column("k", INT), Column("v", INT), **as_options(KEYED | {"key.format": "raw"})),
            [text({"v": 1})] * 2,
            [b"\0\0\0\1", b"\0"],
        )

    assert (raised.value.offset, raised.value.format, raised.value.field) == (101, "raw", "k")
    assert "ignore-parse-errors" not in raised.value.hint


def test_a_bad_message_after_the_filter_keeps_its_offset():
    row_reader = reader(Column("v", INT), format="json", scan_header__filter="depart:toy")
    headers = [[("depart", each)] for each in (b"book", b"toy", b"book", b"toy")]
    with pytest.raises(RecordError) as raised:
        read(row_reader, [b"{", text({"v": 1}), b"{", b"{"], headers=headers)

    assert raised.value.offset == 103


def test_ignored_messages_are_counted_and_the_others_keep_their_places():
    options = as_options(KEYED | {"value.json.ignore-parse-errors": "true", "key.json.ignore-parse-errors": "true"})
    row_reader = reader(Column("k", INT), Column("v", INT), **options)
    good = [text({"k": i}) for i in range(5)]
    values = [text({"v": i}) for i in range(5)]
    rows = read(row_reader, [*values[:1], b"{", *values[2:]], [*good[:3], b"[", good[4]])

    assert [(row["k"], row["v"], row[HIDDEN.names[1]]) for row in rows.to_pylist()] == [
        (0, 0, 100),
        (2, 2, 102),
        (4, 4, 104),
    ]
    assert row_reader.refused == 2


def test_refused_records_become_dead_letters_behind_the_rows():
    options = as_options(KEYED | {"scan.dead-letter.topic": "orders-dead"})
    row_reader = reader(Column("k", INT), Column("v", INT), **options)
    keys, values = [text({"k": i}) for i in range(4)], [text({"v": i}) for i in range(4)]
    headers = [[("a", b"1")], [], [("b", None)], []]
    rows = read(row_reader, [values[0], b"{", b"{", values[3]], [*keys[:2], b"[", b"x"], headers, [1, 2, 3, 4])

    assert rows.schema.equals(row_reader.schema)
    assert [(row["k"], row["v"], row[HIDDEN.names[0]], row[HIDDEN.names[1]]) for row in rows.to_pylist()] == [
        (0, 0, NUMBER, 100),
        (None, None, NUMBER, 101),
        (None, None, NUMBER, 102),
        (None, None, NUMBER, 103),
    ]
    first, *letters = rows.column(DEAD_LETTER).to_pylist()
    assert first is None
    assert [(each["key"], each["value"]) for each in letters] == [(keys[1], b"{"), (b"[", b"{"), (b"x", values[3])]
    assert [each["timestamp"].microsecond for each in letters] == [2000, 3000, 4000]
    told = [[(each["key"], each["value"]) for each in letter["headers"]] for letter in letters]
    assert told[1][0] == ("b", None)
    given = [{key.removeprefix("penstock.dead-letter."): value.decode() for key, value in each[-7:]} for each in told]
    assert [(each["topic"], each["partition"], each["offset"], each["part"], each["format"]) for each in given] == [
        ("orders", "3", "101", "value", "json"),
        ("orders", "3", "102", "key", "json"),
        ("orders", "3", "103", "key", "json"),
    ]
    assert row_reader.refused == 3


def test_the_reason_of_a_dead_letter_is_not_longer_than_a_record_may_be():
    reason = "\ud800" + "é" * 10**6
    found = [DeadLetter(0, "value", "mine", BadRecord(0, reason, "f\udc00"))]
    record = {
        name: pa.nulls(1, arrow_type(field.type)) for name, field in zip(LETTER.names, LETTER.fields, strict=True)
    }
    (letter,) = build_letters(found, record, [("orders", 3, 100)]).to_pylist()
    told = {each["key"].removeprefix("penstock.dead-letter."): each["value"].decode() for each in letter["headers"]}
    assert (told["field"], told["reason"]) == ("f?", "?" + "é" * 999)


def of_table(name, *columns, **options):
    given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    definition = TableDefinition(name, columns, BASE | given, surface=Surface.YAML)
    return RowReader(KafkaConnector().scan(definition))


def test_records_that_cannot_be_read_are_left_out_where_the_user_asks_for_it():
    options = as_options(KEYED | {"ingestion.ignore-errors": "true"})
    row_reader = reader(Column("k", INT), Column("v", STRING), *metadata("offset"), **options)
    good = text({"k": 1, "v": "x"})
    rows = read(row_reader, [good, good, b"no json", good], [good, text({"k": "no number"}), good, good])

    assert rows["m_offset"].to_pylist() == [100, 103]
    assert rows["k"].to_pylist() == [1, 1]
    assert row_reader.refused == 2


CANAL = {"data": [{"id": "1"}, {"id": "2"}], "type": "INSERT"}


@pytest.mark.parametrize(
    ("table", "named", "other"),
    [
        ("shop.orders", {"database": "shop", "table": "orders"}, {"database": "shop", "table": "returns"}),
        ("shop.orders", {"database": "shop", "table": "orders"}, {"database": "depot", "table": "orders"}),
        ("shop.orders", {}, {"table": "returns"}),
        ("orders", {"database": "any", "table": "orders"}, {"table": "returns"}),
        ("one.shop.orders", {"database": "shop", "table": "orders"}, {"database": "two", "table": "orders"}),
    ],
)
def test_messages_of_other_tables_are_refused_in_a_pipeline(table, named, other):
    messages = [text(CANAL | named), text(CANAL | other), None, text(CANAL | named)]
    with pytest.raises(RecordError, match=rf"the message is of table '[a-z.]+', not '{table}'") as error:
        read(of_table(table, Column("id", INT), value_format="canal-json"), messages)
    assert error.value.offset == 101

    skipping = of_table(table, Column("id", INT), value_format="canal-json", **{"ingestion.ignore-errors": "true"})
    assert read(skipping, messages)["id"].to_pylist() == [1, 2, 1, 2]
    assert skipping.refused == 1


def test_the_tables_name_may_be_a_column_too():
    table = Column("of", STRING, ColumnKind.METADATA, "value.source.table", virtual=True)
    row_reader = of_table("shop.orders", Column("id", INT), table, value_format="debezium-json")
    message = {"before": {"id": 1}, "after": {"id": 2}, "op": "u", "source": {"db": "shop", "table": "orders"}}
    rows = read(row_reader, [text(message)])

    assert (rows["id"].to_pylist(), rows["of"].to_pylist()) == ([1, 2], ["orders", "orders"])


# --- metadata ------------------------------------------------------------------------------------------------


def test_changes_give_rows_with_kinds_and_metadata_of_the_message():
    table = Column("db", STRING, ColumnKind.METADATA, "value.source.database", virtual=True)
    row_reader = reader(Column("id", INT), table, format="debezium-json")
    update = {"before": {"id": 1}, "after": {"id": 2}, "op": "u", "source": {"db": "shop"}}
    rows = read(row_reader, [text(update), None, text({"before": {"id": 3}, "op": "d"})])
    assert rows["id"].to_pylist() == [1, 2, 3]
    assert rows["db"].to_pylist() == ["shop", "shop", None]
    assert rows[KIND].to_pylist() == [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]


def test_every_metadata_column():
    row_reader = reader(Column("v", INT), *metadata(*READABLE), format="json")
    headers = [[("a", b"1"), ("b", None), ("a", b"2")], []]
    rows = read(row_reader, [text({"v": 1}), text({"v": 2})], [b"key", None], headers, timestamps=[1_500, 2_500])

    assert rows.schema.equals(row_reader.schema)
    one, two = ({key.removeprefix("m_"): value for key, value in row.items()} for row in rows.to_pylist())
    assert (one["topic"], one["partition"], one["offset"]) == ("orders", 3, 100)
    assert one["timestamp"] == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert (one["timestamp-type"], one["leader-epoch"]) == ("CreateTime", None)
    assert one["header-list"] == [{"key": k, "value": v} for k, v in headers[0]]
    assert (one["__raw_key__"], one["__raw_value__"]) == (b"key", b'{"v": 1}')
    assert dict(one["headers"]) == {"a": b"2", "b": None}
    assert (two["headers"], two["header-list"], two["__raw_key__"]) == ([], [], None)
    assert two["timestamp"] == datetime(1970, 1, 1, 0, 0, 2, 500_000, UTC)


header_lists = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=2) | st.none()), max_size=6), min_size=1, max_size=6
)


@settings(deadline=None)  # the first call compiles
@given(header_lists)
def test_of_headers_with_one_key_the_last_counts(lists):
    row_reader = reader(Column("v", INT), *metadata("headers"), format="json")
    rows = read(row_reader, [text({"v": i}) for i in range(len(lists))], headers=lists)

    found = rows.column("m_headers").to_pylist()
    assert [dict(each) for each in found] == [dict(each) for each in lists]
    assert [len(each) for each in found] == [len(dict(each)) for each in lists]


@settings(deadline=None)  # the first call compiles
@given(header_lists)
def test_metadata_follows_the_records_that_a_filter_keeps(lists):
    row_reader = reader(Column("v", INT), *metadata("headers", "offset"), format="json", scan_header__filter="a:1|!b:x")
    rows = read(row_reader, [text({"v": i}) for i in range(len(lists))], headers=lists)

    kept = [i for i, each in enumerate(lists) if ("a", b"1") in each or ("b", b"x") not in each]
    assert rows.column("v").to_pylist() == kept
    assert rows.column("m_offset").to_pylist() == [FIRST_OFFSET + i for i in kept]
    assert [dict(each) for each in rows.column("m_headers").to_pylist()] == [dict(lists[i]) for i in kept]


def test_headers_are_only_read_when_somebody_wants_them():
    assert not reader(Column("v", INT), *metadata("topic", "offset"), format="json").wants_headers
    assert reader(Column("v", INT), *metadata("headers"), format="json").wants_headers
    assert reader(Column("v", INT), *metadata("header-list"), format="json").wants_headers
    assert reader(Column("v", INT), format="json", scan_header__filter="a:1").wants_headers


def test_a_metadata_column_of_another_type_is_read_as_it_is():
    """The cast to the declared type is Spark's."""
    row_reader = reader(Column("v", INT), Column("at", BIGINT, ColumnKind.METADATA, "partition"), format="json")

    assert read(row_reader, [text({"v": 1})]).column("at").type == pa.int32()


def test_nothing_is_left_of_records_that_a_filter_drops():
    row_reader = reader(Column("v", INT), *metadata("headers"), format="json", scan_header__filter="a:1")
    rows = read(row_reader, [text({"v": 1})])

    assert rows.num_rows == 0
    assert rows.schema.equals(row_reader.schema)


def test_a_timestamp_beyond_64_bits_of_microseconds_is_an_error_with_its_record():
    row_reader = reader(Column("v", INT), *metadata("timestamp"), format="json")
    values = [text({"v": 1})] * 3
    known = [253_402_214_400_000, 1_700_000_000_000_000, -1]  # the end of time; microseconds; none
    assert read(row_reader, values, timestamps=known).column("m_timestamp").cast("int64").to_pylist() == [
        each * 1000 for each in known
    ]
    with pytest.raises(RecordError, match="timestamp, 1700000000000000000 ms, is beyond the range") as error:
        read(row_reader, values, timestamps=[1, 1_700_000_000_000_000_000, 2])  # nanoseconds
    assert (error.value.topic, error.value.partition, error.value.offset) == ("orders", 3, 101)


# --- NULL where a column does not allow it -------------------------------------------------------------------

KEY = Column("k", STRING.with_nullability(False), ColumnKind.METADATA, "__raw_key__", virtual=True)
SURE = INT.with_nullability(False)


def test_a_record_without_a_key_fails_where_its_key_is_declared_not_null():
    row_reader = reader(Column("v", INT), KEY, format="json")
    with pytest.raises(RecordError) as raised:
        read(row_reader, [text({"v": 1}), text({"v": 2})], [b"kk", None])

    error = raised.value
    assert (error.topic, error.partition, error.offset, error.format, error.field) == ("orders", 3, 101, "", "k")
    assert "column 'k' is STRING NOT NULL" in error.reason
    assert "__raw_key__" in error.reason
    assert "declare 'k' without NOT NULL" in error.hint


@pytest.mark.parametrize(
    ("column", "value", "without"),
    [
        (Column("m", BYTES, ColumnKind.METADATA, "__raw_value__"), text({"v": 1}), None),
        (Column("m", READABLE["header-list"], ColumnKind.METADATA, "header-list"), text({"v": 1}), None),
        (Column("n", INT), text({"n": 1}), text({"n": None})),
        (Column("n", INT), text({"n": 1}), text({})),
        (Column("r", RowType((Field("a", SURE),))), text({"r": {"a": 1}}), text({"r": {"a": None}})),
        (Column("r", ArrayType(SURE)), text({"r": [1]}), text({"r": [1, None]})),
        (Column("r", MapType(STRING, SURE)), text({"r": {"x": 1}}), text({"r": {"x": None}})),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_null_in_a_column_or_a_part_of_it_that_is_not_null_is_a_bad_record(column, value, without, whole):
    if whole:
        column = dataclasses.replace(column, type=column.type.with_nullability(False))
    demands = whole or column.name == "r"
    row_reader = reader(column, Column("v", INT), format="json", ingestion_ignore__errors="true")
    rows = read(row_reader, [value, without, value], headers=[[("h", None)]] * 3)

    if without is None:  # a message without a value is no row, as in Flink
        assert (rows[HIDDEN.names[1]].to_pylist(), row_reader.refused) == ([100, 102], 0)
    else:
        assert rows[HIDDEN.names[1]].to_pylist() == ([100, 102] if demands else [100, 101, 102])
        assert row_reader.refused == (1 if demands else 0)


@pytest.mark.parametrize("option", ["value.json.ignore-parse-errors", "ingestion.ignore-errors"])
def test_records_in_which_something_is_missing_are_left_out_where_the_user_asks_for_it(option):
    options = {"value.format": "json", option: "true"}
    row_reader = reader(Column("v", SURE), KEY, **as_options(options))
    rows = read(row_reader, [text({"v": 1}), text({"v": 2}), text({}), text({"v": "x"})], [b"a", None, b"c", b"d"])

    assert [(row["v"], row["k"], row[HIDDEN.names[1]]) for row in rows.to_pylist()] == [(1, b"a", 100)]
    assert row_reader.refused == 3


def test_records_in_which_something_is_missing_become_dead_letters():
    options = as_options(KEYED | {"scan.dead-letter.topic": "orders-dead"})
    row_reader = reader(Column("k", SURE), Column("v", SURE), dataclasses.replace(KEY, name="raw"), **options)
    keys = [text({"k": 1}), text({}), text({"k": 3}), text([{"k": 4}, {"k": 5}])]
    rows = read(row_reader, [text({"v": 1}), text({"v": 2}), text({"v": None}), text({"v": 4})], keys, [[]] * 4)

    assert [row["k"] for row in rows.to_pylist()] == [1, 4, 5, None, None]
    found = [each for each in rows.column(DEAD_LETTER).to_pylist() if each]
    told = [{each["key"].rsplit(".", 1)[1]: each["value"].decode() for each in letter["headers"]} for letter in found]
    assert [(each["offset"], each["part"], each["format"], each["field"]) for each in told] == [
        ("101", "key", "json", "k"),
        ("102", "value", "json", "v"),
    ]
    assert row_reader.refused == 2


@pytest.mark.parametrize(("column", "unit"), [("at", None), ("ms", 1)])
def test_a_record_without_an_event_time_is_bad_where_the_job_needs_it(column, unit):
    columns = (Column("at", TimestampType(3)), Column("ms", BIGINT))
    values = [{"at": "2026-01-01 00:00:00", "ms": 1}, {"at": None, "ms": None}, {"at": "2026-01-01 00:00:01", "ms": 2}]

    def timed(**options):
        spec = KafkaConnector().scan(TableDefinition("t", columns, BASE | {"format": "json"} | options))
        return RowReader(dataclasses.replace(spec, watermark=Watermark(column, 0, unit)).require_times())

    with pytest.raises(RecordError) as raised:
        read(timed(), [text(each) for each in values])
    assert (raised.value.offset, raised.value.field) == (101, column)
    assert raised.value.reason == f"the row has no event time: column '{column}' is NULL"
    assert "'penstock.null-event-time' = 'late'" in raised.value.hint

    letters_kept = timed(**{"scan.dead-letter.topic": "orders-dead"})
    rows = read(letters_kept, [text(each) for each in values], headers=[[]] * 3)
    assert rows["ms"].to_pylist() == [1, 2, None]
    assert [each is not None for each in rows[DEAD_LETTER].to_pylist()] == [False, False, True]
    ignoring = timed(**{"ingestion.ignore-errors": "true"})
    assert read(ignoring, [text(each) for each in values])["ms"].to_pylist() == [1, 2]
    assert (letters_kept.refused, ignoring.refused) == (1, 1)


def test_the_first_record_in_which_something_is_missing_is_named():
    with pytest.raises(RecordError) as raised:
        read(reader(Column("a", SURE), Column("b", SURE), format="json"), [text({"a": 1}), text({"b": 1})])

    assert (raised.value.offset, raised.value.field) == (100, "b")


def test_a_record_without_a_leader_epoch_has_none():
    """Record batches of before 0.11, and of some tools, have -1; Java's consumer has an empty Optional."""
    found = records([text({"v": 1}), text({"v": 2})])
    found = dataclasses.replace(found, leader_epochs=np.array([-1, 4], found.leader_epochs.dtype))
    split = Split(NUMBER, "orders", "", 3, FIRST_OFFSET, 1 << 40)
    assert reader(*metadata("leader-epoch"), Column("v", INT), format="json").rows(found, split)[
        "m_leader-epoch"
    ].to_pylist() == [None, 4]
    sure = Column("e", INT.with_nullability(False), ColumnKind.METADATA, "leader-epoch", virtual=True)
    with pytest.raises(RecordError, match="offset 100: field 'e'"):
        reader(sure, Column("v", INT), format="json").rows(found, split)


def test_a_raw_message_without_a_value_is_null():
    with pytest.raises(RecordError) as raised:
        read(reader(Column("v", STRING.with_nullability(False)), format="raw"), [b"a", None])

    assert (raised.value.offset, raised.value.format) == (101, "raw")


@pytest.mark.parametrize(
    ("name", "key", "message", "at"),
    [
        ("debezium-json", "source.timestamp", {"op": "c", "before": None, "after": {"v": 1}}, {"source": {"ts_ms": 1}}),
        ("canal-json", "table", {"type": "INSERT", "data": [{"v": 1}]}, {"table": "t"}),
        ("maxwell-json", "database", {"type": "insert", "data": {"v": 1}}, {"database": "t"}),
        ("ogg-json", "table", {"op_type": "I", "after": {"v": 1}}, {"table": "t"}),
    ],
)
def test_metadata_of_a_change_that_is_missing_is_a_bad_record(name, key, message, at):
    type_ = formats.get(name).metadata[key].with_nullability(False)
    column = Column("m", type_, ColumnKind.METADATA, f"value.{key}")
    good, bad = text(message | at), text(message)
    with pytest.raises(RecordError) as raised:
        read(reader(Column("v", INT), column, format=name), [good, bad])

    assert (raised.value.offset, raised.value.format, raised.value.field) == (101, name, "m")


def test_a_row_that_takes_another_back_may_have_its_key_only():
    """Debezium gives the key alone for deletions from tables of PostgreSQL without REPLICA IDENTITY FULL."""
    columns = Column("id", SURE), Column("name", STRING.with_nullability(False))
    definition = TableDefinition("t", columns, BASE | {"format": "debezium-json"}, primary_key=("id",))
    row_reader = RowReader(KafkaConnector().scan(definition))
    deletion = {"op": "d", "before": {"id": 1, "name": None}, "after": None}
    assert read(row_reader, [text(deletion)])["name"].to_pylist() == [None]
    with pytest.raises(RecordError):
        read(row_reader, [text({"op": "d", "before": {"id": None, "name": "a"}, "after": None})])
    with pytest.raises(RecordError):
        read(row_reader, [text({"op": "c", "before": None, "after": {"id": 1, "name": None}})])
