"""Rows of a sink to record batches: which topic, which partition, which timestamp, and whose fault an error is."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.encoding import RowEncoder, describe_work
from penstock.connectors.kafka.table.metadata import WRITABLE
from penstock.errors import RecordError
from penstock.kafka.compression import Compression
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import read_batch_headers, scan
from penstock.spi import HIDDEN, Column, ColumnKind, TableDefinition, Task
from penstock.types import INT, STRING, arrow_schema

BASE = {"connector": "kafka", "properties.bootstrap.servers": "localhost:9092", "format": "json"}
LIMIT = 1_048_588
#: What Kafka's own test of its murmur2 expects of these keys.
JAVA_HASHES = {
    b"21": -973_932_308,
    b"foobar": -790_332_482,
    b"a-little-bit-long-string": -985_981_536,
    b"abc": 479_470_107,
}


def metadata(*keys):
    return [Column(f"m_{key}", WRITABLE[key], ColumnKind.METADATA, key) for key in keys]


class Encoding:
    """A sink's encoder, and its batches read back."""

    def __init__(self, *columns, topics=None, task=0, of=1, topic="orders", limit=LIMIT, **options):
        given_options = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
        definition = TableDefinition("t", columns, BASE | {"topic": topic} | given_options)
        if "topic.pattern" in given_options or "topic-pattern" in given_options:
            definition.options.pop("topic")
        self.sink = KafkaConnector().sink(definition)
        counts = topics or {topic: 1}
        client = ClientConfig.from_properties(dict(self.sink.client), "t")
        limits = dict.fromkeys(counts, limit)
        self.work = describe_work(self.sink, client, limits)
        self.encoder = RowEncoder(self.sink, client, counts.__getitem__, limits, Task(task, of))

    def batches(self, rows, partitions=None, offsets=None):
        table = pa.RecordBatch.from_pylist(rows, arrow_schema(self.sink.schema))
        columns = [partitions or [0] * len(rows), offsets or range(len(rows))]
        origins = [pa.array(each, type_) for each, type_ in zip(columns, (pa.int32(), pa.int64()), strict=True)]
        return list(self.encoder.encode(table, pa.RecordBatch.from_arrays(origins, names=list(HIDDEN.names))))

    def records(self, rows, *args):
        """(topic, partition) to records as (key, value, headers, milliseconds)."""
        found = defaultdict(list)
        for topic, batch in self.batches(rows, *args):
            read = scan(batch.data, start_offset=0, end_offset=batch.count, headers=True)
            found[topic, batch.partition] += zip(
                read.keys.to_pylist(),
                read.values.to_pylist(),
                read.headers.to_pylist(),
                read.timestamps.tolist(),
                strict=True,
            )
        return dict(found)


def ids(found):
    return {place: [json.loads(value)["id"] for _, value, *_ in records] for place, records in found.items()}


def test_prefixes_are_the_table_s_and_not_the_message_s():
    encoding = Encoding(
        Column("v_id", INT),
        Column("k_id", INT),
        key_format="json",
        key_fields="k_id",
        key_fields__prefix="k_",
        value_fields__prefix="v_",
        value_fields__include="EXCEPT_KEY",
    )
    (found,) = encoding.records([{"v_id": 1, "k_id": 2}]).values()
    assert [record[:2] for record in found] == [(b'{"id":2}', b'{"id":1}')]


# --- topics --------------------------------------------------------------------------------------------------


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.sampled_from(["one", "two", "three"]), max_size=20))
def test_every_row_goes_to_the_topic_it_names_in_order(names):
    encoding = Encoding(
        Column("id", INT), *metadata("topic"), topic="one;two;three", topics=dict.fromkeys(["one", "two", "three"], 1)
    )
    found = encoding.records([{"id": i, "m_topic": name} for i, name in enumerate(names)])

    assert ids(found) == {
        (topic, 0): [i for i, name in enumerate(names) if name == topic] for topic in dict.fromkeys(names)
    }


@pytest.mark.parametrize("named", ["elsewhere", None, "ones"])
def test_a_topic_that_is_not_the_table_s_is_refused_with_the_row_s_place(named):
    topics = dict.fromkeys(["one", "two", "ones", "elsewhere"], 1)  # that it exists does not help
    encoding = Encoding(Column("id", INT), *metadata("topic"), topic="one;two", topics=topics)
    rows = [{"id": 1, "m_topic": "one"}, {"id": 2, "m_topic": named}]
    with pytest.raises(RecordError) as raised:
        encoding.batches(rows, partitions=[4, 5], offsets=[40, 50])

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("", 5, 50)
    assert repr(named) in raised.value.reason
    assert "one; two" in raised.value.reason


def test_a_pattern_says_which_topics_may_be_named():
    encoding = Encoding(Column("id", INT), *metadata("topic"), topics={"o-1": 1, "o-10": 1}, topic__pattern="o-[0-9]")

    assert ids(encoding.records([{"id": 1, "m_topic": "o-1"}])) == {("o-1", 0): [1]}
    with pytest.raises(RecordError, match="'o-10', which is not one of 'o-\\[0-9\\]'"):
        encoding.batches([{"id": 1, "m_topic": "o-10"}])


def test_each_topic_has_its_own_partitions():
    encoding = Encoding(
        Column("id", INT),
        *metadata("topic"),
        topic="one;two",
        topics={"one": 1, "two": 3},
        sink_partitioner="round-robin",
    )
    found = encoding.records([{"id": i, "m_topic": ("one", "two")[i % 2]} for i in range(12)])

    assert found.keys() == {("one", 0), ("two", 0), ("two", 1), ("two", 2)}


# --- partitions ----------------------------------------------------------------------------------------------


def test_keys_go_where_java_s_client_puts_them():
    encoding = Encoding(
        Column("key", STRING),
        Column("id", INT),
        topics={"orders": 5},
        key_format="raw",
        key_fields="key",
    )
    found = encoding.records([{"key": key.decode(), "id": 1} for key in JAVA_HASHES])

    assert {key: partition for (_, partition), records in found.items() for key, *_ in records} == {
        key: (value & 0x7FFFFFFF) % 5 for key, value in JAVA_HASHES.items()
    }


def test_rows_of_a_key_keep_their_order_over_many_batches():
    encoding = Encoding(
        Column("key", STRING), Column("id", INT), topics={"orders": 4}, limit=300, key_format="raw", key_fields="key"
    )
    rows = [{"key": f"k{i % 7}", "id": i} for i in range(200)]
    found = encoding.records(rows)

    by_key = defaultdict(list)
    for records in found.values():
        for key, value, *_ in records:
            by_key[key].append(json.loads(value)["id"])
    assert by_key == {f"k{k}".encode(): list(range(k, 200, 7)) for k in range(7)}
    assert max(len(batch.data) for _, batch in encoding.batches(rows)) <= 300


def test_without_keys_the_partitions_are_filled_evenly_over_the_calls():
    encoding = Encoding(Column("id", INT), topics={"orders": 3})
    sizes = defaultdict(int)
    for _ in range(30):
        for place, records in encoding.records([{"id": 1}]).items():
            sizes[place] += len(records)

    assert set(sizes.values()) == {10}


@pytest.mark.parametrize(("partitions", "of"), [(1, 1), (3, 1), (3, 2), (4, 4), (7, 3), (2, 5)])
def test_without_keys_tasks_share_the_partitions_out(partitions, of):
    """No two tasks choose one partition, and together they choose all, as long as there are enough."""
    rows = [{"id": i} for i in range(100)]
    chosen = []
    for number in range(of):
        found = Encoding(Column("id", INT), topics={"orders": partitions}, task=number, of=of).records(rows)
        assert sorted(i for each in ids(found).values() for i in each) == list(range(100))
        chosen += [partition for _, partition in found]

    assert set(chosen) == set(range(partitions))
    if partitions >= of:
        assert len(chosen) == partitions


@pytest.mark.parametrize(("task", "partition"), [(0, 0), (2, 2), (5, 2)])
def test_the_fixed_partitioner_takes_the_task_s_number(task, partition):
    encoding = Encoding(Column("id", INT), topics={"orders": 3}, task=task, of=6, sink_partitioner="fixed")

    assert ids(encoding.records([{"id": 1}, {"id": 2}])) == {("orders", partition): [1, 2]}


def test_round_robin_goes_on_where_the_last_rows_ended():
    encoding = Encoding(Column("id", INT), topics={"orders": 3}, task=1, of=2, sink_partitioner="round-robin")

    written = {**ids(encoding.records([{"id": i} for i in range(4)]))}
    (first,) = [partition for (_, partition), found in written.items() if 0 in found]
    assert written == {("orders", (first + i) % 3): [i, 3] if i == 0 else [i] for i in range(3)}
    assert ids(encoding.records([{"id": 9}])) == {("orders", (first + 1) % 3): [9]}


class ByName:
    """A partitioner: by the length of the key, of the value, and the task's number."""

    opened = None

    def open(self, task, tasks):
        """Keep the task."""
        self.opened = (task, tasks)

    def partition(self, record, key, value, target_topic, partitions):
        """Names that are numbers choose themselves."""
        assert (target_topic, self.opened, list(partitions)) == ("orders", (1, 2), [0, 1, 2])
        assert json.loads(value)["name"] == record.name == record[1]
        assert key == (None if record["name"] is None else json.dumps({"name": record.name}).replace(" ", "").encode())
        return int(record.name)


def by_name(**options):
    """A sink whose rows choose their partitions."""
    given = {"sink_partitioner": f"{__name__}.ByName", "key_format": "json", "key_fields": "name", **options}
    return Encoding(Column("id", INT), Column("name", STRING), topics={"orders": 3}, task=1, of=2, **given)


def test_a_class_of_ones_own_chooses_the_partition_of_each_row_which_keep_their_order():
    found = by_name().records([{"id": i, "name": name} for i, name in enumerate(["2", "0", "2", "1", "0"])])
    assert ids(found) == {("orders", 0): [1, 4], ("orders", 1): [3], ("orders", 2): [0, 2]}


@pytest.mark.parametrize(
    ("name", "reason"), [("3", "chose 3, and topic 'orders' has the partitions 0 to 2"), ("x", "failed: ValueError")]
)
def test_a_row_for_which_a_class_of_ones_own_chooses_nothing_is_named(name, reason):
    with pytest.raises(RecordError, match=reason) as raised:
        by_name().batches([{"id": 1, "name": "0"}, {"id": 2, "name": name}], offsets=[40, 50])
    assert (raised.value.partition, raised.value.offset) == (0, 50)


def test_a_class_of_ones_own_that_cannot_be_made_in_a_task_is_named():
    sink = by_name().sink
    unknown = replace(sink, options=replace(sink.options, partitioner="not.there.Partitioner"))
    with pytest.raises(RecordError, match=r"'not.there.Partitioner' cannot be created in a task.*PYTHONPATH"):
        RowEncoder(unknown, ClientConfig.from_properties(dict(sink.client), "t"), lambda _: 1, {}, Task(0, 1))


# --- metadata ------------------------------------------------------------------------------------------------


def test_a_timestamp_is_the_row_s_or_now():
    encoding = Encoding(Column("id", INT), *metadata("timestamp"))
    at = [datetime(2020, 1, 1, 0, 0, 0, 123_999, UTC), None, datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC)]
    before = time.time_ns() // 1_000_000
    found = encoding.records([{"id": i, "m_timestamp": each} for i, each in enumerate(at)])
    after = time.time_ns() // 1_000_000

    one, two, three = (record[3] for record in found["orders", 0])
    assert (one, three) == (1_577_836_800_123, -1)
    assert before <= two <= after


def test_without_a_timestamp_column_it_is_now():
    before = time.time_ns() // 1_000_000
    ((*_, at),) = Encoding(Column("id", INT)).records([{"id": 1}])["orders", 0]

    assert before <= at <= time.time_ns() // 1_000_000


@pytest.mark.parametrize("kind", ["headers", "header-list"])
def test_headers_are_the_row_s(kind):
    pairs = [("a", b"1"), ("b", None)]
    given_headers = pairs if kind == "headers" else [{"key": key, "value": value} for key, value in pairs]
    found = Encoding(Column("id", INT), *metadata(kind)).records(
        [{"id": 1, f"m_{kind}": given_headers}, {"id": 2, f"m_{kind}": None}, {"id": 3, f"m_{kind}": []}]
    )

    assert [record[2] for record in found["orders", 0]] == [
        [{"key": key, "value": value} for key, value in pairs],
        [],
        [],
    ]


def test_raw_keys_and_values_are_the_row_s_whatever_the_formats_would_make():
    columns = Column("id", INT), *metadata("__raw_key__", "__raw_value__")
    encoding = Encoding(*columns, key_format="json", key_fields="id")
    rows = [
        {"id": 1, "m___raw_key__": b"\x00k", "m___raw_value__": b"v"},
        {"id": 2, "m___raw_key__": None, "m___raw_value__": None},
        {"id": 3, "m___raw_key__": b"", "m___raw_value__": b""},
    ]
    found = encoding.records(rows)["orders", 0]
    assert [(key, value) for key, value, *_ in found] == [(b"\x00k", b"v"), (None, None), (b"", b"")]


def test_a_raw_value_alone_leaves_the_key_to_its_format():
    column = Column("v", STRING, ColumnKind.METADATA, "__raw_value__")
    encoding = Encoding(Column("id", INT), column, key_format="json", key_fields="id")
    ((key, value, *_),) = encoding.records([{"id": 7, "v": "né"}])["orders", 0]
    assert (key, value) == (b'{"id":7}', "né".encode())


def test_raw_keys_go_where_java_s_client_puts_them():
    column = Column("k", STRING, ColumnKind.METADATA, "__raw_key__")
    encoding = Encoding(Column("id", INT), column, topics={"orders": 5})
    rows = [{"id": number, "k": key.decode()} for number, key in enumerate(JAVA_HASHES)]
    found = {record[0]: partition for (_, partition), records in encoding.records(rows).items() for record in records}
    assert found == {key: (code & 0x7FFFFFFF) % 5 for key, code in JAVA_HASHES.items()}


# --- properties of the producer --------------------------------------------------------------------------------

TEXTS = [{"text": f"{n:05} the same words again and again, {'and once more ' * (n % 7)}"} for n in range(2000)]


def texts(**properties):
    given = {f"properties_{name}": value for name, value in properties.items()}
    return [batch for _, batch in Encoding(Column("text", STRING), **given).batches(TEXTS)]


@pytest.mark.parametrize("codec", Compression)
def test_compression_type_is_that_of_the_batches(codec):
    (batch,) = texts(compression_type=codec.name.lower())
    assert read_batch_headers(batch.data)["attributes"][0] & 0x07 == codec
    assert (len(batch.data) < len(texts()[0].data) / 2) == (codec is not Compression.NONE)


@pytest.mark.parametrize(
    ("codec", "low", "high", "default"), [("gzip", "1", "9", "-1"), ("lz4", "1", "12", "1"), ("zstd", "-7", "19", "3")]
)
def test_compression_levels_are_those_of_their_codec(codec, low, high, default):
    def size(**level):
        (batch,) = texts(compression_type=codec, **level)
        return len(batch.data)

    assert size(**{f"compression_{codec}_level": high}) < size(**{f"compression_{codec}_level": low})
    assert size(**{f"compression_{codec}_level": default}) == size()
    others = {f"compression_{each}_level": "1" for each in ("gzip", "lz4", "zstd") if each != codec}
    assert size(**others) == size()


@pytest.mark.parametrize(("size", "fewest", "most"), [("0", 2000, 2000), ("5000", 30, 60), ("1000000", 1, 1)])
def test_batch_size_is_where_batches_are_cut(size, fewest, most):
    batches = texts(batch_size=size)
    assert fewest <= len(batches) <= most
    assert sum(batch.count for batch in batches) == 2000


def test_max_request_size_is_where_batches_are_cut_and_what_one_record_may_take():
    batches = texts(max_request_size="5000")
    assert 30 <= len(batches) <= 60
    assert max(len(batch.data) for batch in batches) <= 5000
    with pytest.raises(RecordError, match=r"limit of 100 bytes.*max\.request\.size"):
        texts(max_request_size="100")


# --- errors --------------------------------------------------------------------------------------------------


def test_a_record_that_is_too_large_is_named_by_its_row():
    encoding = Encoding(
        Column("text", STRING), *metadata("topic"), topic="one;two", topics={"one": 1, "two": 2}, limit=200
    )
    rows = [{"text": "x" * n, "m_topic": ("one", "two")[n % 2]} for n in (1, 2, 3, 4, 301, 5)]
    with pytest.raises(RecordError) as raised:
        encoding.batches(rows, [0, 1, 2, 3, 4, 5], [0, 10, 20, 30, 40, 50])

    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("", 4, 40)
    assert "topic 'two'" in raised.value.reason
    assert "limit of 200 bytes" in raised.value.reason
    assert "max.message.bytes" in raised.value.hint


def test_no_rows_make_no_batches():
    assert Encoding(Column("id", INT)).batches([]) == []


@pytest.mark.parametrize("topic", ["__penstock_progress", "__consumer_offsets", "__transaction_state"])
def test_a_row_cannot_name_a_topic_of_kafka_s_or_penstock_s_own(topic):
    encoding = Encoding(
        Column("id", INT), *metadata("topic"), topics={"orders": 1, topic: 1}, **{"topic-pattern": ".*"}
    )
    with pytest.raises(
        RecordError, match=f"the row's topic is '{topic}', which is an internal topic of Kafka or"
    ) as raised:
        encoding.batches([{"id": 1, "m_topic": "orders"}, {"id": 2, "m_topic": topic}], offsets=[7, 8])
    assert (raised.value.offset, raised.value.field) == (8, "topic")


def together(*encodings, counts):
    """What encoders make of as many rows as ``counts`` says, in one pass: topic, partition and messages."""
    parts, first = [], 0
    for each, count in zip(encodings, counts, strict=True):
        rows = [{"id": first + number, "name": "n"} for number in range(count)]
        table = pa.RecordBatch.from_pylist(rows, arrow_schema(each.sink.schema))
        origins = [pa.array([3] * count, pa.int32()), pa.array(range(first, first + count), pa.int64())]
        parts.append((each.encoder, table, pa.RecordBatch.from_arrays(origins, names=list(HIDDEN.names))))
        first += count
    return parts


def messages_by_partition(encoded):
    found = defaultdict(list)
    for number, topic, batch in encoded:
        records = scan(batch.data, start_offset=0, end_offset=batch.count)
        found[number, topic, batch.partition] += list(
            zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
        )
    return found


COLUMNS = Column("id", INT), Column("name", STRING)


@pytest.mark.parametrize(
    "options", [{"sink_partitioner": "round-robin"}, {}, {"key_format": "json", "key_fields": "id"}]
)
def test_encoders_of_one_work_encode_together_what_each_would_encode(options):
    def encodings():
        return [Encoding(*COLUMNS, topic=f"t{n}", topics={f"t{n}": 1 + 2 * n}, **options) for n in range(3)]

    made = encodings()
    assert len({each.work for each in made}) == 1
    for each in made:
        each.encoder._turn = 0
    found = messages_by_partition(RowEncoder.encode_together(together(*made, counts=(4, 2, 11))))
    expected = {}
    for number, (encoder, rows, hidden) in enumerate(together(*made, counts=(4, 2, 11))):
        encoder._turn = 0
        expected |= messages_by_partition((number, topic, each) for topic, each in encoder.encode(rows, hidden))
    assert found == expected
    assert {number for number, _, _ in found} == {0, 1, 2}


def test_encoders_of_different_work_are_not_alike():
    plain = Encoding(*COLUMNS).work
    assert plain == Encoding(*COLUMNS, topic="other").work
    assert plain != Encoding(Column("id", INT)).work
    assert plain != Encoding(*COLUMNS, format="csv").work
    assert plain != Encoding(*COLUMNS, properties_compression_type="gzip").work
    assert plain != Encoding(*COLUMNS, limit=1000).work
    assert Encoding(*COLUMNS, *metadata("timestamp")).work is None


def test_an_error_names_the_topic_and_the_row_among_those_of_several_encoders():
    made = [Encoding(*COLUMNS, topic=f"t{n}", limit=200) for n in range(2)]
    parts = together(*made, counts=(2, 2))
    encoder, rows, hidden = parts[1]
    parts[1] = encoder, rows.set_column(1, "name", pa.array(["n", "x" * 500])), hidden
    with pytest.raises(RecordError, match="topic 't1'") as raised:
        list(RowEncoder.encode_together(parts))
    assert (raised.value.partition, raised.value.offset) == (3, 3)
