"""How long a record takes from being produced until a read_committed reader sees it behind an exactly-once job.

Producer and reader are a process of their own, on librdkafka, which shares no code with what is measured. Both are on
one machine, so that their clocks are one.

Usage: ``python -m bench.latency [--seconds S] [--rate RECORDS/S] [--bootstrap HOST:PORT]``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import struct
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Protocol

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from penstock import engine
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock.sql import parse_script
from penstock_testing.services import KafkaCluster

PARTITIONS = 4
RECORD_BYTES = 100
#: Until the JVM has compiled what it runs and batches follow one another at their usual pace.
WARM_UP_SECONDS = 20.0
_NUMBER = struct.Struct(">q")


class Traffic(Protocol):
    """What is produced, the job that reads it, and what its output answers. It is pickled to the process
    that produces."""

    def statements(self, bootstrap: str, source: str, sink: str) -> str:
        """The job from one topic into the other, without settings."""
        ...

    def value(self, number: int) -> bytes:
        """The record of that number, from 0."""
        ...

    def find_answered(self, value: bytes) -> Iterable[int]:
        """The numbers of the records that are visible by a value of the output and were not before."""
        ...


class Copies:
    """Records that are copied as they are."""

    def statements(self, bootstrap: str, source: str, sink: str) -> str:
        """A job that passes bytes on."""
        kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'raw'"
        return f"""
            CREATE TABLE src (v BYTES) WITH ({kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset');
            CREATE TABLE snk (v BYTES) WITH ({kafka}, 'topic' = '{sink}',
              'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}');
            INSERT INTO snk SELECT * FROM src;
            """

    def value(self, number: int) -> bytes:
        """The number, in a record of the usual size."""
        return _NUMBER.pack(number) + bytes(RECORD_BYTES - _NUMBER.size)

    def find_answered(self, value: bytes) -> Iterable[int]:
        """The number of the copied record."""
        return _NUMBER.unpack_from(value)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.latency", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="after a warm-up")
    parser.add_argument("--rate", type=int, default=1000, help="records per second")
    parser.add_argument("--bootstrap", help="a broker that runs already")
    arguments = parser.parse_args()
    running = nullcontext(None) if arguments.bootstrap else KafkaCluster(brokers=1)
    with running as cluster:
        bootstrap = arguments.bootstrap or cluster.bootstrap
        millis = latencies(bootstrap, arguments.rate, arguments.seconds)
    show(millis, arguments.rate)
    return 0


def show(millis: np.ndarray, rate: int) -> None:
    """Print what was measured."""
    p50, p95, p99 = np.percentile(millis, [50, 95, 99])
    print(f"{rate:,} records/s of {RECORD_BYTES} bytes, {PARTITIONS} partitions, exactly once, back-to-back batches:")
    print(f"from produced to visible p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms ({len(millis):,} records)")


def latencies(bootstrap: str, rate: int, seconds: float, traffic: Traffic | None = None) -> np.ndarray:
    """Milliseconds from produced to visible of each record that was produced in ``seconds`` after the warm-up."""
    traffic = traffic or Copies()
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))
    source, sink = (f"latency-{way}-{uuid.uuid4().hex[:6]}" for way in ("in", "out"))
    for topic in (source, sink):
        create_topic(session, topic, partitions=PARTITIONS)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        sql = f"SET 'execution.checkpointing.dir' = '{folder}';{traffic.statements(bootstrap, source, sink)}"
        (job,) = parse_script(sql, default_name="latency").jobs
        running = engine.start(job, lambda warning: print(warning, file=sys.stderr))
        ours, theirs = multiprocessing.Pipe()
        load = multiprocessing.get_context("spawn").Process(
            target=_load, args=(bootstrap, source, sink, rate, seconds, traffic, theirs)
        )
        load.start()
        try:
            while not ours.poll(1):
                running.wait(timeout=0)  # raises the failure of a job that has ended
            found: np.ndarray = ours.recv()
        finally:
            load.join(10)
            load.kill()
            running.stop()
    return found


def _load(
    bootstrap: str, source: str, sink: str, rate: int, seconds: float, traffic: Traffic, told: Connection
) -> None:
    """Produce at the rate, read what comes out, tell the latencies."""
    count = int(rate * (WARM_UP_SECONDS + seconds))
    sent, seen = np.full(count, np.nan), np.full(count, np.nan)
    producing = threading.Thread(target=_produce, args=(bootstrap, source, rate, traffic, sent), daemon=True)
    producing.start()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "latency",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
            "fetch.error.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(sink, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    left = count
    while left:
        records = consumer.consume(1000, 0.01)
        now = time.time()
        for record in records:
            assert record.error() is None, record.error()
            for number in traffic.find_answered(record.value()):
                seen[number] = now
                left -= 1
    consumer.close()
    counted = sent >= sent.min() + WARM_UP_SECONDS
    told.send((seen - sent)[counted] * 1000)


def _produce(bootstrap: str, source: str, rate: int, traffic: Traffic, sent: np.ndarray) -> None:
    # A broker that falls behind gets larger batches, not a queue of requests.
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "max.in.flight": 1})
    begun = time.time()
    for number in range(len(sent)):
        due = begun + number / rate
        while (early := due - time.time()) > 0:
            time.sleep(early)
        value = traffic.value(number)
        sent[number] = time.time()
        producer.produce(source, value, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
