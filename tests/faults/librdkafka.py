"""What the cells do to a cluster by way of librdkafka, as programs other than penstock would."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from penstock_testing import NumberedRecords
from tests.faults.harness import Trial

__all__ = ["Administrator", "NumberedWriter", "producer"]

_CALL_SECONDS = 30
_OPEN_SECONDS = 600  # transactions of others stay open as long as a cell likes
_QUEUED = 1_000_000


def producer(trial: Trial, transactional_id: str | None = None, **settings: object) -> Producer:
    """A producer that goes to the brokers past the proxies. With an id it owns that when this returns."""
    owning = {}
    if transactional_id is not None:
        owning = {"transactional.id": transactional_id, "transaction.timeout.ms": _OPEN_SECONDS * 1000}
    made = Producer(
        {
            "bootstrap.servers": trial.cluster.direct,
            "queue.buffering.max.messages": _QUEUED,
            "linger.ms": 20,
            **owning,
            **settings,
        }
    )
    if transactional_id is not None:
        made.init_transactions(_CALL_SECONDS)
    return made


class NumberedWriter:
    """Numbered records written by a producer of one's own: in transactions, or with other records between them.

    Keys are ``<p>-<n>``, so that each survives compaction; else as :class:`penstock_testing.NumberedRecords` writes,
    whose counters go on counting.
    """

    def __init__(self, numbered: NumberedRecords, made: Producer):
        self._numbered, self._producer = numbered, made

    def write(self, partition: int, records: int) -> None:
        """So many of the records that are expected. :meth:`flush`, or a commit, makes sure that they are there."""
        first = self._numbered.written[partition]
        for n in range(first, first + records):
            self._produce(partition, f"{partition}-{n}", partition, n)
        self._numbered.written[partition] = first + records

    def write_refused(self, partition: int, records: int) -> None:
        """So many of the records that are expected, as messages that are no JSON: numbers do not begin with a zero."""
        first = self._numbered.written[partition]
        for n in range(first, first + records):
            self._produce(partition, f"{partition}-{n}", partition, n, zeros="00")
        self._numbered.written[partition] = first + records

    def others(self, place: int, partition: int, first: int, records: int) -> None:
        """So many records that are not: with ``place`` in their header ``p``, and all of one key."""
        for n in range(first, first + records):
            self._produce(partition, "other", place, n)

    def no_others(self, place: int, partition: int) -> None:
        """A tombstone for the key of :meth:`others`: compaction then leaves not even the last of them."""
        self._produce(partition, "other", place, 0, tombstone=True)

    def flush(self) -> None:
        """Returns when all are acknowledged."""
        assert self._producer.flush(_CALL_SECONDS) == 0

    def _produce(
        self, partition: int, key: str, place: int, n: int, *, tombstone: bool = False, zeros: str = ""
    ) -> None:
        self._producer.produce(
            self._numbered.topic,
            None if tombstone else f'{{"k":"{key}","n":{zeros}{n}}}',
            key,
            partition=partition,
            headers=[("p", str(place)), ("n", str(n))],
        )


class Administrator:
    """Changes topics, and returns when the brokers have done so."""

    def __init__(self, trial: Trial):
        self._admin = AdminClient({"bootstrap.servers": trial.cluster.direct})

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        _done(self._admin.delete_topics([topic], operation_timeout=_CALL_SECONDS))

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records of some partitions that are before an offset, as retention does."""
        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        _done(self._admin.delete_records(places))

    def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic so many partitions in all."""
        _done(self._admin.create_partitions([NewPartitions(topic, total)]))

    def configure(self, topic: str, **settings: object) -> None:
        """Set settings of a topic (underscores for dots)."""
        entries = [
            ConfigEntry(name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        _done(
            self._admin.incremental_alter_configs(
                [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)]
            )
        )


def _done(futures: Mapping[object, object]) -> None:
    for what, future in futures.items():
        try:
            future.result(_CALL_SECONDS)
        except KafkaException as error:
            raise AssertionError(f"{what}: {error}") from error
