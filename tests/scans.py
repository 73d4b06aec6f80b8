"""Scans of topics without Spark: what a table's options mean on a real broker, and what its batches hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
from penstock.connectors.kafka.source.starts_and_stops import resolve_start
from penstock.kafka.session import session_for
from penstock.spi import Column, TableDefinition
from penstock.types import BIGINT
from tests.waiting import eventually

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock.connectors.kafka.source.spec import KafkaScanSpec
    from penstock_testing.services import KafkaCluster


def scan_of(kafka: KafkaCluster, topics: str, **options: str) -> KafkaScanSpec:
    """A table over ``topics`` (empty where the options have a pattern); option names are written with ``_`` for ``.``
    and ``__`` for ``-``."""
    given = {"topic": topics} if topics else {}
    given |= {"properties.bootstrap.servers": kafka.bootstrap, "format": "json"}
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return KafkaConnector().scan(TableDefinition("t", (Column("id", BIGINT),), given))


def enumerator_of(kafka: KafkaCluster, topics: str, **options: str) -> Enumerator:
    """Plans what such a table reads, from its earliest offsets on unless the options say otherwise."""
    scan = scan_of(kafka, topics, **{"scan_startup_mode": "earliest-offset", **options})
    return Enumerator(ReaderSpec(scan, 0, 2, resolve_start(session_for(scan.client_config), scan), None))


def write(kafka: KafkaCluster, topic: str, count: int, partition: int = 0, *, began: int | None = None) -> None:
    """Produce rows with the numbers below ``count``, at a second's distance where it is told when it ``began``
    (ms since 1970)."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    # A partition takes a moment to be known; what is produced to it before that is lost.
    eventually(lambda: partition in producer.list_topics(topic, 60).topics[topic].partitions)
    failed: list[object] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for number in range(count):
        time = {} if began is None else {"timestamp": began + 1000 * number}
        producer.produce(topic, b'{"id": %d}' % number, partition=partition, on_delivery=told, **time)
    assert (producer.flush(60), failed) == (0, [])


def delete_below(kafka_admin: KafkaAdminClient, topic: str, offset: int, partition: int = 0) -> None:
    """Let the log of a partition begin at ``offset``, as retention would."""
    from kafka.structs import TopicPartition

    kafka_admin.delete_records({TopicPartition(topic, partition): offset})


def delete(kafka_admin: KafkaAdminClient, topic: str) -> None:
    """Delete a topic, and return when the broker does not know it any more, and its leader answers no more."""
    kafka_admin.delete_topics([topic])
    eventually(lambda: topic not in kafka_admin.list_topics())
    eventually(lambda: topic not in str(kafka_admin.describe_log_dirs()))


def recreate(kafka_admin: KafkaAdminClient, topic: str, partitions: int) -> None:
    """Delete a topic, and create one of the same name."""
    delete(kafka_admin, topic)
    kafka_admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1}})
    kafka_admin.wait_for_topics([topic], 60_000)
