"""The record-batch codec against librdkafka, through a real broker, in every compression and both directions."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.kafka.columns import HEADERS_TYPE
from penstock.kafka.compression import Compression
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import session_for

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

content = st.none() | st.binary(max_size=40) | st.binary(min_size=1, max_size=8).map(lambda part: part * 500)
headers = st.lists(
    st.tuples(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), content), max_size=3
)
# librdkafka gives an empty header value as None or as empty bytes, depending on its version.
records = st.lists(
    st.tuples(content, content, headers.filter(lambda given: all(value != b"" for _, value in given))),
    min_size=1,
    max_size=40,
)
few = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])


def connect(kafka):
    return session_for(ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap}))


@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_writes_is_read(kafka, topic, codec):
    from confluent_kafka import Producer as Librdkafka

    session, name = connect(kafka), topic()
    writer = Librdkafka({"bootstrap.servers": kafka.bootstrap, "compression.type": codec, "linger.ms": 20})
    now = time.time_ns() // 1_000_000

    @few
    @given(records)
    def check(given_records):
        start = list_offsets(session, [(name, 0)], LATEST)[name, 0].offset
        for i, (key, value, marks) in enumerate(given_records):
            writer.produce(name, value, key, partition=0, timestamp=now + i, headers=list(marks))
        assert writer.flush(60) == 0
        end = list_offsets(session, [(name, 0)], LATEST)[name, 0].offset
        seen = []
        for chunk in Fetcher(session, [Range(name, 0, start, end)]):
            found = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, headers=True)
            seen += zip(
                found.offsets.tolist(),
                found.timestamps.tolist(),
                found.keys.to_pylist(),
                found.values.to_pylist(),
                [[(mark["key"], mark["value"]) for mark in marks] for marks in found.headers.to_pylist()],
                strict=True,
            )
        assert seen == [
            (start + i, now + i, key, value, list(marks)) for i, (key, value, marks) in enumerate(given_records)
        ]

    check()


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_librdkafka_reads(kafka, topic, codec):
    from confluent_kafka import Consumer, TopicPartition

    session, name = connect(kafka), topic()
    reader = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": name, "check.crcs": True})
    now = time.time_ns() // 1_000_000

    @few
    @given(records)
    def check(given_records):
        start = list_offsets(session, [(name, 0)], LATEST)[name, 0].offset
        keys, values, marks = zip(*given_records, strict=True)
        encoded = encode(
            keys=pa.array(keys, pa.binary()),
            values=pa.array(values, pa.binary()),
            timestamps=now + np.arange(len(keys)),
            partitions=np.zeros(len(keys), np.int32),
            headers=pa.array([[{"key": k, "value": v} for k, v in each] for each in marks], HEADERS_TYPE),
            compression=Compression[codec.upper()],
            max_batch_bytes=20_000,
        )
        with Producer(session) as producer:
            for batch in encoded:
                producer.submit(name, 0, batch.data, batch.count)
            producer.flush()
        reader.assign([TopicPartition(name, 0, start)])
        seen = []
        while len(seen) < len(given_records):
            message = reader.poll(60)
            assert message is not None
            assert message.error() is None
            seen.append((message.key(), message.value(), message.headers() or [], message.timestamp()[1]))
        assert seen == [(key, value, list(each), now + i) for i, (key, value, each) in enumerate(given_records)]

    check()
    reader.close()
