"""Reading ranges from a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import PossibleDataLossError, RetriableError
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, LogOffset, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import Session
from penstock.kafka.transactions import TransactionClient
from tests.scans import delete, delete_below
from tests.waiting import eventually, eventually_told

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster
    from tests.conftest import TopicFactory


@pytest.fixture
def session(kafka: KafkaCluster) -> Iterator[Session]:
    session = Session(ClientConfig.from_properties(kafka.client_settings()))
    yield session
    session.close()


def write(producer: Producer, topic: str, partition: int, numbers: Sequence[int], *, size: int = 10) -> None:
    """One record batch, its values these numbers, each as text of this many bytes."""
    (batch,) = encode(
        keys=None,
        values=pa.array([str(number).zfill(size).encode() for number in numbers], pa.binary()),
        timestamps=np.full(len(numbers), time.time_ns() // 1_000_000),
        partitions=np.zeros(len(numbers), np.int32),
        max_batch_bytes=1 << 24,
    )
    producer.submit(topic, partition, batch.data, batch.count)


def fill(session: Session, topic: str, partition: int, batches: Sequence[Sequence[int]]) -> None:
    with Producer(session) as producer:
        for numbers in batches:
            write(producer, topic, partition, numbers)
        producer.flush()


def read(fetcher: Fetcher) -> dict[int, list[int]]:
    """The numbers of each range."""
    numbers: dict[int, list[int]] = {}
    for chunk in fetcher:
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
        assert records.next_offset == min(chunk.next_offset, chunk.end)
        numbers.setdefault(chunk.range, []).extend(int(value) for value in records.values.to_pylist())
    return numbers


def wait_for_stable_offset(session: Session, topic: str, offset: int) -> None:
    """Brokers write a transaction's markers after they have answered its end."""
    place = (topic, 0)
    expected = LogOffset(offset, -1, 0)
    eventually(lambda: list_offsets(session, [place], LATEST, isolation="read_committed")[place] == expected)


def test_ranges_are_read_exactly(session: Session, topic: TopicFactory) -> None:
    name = topic(3)
    for partition in range(3):
        fill(session, name, partition, [range(start, start + 10) for start in range(0, 100, 10)])
    ranges = [Range(name, 0, 0, 100), Range(name, 1, 15, 25), Range(name, 2, 99, 100), Range(name, 2, 50, 50)]
    assert read(Fetcher(session, ranges)) == {0: [*range(100)], 1: [*range(15, 25)], 2: [99]}


def test_ranges_of_one_partition_and_of_several_topics(session: Session, topic: TopicFactory) -> None:
    one, two = topic(1), topic(2)
    for name, partition in ((one, 0), (two, 1)):
        fill(session, name, partition, [range(50), range(50, 100)])
    ranges = [Range(one, 0, 0, 20), Range(one, 0, 40, 60), Range(two, 1, 90, 100), Range(two, 0, 0, 0)]
    assert read(Fetcher(session, ranges)) == {0: [*range(20)], 1: [*range(40, 60)], 2: [*range(90, 100)]}


def test_a_record_batch_above_all_limits_is_read(session: Session, topic: TopicFactory) -> None:
    name = topic(2)
    for partition in (0, 1):
        fill(session, name, partition, [range(start, start + 1000) for start in (0, 1000, 2000)])
    ranges = [Range(name, partition, 0, 3000) for partition in (0, 1)]
    numbers = read(Fetcher(session, ranges, max_bytes=1, max_partition_bytes=1))
    assert numbers == {0: [*range(3000)], 1: [*range(3000)]}


def test_the_next_request_is_under_way_while_the_caller_works(session: Session, topic: TopicFactory) -> None:
    name = topic()
    fill(session, name, 0, [range(1000), range(1000, 2000)])
    fetcher = Fetcher(session, [Range(name, 0, 0, 2000)], max_partition_bytes=1)
    chunks = iter(fetcher)
    next(chunks)
    (flight,) = fetcher._flights.values()
    assert flight.answer.result(60).responses[0].partitions[0].records
    assert next(chunks).next_offset == 2000
    assert next(chunks, None) is None


class TestTransactions:
    @pytest.fixture
    def client(self, session: Session) -> TransactionClient:
        client = TransactionClient(session, f"tx-{uuid.uuid4().hex}", 60_000)
        client.init()
        return client

    def transact(self, session: Session, client: TransactionClient, topic: str, numbers: Sequence[int]) -> None:
        client.begin()
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            write(producer, topic, 0, numbers)
            producer.flush()

    def test_aborted_records_are_named_and_markers_end_a_range(
        self, session: Session, client: TransactionClient, topic: TopicFactory
    ) -> None:
        name = topic()
        self.transact(session, client, name, range(10))
        client.commit()
        self.transact(session, client, name, range(100, 110))
        client.abort()
        self.transact(session, client, name, range(10, 20))
        client.commit()
        wait_for_stable_offset(session, name, 33)
        for last in (33, 32):  # with and without the last marker
            ranges = [Range(name, 0, 0, last)]
            assert read(Fetcher(session, ranges, isolation="read_committed")) == {0: [*range(20)]}
        # From the middle of the aborted transaction, and only its marker.
        assert read(Fetcher(session, [Range(name, 0, 15, 22)], isolation="read_committed")) == {0: []}
        assert read(Fetcher(session, [Range(name, 0, 21, 22)], isolation="read_committed")) == {0: []}
        everything = [*range(10), *range(100, 110), *range(10, 20)]
        assert read(Fetcher(session, [Range(name, 0, 0, 33)], isolation="read_uncommitted")) == {0: everything}

    def test_an_end_within_an_open_transaction_is_waited_for_and_then_an_error(
        self, kafka: KafkaCluster, session: Session, client: TransactionClient, topic: TopicFactory
    ) -> None:
        name = topic()
        self.transact(session, client, name, range(10))
        hasty = Session(
            ClientConfig.from_properties(
                {**kafka.client_settings(), "default.api.timeout.ms": "400", "fetch.max.wait.ms": "50"}
            )
        )
        eventually_told(
            RetriableError,
            "open transaction holds the last stable offset at 0",
            lambda: read(Fetcher(hasty, [Range(name, 0, 0, 10)], isolation="read_committed")),
        )
        hasty.close()
        client.commit()
        wait_for_stable_offset(session, name, 11)
        assert read(Fetcher(session, [Range(name, 0, 0, 10)], isolation="read_committed")) == {0: [*range(10)]}


class TestWhatIsNotInTheLog:
    @pytest.mark.rule("truncated logs are noticed")
    def test_a_planned_end_beyond_the_log_is_an_error_and_no_wait(self, session: Session, topic: TopicFactory) -> None:
        name = topic()
        fill(session, name, 0, [range(10)])
        with pytest.raises(
            PossibleDataLossError, match=f"'{name}', partition 0: the log ends at offset 10, .*offset 12"
        ):
            read(Fetcher(session, [Range(name, 0, 0, 12)]))

    def test_a_start_that_was_deleted_is_an_error(
        self, session: Session, topic: TopicFactory, kafka_admin: KafkaAdminClient
    ) -> None:
        name = topic()
        fill(session, name, 0, [range(10), range(10, 20)])
        delete_below(kafka_admin, name, 15)
        with pytest.raises(PossibleDataLossError, match=f"'{name}', partition 0: offset 5 was requested, .* 15 to 20"):
            read(Fetcher(session, [Range(name, 0, 5, 20)]))
        assert read(Fetcher(session, [Range(name, 0, 15, 20)])) == {0: [*range(15, 20)]}

    def test_a_topic_that_was_created_again_is_an_error(self, session: Session, topic: TopicFactory) -> None:
        name = topic()
        fill(session, name, 0, [range(10)])
        known = session.topic(name).topic_id
        assert read(Fetcher(session, [Range(name, 0, 0, 10, known)])) == {0: [*range(10)]}
        with pytest.raises(PossibleDataLossError, match=f"topic id {known} instead of"):
            read(Fetcher(session, [Range(name, 0, 0, 10, uuid.uuid4())]))

    def test_a_topic_that_is_deleted_and_created_again_while_it_is_known(
        self, session: Session, topic: TopicFactory, kafka_admin: KafkaAdminClient
    ) -> None:
        name = topic()
        fill(session, name, 0, [range(10)])
        known = session.topic(name).topic_id
        delete(kafka_admin, name)
        kafka_admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True)
        with pytest.raises(PossibleDataLossError, match="deleted and created again"):
            read(Fetcher(session, [Range(name, 0, 0, 10, known)]))


def test_a_broker_that_stops_answering_is_asked_again(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic()
    session = Session(ClientConfig.from_properties({**kafka.client_settings(), "request.timeout.ms": "300"}))
    fill(session, name, 0, [range(1000), range(1000, 2000), range(2000, 3000)])
    numbers: list[int] = []
    for chunk in Fetcher(session, [Range(name, 0, 0, 3000)], max_partition_bytes=1):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end)
        numbers.extend(int(value) for value in records.values.to_pylist())
        if len(numbers) == 1000:
            kafka.pause(1)
            try:
                session.send(_ping(), 1).exception(60)  # times out, and the connection is closed
            finally:
                kafka.resume(1)
    assert numbers == [*range(3000)]
    session.close()


def _ping() -> object:
    from kafka.protocol.metadata import MetadataRequest

    return MetadataRequest(topics=[], allow_auto_topic_creation=False)
