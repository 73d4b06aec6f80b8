"""Producing encoded batches to a real broker."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import kafka.errors
import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import AbortableError, KafkaError, RetriableError, StaleEpochError
from penstock.kafka import produce
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import EARLIEST, LATEST, list_offsets
from penstock.kafka.produce import Ack, Producer, ProducerIdentity
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import EncodedBatch, encode, scan
from penstock.kafka.session import Session
from penstock.kafka.transactions import TransactionClient, describe_transaction
from tests.waiting import eventually

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster
    from tests.conftest import TopicFactory


def session_of(kafka: KafkaCluster, **more: str) -> Session:
    extra = {name.replace("_", "."): value for name, value in more.items()}
    return Session(ClientConfig.from_properties({**kafka.client_settings(), **extra}))


@pytest.fixture
def session(kafka: KafkaCluster) -> Iterator[Session]:
    session = session_of(kafka)
    yield session
    session.close()


def batch(numbers: Sequence[int], size: int = 10) -> EncodedBatch:
    (encoded,) = encode(
        keys=None,
        values=pa.array([str(number).zfill(size).encode() for number in numbers], pa.binary()),
        timestamps=np.full(len(numbers), time.time_ns() // 1_000_000),
        partitions=np.zeros(len(numbers), np.int32),
        max_batch_bytes=1 << 24,
    )
    return encoded


def submit(producer: Producer, topic: str, partition: int, numbers: Sequence[int], size: int = 10) -> None:
    encoded = batch(numbers, size)
    producer.submit(topic, partition, encoded.data, encoded.count)


def deliver(producer: Producer, topic: str, numbers: Sequence[int]) -> None:
    submit(producer, topic, 0, numbers)  # which may notice the failure already
    producer.flush()


def read(session: Session, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[int]:
    place = (topic, partition)
    start, end = (list_offsets(session, [place], at, isolation=isolation)[place] for at in (EARLIEST, LATEST))
    assert start is not None
    assert end is not None
    numbers = []
    for chunk in Fetcher(session, [Range(*place, start.offset, end.offset)], isolation=isolation):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
        numbers += [int(value) for value in records.values.to_pylist()]
    return numbers


def commit(session: Session, client: TransactionClient) -> None:
    """Commit, and wait for the markers, which brokers write after they have answered."""
    client.commit()
    eventually(
        lambda: (seen := describe_transaction(session, client.transactional_id)) and seen.state == "CompleteCommit"
    )


def transactional(session: Session) -> TransactionClient:
    client = TransactionClient(session, f"tx-{uuid.uuid4().hex}", 60_000)
    client.init()
    client.begin()
    return client


class TestAcknowledgements:
    def test_they_add_up(self, session: Session, topic: TopicFactory) -> None:
        name, client = topic(2), transactional(session)
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            for start in range(0, 300, 10):
                submit(producer, name, start % 20 // 10, range(start, start + 10))
            producer.flush()
            first, second = producer.acks()
        assert first == Ack(name, 0, 0, 149, 150, 15, first.bytes, 0)
        assert second == Ack(name, 1, 0, 149, 150, 15, second.bytes, 0)
        commit(session, client)
        assert read(session, name, 1, "read_committed") == [n for n in range(300) if n % 20 >= 10]

    @pytest.mark.parametrize("settings", [{"enable_idempotence": "false"}, {"acks": "1"}, {"acks": "0"}], ids=str)
    @pytest.mark.rule("producer ids are scarce")
    def test_without_idempotence_there_are_no_sequences(
        self, kafka: KafkaCluster, topic: TopicFactory, settings: dict[str, str]
    ) -> None:
        name, session = topic(), session_of(kafka, **settings)
        with Producer(session) as producer:
            for start in range(0, 200, 10):
                submit(producer, name, 0, range(start, start + 10))
            producer.flush()
            (ack,) = producer.acks()
        assert (ack.records, ack.batches, ack.first_sequence) == (200, 20, -1)
        assert ack.base_offset == (-1 if "acks" in settings and settings["acks"] == "0" else 0)
        if settings.get("acks") != "0":
            assert read(session, name) == [*range(200)]
        session.close()

    def test_what_waits_for_the_flush_goes_in_one_request_and_does_not_expire_before(
        self, session: Session, topic: TopicFactory
    ) -> None:
        name = topic(3)
        with Producer(session) as producer:
            for partition in range(3):  # from here on the leaders answer
                submit(producer, name, partition, [0])
            producer.flush()
        with Producer(session) as producer:
            for turn in (1, 2):
                for partition in range(3):
                    submit(producer, name, partition, [partition])
                assert [len(lane.under_way) for lane in producer._lanes.values()] == [0, 0, 0]
                for lane in producer._lanes.values():
                    lane.waiting[0].expires = 0  # long ago: a task may compute for longer than delivery.timeout.ms
                producer.flush()
                assert producer.counts.requests == turn
        assert [read(session, name, partition) for partition in range(3)] == [[0, 0, 0], [0, 1, 1], [0, 2, 2]]

    def test_a_producer_that_nobody_waits_for_gives_up(
        self, kafka: KafkaCluster, session: Session, topic: TopicFactory
    ) -> None:
        name = topic()
        left: list[bool] = []
        with Producer(session, abandoned=lambda: bool(left)) as producer:
            submit(producer, name, 0, [0])
            producer.flush()
            left.append(True)
            kafka.pause(1)
            try:
                submit(producer, name, 0, [1])
                with pytest.raises(AbortableError, match="given up"):
                    producer.flush()
            finally:
                kafka.resume(1)

    def test_submit_waits_only_when_the_buffer_is_full(self, kafka: KafkaCluster, topic: TopicFactory) -> None:
        name, session = topic(), session_of(kafka, buffer_memory="100000")
        with Producer(session) as producer:
            for start in range(0, 3000, 100):
                submit(producer, name, 0, range(start, start + 100), size=500)
                assert producer._bytes <= 100_000
            producer.flush()
        assert read(session, name) == [*range(3000)]
        session.close()


@pytest.mark.rule("one writer per partition")
class TestOneWriterPerPartition:
    def test_at_most_five_batches_of_a_partition_are_under_way(
        self, kafka: KafkaCluster, session: Session, topic: TopicFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(produce, "_WAITING_BYTES", 0)
        name = topic(2)
        with Producer(session) as producer:
            submit(producer, name, 0, [0])
            producer.flush()
            kafka.pause(1)
            try:
                for number in range(1, 30):
                    submit(producer, name, 0, [number])
                assert len(producer._lanes[name, 0].under_way) == 5
                # A partition that comes later is not kept waiting by the window of the first, but by its broker's.
                submit(producer, name, 1, [0])
                assert len(producer._lanes[name, 1].under_way) == 0
            finally:
                kafka.resume(1)
            producer.flush()
        assert read(session, name) == [*range(30)]

    def test_after_a_time_out_the_same_sequences_are_sent_again(self, kafka: KafkaCluster, topic: TopicFactory) -> None:
        name, session = topic(), session_of(kafka, request_timeout_ms="400")
        client = transactional(session)
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            submit(producer, name, 0, [0])
            producer.flush()
            kafka.pause(1)
            # The requests are in the broker's socket: it answers them into closed connections when it goes on.
            timer = threading.Timer(1.0, kafka.resume, [1])
            timer.start()
            for number in range(1, 20):
                submit(producer, name, 0, [number])
            producer.flush()
            timer.join()
            (ack,) = producer.acks()
        assert (ack.records, ack.first_sequence, ack.last_sequence, ack.base_offset) == (20, 0, 19, 0)
        commit(session, client)
        assert read(session, name, 0, "read_committed") == [*range(20)]
        session.close()

    def test_a_repeated_sequence_is_a_success(self, session: Session, topic: TopicFactory) -> None:
        name, client = topic(), transactional(session)
        acks = []
        for _ in range(2):
            with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
                for number in range(5):
                    submit(producer, name, 0, [number])
                producer.flush()
                acks.append(producer.acks()[0].records)
        commit(session, client)
        assert acks == [5, 5]
        assert read(session, name) == [*range(5)]

    def test_sequences_wrap(self, session: Session, topic: TopicFactory) -> None:
        name = topic()
        with Producer(session) as producer:
            producer._sequences[name, 0] = 2**31 - 3
            submit(producer, name, 0, range(5))
            submit(producer, name, 0, range(5, 8))
            producer.flush()
            (ack,) = producer.acks()
            assert producer._lease is not None
            producer._lease.spoilt = True
        assert (ack.first_sequence, ack.last_sequence) == (2**31 - 3, 4)
        assert read(session, name) == [*range(8)]


@pytest.mark.rule("source order is kept")
def test_nothing_overtakes_the_first_batch_of_a_partition(session: Session, topic: TopicFactory) -> None:
    """A leader that is just being elected refuses the first batch, and would take the second one."""
    name, send, refused = topic(), session.send, []

    def refuse_the_first(request: Any, node: Any) -> Future[Any]:
        if type(request).__name__ != "ProduceRequest" or refused:
            return send(request, node)
        refused.append(Future[Any]())
        threading.Timer(0.3, refused[0].set_exception, [kafka.errors.NotLeaderForPartitionError()]).start()
        return refused[0]

    session.send = refuse_the_first  # type: ignore[method-assign]
    with Producer(session) as producer:
        for number in range(5):
            submit(producer, name, 0, [number])
        producer.flush()
        assert producer.acks()[0].last_sequence == 4
    assert read(session, name) == [*range(5)]


@pytest.mark.rule("producer ids are scarce")
class TestProducerIdsAreScarce:
    def test_a_process_keeps_its_producer_id(self, session: Session, topic: TopicFactory) -> None:
        name, identities = topic(), set()
        for number in range(3):
            with Producer(session) as producer:
                identities.add(producer._identity)
                submit(producer, name, 0, [number])
                producer.flush()
                assert producer.acks()[0].first_sequence == number
        assert len(identities) == 1
        assert read(session, name) == [0, 1, 2]

    def test_two_at_a_time_have_two(self, session: Session) -> None:
        with Producer(session) as one, Producer(session) as two:
            assert one._identity != two._identity

    def test_an_id_with_unacknowledged_batches_is_not_used_again(self, session: Session, topic: TopicFactory) -> None:
        producer = Producer(session)
        first = producer._identity
        submit(producer, topic(), 0, [0])
        producer.close()
        with Producer(session) as other:
            assert other._identity != first

    def test_a_broker_that_does_not_know_the_sequence_gets_a_new_id(
        self, session: Session, topic: TopicFactory
    ) -> None:
        name = topic(2)
        with Producer(session) as producer:
            first = producer._identity
            submit(producer, name, 0, [0])
            submit(producer, name, 1, [0])
            producer.flush()
            producer._sequences[name, 0] = 77
            submit(producer, name, 0, [1])
            submit(producer, name, 1, [1])
            submit(producer, name, 0, [2])
            producer.flush()
            assert producer._identity != first
        assert read(session, name, 0) == [0, 1, 2]
        assert read(session, name, 1) == [0, 1]


@pytest.mark.rule("each error has one action")
class TestEachErrorHasOneAction:
    def test_a_gap_in_a_transaction_must_be_aborted(self, session: Session, topic: TopicFactory) -> None:
        name, client = topic(), transactional(session)
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            submit(producer, name, 0, [0])
            producer._sequences[name, 0] = 9
            with pytest.raises(AbortableError, match=f"'{name}', partition 0: OUT_OF_ORDER_SEQUENCE_NUMBER"):
                deliver(producer, name, [1])
            with pytest.raises(AbortableError):
                submit(producer, name, 0, [2])
        client.abort()
        assert read(session, name, 0, "read_committed") == []

    def test_a_fenced_epoch_must_be_aborted(self, session: Session, topic: TopicFactory) -> None:
        name, client = topic(), transactional(session)
        TransactionClient(session, client.transactional_id, 60_000).init()
        with (
            Producer(session, client.identity, transactional_id=client.transactional_id) as producer,
            pytest.raises(StaleEpochError, match="INVALID_PRODUCER_EPOCH"),
        ):
            deliver(producer, name, [0])

    def test_a_batch_that_is_too_large_is_fatal_and_named(self, session: Session, topic: TopicFactory) -> None:
        name = topic(configs={"max.message.bytes": "1000"})
        message = f"200 records .* '{name}', partition 0: MESSAGE_TOO_LARGE"
        with Producer(session) as producer, pytest.raises(KafkaError, match=message) as raised:
            deliver(producer, name, range(200))
        assert not raised.value.retriable

    def test_what_is_not_acknowledged_in_time(self, kafka: KafkaCluster, topic: TopicFactory) -> None:
        name = topic()
        session = session_of(kafka, request_timeout_ms="200", delivery_timeout_ms="600")
        producer = Producer(session)
        session.topic(name)
        kafka.pause(1)
        try:
            with pytest.raises(RetriableError, match=f"'{name}', partition 0: not acknowledged within"):
                deliver(producer, name, [1])
        finally:
            kafka.resume(1)
        producer.close()
        session.close()


def test_a_transactional_producer_needs_both_names(session: Session) -> None:
    with pytest.raises(KafkaError, match="both"):
        Producer(session, ProducerIdentity(1, 0))


@pytest.mark.parametrize("transactional", [False, True])
def test_a_topic_that_is_deleted_meanwhile_is_not_created_again(
    session: Session, kafka_admin: KafkaAdminClient, topic: TopicFactory, transactional: bool
) -> None:
    """Brokers would make it as they are set to: a progress topic that forgets, or an output without its records."""
    name = topic(1)
    client = TransactionClient(session, f"tx-{name}", 60_000)
    client.init()
    given = (client.begin(), client.transactional_id) if transactional else (None, None)
    with Producer(session, given[0], transactional_id=given[1]) as producer:
        submit(producer, name, 0, [1])
        producer.flush()
        kafka_admin.delete_topics([name])
        eventually(lambda: name not in session.topics([name]))

        def write_on() -> None:
            for number in range(100):  # the broker may take one more before it forgets the partition
                submit(producer, name, 0, [number])
                producer.flush()

        with pytest.raises(KafkaError, match=f"topic '{name}' does not exist"):
            write_on()
    assert name not in session.topics([name])
