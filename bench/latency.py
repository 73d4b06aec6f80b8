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
from contextlib import nullcontext
from multiprocessing.connection import Connection

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from penstock import engine
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import session_for
from penstock.kafka.topics import create_topic
from penstock.services import KafkaCluster
from penstock.sql import parse_script

PARTITIONS = 4
RECORD_BYTES = 100
#: Until the JVM has compiled what it runs and batches follow one another at their usual pace.
WARM_UP_SECONDS = 20.0
_CLOCK = struct.Struct(">d")


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


def latencies(bootstrap: str, rate: int, seconds: float) -> np.ndarray:
    """Milliseconds from produced to visible of each record that was produced in ``seconds`` after the warm-up."""
    session = session_for(ClientConfig.from_properties({"bootstrap.servers": bootstrap}))
    source, sink = (f"latency-{way}-{uuid.uuid4().hex[:6]}" for way in ("in", "out"))
    for topic in (source, sink):
        create_topic(session, topic, partitions=PARTITIONS)
    kafka = f"'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'raw'"
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        (job,) = parse_script(
            f"""
            SET 'execution.checkpointing.dir' = '{folder}';
            CREATE TABLE src (v BYTES) WITH ({kafka}, 'topic' = '{source}', 'scan.startup.mode' = 'earliest-offset');
            CREATE TABLE snk (v BYTES) WITH ({kafka}, 'topic' = '{sink}',
              'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{sink}');
            INSERT INTO snk SELECT * FROM src;
            """,
            default_name="latency",
        ).jobs
        running = engine.start(job, lambda warning: print(warning, file=sys.stderr))
        ours, theirs = multiprocessing.Pipe()
        load = multiprocessing.get_context("spawn").Process(
            target=_load, args=(bootstrap, source, sink, rate, seconds, theirs)
        )
        load.start()
        try:
            found: np.ndarray = ours.recv()
        finally:
            load.join(10)
            load.kill()
            running.stop()
    return found


def _load(bootstrap: str, source: str, sink: str, rate: int, seconds: float, told: Connection) -> None:
    """Produce at the rate, read what comes out, tell the latencies."""
    count = int(rate * (WARM_UP_SECONDS + seconds))
    producing = threading.Thread(target=_produce, args=(bootstrap, source, rate, count), daemon=True)
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
    sent, seen = np.empty(count), np.empty(count)
    at = 0
    while at < count:
        records = consumer.consume(1000, 0.01)
        now = time.time()
        for record in records:
            assert record.error() is None, record.error()
            sent[at], seen[at] = _CLOCK.unpack_from(record.value())[0], now
            at += 1
    consumer.close()
    counted = sent >= sent.min() + WARM_UP_SECONDS
    told.send((seen - sent)[counted] * 1000)


def _produce(bootstrap: str, source: str, rate: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    begun = time.time()
    for number in range(count):
        due = begun + number / rate
        while (early := due - time.time()) > 0:
            time.sleep(early)
        value = _CLOCK.pack(time.time()) + bytes(RECORD_BYTES - _CLOCK.size)
        producer.produce(source, value, partition=number % PARTITIONS)
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    sys.exit(main())
