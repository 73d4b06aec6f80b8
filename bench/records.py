"""The records that are measured: flat JSON documents of about 130 bytes."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.partitioner import round_robin
from penstock.kafka.produce import Producer
from penstock.kafka.record_batches import encode
from penstock.kafka.session import Session

__all__ = ["SCHEMA", "replay"]

SCHEMA = (
    "user_id BIGINT, item_id BIGINT, category_id BIGINT, behavior STRING, amount DOUBLE, ts TIMESTAMP(3), note STRING"
)
_AT_A_TIME = 100_000


def replay(session: Session, topic: str, records: int, partitions: int, *, keys: bool = False) -> None:
    """Write ``records`` documents to ``topic``, over all partitions in turn; the same ones every time.

    With ``keys`` each has one of a million numbers, as text, for its key.
    """
    random = np.random.default_rng(1)
    with Producer(session) as producer:
        for first in range(0, records, _AT_A_TIME):
            count = min(_AT_A_TIME, records - first)
            for batch in encode(
                keys=pa.array(random.integers(0, 1_000_000, count)).cast(pa.string()).cast(pa.binary())
                if keys
                else None,
                values=_documents(random, first, count),
                timestamps=np.full(count, time.time_ns() // 1_000_000, np.int64),
                partitions=round_robin(count, partitions),
            ):
                producer.submit(topic, batch.partition, batch.data, batch.count)
        producer.flush()


def _numbers(random: np.random.Generator, most: int, count: int) -> pa.StringArray:
    return pa.array(random.integers(0, most, count)).cast(pa.string())


def _documents(random: np.random.Generator, first: int, count: int) -> pa.BinaryArray:
    def numbers(most: int) -> pa.StringArray:
        return _numbers(random, most, count)

    row = np.arange(first, first + count)
    clock = pa.array((1_763_640_000_000 + row % 3_600_000).astype("datetime64[ms]"))
    cents = random.integers(0, 100_000, count)
    amount = pc.binary_join_element_wise(
        pa.array(cents // 100).cast(pa.string()), pc.utf8_lpad(pa.array(cents % 100).cast(pa.string()), 2, "0"), "."
    )
    return pc.binary_join_element_wise(
        '{"user_id":', numbers(1_000_000), ',"item_id":', numbers(5_000_000), ',"category_id":', numbers(1_000),
        ',"behavior":"pv","amount":', amount, ',"ts":"', pc.strftime(clock, "%Y-%m-%d %H:%M:%S"),
        '","note":"', "x" * 20, '"}', "",
    ).cast(pa.binary())  # fmt: skip
