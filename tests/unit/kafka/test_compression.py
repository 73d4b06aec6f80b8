"""The codecs, held against the libraries that kafka-python compresses with."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka import codec as reference
from numpy.typing import NDArray

from penstock.errors import KafkaError
from penstock.kafka.compression import Compression, Decompressor, compress

LIMIT = 1 << 24
REAL = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
# Compressible beyond one block of any framing.
LONG = b"".join(b'{"id": %d}' % (i % 977) for i in range(30_000))


def array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def opened(codec: int, body: bytes, expected: int = 0, limit: int = LIMIT) -> bytes:
    buffer, start, size = Decompressor(expected, limit).decompress(codec, array(body))
    return buffer[start : start + size].tobytes()


@pytest.mark.parametrize("codec", REAL)
@settings(deadline=None)
@given(data=st.binary(min_size=1, max_size=300) | st.just(LONG))  # the records of a batch are never no bytes
def test_each_side_reads_the_other(codec: Compression, data: bytes) -> None:
    name = codec.name.lower()
    written = bytes(compress(codec, array(data)))
    assert getattr(reference, f"{name}_decode")(written) == data
    assert opened(codec, written) == data
    assert opened(codec, getattr(reference, f"{name}_encode")(data)) == data


def test_snappy_is_read_without_framing_too() -> None:
    assert opened(Compression.SNAPPY, reference.snappy_encode(LONG, xerial_compatible=False)) == LONG


def test_lz4_blocks_are_independent_as_kafka_demands() -> None:
    frame = bytes(compress(Compression.LZ4, array(LONG)))
    assert frame[4] & 0x20
    assert frame[4] >> 6 == 1


@pytest.mark.parametrize(
    ("codec", "low", "high"), [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 12), (Compression.ZSTD, 1, 12)]
)
def test_levels_trade_time_for_size(codec: Compression, low: int, high: int) -> None:
    fast, small = (bytes(compress(codec, array(LONG), level)) for level in (low, high))
    assert len(small) < len(fast)
    assert opened(codec, small) == opened(codec, fast) == LONG


@pytest.mark.parametrize("codec", REAL)
def test_bodies_share_a_buffer_while_it_has_room(codec: Compression) -> None:
    bodies = [bytes([i]) * 1000 for i in range(50)]
    decompressor = Decompressor(0, LIMIT)
    parts = [decompressor.decompress(codec, array(bytes(compress(codec, array(body))))) for body in bodies]
    assert [buffer[start : start + size].tobytes() for buffer, start, size in parts] == bodies
    assert len({id(buffer) for buffer, _, _ in parts}) == 1


@pytest.mark.parametrize("codec", REAL)
def test_more_than_the_limit_is_refused(codec: Compression) -> None:
    bomb = bytes(compress(codec, array(bytes(LIMIT + 1))))
    with pytest.raises(KafkaError, match=f"more than {LIMIT} bytes"):
        opened(codec, bomb)
    assert opened(codec, bytes(compress(codec, array(bytes(LIMIT))))) == bytes(LIMIT)


@pytest.mark.parametrize("codec", REAL)
def test_a_body_cut_anywhere_is_refused(codec: Compression) -> None:
    written = bytes(compress(codec, array(LONG[:400])))
    for cut in range(len(written)):
        if codec is Compression.SNAPPY and cut == 16:
            continue  # a stream of no blocks; the record count tells
        with pytest.raises(KafkaError):
            opened(codec, written[:cut])


@pytest.mark.parametrize("codec", REAL)
@settings(deadline=None)
@given(data=st.data())
def test_flipped_bytes_never_crash(codec: Compression, data: st.DataObject) -> None:
    written = bytearray(compress(codec, array(LONG[:5000])))
    for _ in range(data.draw(st.integers(1, 4))):
        written[data.draw(st.integers(0, len(written) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(KafkaError):
        assert len(opened(codec, bytes(written))) <= LIMIT


def test_an_undefined_codec_is_refused() -> None:
    with pytest.raises(KafkaError, match="number 5"):
        opened(5, b"abc")
