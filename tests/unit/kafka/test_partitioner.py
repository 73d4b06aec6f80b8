"""Partition assignment, held against kafka-python's murmur2."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from penstock.errors import SchemaError
from penstock.kafka import partitioner

KEYS = st.lists(st.none() | st.binary(max_size=40), max_size=30)


@settings(deadline=None)  # the first example compiles
@given(keys=KEYS, partitions=st.integers(1, 1000), data=st.data())
def test_keys_hash_as_in_the_java_client(keys: list[bytes | None], partitions: int, data: st.DataObject) -> None:
    fallback = data.draw(st.integers(0, partitions - 1))
    expected = [fallback if key is None else (murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    for kind in (pa.binary(), pa.large_binary()):
        assert partitioner.by_key(pa.array(keys, kind), partitions, fallback=fallback).tolist() == expected


def test_known_hashes_of_the_java_client() -> None:
    # Kafka's own UtilsTest: murmur2("21") is -973932308, murmur2("foobar") -790332482, murmur2("") 275646681.
    keys = pa.array([b"21", b"foobar", b""])
    hashes = [-973932308, -790332482, 275646681]
    expected = [(value & 0x7FFFFFFF) % 0x7FFFFFFF for value in hashes]
    assert partitioner.by_key(keys, 0x7FFFFFFF, fallback=0).tolist() == expected


def test_text_chunks_and_slices_hash_like_their_bytes() -> None:
    text = ["a", None, "übergrößengeschäft", ""]
    expected = partitioner.by_key(pa.array([None if t is None else t.encode() for t in text]), 7, fallback=3).tolist()
    assert partitioner.by_key(pa.array(text), 7, fallback=3).tolist() == expected
    assert partitioner.by_key(pa.array(["x", *text]).slice(1), 7, fallback=3).tolist() == expected
    chunked = pa.chunked_array([pa.array(text[:2]), pa.array([], pa.string()), pa.array(text[2:])])
    assert partitioner.by_key(chunked, 7, fallback=3).tolist() == expected


def test_round_robin_goes_on_where_it_is_told() -> None:
    assert partitioner.round_robin(5, 3, first=2).tolist() == [2, 0, 1, 2, 0]
    assert partitioner.round_robin(0, 3).dtype == np.int32


def test_fixed_writes_one_partition_for_each_task() -> None:
    assert partitioner.fixed(3, 4, task=6).tolist() == [2, 2, 2]


def test_what_cannot_be_partitioned_is_refused() -> None:
    with pytest.raises(SchemaError, match="partition 4 is not one of the topic's 4"):
        partitioner.by_key(pa.array([b"a"]), 4, fallback=4)
    with pytest.raises(SchemaError, match="partition 0 is not one of the topic's 0"):
        partitioner.round_robin(3, 0)
    with pytest.raises(SchemaError, match="int64; expected binary"):
        partitioner.by_key(pa.array([1]), 4, fallback=0)
