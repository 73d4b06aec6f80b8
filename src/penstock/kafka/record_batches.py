"""Kafka record batches (message format v2) to Arrow columns and back, without a Python object per record.

Layout, checksums and attributes follow "Record Batch" in Kafka's protocol documentation. Under read_committed, readers
skip aborted transactions by the rule of KIP-98, like Java's consumer. The loops are in :mod:`penstock.kafka.kernels`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import KafkaError, Problem, RecordError, SchemaError, UnsupportedError
from penstock.kafka import kernels
from penstock.kafka.columns import HEADERS_TYPE, read_only, to_binary_column, to_header_column
from penstock.kafka.compression import Compression, Decompressor, compress

Raw = bytes | bytearray | memoryview | NDArray[np.uint8]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Heads = NDArray[np.void]

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp, producer id,
# producer epoch, base sequence, record count
_HEAD = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_MAGIC_AT, _CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 16, 17, 21, 43
_CODEC_BITS, _APPEND_TIME_BIT, _TRANSACTIONAL_BIT, _CONTROL_BIT = 0x07, 0x08, 0x10, 0x20
_SMALLEST_RECORD = 7
_NO_LIMIT = (1 << 63) - 1
#: The most bytes of records that one scan decompresses, unless a single batch has more: decompressed, an answer to a
#: fetch may have a few hundred times its size.
SCAN_BYTES = 64 << 20
#: The most bytes of records that one batch may decompress to. Kafka's clients limit a batch before compression to
#: max.request.size, 1 MiB by default. Keys and values need as many bytes again.
LARGEST_BATCH = 256 << 20

#: One row per batch: ``position`` and ``size`` are bytes in the scanned buffer, offsets are inclusive.
BATCH_DTYPE = np.dtype(
    [
        ("position", np.int64),
        ("size", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("leader_epoch", np.int32),
        ("crc", np.uint32),
        ("attributes", np.int16),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("producer_epoch", np.int16),
        ("base_sequence", np.int32),
        ("count", np.int32),
        ("is_transactional", np.bool_),
        ("is_control", np.bool_),
        ("control_type", np.int8),
    ]
)


#: The types of a timestamp, by number: set by the producer of the record, or by the broker that appended it.
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


class ControlType(IntEnum):
    """The type of a control batch. NONE is the type of data batches and of control batches emptied by compaction."""

    NONE = -1
    ABORT = 0
    COMMIT = 1


class RecordTooLargeError(RecordError):
    """One record does not fit a batch. ``row`` is its index in the encoded columns, ``size`` its batch's bytes.

    The caller of :func:`encode` knows the origin of the row, and names it in its own error.
    """

    def __init__(self, row: int, size: int, limit: int):
        super().__init__(
            f"row {row} makes a record batch of {size} bytes, above the limit of {limit} bytes",
            hint="raise max.message.bytes of the topic and max.request.size of the sink, or compress",
        )
        self.args = (row, size, limit)
        self.row, self.size, self.limit = row, size, limit


# --- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Records:
    """Records of one partition, one entry per record in every column.

    ``offsets`` and ``timestamps`` (ms since the epoch) are int64, ``timestamp_types`` int8 (:data:`TIMESTAMP_TYPES`),
    ``leader_epochs`` int32; ``keys`` and ``values`` are nullable Arrow binary arrays, ``headers`` is an array of
    HEADERS_TYPE, or None if headers were not requested.

    Reading continues at ``next_offset``: every offset below it was either delivered or holds no record to deliver
    (control batches, aborted transactions, compaction). It equals the start offset if no batch was complete.
    ``batches`` counts complete batches below the end offset. ``left``: batches from ``next_offset`` on did not fit the
    limit of the scan.
    """

    offsets: Ints
    timestamps: Ints
    timestamp_types: NDArray[np.int8]
    leader_epochs: NDArray[np.int32]
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.ListArray | None
    next_offset: int
    batches: int
    left: bool = False

    def __len__(self) -> int:
        return int(self.offsets.size)


def read_batch_headers(raw: Raw, *, where: str = "") -> Heads:
    """The headers of all complete batches of ``raw`` as an array of BATCH_DTYPE, control batches with their type.

    ``where`` names the partition in errors. Raises KafkaError for a batch that is malformed or has a wrong CRC32C,
    UnsupportedError for message formats v0 and v1.
    """
    data = _as_bytes(raw)
    try:
        heads = _read_heads(data)
        _check_crcs(data, heads)
        _read_control_types(data, heads)
    except KafkaError as error:
        raise _add_place(where, error) from error
    return heads


def scan(
    raw: Raw,
    *,
    start_offset: int,
    end_offset: int,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] | None = None,
    headers: bool = False,
    where: str = "",
    max_bytes: int = SCAN_BYTES,
) -> Records:
    """The records of ``raw`` with ``start_offset <= offset < end_offset``.

    ``raw`` is the records field of one partition in a Fetch response: record batches, the last one possibly cut off.
    ``aborted`` are the response's aborted transactions as (producer id, first offset): their records are skipped, as
    read_committed requires; with None or none, everything in the response is read. ``where`` names the partition in
    errors.

    Decodes at most ``max_bytes`` (below 2 GiB) of decompressed records, but at least one batch; if batches are
    ``left``, reading continues at ``next_offset``. Headers are parsed only if requested. Raises KafkaError with the
    base offset of a batch that is malformed, (if checked) has a wrong CRC32C, or decompresses to more than
    :data:`LARGEST_BATCH` bytes, UnsupportedError for message formats v0 and v1.
    """
    data = _as_bytes(raw)
    try:
        heads = _read_heads(data)
        complete = heads.size
        heads = heads[heads["base_offset"] < end_offset]
        if check_crcs:
            _check_crcs(data, heads)
        dropped = np.zeros(heads.size, np.bool_)
        if aborted:
            _read_control_types(data, heads)
            dropped = _mark_aborted(heads, aborted)
        wanted = ~heads["is_control"] & ~dropped & (heads["last_offset"] >= start_offset)
        chosen = heads[wanted]
        opened = _open(data, chosen, max_bytes)
        columns = _decode(opened, start_offset, end_offset, headers)
    except KafkaError as error:
        raise _add_place(where, error) from error

    if opened.taken < chosen.size:
        following = int(chosen["base_offset"][opened.taken])
    elif heads.size < complete:
        following = end_offset
    elif heads.size:
        following = int(heads["last_offset"][-1]) + 1
    else:
        following = start_offset
    kept = opened.spans[:, kernels.SPAN_KEPT]
    append_time = opened.spans[:, kernels.SPAN_APPEND_TIME].astype(np.int8)
    return Records(
        **columns,
        timestamp_types=np.repeat(append_time, kept),
        leader_epochs=np.repeat(chosen["leader_epoch"][: opened.taken], kept),
        next_offset=max(start_offset, min(following, end_offset)),
        batches=int(heads.size),
        left=opened.taken < chosen.size,
    )


def _as_bytes(raw: Raw) -> Bytes:
    return read_only(np.ascontiguousarray(raw) if isinstance(raw, np.ndarray) else np.frombuffer(raw, np.uint8))


def _add_place(where: str, error: KafkaError) -> KafkaError:
    text = f"{where}: {error}" if where else str(error)
    return KafkaError(
        f"{text}; fetch again from that offset, and if the error stays, inspect the partition's log with kafka-dump-log"
    )


def _malformed_error(base_offset: int, reason: str) -> KafkaError:
    return KafkaError(f"the record batch at base offset {base_offset} is malformed: {reason}")


def _read_heads(data: Bytes) -> Heads:
    """The headers of all complete batches."""
    view = data.data
    rows: list[tuple[Any, ...]] = []
    position, expected = 0, 0
    while position + _CRC_AT <= data.size:
        base, length = _LENGTH.unpack_from(view, position)
        magic = view[position + _MAGIC_AT]
        if magic in (0, 1):
            reason = f"the record batch at base offset {base} has message format v{magic}; only v2 is read"
            hint = "brokers write v2 since 0.11: set message.format.version there, and write the old records again"
            raise UnsupportedError((Problem(reason, hint=hint),))
        if magic != 2:
            raise _malformed_error(base, f"its magic is {magic}, not 2")
        if length < _HEAD.size - _LENGTH.size:
            raise _malformed_error(base, f"its length is {length} bytes, less than its header")
        size = _LENGTH.size + length
        if position + size > data.size:
            break
        (
            _, _, leader_epoch, _, crc, attributes, last_delta, base_time, max_time,
            producer_id, producer_epoch, base_sequence, count,
        ) = _HEAD.unpack_from(view, position)  # fmt: skip
        if base < expected:
            raise _malformed_error(base, f"expected offset {expected} or a later one")
        if last_delta < 0 or base + last_delta >= _NO_LIMIT:
            raise _malformed_error(base, f"its last offset is {base} + {last_delta}")
        if count < 0:
            raise _malformed_error(base, f"its record count is {count}")
        transactional, control = bool(attributes & _TRANSACTIONAL_BIT), bool(attributes & _CONTROL_BIT)
        rows.append(
            (
                position, size, base, base + last_delta, leader_epoch, crc, attributes, base_time, max_time,
                producer_id, producer_epoch, base_sequence, count, transactional, control, ControlType.NONE,
            )
        )  # fmt: skip
        position += size
        expected = base + last_delta + 1
    return np.array(rows, BATCH_DTYPE)


def _check_crcs(data: Bytes, heads: Heads) -> None:
    for base, position, size, crc in heads[["base_offset", "position", "size", "crc"]].tolist():
        # The library does not copy an array, unlike a memoryview.
        found = google_crc32c.value(data[position + _ATTRIBUTES_AT : position + size])
        if found != crc:
            raise KafkaError(
                f"the record batch at base offset {base} is corrupt: its CRC32C is {found:#010x}, not {crc:#010x}"
            )


def _read_control_types(data: Bytes, heads: Heads) -> None:
    """Fills in ``control_type`` from the key of each control batch's first record: a version and a type, int16 each."""
    markers = np.flatnonzero(heads["is_control"])
    if not markers.size:
        return
    opened = _open(data, heads[markers], SCAN_BYTES)
    if opened.taken < markers.size:  # brokers write some twenty bytes
        raise _malformed_error(
            int(heads["base_offset"][markers[opened.taken]]), "control batches up to this one have more than 64 MiB"
        )
    keys = _decode(opened, 0, _NO_LIMIT, False)["keys"]
    row = 0
    for index, count in zip(markers.tolist(), opened.spans[:, kernels.SPAN_KEPT].tolist(), strict=True):
        if count:
            key = keys[row].as_py()
            if key is None or len(key) < 4:
                raise _malformed_error(int(heads["base_offset"][index]), "it is a control batch whose key has no type")
            heads["control_type"][index] = min(int.from_bytes(key[2:4], "big"), 127)
            row += count


def _mark_aborted(heads: Heads, aborted: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Marks the batches of aborted transactions: from a transaction's first offset to its producer's marker."""
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    open_producers: set[int] = set()
    dropped = np.zeros(heads.size, np.bool_)
    columns = ["last_offset", "producer_id", "is_transactional", "control_type"]
    for index, (last, producer, transactional, control) in enumerate(heads[columns].tolist()):
        while waiting and waiting[-1][0] <= last:
            open_producers.add(waiting.pop()[1])
        if control == ControlType.ABORT:
            open_producers.discard(producer)
        else:
            dropped[index] = transactional and producer in open_producers
    dropped[heads["is_control"]] = False
    return dropped


@dataclass(frozen=True)
class _Opened:
    """Batches with decompressed records: ``spans`` (SPAN_* columns) has a row for each ``taken`` batch; ``runs`` are
    (buffer, first row, row after the last) of spans that share a buffer; the records have ``size`` bytes."""

    spans: Ints
    runs: list[tuple[Bytes, int, int]]
    size: int

    @property
    def taken(self) -> int:
        return int(self.spans.shape[0])


def _open(data: Bytes, heads: Heads, max_bytes: int) -> _Opened:
    """Decompresses batches up to ``max_bytes`` in all, but at least one."""
    spans = np.zeros((heads.size, 8), np.int64)
    append_time = (heads["attributes"] & _APPEND_TIME_BIT) != 0
    spans[:, kernels.SPAN_START] = heads["position"] + _HEAD.size
    spans[:, kernels.SPAN_END] = heads["position"] + heads["size"]
    spans[:, kernels.SPAN_BASE] = heads["base_offset"]
    spans[:, kernels.SPAN_LAST_DELTA] = heads["last_offset"] - heads["base_offset"]
    spans[:, kernels.SPAN_COUNT] = heads["count"]
    spans[:, kernels.SPAN_TIME] = np.where(append_time, heads["max_timestamp"], heads["base_timestamp"])
    spans[:, kernels.SPAN_APPEND_TIME] = append_time

    # An empty batch, which compaction keeps for its producer's state, has nothing to decompress.
    types = np.where(heads["count"] > 0, heads["attributes"] & _CODEC_BITS, Compression.NONE)
    compressed = int(heads["size"][types != Compression.NONE].sum())
    decompressor = Decompressor(min(8 * compressed, max_bytes), LARGEST_BATCH)
    runs: list[tuple[Bytes, int, int]] = []
    total = 0
    bounds = spans[:, [kernels.SPAN_START, kernels.SPAN_END]].tolist()
    headers = heads[["base_offset", "count"]].tolist()
    for index, (compression, (base, count), (start, end)) in enumerate(
        zip(types.tolist(), headers, bounds, strict=True)
    ):
        buffer, size = data, end - start
        if compression != Compression.NONE:
            try:
                buffer, at, size = decompressor.decompress(compression, data[start:end])
            except KafkaError as error:
                raise _malformed_error(base, str(error)) from error
            spans[index, kernels.SPAN_START], spans[index, kernels.SPAN_END] = at, at + size
        if count * _SMALLEST_RECORD > size:
            raise _malformed_error(base, f"its {count} records have only {size} bytes")
        if index and total + size > max_bytes:
            return _Opened(spans[:index], runs, total)
        total += size
        first = index
        if runs and runs[-1][0] is buffer:
            _, first, _ = runs.pop()
        runs.append((buffer, first, index + 1))
    return _Opened(spans, runs, total)


_REASONS = {
    kernels.BAD_LENGTH: "a record's length does not fit the batch",
    kernels.BAD_FIELD: "a key, a value or a number does not fit its record",
    kernels.BAD_OFFSET: "a record's offset is outside of the batch",
    kernels.LEFT_OVER: "bytes are left over after its last record",
}


def _decode(opened: _Opened, start_offset: int, end_offset: int, want_headers: bool) -> dict[str, Any]:
    """The columns of the opened batches' records, by their names in :class:`Records`."""
    rows = int(opened.spans[:, kernels.SPAN_COUNT].sum())
    offsets, timestamps = np.empty(rows, np.int64), np.empty(rows, np.int64)
    # All of the bytes may be keys, or values. Memory that is never written to costs nothing.
    keys, values = _Output.allocate(rows, opened.size), _Output.allocate(rows, opened.size)
    header_spans = np.empty((rows if want_headers else 0, 2), np.int64)
    row, row_runs = 0, []
    for buffer, first, last in opened.runs:
        row_before = row
        row, batch, reason = kernels.decode(
            read_only(buffer), opened.spans, first, last, start_offset, end_offset, row, offsets, timestamps,
            keys.offsets, keys.data, keys.valid, values.offsets, values.data, values.valid, header_spans,
        )  # fmt: skip
        if reason != kernels.WELL_FORMED:
            raise _malformed_error(int(opened.spans[batch, kernels.SPAN_BASE]), _REASONS[reason])
        row_runs.append((buffer, row_before, row))
    return {
        "offsets": offsets[:row],
        "timestamps": timestamps[:row],
        "keys": keys.array(row),
        "values": values.array(row),
        "headers": _decode_headers(row_runs, header_spans, offsets, row) if want_headers else None,
    }


@dataclass(frozen=True)
class _Output:
    """A binary column that kernels fill."""

    offsets: NDArray[np.int32]
    data: Bytes
    valid: Bytes

    @classmethod
    def allocate(cls, rows: int, size: int) -> _Output:
        offsets = np.empty(rows + 1, np.int32)
        offsets[0] = 0
        return cls(offsets, np.empty(size, np.uint8), np.empty(rows, np.uint8))

    def array(self, rows: int) -> pa.BinaryArray:
        valid = self.valid[:rows]
        nulls = rows - int(np.count_nonzero(valid))
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        data = self.data[: self.offsets[rows]]
        buffers = [bitmap, pa.py_buffer(self.offsets[: rows + 1]), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def _decode_headers(runs: list[tuple[Bytes, int, int]], spans: Ints, offsets: Ints, rows: int) -> pa.ListArray:
    entries = key_bytes = value_bytes = 0
    for buffer, first, last in runs:
        found, keys_found, values_found, row, reason = kernels.measure_headers(read_only(buffer), spans, first, last)
        if reason != kernels.WELL_FORMED:
            raise KafkaError(f"the record at offset {offsets[row]} is malformed: its headers do not fit it")
        entries, key_bytes, value_bytes = entries + found, key_bytes + keys_found, value_bytes + values_found
    keys, values = _Output.allocate(entries, key_bytes), _Output.allocate(entries, value_bytes)
    keys.valid.fill(1)
    list_offsets = np.empty(rows + 1, np.int32)
    list_offsets[0] = entry = 0
    for buffer, first, last in runs:
        entry = kernels.decode_headers(
            read_only(buffer), spans, first, last, entry, list_offsets,
            keys.offsets, keys.data, values.offsets, values.data, values.valid,
        )  # fmt: skip
    fields = [_decode_header_keys(keys.array(entries)), values.array(entries)]
    struct_array = pa.StructArray.from_arrays(fields, fields=list(HEADERS_TYPE.value_type))
    # pa.array imports pandas for a NumPy array.
    limits = pa.Array.from_buffers(pa.int32(), rows + 1, [None, pa.py_buffer(list_offsets)])
    return pa.ListArray.from_arrays(limits, struct_array, type=HEADERS_TYPE)


def _decode_header_keys(keys: pa.BinaryArray) -> pa.StringArray:
    """Header keys as text. Kafka does not check that they are UTF-8; other bytes become U+FFFD, as in Java."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())


# --- writing -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """One record batch, ready for Produce once it is stamped.

    ``row`` is the first of its ``count`` rows in the encoded columns (the others follow in order, but not always next
    to it). ``data`` are the writable bytes, with producer id, epoch and sequence -1.
    """

    partition: int
    row: int
    count: int
    data: memoryview


def encode(
    *,
    keys: pa.Array | pa.ChunkedArray | None,
    values: pa.Array | pa.ChunkedArray,
    timestamps: Ints,
    partitions: NDArray[np.int32],
    headers: pa.Array | pa.ChunkedArray | None = None,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    max_batch_bytes: int = 1_048_588,
    batch_bytes: int | None = None,
) -> list[EncodedBatch]:
    """The rows as whole record batches, partition after partition, each partition's rows in their own order.

    ``keys`` and ``values`` are nullable binary or string columns (keys None: all null), ``timestamps`` int64 ms,
    ``partitions`` the partition of each row, ``headers`` a column of HEADERS_TYPE or of ``map<string, binary>``, where
    a null list means no headers.

    A batch ends when its records reach ``batch_bytes`` before compression (default: ``max_batch_bytes``; 0 puts every
    record into a separate batch). After compression it has at most ``max_batch_bytes``, header included. A batch that
    compression does not make smaller stays uncompressed. Raises RecordTooLargeError for a record that does not fit a
    batch alone, SchemaError for columns of other types or lengths.
    """
    rows = len(values)
    key_column, value_column = to_binary_column(keys, rows), to_binary_column(values, rows)
    header_lists = to_header_column(headers, rows)
    times = _per_row(timestamps, np.int64, "timestamps", rows)
    targets = _per_row(partitions, np.int32, "partitions", rows)
    if not rows:
        return []
    if int(targets.min()) < 0:
        raise SchemaError(f"row {int(targets.argmin())} has partition {int(targets.min())}; expected 0 or more")
    order, starts = kernels.group(targets, int(targets.max()) + 1)
    lengths = np.empty(rows, np.int64)
    room = min(max_batch_bytes if batch_bytes is None else batch_bytes, max_batch_bytes) - _HEAD.size
    table = kernels.plan(order, starts, key_column, value_column, header_lists, times, room, lengths)

    largest = int(table[:, kernels.PLAN_BYTES].max())
    if largest > LARGEST_BATCH:
        index = int(table[int(table[:, kernels.PLAN_BYTES].argmax()), kernels.PLAN_FIRST])
        raise RecordTooLargeError(int(order[index]), largest + _HEAD.size, min(max_batch_bytes, LARGEST_BATCH))
    batches = []
    for partition, first, last, size, base_time, max_time in table.tolist():
        data = np.empty(_HEAD.size + size, np.uint8)
        kernels.encode(
            order, first, last, key_column, value_column, header_lists, times, lengths, base_time, data, _HEAD.size
        )  # fmt: skip
        used = Compression.NONE
        if compression is not Compression.NONE:
            packed = np.frombuffer(compress(compression, data[_HEAD.size :], level), np.uint8)
            if packed.size < size:
                used, data = compression, np.concatenate([data[: _HEAD.size], packed])
        if data.size > max_batch_bytes:
            raise RecordTooLargeError(int(order[first]), data.size, max_batch_bytes)
        count = last - first
        _HEAD.pack_into(
            data.data, 0, 0, data.size - _LENGTH.size, -1, 2, 0, used, count - 1, base_time, max_time, -1, -1, -1, count
        )  # fmt: skip
        _sign(data)
        batches.append(EncodedBatch(partition, int(order[first]), count, data.data))
    return batches


def stamp(
    batch: bytearray | memoryview, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool
) -> None:
    """Writes the producer's fields into an encoded batch, in place, and updates its CRC32C."""
    data = np.frombuffer(batch, np.uint8)
    struct.pack_into(">qhi", batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    low = data[_ATTRIBUTES_AT + 1]
    data[_ATTRIBUTES_AT + 1] = low | _TRANSACTIONAL_BIT if transactional else low & ~np.uint8(_TRANSACTIONAL_BIT)
    _sign(data)


def _sign(data: Bytes) -> None:
    struct.pack_into(">I", data.data, _CRC_AT, google_crc32c.value(data[_ATTRIBUTES_AT:]))


def _per_row(column: NDArray[Any], dtype: type[np.generic], name: str, rows: int) -> NDArray[Any]:
    if column.shape != (rows,):
        raise SchemaError(f"{name} have shape {column.shape}; expected ({rows},), one for each value")
    return read_only(np.ascontiguousarray(column, dtype))
