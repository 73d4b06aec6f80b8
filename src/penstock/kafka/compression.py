"""Compression of record batches: the codecs of message format v2, in the framings that Kafka's clients use."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import cramjam
import numpy as np
from numpy.typing import NDArray

from penstock.errors import KafkaError, OptionsError, Problem

Bytes = NDArray[np.uint8]

# snappy-java's stream: a magic, a version and the oldest compatible version, then blocks led by their length.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 64 * 1024


class Codec(IntEnum):
    """The compression of a batch, numbered as in the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Codec:
        """The codec that ``compression.type`` calls ``name``. Raises OptionsError for any other name."""
        for codec in cls:
            if codec.name.lower() == name.lower():
                return codec
        known = ", ".join(codec.name.lower() for codec in cls)
        raise OptionsError((Problem(f"'{name}' is no compression", "compression.type", hint=f"one of {known}"),))


# What Kafka's compression.<codec>.level accepts (KIP-390).
_LEVELS = {Codec.GZIP: (1, 9), Codec.LZ4: (1, 17), Codec.ZSTD: (-131072, 22)}


def compress(codec: Codec, data: Bytes, level: int | None = None) -> Any:
    """``data`` compressed, as an object with the buffer protocol.

    ``level`` is Kafka's ``compression.<codec>.level``; None takes the level of Kafka's Java client. Raises
    OptionsError for a level that the codec does not have.
    """
    _check_level(codec, level)
    if codec is Codec.GZIP:
        return cramjam.gzip.compress(data.data, level=6 if level is None else level)
    if codec is Codec.SNAPPY:
        return _compress_xerial(data)
    if codec is Codec.LZ4:
        # Kafka's reader refuses linked blocks. The batch has a checksum, a second one of its content gains nothing.
        stream = cramjam.lz4.Compressor(level=1 if level is None else level, content_checksum=False, block_linked=False)
        stream.compress(data.tobytes())
        return stream.finish()
    if codec is Codec.ZSTD:
        return cramjam.zstd.compress(data.data, level=3 if level is None else level)
    return data


def _check_level(codec: Codec, level: int | None) -> None:
    if level is None:
        return
    key = f"compression.{codec.name.lower()}.level"
    if codec not in _LEVELS:
        raise OptionsError((Problem(f"{codec.name.lower()} has no levels", key, hint="leave the level out"),))
    lowest, highest = _LEVELS[codec]
    if not lowest <= level <= highest:
        raise OptionsError((Problem(f"{level} is not between {lowest} and {highest}", key),))


def _compress_xerial(data: Bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, data.size, _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK].data))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


class Decompressor:
    """Decompresses the bodies of many batches into few large buffers, so that kernels see long runs.

    ``expected`` is a guess at the bytes of all bodies together; no body may be larger than ``limit`` bytes, which
    bounds what a malicious batch can make this process allocate.
    """

    def __init__(self, expected: int, limit: int):
        self._limit = limit
        self._buffer: Bytes = np.empty(min(max(expected, 1 << 16), limit), np.uint8)
        self._used = 0

    def decompress(self, codec: int, body: Bytes) -> tuple[Bytes, int, int]:
        """(buffer, start, size) of the decompressed ``body``. The buffer is the last one's wherever it had room.

        Raises KafkaError when the body is not what ``codec`` writes, or exceeds the limit.
        """
        while True:
            room = self._buffer[self._used :]
            try:
                size = _decompress_into(codec, body, room)
            except (cramjam.DecompressionError, struct.error) as error:
                # The library does not say whether the room was too small or the body is corrupt, so grow first.
                if room.size >= self._limit:
                    reason = f"its records do not decompress, or to more than {self._limit} bytes: {error}"
                    raise KafkaError(reason) from error
                self._buffer = np.empty(min(max(8 * room.size, 8 * body.size, 1 << 16), self._limit), np.uint8)
                self._used = 0
                continue
            start = self._used
            self._used += size
            return self._buffer, start, size


def _decompress_into(codec: int, body: Bytes, out: Bytes) -> int:
    if codec == Codec.SNAPPY:
        return _decompress_snappy(body, out)
    if codec == Codec.GZIP:
        return int(cramjam.gzip.decompress_into(body.data, out.data))
    if codec == Codec.LZ4:
        return int(cramjam.lz4.decompress_into(body.data, out.data))
    if codec == Codec.ZSTD:
        return int(cramjam.zstd.decompress_into(body.data, out.data))
    raise KafkaError(f"its compression, number {codec}, is not one that message format v2 defines")


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
