"""Record batches, held against kafka-python's record classes."""

from __future__ import annotations

import contextlib
import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

from penstock.errors import KafkaError, PenstockError, SchemaError, UnsupportedError
from penstock.kafka.columns import HEADERS_TYPE
from penstock.kafka.compression import Compression, compress
from penstock.kafka.fetch import Chunk
from penstock.kafka.record_batches import (
    LARGEST_BATCH,
    SCAN_BYTES,
    ControlType,
    EncodedBatch,
    Records,
    RecordTooLargeError,
    encode,
    read_batch_headers,
    scan,
    stamp,
)

# Kernels are compiled in the first example, so no example has a deadline.
properties = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

END = 1 << 62
Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Row:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True)
class Batch:
    """What kafka-python builds a batch from, and what brokers set in it."""

    rows: tuple[Row, ...]
    compression: Compression = Compression.NONE
    base: int = 0
    leader_epoch: int = 0
    append_time: int | None = None
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False
    last_delta: int | None = None

    @property
    def last(self) -> int:
        return self.base + self.last_delta if self.last_delta is not None else self.rows[-1].offset

    def build(self) -> bytes:
        builder = DefaultRecordBatchBuilder(
            2, self.compression, self.transactional, self.producer, self.epoch, self.sequence, 1 << 30
        )
        for row in self.rows:
            builder.append(row.offset - self.base, row.timestamp, row.key, row.value, list(row.headers))
        data = bytearray(builder.build())
        struct.pack_into(">q", data, 0, self.base)
        struct.pack_into(">i", data, 12, self.leader_epoch)
        (attributes,) = struct.unpack_from(">h", data, 21)
        if self.append_time is not None:
            attributes |= 0x08
            struct.pack_into(">q", data, 35, self.append_time)
        struct.pack_into(">h", data, 21, attributes | (0x20 if self.control else 0))
        if self.last_delta is not None:
            struct.pack_into(">i", data, 23, self.last_delta)
        return sign(data)


def sign(data: bytearray) -> bytes:
    struct.pack_into(">I", data, 17, calc_crc32c(bytes(data[21:])))
    return bytes(data)


def marker(base: int, producer: int, kind: int) -> Batch:
    """The control batch that ends a transaction: key is version 0 and the kind, value version and coordinator epoch."""
    row = Row(base, 5, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0))
    return Batch((row,), base=base, producer=producer, epoch=0, transactional=True, control=True)


def data(base: int, count: int, producer: int = -1, transactional: bool = False) -> Batch:
    rows = tuple(Row(base + i, i, b"k", b"v%d" % (base + i)) for i in range(count))
    epoch = sequence = -1 if producer < 0 else 0
    return Batch(rows, base=base, producer=producer, epoch=epoch, sequence=sequence, transactional=transactional)


def build(batches: Iterable[Batch]) -> bytes:
    return b"".join(batch.build() for batch in batches)


def rows_of(records: Records) -> list[Row]:
    headers = records.headers.to_pylist() if records.headers is not None else [[] for _ in range(len(records))]
    columns = (records.offsets.tolist(), records.timestamps.tolist(), records.keys.to_pylist(),
               records.values.to_pylist(), headers)  # fmt: skip
    records.keys.validate(full=True)
    records.values.validate(full=True)
    return [
        Row(offset, timestamp, key, value, tuple((h["key"], h["value"]) for h in entries))
        for offset, timestamp, key, value, entries in zip(*columns, strict=True)
    ]


TIMES = st.integers(-1, 1 << 45) | st.sampled_from([0, -1, 1 << 62])
BLOBS = st.none() | st.binary(max_size=12) | st.integers(60, 300).map(bytes)
HEADERS = st.lists(st.tuples(st.text(max_size=5), BLOBS), max_size=3).map(tuple)


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """A stretch of a log: batches in every compression with gaps inside, after and between them."""
    batches: list[Batch] = []
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 4))):
        base = offset
        rows = []
        for _ in range(draw(st.integers(1, 6))):
            offset += draw(st.sampled_from([0, 0, 0, 1, 70, 9000]))
            rows.append(Row(offset, draw(TIMES), draw(BLOBS), draw(BLOBS), draw(HEADERS)))
            offset += 1
        batches.append(
            Batch(
                tuple(rows),
                compression=draw(st.sampled_from(Compression)),
                base=base,
                leader_epoch=draw(st.integers(-1, 9)),
                append_time=draw(st.none() | st.just(1 << 41)),
                last_delta=offset - base - 1 + draw(st.sampled_from([0, 0, 5])),
            )
        )
        offset = batches[-1].last + 1 + draw(st.sampled_from([0, 0, 7]))
    return batches


# --- reading -------------------------------------------------------------------------------------------------


@properties
@given(log=logs(), random=st.data())
def test_scan_reads_what_kafka_python_wrote(log: list[Batch], random: st.DataObject) -> None:
    first, last = log[0].base, log[-1].last
    start = random.draw(st.integers(max(first - 3, 0), last + 3), "start")
    end = random.draw(st.integers(start, last + 9), "end")
    expected, epochs, types = [], [], []
    for batch in log:
        for row in batch.rows:
            if start <= row.offset < end:
                time = row.timestamp if batch.append_time is None else batch.append_time
                expected.append(replace(row, timestamp=time))
                epochs.append(batch.leader_epoch)
                types.append(int(batch.append_time is not None))

    records = scan(build(log), start_offset=start, end_offset=end, headers=True)

    assert rows_of(records) == expected
    assert records.leader_epochs.tolist() == epochs
    assert records.timestamp_types.tolist() == types
    assert records.headers is not None
    assert records.headers.type == HEADERS_TYPE
    records.headers.validate(full=True)
    assert records.next_offset == max(start, min(end, last + 1))
    plain = scan(build(log), start_offset=start, end_offset=end)
    assert plain.headers is None
    assert rows_of(plain) == [replace(row, headers=()) for row in expected]


@properties
@given(log=logs())
def test_scan_agrees_with_kafka_pythons_reader(log: list[Batch]) -> None:
    raw = build(log)
    expected = [
        Row(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for batch in MemoryRecords(raw) for r in batch
    ]
    for view in (raw, bytearray(raw), memoryview(raw), np.frombuffer(raw, np.uint8)):
        assert rows_of(scan(view, start_offset=0, end_offset=END, headers=True)) == expected


@pytest.mark.parametrize("compression", Compression)
def test_a_cut_anywhere_leaves_the_complete_batches(compression: Compression) -> None:
    log = [replace(data(base, 3), compression=compression) for base in (10, 13, 16)]
    sizes = np.cumsum([len(batch.build()) for batch in log]).tolist()
    raw = build(log)
    for cut in range(len(raw) + 1):
        complete = sum(size <= cut for size in sizes)
        records = scan(raw[:cut], start_offset=10, end_offset=END)
        assert records.offsets.tolist() == list(range(10, 10 + 3 * complete))
        assert records.next_offset == 10 + 3 * complete
        assert records.batches == complete


def test_nothing_fetched_is_nothing_read() -> None:
    records = scan(b"", start_offset=7, end_offset=9, headers=True)
    assert (len(records), records.next_offset, records.keys.to_pylist()) == (0, 7, [])
    assert records.keys.type == records.values.type == pa.binary()


def test_a_range_that_holds_no_records_is_passed() -> None:
    # Compaction took all between 4 and 20; then a batch remained of which every record went.
    later = build([data(20, 2)])
    assert scan(later, start_offset=4, end_offset=15).next_offset == 15
    empty = bytearray(data(5, 4).build()[:61])
    struct.pack_into(">i", empty, 8, 49)
    struct.pack_into(">i", empty, 57, 0)
    records = scan(sign(empty) + later, start_offset=5, end_offset=21)
    assert (records.offsets.tolist(), records.next_offset) == ([20], 21)
    assert scan(sign(empty), start_offset=5, end_offset=21).next_offset == 9


def test_reading_stops_at_the_byte_limit_and_goes_on_from_there() -> None:
    for compression in (Compression.NONE, Compression.ZSTD):
        log = [
            Batch((Row(base, 0, None, bytes(5000)), Row(base + 1, 0, None, b"x")), base=base, compression=compression)
            for base in range(0, 20, 2)
        ]
        start, seen = 0, []
        while start < 20:
            records = scan(build(log), start_offset=start, end_offset=20, max_bytes=11_000)
            assert len(records) == 4
            seen += records.offsets.tolist()
            start = records.next_offset
        assert seen == list(range(20))
        assert len(scan(build(log), start_offset=0, end_offset=20, max_bytes=1)) == 2


def test_slices_hold_all_that_was_fetched() -> None:
    log = [data(base, 3) for base in range(0, 30, 3)]
    slices = list(chunk(build(log), 1, 29).slices(max_bytes=1))
    assert [offset for each in slices for offset in each.offsets.tolist()] == list(range(1, 29))
    assert [each.left for each in slices] == [True] * 9 + [False]
    (nothing,) = chunk(b"", 1, 29).slices()
    assert len(nothing) == 0


def chunk(raw: bytes, start: int, end: int) -> Chunk:
    return Chunk(0, "t", 0, memoryview(raw), start, end, end, (), end, end, 0)


def compressed(*sizes: int) -> bytes:
    """A record of so many zeros in each batch, compressed beyond what a limit on fetched bytes would notice."""
    log = b""
    for base, size in enumerate(sizes):
        (batch,) = encode(
            keys=None,
            values=pa.array([bytes(size)], pa.binary()),
            timestamps=np.zeros(1, np.int64),
            partitions=np.zeros(1, np.int32),
            compression=Compression.ZSTD,
            max_batch_bytes=1 << 20,
        )
        log += base.to_bytes(8, "big") + bytes(batch.data[8:])
    return log


def test_a_scan_decompresses_no_more_than_its_limit() -> None:
    sizes = [20 << 20] * 5
    assert sum(sizes) > SCAN_BYTES
    slices = list(chunk(compressed(*sizes), 0, 5).slices())
    assert [each.offsets.tolist() for each in slices] == [[0, 1, 2], [3, 4]]
    assert max(each.values.nbytes for each in slices) <= SCAN_BYTES


def test_a_batch_above_what_one_may_decompress_to_is_named() -> None:
    small = compressed(1000)
    body = bytes(compress(Compression.ZSTD, np.zeros(LARGEST_BATCH + 1, np.uint8)))
    large = bytearray(small[:61] + body)
    large[:12] = (1).to_bytes(8, "big") + (len(large) - 12).to_bytes(4, "big")
    raw = small + sign(large)
    where = "topic 'orders', partition 3"
    assert len(scan(raw, start_offset=0, end_offset=1, where=where)) == 1
    reason = rf"^{where}: the record batch at base offset 1 .* or to more than {LARGEST_BATCH} bytes"
    with pytest.raises(KafkaError, match=reason):
        scan(raw, start_offset=0, end_offset=2, where=where)


def test_header_keys_that_are_not_text_are_replaced() -> None:
    raw = bytearray(Batch((Row(0, 0, None, None, (("AB", b"\xff"), ("ok", None))),)).build())
    place = bytes(raw).index(b"AB")
    raw[place : place + 2] = b"A\xff"
    records = scan(sign(raw), start_offset=0, end_offset=END, headers=True)
    assert rows_of(records)[0].headers == (("A�", b"\xff"), ("ok", None))


# --- transactions --------------------------------------------------------------------------------------------

TRANSACTIONS = [
    data(0, 2, producer=1, transactional=True),
    data(2, 2, producer=2, transactional=True),
    data(4, 1),
    marker(5, 1, ControlType.ABORT),
    data(6, 2, producer=1, transactional=True),
    marker(8, 2, ControlType.COMMIT),
    data(9, 1, producer=1, transactional=True),
    marker(10, 1, ControlType.COMMIT),
    data(11, 1, producer=3, transactional=True),
    data(12, 1, producer=3),
    marker(13, 3, ControlType.ABORT),
]


def test_records_of_aborted_transactions_are_left_out() -> None:
    raw = build(TRANSACTIONS)
    everything = scan(raw, start_offset=0, end_offset=END)
    assert everything.offsets.tolist() == [0, 1, 2, 3, 4, 6, 7, 9, 11, 12]
    assert everything.next_offset == 14
    # In the wrong order on purpose; producer 3's batch at 12 belongs to no transaction.
    committed = scan(raw, start_offset=0, end_offset=END, aborted=[(3, 11), (1, 0)])
    assert committed.offsets.tolist() == [2, 3, 4, 6, 7, 9, 12]
    assert committed.next_offset == 14
    # The state is built from the first batch on, wherever reading starts.
    assert scan(raw, start_offset=6, end_offset=END, aborted=[(1, 0)]).offsets.tolist()[:3] == [6, 7, 9]
    # A transaction that the response does not list was committed, or its end is beyond.
    assert scan(raw, start_offset=0, end_offset=END, aborted=[]).offsets.tolist() == everything.offsets.tolist()


def test_a_control_batch_at_the_end_is_passed() -> None:
    raw = build([data(0, 1, 1, True), marker(1, 1, ControlType.COMMIT)])
    assert scan(raw, start_offset=0, end_offset=2).next_offset == 2
    assert scan(raw, start_offset=1, end_offset=2).next_offset == 2


def test_batch_headers_pair_records_with_their_markers() -> None:
    raw = build(TRANSACTIONS)
    heads = read_batch_headers(raw)
    assert heads["base_offset"].tolist() == [batch.base for batch in TRANSACTIONS]
    assert heads["last_offset"].tolist() == [batch.last for batch in TRANSACTIONS]
    assert heads["producer_id"].tolist() == [batch.producer for batch in TRANSACTIONS]
    assert heads["producer_epoch"].tolist() == [batch.epoch for batch in TRANSACTIONS]
    assert heads["base_sequence"].tolist() == [batch.sequence for batch in TRANSACTIONS]
    assert heads["is_transactional"].tolist() == [batch.transactional for batch in TRANSACTIONS]
    assert heads["is_control"].tolist() == [batch.control for batch in TRANSACTIONS]
    none, abort, commit = ControlType.NONE, ControlType.ABORT, ControlType.COMMIT
    types = [none, none, none, abort, none, commit, none, commit, none, none, abort]
    assert heads["control_type"].tolist() == types
    assert int((heads["position"] + heads["size"])[-1]) == len(raw)
    assert read_batch_headers(b"").size == 0


# --- what is not a record batch ------------------------------------------------------------------------------


def test_a_wrong_checksum_is_found_in_every_byte_that_it_covers() -> None:
    raw = build([data(3, 2)])
    for place in range(17, len(raw)):
        broken = bytearray(raw)
        broken[place] ^= 0x40
        with pytest.raises(KafkaError, match=r"topic 't', partition 1: the record batch at base offset 3 is corrupt"):
            scan(broken, start_offset=0, end_offset=END, where="topic 't', partition 1")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_by_name(magic: int) -> None:
    raw = bytearray(build([data(3, 2)]))
    raw[16] = magic
    with pytest.raises(UnsupportedError, match=rf"base offset 3 has message format v{magic}; only v2 is read"):
        scan(raw, start_offset=0, end_offset=END)


def corrupt(change: Callable[[bytearray], None]) -> bytes:
    raw = bytearray(build([data(3, 2)]))
    change(raw)
    return sign(raw)


def put(form: str, place: int, value: int) -> Callable[[bytearray], None]:
    return lambda raw: struct.pack_into(form, raw, place, value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (put(">b", 16, 3), "its magic is 3, not 2"),
        (put(">i", 8, 48), "its length is 48 bytes"),
        (put(">i", 8, -1), "its length is -1 bytes"),
        (put(">q", 0, -1), "offset 0 or a later one"),
        (put(">q", 0, (1 << 63) - 1), "its last offset is"),
        (put(">i", 23, -2), "its last offset is"),
        (put(">i", 23, 0), "a record's offset is outside of the batch"),
        (put(">i", 57, -1), "its record count is -1"),
        (put(">i", 57, 1), "bytes are left over"),
        (put(">i", 57, 3), "its 3 records have only"),
        (put(">i", 57, (1 << 31) - 1), "its 2147483647 records have only"),
        (put(">b", 61, 5 << 1), "a record's length"),
        (put(">b", 61, 60 << 1), "a record's length"),
        (put(">b", 61, 1), "a record's length"),
        (put(">b", 65, 50 << 1), "a key, a value or a number"),
        (put(">b", 67, 50 << 1), "a key, a value or a number"),
        (put(">h", 21, 5), "number 5"),
        (put(">h", 21, Compression.ZSTD), "do not decompress"),
    ],
)
def test_malformed_batches_are_refused_with_a_reason(change: Callable[[bytearray], None], reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as caught:
        scan(corrupt(change), start_offset=0, end_offset=END)
    assert "base offset" in str(caught.value)


def test_a_malformed_marker_is_refused() -> None:
    raw = build([replace(marker(4, 1, 0), rows=(Row(4, 0, b"abc", b""),))])
    with pytest.raises(KafkaError, match="base offset 4 is malformed: it is a control batch whose key has no type"):
        read_batch_headers(raw)


def test_malformed_headers_are_refused_when_they_are_read() -> None:
    raw = bytearray(Batch((Row(6, 0, None, None, (("key", b"value"),)),), base=6).build())
    raw[bytes(raw).index(b"key") - 1] = 100
    signed = sign(raw)
    assert len(scan(signed, start_offset=0, end_offset=END)) == 1
    with pytest.raises(KafkaError, match="the record at offset 6 is malformed: its headers"):
        scan(signed, start_offset=0, end_offset=END, headers=True)


@settings(properties, max_examples=300)
@given(log=logs(), random=st.data())
def test_flipped_bytes_never_crash(log: list[Batch], random: st.DataObject) -> None:
    raw = bytearray(build(log))
    places = random.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4, unique=True))
    for place in places:
        raw[place] ^= random.draw(st.integers(1, 255))
    for check in (False, True):
        try:
            records = scan(raw, start_offset=0, end_offset=END, headers=True, check_crcs=check, aborted=[(-1, 0)])
        except PenstockError:
            continue
        rows = rows_of_any(records)
        assert rows == len(records)
        if check:
            # Nothing but base offset, length, leader epoch and magic escapes the checksum.
            assert any(in_front(log, place) for place in places)


def rows_of_any(records: Records) -> int:
    for column in (records.keys, records.values, records.headers):
        assert column is not None
        column.validate(full=True)
    return len(records.values)


def in_front(log: Sequence[Batch], place: int) -> bool:
    start = 0
    for batch in log:
        size = len(batch.build())
        if place < start + size:
            return place - start < 17
        start += size
    return False


@settings(properties, max_examples=200)
@given(body=st.binary(max_size=60), count=st.integers(0, 8), control=st.booleans())
def test_records_of_noise_never_crash(body: bytes, count: int, control: bool) -> None:
    head = struct.pack(
        ">qiibIhiqqqhii", 0, 49 + len(body), 0, 2, 0, 0x20 if control else 0, 50, 0, 0, -1, -1, -1, count
    )
    for read in (
        lambda raw: rows_of_any(scan(raw, start_offset=0, end_offset=END, headers=True)),
        read_batch_headers,
    ):
        with contextlib.suppress(KafkaError):
            read(sign(bytearray(head + body)))


# --- writing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[tuple[Header, ...] | None]
    timestamps: list[int]
    partitions: list[int] = field(default_factory=list)

    def rows(self, partition: int) -> list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]]:
        return [
            (time, key, value, headers or ())
            for time, key, value, headers, at in zip(
                self.timestamps, self.keys, self.values, self.headers, self.partitions, strict=True
            )
            if at == partition
        ]

    def header_array(self) -> pa.Array:
        return pa.array(
            [None if h is None else [{"key": key, "value": value} for key, value in h] for h in self.headers],
            HEADERS_TYPE,
        )


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.integers(0, 25))

    def column(items: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(items, min_size=rows, max_size=rows))

    # A delta may exceed a long, which wraps around as in Java; kafka-python cannot write that.
    times = TIMES | st.sampled_from([(1 << 63) - 1, -(1 << 63)])
    return Table(
        *(column(items) for items in (BLOBS, BLOBS, st.none() | HEADERS, times, st.integers(0, 3)))  # type: ignore[arg-type]
    )


def read_back(batches: list[EncodedBatch], partition: int) -> list[tuple[object, ...]]:
    raw = b"".join(batch.data for batch in batches if batch.partition == partition)
    found = []
    for batch in MemoryRecords(raw):
        assert batch.validate_crc()
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
        records = list(batch)
        assert [record.offset for record in records] == list(range(len(records)))
        assert batch.last_offset_delta == len(records) - 1
        wrapped = [(record.timestamp + (1 << 63)) % (1 << 64) - (1 << 63) for record in records]
        assert batch.max_timestamp == max(wrapped)
        found += [(time, r.key, r.value, tuple(r.headers)) for time, r in zip(wrapped, records, strict=True)]
    return found


@properties
@given(table=tables(), compression=st.sampled_from(Compression), cut=st.sampled_from([62, 200, 1000, 1 << 20]))
def test_kafka_python_reads_what_encode_wrote(table: Table, compression: Compression, cut: int) -> None:
    batches = encode(
        keys=pa.array(table.keys, pa.binary()),
        values=pa.array(table.values, pa.binary()),
        timestamps=np.array(table.timestamps, np.int64),
        partitions=np.array(table.partitions, np.int32),
        headers=table.header_array(),
        compression=compression,
        batch_bytes=cut,
    )
    for partition in range(4):
        assert read_back(batches, partition) == table.rows(partition)
    assert sum(batch.count for batch in batches) == len(table.values)
    for batch in batches:
        assert table.partitions[batch.row] == batch.partition
        if batch.count > 1:
            assert len(batch.data) <= cut
        (head,) = read_batch_headers(batch.data)
        assert head["count"] == batch.count


@properties
@given(table=tables(), skip=st.integers(0, 9), chunk=st.integers(1, 9))
def test_slices_chunks_and_wide_types_are_encoded_alike(table: Table, skip: int, chunk: int) -> None:
    def columns(keys: pa.Array, values: pa.Array, headers: pa.Array) -> list[bytes]:
        rows = len(values)
        times, targets = np.array(table.timestamps[-rows:], np.int64), np.array(table.partitions[-rows:], np.int32)
        batches = encode(keys=keys, values=values, headers=headers, timestamps=times, partitions=targets)
        return [bytes(batch.data) for batch in batches]

    skip = min(skip, max(len(table.values) - 1, 0))
    if not table.values:
        return
    keys, values = pa.array(table.keys, pa.binary()), pa.array(table.values, pa.binary())
    headers = table.header_array()
    fresh = Table(table.keys[skip:], table.values[skip:], table.headers[skip:], [], [])
    expected = columns(pa.array(fresh.keys, pa.binary()), pa.array(fresh.values, pa.binary()), fresh.header_array())
    assert columns(keys[skip:], values[skip:], headers[skip:]) == expected
    assert (
        columns(keys.cast(pa.large_binary())[skip:], values.cast(pa.large_binary())[skip:], headers[skip:]) == expected
    )

    def cut(array: pa.Array) -> pa.ChunkedArray:
        parts = [array[at : at + chunk] for at in range(skip, len(array), chunk)]
        return pa.chunked_array([*parts, array[:0]])

    assert columns(cut(keys), cut(values), cut(headers)) == expected
    maps = pa.array([h if h is None else list(h) for h in table.headers], pa.map_(pa.string(), pa.binary()))
    assert columns(keys[skip:], values[skip:], maps[skip:]) == expected


@properties
@given(table=tables(), compression=st.sampled_from(Compression))
def test_what_is_encoded_is_scanned_again(table: Table, compression: Compression) -> None:
    values = pa.array(table.values, pa.binary())
    zeros, times = np.zeros(len(values), np.int32), np.array(table.timestamps, np.int64)
    raw = bytearray()
    offset = 0
    for batch in encode(
        keys=None,
        values=values,
        timestamps=times,
        partitions=zeros,
        headers=table.header_array(),
        compression=compression,
    ):
        placed = bytearray(batch.data)
        struct.pack_into(">q", placed, 0, offset)
        raw += placed
        offset += batch.count
    records = scan(raw, start_offset=0, end_offset=END, headers=True)
    assert records.values.equals(values)
    assert records.keys.null_count == len(values)
    assert records.timestamps.tolist() == table.timestamps
    assert [row.headers for row in rows_of(records)] == [h or () for h in table.headers]


def test_no_batch_exceeds_the_limit_and_none_is_needlessly_small() -> None:
    rng = np.random.default_rng(1)
    values = pa.array([rng.bytes(int(size)) for size in rng.integers(0, 400, 2000)], pa.binary())
    zeros = np.zeros(2000, np.int64)
    for compression in Compression:
        batches = encode(
            keys=None, values=values, timestamps=zeros, partitions=zeros.astype(np.int32), compression=compression,
            max_batch_bytes=5000,
        )  # fmt: skip
        sizes = [len(batch.data) for batch in batches]
        assert max(sizes) <= 5000
        assert min(sizes[:-1]) > 5000 - 420
        assert [batch.row for batch in batches] == np.cumsum([0, *(b.count for b in batches[:-1])]).tolist()


def test_a_record_above_the_limit_names_its_row() -> None:
    values = pa.array([b"", b"", np.random.default_rng(2).bytes(5000), b""])
    targets, times = np.array([0, 1, 1, 0], np.int32), np.zeros(4, np.int64)
    for compression in Compression:
        with pytest.raises(RecordTooLargeError, match="row 2 makes a record batch of 5070 bytes") as caught:
            encode(
                keys=None,
                values=values,
                timestamps=times,
                partitions=targets,
                compression=compression,
                max_batch_bytes=5069,
            )
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.row, error.size, error.limit, str(error)) == (2, 5070, 5069, str(caught.value))
        encode(
            keys=None,
            values=values,
            timestamps=times,
            partitions=targets,
            compression=compression,
            max_batch_bytes=5070,
        )


def test_a_record_above_the_limit_passes_when_it_is_compressed_below_it() -> None:
    (batch,) = encode(
        keys=None, values=pa.array([bytes(50_000)]), timestamps=np.zeros(1, np.int64),
        partitions=np.zeros(1, np.int32), compression=Compression.ZSTD, max_batch_bytes=5000,
    )  # fmt: skip
    assert len(batch.data) < 5000
    assert read_back([batch], 0) == [(0, None, bytes(50_000), ())]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_stamped_batch_is_what_kafka_python_would_have_built(compression: Compression) -> None:
    (batch,) = encode(
        keys=None,
        values=pa.array([bytes(300)]),
        timestamps=np.array([9]),
        partitions=np.zeros(1, np.int32),
        compression=compression,
    )
    stamp(batch.data, producer_id=1 << 40, producer_epoch=7, base_sequence=99, transactional=True)
    (head,) = read_batch_headers(batch.data)
    assert (head["producer_id"], head["producer_epoch"], head["base_sequence"]) == (1 << 40, 7, 99)
    assert head["is_transactional"]
    (read,) = MemoryRecords(bytes(batch.data))
    assert read.validate_crc()
    assert (read.is_transactional, read.compression_type) == (True, compression)
    # Shuffled batches arrive as other bytes, and a redone batch may be stamped twice.
    copy = bytearray(batch.data)
    stamp(copy, producer_id=5, producer_epoch=8, base_sequence=0, transactional=False)
    (read,) = MemoryRecords(bytes(copy))
    assert read.validate_crc()
    assert (read.producer_id, read.is_transactional, read.compression_type) == (5, False, compression)
    assert [record.value for record in read] == [bytes(300)]


def test_columns_that_do_not_fit_are_refused() -> None:
    values, times, targets = pa.array([b"a", b"b"]), np.zeros(2, np.int64), np.zeros(2, np.int32)
    with pytest.raises(SchemaError, match="int64; expected binary or string"):
        encode(keys=pa.array([1, 2]), values=values, timestamps=times, partitions=targets)
    with pytest.raises(SchemaError, match="has 1 rows; expected 2"):
        encode(keys=pa.array([b"a"]), values=values, timestamps=times, partitions=targets)
    with pytest.raises(SchemaError, match="timestamps have shape"):
        encode(keys=None, values=values, timestamps=times[:1], partitions=targets)
    with pytest.raises(SchemaError, match="row 1 has partition -1"):
        encode(keys=None, values=values, timestamps=times, partitions=np.array([0, -1], np.int32))
    headers = pa.array([[{"key": None, "value": b""}], []], HEADERS_TYPE)
    with pytest.raises(SchemaError, match="null key"):
        encode(keys=None, values=values, timestamps=times, partitions=targets, headers=headers)


def test_other_kinds_of_text_and_bytes_are_accepted() -> None:
    times, targets = np.zeros(2, np.int64), np.zeros(2, np.int32)
    expected = [(0, b"ab", b"cd", ()), (0, None, b"ef", ())]
    for keys, values in (
        (pa.array(["ab", None]), pa.array(["cd", "ef"], pa.large_string())),
        (pa.array(["ab", None]).dictionary_encode(), pa.array([b"cd", b"ef"], pa.binary(2))),
        (pa.array(["ab", None], pa.string_view()), pa.array([b"cd", b"ef"], pa.binary_view())),
    ):
        assert read_back(encode(keys=keys, values=values, timestamps=times, partitions=targets), 0) == expected
    nothing = encode(keys=pa.nulls(2), values=pa.nulls(2), timestamps=times, partitions=targets)
    assert read_back(nothing, 0) == [(0, None, None, ())] * 2
