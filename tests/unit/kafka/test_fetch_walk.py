from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import KafkaError, UnsupportedError
from penstock.kafka import record_batches
from penstock.kafka.fetch import _whole_batches


def log_of(*spans: tuple[int, int]) -> bytes:
    """Record batches with these first and last offsets, one after the other."""
    out = b""
    for first, last in spans:
        (batch,) = record_batches.encode(
            keys=None,
            values=pa.array([b"v"] * (last - first + 1), pa.binary()),
            timestamps=np.zeros(last - first + 1, np.int64),
            partitions=np.zeros(last - first + 1, np.int32),
        )
        batch.data[:8] = first.to_bytes(8, "big")
        out += batch.data
    return out


@pytest.mark.parametrize(
    ("spans", "wanted", "end", "expected"),
    [
        ([(0, 9)], 0, 100, 10),
        ([(0, 9), (10, 14)], 3, 100, 15),
        ([(0, 9), (20, 29)], 0, 100, 30),
        ([(0, 9), (20, 29)], 0, 10, 10),
        ([(0, 9), (20, 29)], 0, 15, 15),
        ([(20, 29)], 10, 15, 15),
        ([], 7, 100, 7),
    ],
    ids=["one", "two", "gap", "ends at a batch", "ends in a gap", "only a gap", "nothing"],
)
def test_the_next_offset_is_known_from_the_headers(
    spans: list[tuple[int, int]], wanted: int, end: int, expected: int
) -> None:
    log = log_of(*spans)
    size, following = _whole_batches(log, wanted, end)
    assert following == expected
    assert size == len(log_of(*(span for span in spans if span[0] < end)))


def test_a_batch_that_was_cut_off_is_left_for_the_next_answer() -> None:
    whole, both = log_of((0, 9)), log_of((0, 9), (10, 19))
    for length in range(len(whole), len(both)):
        assert _whole_batches(both[:length], 0, 100) == (len(whole), 10)
    assert _whole_batches(whole[:-1], 0, 100) == (0, 0)


def test_what_is_no_record_batch_is_an_error() -> None:
    log = bytearray(log_of((0, 9)))
    log[8:12] = (5).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="length of 5 bytes"):
        _whole_batches(bytes(log), 0, 100)
    log[16] = 1
    with pytest.raises(UnsupportedError, match="format v1"):
        _whole_batches(bytes(log), 0, 100)
