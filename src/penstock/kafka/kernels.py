"""Compiled loops over the records of Kafka's record batches (message format v2) and over Arrow's binary buffers.

Nothing here allocates a Python object per record, holds the GIL or trusts its input: every length from the wire is
compared with the remaining bytes before it is used. Callers always pass arrays of the same type (inputs read-only,
outputs writable and contiguous), so every kernel is compiled once and then loaded from its cache.

The format is described under "Record Batch" and "Record" in Kafka's documentation: varints are zigzag encoded, and a
length of -1 is null.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Offsets = NDArray[np.int32]

#: The results of :func:`decode` and :func:`measure_headers`: success, or why a batch cannot be read.
WELL_FORMED, BAD_LENGTH, BAD_FIELD, BAD_OFFSET, LEFT_OVER, BAD_HEADER = range(6)

#: Columns of the table of spans that :func:`decode` reads. It writes the last one: the records kept from the batch.
SPAN_START, SPAN_END, SPAN_BASE, SPAN_LAST_DELTA, SPAN_COUNT, SPAN_TIME, SPAN_APPEND_TIME, SPAN_KEPT = range(8)

#: Columns of the table of batches that :func:`plan` writes.
PLAN_PARTITION, PLAN_FIRST, PLAN_LAST, PLAN_BYTES, PLAN_BASE_TIME, PLAN_MAX_TIME = range(6)

# The next position that _read_varint returns if there is none: larger than any end, so that one comparison after
# several fields finds it, and small enough that a length can be added to it.
_NOWHERE = 1 << 61

# Attributes, timestamp delta, offset delta, key, value and header count take a byte each at least.
_SMALLEST_RECORD = 6


class ColumnParts(NamedTuple):
    """A column of byte strings: row i is the ``lengths[i]`` bytes of ``data`` from ``starts[i]`` on; -1 is null."""

    starts: Ints
    lengths: Ints
    data: Bytes


class HeaderColumn(NamedTuple):
    """Header lists: row i owns the ``counts[i]`` entries of ``keys`` and ``values`` from ``starts[i]`` on.

    Empty ``counts`` mean that no row has headers.
    """

    starts: Ints
    counts: Ints
    keys: ColumnParts
    values: ColumnParts


@intrinsic
def _copy(context: Any, target: Any, target_at: Any, source: Any, source_at: Any, count: Any) -> Any:
    """memcpy between two byte arrays: a loop over bytes takes three times as long for values of some hundred bytes."""

    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target_type, _, source_type, _, _ = signature.args
        to = context.make_array(target_type)(context, builder, args[0]).data
        start = context.make_array(source_type)(context, builder, args[2]).data
        cgutils.raw_memcpy(builder, builder.gep(to, [args[1]]), builder.gep(start, [args[3]]), args[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), build


# --- reading -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _read_varint(data: Bytes, position: int, end: int) -> tuple[np.int64 | int, int]:
    """The varint at ``position`` and the position after it, or ``_NOWHERE`` if it does not end before ``end``."""
    if position >= end:
        return 0, _NOWHERE
    byte = np.uint64(data[position])
    position += 1
    bits = byte & np.uint64(0x7F)
    shift = np.uint64(7)
    while byte >= np.uint64(0x80):
        if position >= end or shift > np.uint64(63):
            return 0, _NOWHERE
        byte = np.uint64(data[position])
        position += 1
        bits |= (byte & np.uint64(0x7F)) << shift
        shift += np.uint64(7)
    return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), position


@njit(cache=True, nogil=True)
def decode(
    data: Bytes,
    spans: Ints,
    first: int,
    last: int,
    start_offset: int,
    end_offset: int,
    row: int,
    offsets: Ints,
    timestamps: Ints,
    key_offsets: Offsets,
    key_data: Bytes,
    key_valid: Bytes,
    value_offsets: Offsets,
    value_data: Bytes,
    value_valid: Bytes,
    header_spans: Ints,
) -> tuple[int, int, int]:
    """Appends the records of batches ``first`` to ``last`` (uncompressed, in ``data``) to the output, from ``row`` on.

    Skips records outside ``start_offset`` to ``end_offset``. The outputs must have room for every record and every byte
    of the batches. ``header_spans`` has a row per record, or none if headers are not wanted. Returns (next row, batch,
    reason); the reason is WELL_FORMED if all batches were read.
    """
    key_bytes = np.int64(key_offsets[row])
    value_bytes = np.int64(value_offsets[row])
    want_headers = header_spans.shape[0] > 0
    for batch in range(first, last):
        position = spans[batch, SPAN_START]
        batch_end = spans[batch, SPAN_END]
        base = spans[batch, SPAN_BASE]
        last_delta = spans[batch, SPAN_LAST_DELTA]
        time = spans[batch, SPAN_TIME]
        append_time = spans[batch, SPAN_APPEND_TIME] != 0
        row_before = row
        for _ in range(spans[batch, SPAN_COUNT]):
            length, position = _read_varint(data, position, batch_end)
            if length < _SMALLEST_RECORD or length > batch_end - position:
                return row, batch, BAD_LENGTH
            end = position + length
            time_delta, position = _read_varint(data, position + 1, end)
            offset_delta, position = _read_varint(data, position, end)
            key_length, position = _read_varint(data, position, end)
            key_at = position
            if key_length > 0:
                if key_length > end - position:
                    return row, batch, BAD_FIELD
                position += key_length
            value_length, position = _read_varint(data, position, end)
            value_at = position
            if value_length > 0:
                if value_length > end - position:
                    return row, batch, BAD_FIELD
                position += value_length
            # At least the header count is left; the headers after it are read only if they are wanted.
            if position >= end:
                return row, batch, BAD_FIELD
            if offset_delta < 0 or offset_delta > last_delta:
                return row, batch, BAD_OFFSET
            offset = base + offset_delta
            if start_offset <= offset < end_offset:
                offsets[row] = offset
                timestamps[row] = time if append_time else time + time_delta
                key_valid[row] = key_length >= 0
                if key_length > 0:
                    _copy(key_data, key_bytes, data, key_at, key_length)
                    key_bytes += key_length
                value_valid[row] = value_length >= 0
                if value_length > 0:
                    _copy(value_data, value_bytes, data, value_at, value_length)
                    value_bytes += value_length
                if want_headers:
                    header_spans[row, 0] = position
                    header_spans[row, 1] = end
                row += 1
                key_offsets[row] = key_bytes
                value_offsets[row] = value_bytes
            position = end
        if position != batch_end:
            return row, batch, LEFT_OVER
        spans[batch, SPAN_KEPT] = row - row_before
    return row, last, WELL_FORMED


@njit(cache=True, nogil=True)
def measure_headers(data: Bytes, header_spans: Ints, first: int, last: int) -> tuple[int, int, int, int, int]:
    """(headers, bytes of their keys, bytes of their values, row, reason) of the records ``first`` to ``last``."""
    count = key_bytes = value_bytes = 0
    for row in range(first, last):
        end = header_spans[row, 1]
        entries, position = _read_varint(data, header_spans[row, 0], end)
        if entries < 0 or entries > end - position:
            return count, key_bytes, value_bytes, row, BAD_HEADER
        for _ in range(entries):
            length, position = _read_varint(data, position, end)
            if length < 0 or length > end - position:
                return count, key_bytes, value_bytes, row, BAD_HEADER
            key_bytes += length
            length, position = _read_varint(data, position + length, end)
            if length > end - position:
                return count, key_bytes, value_bytes, row, BAD_HEADER
            if length > 0:
                value_bytes += length
                position += length
        if position != end:
            return count, key_bytes, value_bytes, row, BAD_HEADER
        count += entries
    return count, key_bytes, value_bytes, last, WELL_FORMED


@njit(cache=True, nogil=True)
def decode_headers(
    data: Bytes,
    header_spans: Ints,
    first: int,
    last: int,
    entry: int,
    list_offsets: Offsets,
    key_offsets: Offsets,
    key_data: Bytes,
    value_offsets: Offsets,
    value_data: Bytes,
    value_valid: Bytes,
) -> int:
    """Appends the headers of the records ``first`` to ``last``, which were measured before; returns the next entry."""
    for row in range(first, last):
        end = header_spans[row, 1]
        entries, position = _read_varint(data, header_spans[row, 0], end)
        for _ in range(entries):
            length, position = _read_varint(data, position, end)
            _copy(key_data, key_offsets[entry], data, position, length)
            key_offsets[entry + 1] = key_offsets[entry] + length
            length, position = _read_varint(data, position + length, end)
            value_valid[entry] = length >= 0
            length = max(length, 0)
            _copy(value_data, value_offsets[entry], data, position, length)
            value_offsets[entry + 1] = value_offsets[entry] + length
            position += length
            entry += 1
        list_offsets[row + 1] = entry
    return entry


# --- writing -------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def group(partitions: Offsets, count: int) -> tuple[Ints, Ints]:
    """The rows in the order of partitions, with their own order in each, and where each partition starts."""
    starts = np.zeros(count + 1, np.int64)
    for partition in partitions:
        starts[partition + 1] += 1
    for partition in range(count):
        starts[partition + 1] += starts[partition]
    cursor = starts.copy()
    order = np.empty(partitions.size, np.int64)
    for row in range(partitions.size):
        partition = partitions[row]
        order[cursor[partition]] = row
        cursor[partition] += 1
    return order, starts


@njit(cache=True, nogil=True)
def _varint_size(value: int) -> int:
    bits = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while bits >= np.uint64(0x80):
        bits >>= np.uint64(7)
        size += 1
    return size


@njit(cache=True, nogil=True)
def _field_size(length: int) -> int:
    prefix: int = _varint_size(length)
    return prefix + max(length, 0)


@njit(cache=True, nogil=True)
def plan(
    order: Ints,
    starts: Ints,
    keys: ColumnParts,
    values: ColumnParts,
    headers: HeaderColumn,
    timestamps: Ints,
    room: int,
    lengths: Ints,
) -> Ints:
    """Divides each partition's rows into batches of at most ``room`` bytes of records, or of one larger record.

    Writes every record's length to ``lengths`` (by position in ``order``); returns a table of batches, PLAN_* columns.
    """
    key_lengths = keys.lengths
    value_lengths = values.lengths
    entry_starts, entry_counts, names, texts = headers
    name_lengths = names.lengths
    text_lengths = texts.lengths
    with_headers = entry_counts.size > 0
    table = np.empty((64, 6), np.int64)
    batches = 0
    for partition in range(starts.size - 1):
        pos = starts[partition]
        stop = starts[partition + 1]
        while pos < stop:
            first = pos
            base_time = timestamps[order[first]]
            max_time = base_time
            used = 0
            while pos < stop:
                row = order[pos]
                # Deltas overflow like Java's long; the reader's addition reverses that.
                length = 1 + _varint_size(timestamps[row] - base_time) + _varint_size(pos - first)
                length += _field_size(key_lengths[row]) + _field_size(value_lengths[row])
                entries = entry_counts[row] if with_headers else 0
                length += _varint_size(entries)
                for index in range(entries):
                    entry = entry_starts[row] + index
                    length += _field_size(name_lengths[entry]) + _field_size(text_lengths[entry])
                size = length + _varint_size(length)
                if pos > first and used + size > room:
                    break
                lengths[pos] = length
                used += size
                max_time = max(max_time, timestamps[row])
                pos += 1
            if batches == table.shape[0]:
                larger = np.empty((2 * batches, 6), np.int64)
                larger[:batches] = table
                table = larger
            table[batches, PLAN_PARTITION] = partition
            table[batches, PLAN_FIRST] = first
            table[batches, PLAN_LAST] = pos
            table[batches, PLAN_BYTES] = used
            table[batches, PLAN_BASE_TIME] = base_time
            table[batches, PLAN_MAX_TIME] = max_time
            batches += 1
    return table[:batches]


@njit(cache=True, nogil=True)
def _put_varint(out: Bytes, position: int, value: int) -> int:
    bits = np.uint64((value << 1) ^ (value >> 63))
    while bits >= np.uint64(0x80):
        out[position] = np.uint8(bits & np.uint64(0x7F)) | np.uint8(0x80)
        bits >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(bits)
    return position + 1


@njit(cache=True, nogil=True)
def _put_field(out: Bytes, position: int, data: Bytes, start: int, length: int) -> int:
    position = _put_varint(out, position, length)
    if length > 0:
        _copy(out, position, data, start, length)
        position += length
    return position


@njit(cache=True, nogil=True)
def encode(
    order: Ints,
    first: int,
    last: int,
    keys: ColumnParts,
    values: ColumnParts,
    headers: HeaderColumn,
    timestamps: Ints,
    lengths: Ints,
    base_time: int,
    out: Bytes,
    position: int,
) -> int:
    """Writes the records of one planned batch to ``out`` from ``position`` on; returns the position after them."""
    key_starts, key_lengths, key_data = keys
    value_starts, value_lengths, value_data = values
    entry_starts, entry_counts, names, texts = headers
    name_starts, name_lengths, name_data = names
    text_starts, text_lengths, text_data = texts
    with_headers = entry_counts.size > 0
    for pos in range(first, last):
        row = order[pos]
        position = _put_varint(out, position, lengths[pos])
        out[position] = 0
        position = _put_varint(out, position + 1, timestamps[row] - base_time)
        position = _put_varint(out, position, pos - first)
        position = _put_field(out, position, key_data, key_starts[row], key_lengths[row])
        position = _put_field(out, position, value_data, value_starts[row], value_lengths[row])
        entries = entry_counts[row] if with_headers else 0
        position = _put_varint(out, position, entries)
        for index in range(entries):
            entry = entry_starts[row] + index
            position = _put_field(out, position, name_data, name_starts[entry], name_lengths[entry])
            position = _put_field(out, position, text_data, text_starts[entry], text_lengths[entry])
    return position


# --- partitioning --------------------------------------------------------------------------------------------

_MASK = np.uint64(0xFFFFFFFF)
_MIX = np.uint64(0x5BD1E995)
_SEED = np.uint64(0x9747B28C)


@njit(cache=True, nogil=True)
def murmur2_partitions(keys: ColumnParts, count: int, fallback: int, out: Offsets) -> None:
    """``out[i]`` becomes the positive murmur2 hash of key i modulo ``count``, or ``fallback`` for a null key."""
    starts, lengths, data = keys
    for row in range(out.size):
        length = lengths[row]
        if length < 0:
            out[row] = fallback
            continue
        position = starts[row]
        mixed = _SEED ^ np.uint64(length)
        while length >= 4:
            word = (
                np.uint64(data[position])
                | np.uint64(data[position + 1]) << np.uint64(8)
                | np.uint64(data[position + 2]) << np.uint64(16)
                | np.uint64(data[position + 3]) << np.uint64(24)
            )
            word = (word * _MIX) & _MASK
            word ^= word >> np.uint64(24)
            word = (word * _MIX) & _MASK
            mixed = ((mixed * _MIX) & _MASK) ^ word
            position += 4
            length -= 4
        if length > 0:
            for index in range(length):
                mixed ^= np.uint64(data[position + index]) << np.uint64(8 * index)
            mixed = (mixed * _MIX) & _MASK
        mixed ^= mixed >> np.uint64(13)
        mixed = (mixed * _MIX) & _MASK
        mixed ^= mixed >> np.uint64(15)
        out[row] = np.int64(mixed & np.uint64(0x7FFFFFFF)) % count
