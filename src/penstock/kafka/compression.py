"""Compression of record batches: the types of message format v2, in the framings that Kafka's clients use."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import cramjam
import numpy as np
from numpy.typing import NDArray

from penstock.errors import KafkaError

Bytes = NDArray[np.uint8]

# snappy-java's stream: a magic, a version and the oldest compatible version, then blocks after their lengths.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 64 * 1024


class Compression(IntEnum):
    """The compression of a batch, with the number in the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, data: Bytes, level: int | None = None) -> Any:
    """``data`` compressed, as an object with the buffer protocol.

    ``level`` is Kafka's ``compression.<type>.level``; None means the level of Kafka's Java client.
    """
    match compression:
        case Compression.GZIP:
            return cramjam.gzip.compress(data.data, level=6 if level is None else level)
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            # Kafka's reader refuses linked blocks. The batch has a checksum, so its content needs no second one.
            level = 1 if level is None else level
            stream = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
            stream.compress(data.tobytes())
            return stream.finish()
        case Compression.ZSTD:
            return cramjam.zstd.compress(data.data, level=3 if level is None else level)
    return data


def _compress_xerial(data: Bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, data.size, _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK].data))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


class Decompressor:
    """Decompresses the bodies of many batches into few large buffers, so that kernels get long runs.

    ``expected`` is an estimate of the bytes of all bodies. No body may be larger than ``limit`` bytes, so a malicious
    batch cannot make this process allocate more.
    """

    def __init__(self, expected: int, limit: int):
        self._limit = limit
        self._buffer: Bytes = np.empty(min(max(expected, 1 << 16), limit), np.uint8)
        self._used = 0

    def decompress(self, compression: int, body: Bytes) -> tuple[Bytes, int, int]:
        """(buffer, start, size) of the decompressed ``body``. It shares the last buffer if that has room.

        Raises KafkaError if the body is malformed or exceeds the limit.
        """
        while True:
            room = self._buffer[self._used :]
            try:
                size = _decompress_into(compression, body, room)
            except (cramjam.DecompressionError, struct.error) as error:
                # The library reports a buffer that is too small like a corrupt body, so grow first.
                if room.size >= self._limit:
                    reason = f"its records do not decompress, or to more than {self._limit} bytes: {error}"
                    raise KafkaError(reason) from error
                self._buffer = np.empty(min(max(8 * room.size, 8 * body.size, 1 << 16), self._limit), np.uint8)
                self._used = 0
                continue
            start = self._used
            self._used += size
            return self._buffer, start, size


def _decompress_into(compression: int, body: Bytes, out: Bytes) -> int:
    match compression:
        case Compression.SNAPPY:
            return _decompress_snappy(body, out)
        case Compression.GZIP:
            return int(cramjam.gzip.decompress_into(body.data, out.data))
        case Compression.LZ4:
            return int(cramjam.lz4.decompress_into(body.data, out.data))
        case Compression.ZSTD:
            return int(cramjam.zstd.decompress_into(body.data, out.data))
    raise KafkaError(f"its compression is number {compression}, which message format v2 does not define")


def _decompress_snappy(body: Bytes, out: Bytes) -> int:
    """Both framings: snappy-java's, which Java clients write, and one raw block, which librdkafka writes."""
    if body[:8].tobytes() != _XERIAL_MAGIC:
        return int(cramjam.snappy.decompress_raw_into(body.data, out.data))
    position, written = len(_XERIAL_HEADER), 0
    if body.size < position:
        raise struct.error(f"a snappy stream of {body.size} bytes, shorter than its header")
    while position < body.size:
        (length,) = struct.unpack_from(">I", body.data, position)
        position += 4
        if length > body.size - position:
            raise struct.error(f"a snappy block of {length} bytes where {body.size - position} are left")
        written += int(cramjam.snappy.decompress_raw_into(body[position : position + length].data, out[written:].data))
        position += length
    return written
