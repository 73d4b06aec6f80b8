"""The progress topic on a real broker: created, verified, read raw; and unknown outcomes settled with it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import CheckpointError, FencedError, KafkaError, RetriableError, TransactionExpiredError
from penstock.kafka.batches import encode
from penstock.kafka.produce import Producer
from penstock.kafka.progress import (
    Claim,
    Progress,
    ProgressTopic,
    claim,
    ensure_progress_topic,
    progress_batch,
    read_progress,
    settle,
)
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
from penstock.kafka.topics import topic_configs
from penstock.kafka.transactions import State, TransactionClient, UnknownOutcomeError, describe_transaction

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient
    from tests.conftest import TopicFactory

    from penstock.services import KafkaCluster

QUERY = "orders"


@pytest.fixture
def session(kafka: KafkaCluster) -> Iterator[Session]:
    session = Session(ClientConfig.from_properties(kafka.client_settings()))
    yield session
    session.close()


@pytest.fixture
def progress_topic(session: Session) -> ProgressTopic:
    return ensure_progress_topic(session, f"progress-{uuid.uuid4().hex[:8]}", partitions=1)


def owner(session: Session, transactional_id: str | None = None, timeout_ms: int = 60_000) -> TransactionClient:
    client = TransactionClient(session, transactional_id or f"tx-{uuid.uuid4().hex[:8]}", timeout_ms)
    client.init()
    return client


def publish(session: Session, client: TransactionClient, topic: ProgressTopic, batch_id: int) -> Progress:
    """Begin a transaction and put progress into it; somebody else ends it."""
    progress = Progress(QUERY, batch_id, {"t": {"0": batch_id}}, {"t": {"0": batch_id + 1}}, {"bad": batch_id})
    client.begin()
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        producer.submit(topic.name, *progress_batch(topic, client.transactional_id, progress))
        producer.flush()
    return progress


def eventually(session: Session, condition: Callable[[], Any]) -> Any:
    deadline = session.deadline()
    while not (result := condition()):
        assert not deadline.passed
        time.sleep(0.02)
    return result


class TestRule4:
    def test_the_last_committed_record_counts(self, session: Session, progress_topic: ProgressTopic) -> None:
        client = owner(session)
        assert read_progress(session, progress_topic, client.transactional_id).progress is None
        publish(session, client, progress_topic, 0)
        client.commit()
        last = publish(session, client, progress_topic, 1)
        client.commit()
        publish(session, client, progress_topic, 2)
        client.abort()
        successor = owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, successor.transactional_id).progress == last

    def test_what_was_open_when_the_id_was_taken_over_does_not_count(
        self, session: Session, progress_topic: ProgressTopic
    ) -> None:
        client = owner(session)
        last = publish(session, client, progress_topic, 0)
        client.commit()
        publish(session, client, progress_topic, 1)
        successor = owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, successor.transactional_id).progress == last

    def test_f16_another_ids_open_transaction_on_the_same_partition_hides_nothing(
        self, session: Session, progress_topic: ProgressTopic
    ) -> None:
        stranger = owner(session)
        stranger.begin()
        rows = 20_000
        (batch,) = encode(
            keys=pa.array([stranger.transactional_id.encode()] * rows, pa.binary()),
            values=pa.array([b"{}"] * rows, pa.binary()),
            timestamps=np.full(rows, time.time_ns() // 1_000_000),
            partitions=np.zeros(rows, np.int32),
        )
        client = owner(session)
        with Producer(session, stranger.identity, transactional_id=stranger.transactional_id) as producer:
            producer.submit(progress_topic.name, 0, batch.data, batch.count)
            producer.flush()
            last = publish(session, client, progress_topic, 0)
            client.commit()
            successor = owner(session, client.transactional_id)
            assert read_progress(session, progress_topic, successor.transactional_id).progress == last
        stranger.abort()

    def test_a_time_out_is_never_taken_for_the_end(
        self, kafka: KafkaCluster, session: Session, progress_topic: ProgressTopic
    ) -> None:
        client = owner(session)
        publish(session, client, progress_topic, 0)
        client.commit()
        hasty = Session(ClientConfig.from_properties({**kafka.client_settings(), "request.timeout.ms": "200"}))
        hasty.topic(progress_topic.name)
        kafka.pause(1)
        try:
            with pytest.raises(RetriableError):
                read_progress(hasty, progress_topic, client.transactional_id, deadline=hasty.deadline(800))
        finally:
            kafka.resume(1)
        hasty.close()

    def test_records_stay_known_when_partitions_are_added(
        self, session: Session, progress_topic: ProgressTopic, kafka_admin: KafkaAdminClient
    ) -> None:
        clients = [owner(session) for _ in range(6)]
        expected = {}
        for client in clients:
            expected[client.transactional_id] = publish(session, client, progress_topic, 5)
            client.commit()
        kafka_admin.create_partitions({progress_topic.name: 4})
        grown = eventually(
            session,
            lambda: next((t for t in [ensure_progress_topic(session, progress_topic.name)] if t.partitions == 4), None),
        )
        assert len({grown.partition_of(each) for each in expected}) > 1
        for client in clients:
            successor = owner(session, client.transactional_id)
            name = client.transactional_id
            assert read_progress(session, grown, name).progress == expected[name]
            newer = publish(session, successor, grown, 6)
            successor.commit()
            owner(session, name)
            assert read_progress(session, grown, name).progress == newer

    def test_a_record_of_somebody_else_is_an_error_that_names_it(
        self, session: Session, progress_topic: ProgressTopic
    ) -> None:
        client = owner(session)
        (batch,) = encode(
            keys=pa.array([client.transactional_id.encode()], pa.binary()),
            values=pa.array([b"not json"], pa.binary()),
            timestamps=np.full(1, time.time_ns() // 1_000_000),
            partitions=np.zeros(1, np.int32),
        )
        with Producer(session) as producer:
            producer.submit(progress_topic.name, 0, batch.data, 1)
            producer.flush()
        with pytest.raises(CheckpointError, match=f"'{progress_topic.name}', partition 0, offset 0"):
            read_progress(session, progress_topic, client.transactional_id)


class TestRule3:
    def test_a_claim_names_the_owner(self, session: Session, progress_topic: ProgressTopic) -> None:
        client = owner(session)
        first = claim(session, client, progress_topic, "run-1")
        last = publish(session, client, progress_topic, 0)
        client.commit()
        successor = owner(session, client.transactional_id)
        second = claim(session, successor, progress_topic, "run-2")
        owner(session, client.transactional_id)
        read = read_progress(session, progress_topic, client.transactional_id)
        assert first.run_id == "run-1"
        assert (read.claim, read.latest_claim, read.progress) == (second, second, last)
        assert "run-2" in str(second)

    def test_a_claim_that_was_not_committed_is_known_too(self, session: Session, progress_topic: ProgressTopic) -> None:
        client = owner(session)
        mine = Claim.mine("run-1")
        client.begin()
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            producer.submit(progress_topic.name, *progress_batch(progress_topic, client.transactional_id, mine))
            producer.flush()
        read = read_progress(session, progress_topic, client.transactional_id)
        assert (read.claim, read.latest_claim) == (None, mine)


class TestRule7:
    def test_it_is_created_compacted(self, session: Session, progress_topic: ProgressTopic) -> None:
        settings = topic_configs(session, [progress_topic.name])
        assert settings is not None
        assert settings[progress_topic.name]["cleanup.policy"] == "compact"
        again = ensure_progress_topic(session, progress_topic.name, partitions=8, topic_id=progress_topic.topic_id)
        assert again == progress_topic

    def test_a_topic_that_deletes_is_refused_with_the_command_to_run(
        self, session: Session, topic: TopicFactory
    ) -> None:
        for policy in ("delete", "compact,delete"):
            name = topic(configs={"cleanup.policy": policy})
            with pytest.raises(KafkaError, match=rf"kafka-configs\.sh .*--topic {name} .*cleanup\.policy=compact"):
                ensure_progress_topic(session, name)

    def test_another_topic_than_the_checkpoint_knows_is_refused(
        self, session: Session, progress_topic: ProgressTopic
    ) -> None:
        other = uuid.uuid4()
        with pytest.raises(CheckpointError, match=f"{progress_topic.topic_id}.*{other}"):
            ensure_progress_topic(session, progress_topic.name, topic_id=other)
        with pytest.raises(CheckpointError, match=f"'gone' is gone.*{other}"):
            ensure_progress_topic(session, "gone", topic_id=other)


class TestRule16:
    """What :func:`settle` finds out about batch 1 of run-1, after batch 0 was committed."""

    @pytest.fixture
    def client(self, session: Session, progress_topic: ProgressTopic) -> TransactionClient:
        client = owner(session, timeout_ms=1000)
        claim(session, client, progress_topic, "run-1")
        publish(session, client, progress_topic, 0)
        client.commit()
        return client

    def settle(self, session: Session, client: TransactionClient, topic: ProgressTopic) -> None:
        settle(session, client, topic, QUERY, 1, "run-1")

    def test_committed_though_the_answer_was_lost(
        self, session: Session, client: TransactionClient, progress_topic: ProgressTopic
    ) -> None:
        publish(session, client, progress_topic, 1)
        before = client.identity
        client.commit()
        client._identity, client.state = before, State.UNKNOWN
        self.settle(session, client, progress_topic)
        last = publish(session, client, progress_topic, 2)
        client.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_expired(self, session: Session, client: TransactionClient, progress_topic: ProgressTopic) -> None:
        publish(session, client, progress_topic, 1)
        eventually(
            session,
            lambda: (seen := describe_transaction(session, client.transactional_id)) and seen.state == "CompleteAbort",
        )
        with pytest.raises(UnknownOutcomeError):
            client.commit()
        with pytest.raises(TransactionExpiredError, match="batch 1 of query 'orders'"):
            self.settle(session, client, progress_topic)
        last = publish(session, client, progress_topic, 1)
        client.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_never_ended(self, session: Session, client: TransactionClient, progress_topic: ProgressTopic) -> None:
        publish(session, client, progress_topic, 1)
        client.state = State.UNKNOWN
        with pytest.raises(TransactionExpiredError):
            self.settle(session, client, progress_topic)
        assert client.state is State.READY

    def test_settled_in_a_second_attempt(
        self,
        kafka: KafkaCluster,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        publish(session, client, progress_topic, 1)
        client.state = State.UNKNOWN
        taken_over = client.init

        def init_and_lose_the_broker(deadline: object = None) -> None:
            taken_over()
            kafka.pause(1)

        monkeypatch.setattr(client, "init", init_and_lose_the_broker)
        try:
            with pytest.raises(RetriableError):
                settle(session, client, progress_topic, QUERY, 1, "run-1", deadline=session.deadline(3000))
        finally:
            kafka.resume(1)
        monkeypatch.undo()
        with pytest.raises(TransactionExpiredError):
            self.settle(session, client, progress_topic)
        assert client.state is State.READY

    def test_fenced_names_the_winner_and_leaves_it_alone(
        self, session: Session, client: TransactionClient, progress_topic: ProgressTopic
    ) -> None:
        publish(session, client, progress_topic, 1)
        winner = owner(session, client.transactional_id)
        theirs = claim(session, winner, progress_topic, "run-2")
        with pytest.raises(UnknownOutcomeError):
            client.commit()
        last = publish(session, winner, progress_topic, 1)
        with pytest.raises(FencedError, match=f"run run-2 .process {theirs.pid} on {theirs.host}"):
            self.settle(session, client, progress_topic)
        assert client.state is State.FENCED
        winner.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_f9_fenced_by_a_producer_without_a_claim(
        self, session: Session, client: TransactionClient, progress_topic: ProgressTopic
    ) -> None:
        publish(session, client, progress_topic, 1)
        owner(session, client.transactional_id)
        with pytest.raises(UnknownOutcomeError):
            client.commit()
        with pytest.raises(FencedError, match="left no claim"):
            self.settle(session, client, progress_topic)
