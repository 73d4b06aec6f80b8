"""The progress topic on a real broker: created, verified, read raw; and unknown outcomes settled with it."""

from __future__ import annotations

import re
import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.delivery import Claim, Progress
from penstock.errors import (
    AbortableError,
    CheckpointError,
    FencedError,
    KafkaError,
    RetriableError,
    UnclaimedIdError,
    UnknownOutcomeError,
)
from penstock.kafka import ownership
from penstock.kafka import transactions as transactions_module
from penstock.kafka.ownership import claim, settle
from penstock.kafka.produce import Ack, Producer, ProducerIdentity
from penstock.kafka.progress import (
    ProgressRead,
    ProgressTopic,
    Seal,
    encode_progress,
    ensure_progress_topic,
    read_present_progress,
    read_progress,
    reading,
)
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import Session
from penstock.kafka.topics import read_topic_configs, transaction_version
from penstock.kafka.transactions import State, TransactionClient, describe_transaction
from tests.waiting import eventually

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster
    from tests.conftest import TopicFactory

QUERY = "orders"


@pytest.fixture
def session(kafka: KafkaCluster) -> Iterator[Session]:
    session = Session(ClientConfig.from_properties(kafka.client_settings()))
    yield session
    session.close()


@pytest.fixture
def progress_topic(session: Session) -> ProgressTopic:
    return ensure_progress_topic(session, f"progress-{uuid.uuid4().hex[:8]}", partitions=1)


def owner(session: Session, transactional_id: str | None = None) -> TransactionClient:
    client = TransactionClient(session, transactional_id or f"tx-{uuid.uuid4().hex[:8]}", 60_000)
    client.init()
    return client


def hasten(client: TransactionClient) -> None:
    """The client's next transaction times out soon: not before something is written even on a busy machine."""
    client.timeout_ms = 3000
    client.init()


def batch(batch_id: int) -> Progress:
    return Progress(QUERY, batch_id, {"t": {"0": batch_id}}, {"t": {"0": batch_id + 1}}, ("sink -> t",))


def publish(session: Session, client: TransactionClient, topic: ProgressTopic, batch_id: int) -> Progress:
    """Begin a transaction and put progress into it; somebody else ends it."""
    progress = batch(batch_id)
    client.begin()
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        producer.submit(topic.name, *encode_progress(topic, client.transactional_id, progress))
        producer.flush()
    return progress


def finish(client: TransactionClient) -> None:
    """Commit, and wait for the transaction's markers: since transaction.version 2 the answer comes before them."""
    client.commit()
    client.init()


@pytest.mark.rule("progress reads are definite")
class TestProgressReadsAreDefinite:
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

    def test_a_read_that_lacks_the_mark_before_it_is_not_believed(
        self, session: Session, progress_topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As a broker would answer that was cut off from the others before the mark was written."""
        client = owner(session)
        stale = read_progress(session, progress_topic, client.transactional_id)
        last = publish(session, client, progress_topic, 0)
        client.commit()
        reads: list[ProgressRead] = []

        def read_late(*args: Any, **more: Any) -> ProgressRead:
            reads.append(read_progress(*args, **more) if len(reads) == late else stale)
            return reads[-1]

        monkeypatch.setattr(reading, "read_progress", read_late)
        late = 2
        owner(session, client.transactional_id)  # by then its transaction has ended
        assert read_present_progress(session, progress_topic, client.transactional_id).progress == last
        assert len(reads) == 1 + late
        late = -1
        with pytest.raises(RetriableError, match="may be cut off from the other brokers"):
            read_present_progress(session, progress_topic, client.transactional_id, deadline=session.deadline(500))

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

    def test_a_run_sees_what_a_later_owner_wrote_to_partitions_that_were_added_since(
        self, session: Session, progress_topic: ProgressTopic, kafka_admin: KafkaAdminClient
    ) -> None:
        sizes = [replace(progress_topic, partitions=count) for count in (1, 2)]
        candidates = (f"tx-{uuid.uuid4().hex[:8]}" for _ in range(10_000))
        name = next(each for each in candidates if [size.partition_of(each) for size in sizes] == [0, 1])
        publish(session, owner(session, name), progress_topic, 0)
        kafka_admin.create_partitions({progress_topic.name: 2})
        grown = eventually(
            lambda: next((t for t in [ensure_progress_topic(session, progress_topic.name)] if t.partitions == 2), None),
        )
        later = owner(session, name)
        mine = claim(session, later, grown, "run-2")
        last = publish(session, later, grown, 0)
        later.commit()
        owner(session, name)
        read = read_progress(session, progress_topic, name)
        assert (read.progress, read.latest_claim) == (last, mine)

    def test_records_stay_known_when_partitions_are_added_twice(
        self, session: Session, kafka_admin: KafkaAdminClient
    ) -> None:
        """With 2, 3 and 4 partitions the id's records are in 0, in 1, and in 0 again, behind the older ones."""
        name = f"progress-{uuid.uuid4().hex[:8]}"
        topic = ensure_progress_topic(session, name, partitions=2)
        sizes = [replace(topic, partitions=count) for count in (2, 3, 4)]
        candidates = (f"tx-{uuid.uuid4().hex[:8]}" for _ in range(10_000))
        wanted = next(each for each in candidates if [size.partition_of(each) for size in sizes] == [0, 1, 0])
        client = owner(session, wanted)
        for batch_id, count in enumerate((2, 3, 4)):
            if count > topic.partitions:
                kafka_admin.create_partitions({name: count})
                session.forget_topics([name])
                eventually(lambda count=count: ensure_progress_topic(session, name).partitions == count)
                topic = ensure_progress_topic(session, name)
            if batch_id:
                read = read_progress(session, topic, wanted)
                assert (read.progress, read.claim, read.latest_claim) == (last, mine, mine)  # noqa: F821
            mine = claim(session, client, topic, f"run-{batch_id}")
            last = publish(session, client, topic, batch_id)
            client.commit()
            client.init()
            read = read_progress(session, topic, wanted)
            assert (read.progress, read.claim, read.latest_claim) == (last, mine, mine)

    def put(
        self,
        session: Session,
        topic: ProgressTopic,
        transactional_id: str,
        value: bytes | None,
        writer: TransactionClient | None = None,
    ) -> None:
        """A record under the key of an id's progress, committed by ``writer`` or outside of transactions."""
        (made,) = encode(
            keys=pa.array([transactional_id.encode()], pa.binary()),
            values=pa.array([value], pa.binary()),
            timestamps=np.full(1, time.time_ns() // 1_000_000),
            partitions=np.zeros(1, np.int32),
        )
        identity, name = (writer.begin(), writer.transactional_id) if writer else (None, None)
        with Producer(session, identity, transactional_id=name) as producer:
            producer.submit(topic.name, 0, made.data, 1)
            producer.flush()
        if writer:
            finish(writer)

    def value_of(self, topic: ProgressTopic, transactional_id: str, progress: Progress) -> bytes:
        """What a record of ``progress`` holds."""
        _, data, _ = encode_progress(topic, transactional_id, progress)
        (value,) = scan(data, start_offset=0, end_offset=1).values.to_pylist()
        return bytes(value)

    @pytest.fixture
    def sealed(self, progress_topic: ProgressTopic) -> ProgressTopic:
        return replace(progress_topic, seal=Seal(QUERY, "the secret of the checkpoint"))

    @pytest.mark.parametrize("transactional", [True, False], ids=["in a transaction", "outside of transactions"])
    @pytest.mark.parametrize("value", [b"not json", b"{}", None], ids=["text", "empty", "tombstone"])
    def test_what_is_no_record_of_penstocks_is_passed_over_and_named(
        self, session: Session, sealed: ProgressTopic, value: bytes | None, transactional: bool
    ) -> None:
        client = owner(session)
        last = publish(session, client, sealed, 0)
        finish(client)
        self.put(session, sealed, client.transactional_id, value, owner(session) if transactional else None)
        read = read_progress(session, sealed, client.transactional_id)
        assert read.progress == last
        (reason,) = read.ignored
        assert re.search(
            rf"'{sealed.name}', partition 0, offset \d+: the record (is not one of penstock's|was written)", reason
        )

    @pytest.mark.parametrize("secret", [None, "another secret"])
    def test_a_forged_record_is_not_believed(self, session: Session, sealed: ProgressTopic, secret: str | None) -> None:
        client = owner(session)
        name = client.transactional_id
        last = publish(session, client, sealed, 3)
        finish(client)
        forger = replace(sealed, seal=Seal(QUERY, secret) if secret else None)
        self.put(session, sealed, name, self.value_of(forger, name, batch(4)), owner(session))
        read = read_progress(session, sealed, name)
        assert read.progress == last
        assert ["does not have its seal" in each for each in read.ignored] == [True]

    def test_a_record_without_a_seal_counts_where_an_earlier_version_may_have_published(
        self, session: Session, sealed: ProgressTopic
    ) -> None:
        """All of them: where that version has gone on, the job has to stop."""
        assert sealed.seal
        client = owner(session)
        upgraded, unsealed = replace(sealed, seal=replace(sealed.seal, unsealed=True)), replace(sealed, seal=None)
        for batch_id in range(3):
            last = publish(session, client, unsealed, batch_id)
            finish(client)
        assert read_progress(session, upgraded, client.transactional_id).progress == last
        forger = replace(sealed, seal=Seal(QUERY, "another secret"))
        self.put(session, sealed, client.transactional_id, self.value_of(forger, client.transactional_id, batch(3)))
        assert read_progress(session, upgraded, client.transactional_id).progress == last

    def test_a_copy_of_an_older_record_does_not_count(self, session: Session, sealed: ProgressTopic) -> None:
        client = owner(session)
        name = client.transactional_id
        for batch_id in range(3):
            last = publish(session, client, sealed, batch_id)
            finish(client)
        self.put(session, sealed, name, self.value_of(sealed, name, batch(1)), owner(session))
        assert read_progress(session, sealed, name).progress == last

    def test_the_seal_of_another_ids_record_does_not_fit(self, session: Session, sealed: ProgressTopic) -> None:
        client, other = owner(session), owner(session)
        value = self.value_of(sealed, other.transactional_id, batch(7))
        self.put(session, sealed, client.transactional_id, value, other)
        assert read_progress(session, sealed, client.transactional_id).progress is None

    def test_another_querys_record_is_believed_for_it_only_stops(self, session: Session, sealed: ProgressTopic) -> None:
        client = owner(session)
        theirs = replace(batch(2), query_id="another")
        stranger = replace(sealed, seal=Seal("another", "its secret"))
        value = self.value_of(stranger, client.transactional_id, theirs)
        self.put(session, sealed, client.transactional_id, value, client)
        owner(session, client.transactional_id)
        assert read_progress(session, sealed, client.transactional_id).progress == theirs


@pytest.mark.rule("fence, claim, then read")
class TestFenceClaimThenRead:
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
        mine = Claim.from_this_process("run-1")
        client.begin()
        with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
            producer.submit(progress_topic.name, *encode_progress(progress_topic, client.transactional_id, mine))
            producer.flush()
        read = read_progress(session, progress_topic, client.transactional_id)
        assert (read.claim, read.latest_claim) == (None, mine)


class BothVersions:
    """For tests that a cluster with transaction.version 2 and one below it have to pass."""

    @pytest.fixture(params=[2, 0], ids=["version 2", "version 0"])
    def session(self, request: pytest.FixtureRequest) -> Iterator[Session]:
        cluster = request.getfixturevalue("kafka" if request.param == 2 else "older")
        session = Session(ClientConfig.from_properties(cluster.client_settings()))
        assert transaction_version(session) == request.param
        yield session
        session.close()


@pytest.mark.rule("fence, claim, then read")
class TestFenceWhileClaiming(BothVersions):
    """What becomes of a run that has taken an id over, while it commits its claim. There is a former owner's claim."""

    @pytest.fixture
    def client(self, session: Session, progress_topic: ProgressTopic) -> TransactionClient:
        former = owner(session)
        claim(session, former, progress_topic, "run-0")
        return owner(session, former.transactional_id)

    def when_it_is_written(self, monkeypatch: pytest.MonkeyPatch, step: Callable[[], object], times: int = 1) -> None:
        """Does ``step`` after the claim was written and before it is committed, the first ``times`` times."""
        original, left = ownership.write_progress, [step] * times

        def record(*args: Any, **more: Any) -> Ack:
            ack = original(*args, **more)
            if left:
                left.pop()()
            return ack

        monkeypatch.setattr(ownership, "write_progress", record)

    @pytest.mark.parametrize("written", [False, True], ids=["before it is written", "after it is written"])
    def test_a_copy_that_took_over_meanwhile_is_named(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
        written: bool,
    ) -> None:
        winners = []

        def take_over() -> None:
            monkeypatch.undo()
            winners.append(owner(session, client.transactional_id))
            claim(session, winners[0], progress_topic, "run-2")

        if written:
            self.when_it_is_written(monkeypatch, take_over)
        else:
            take_over()
        with pytest.raises(FencedError, match=r"was taken over by run run-2 \(process"):
            claim(session, client, progress_topic, "run-1")
        assert client.state is State.FENCED
        last = publish(session, winners[0], progress_topic, 0)
        winners[0].commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_a_copy_that_has_not_made_its_own_claim_yet_is_named_when_it_has(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        winner = owner(session, client.transactional_id)
        original = ownership.read_progress

        def read_before_it(*args: Any, **more: Any) -> ProgressRead:
            read = original(*args, **more)
            monkeypatch.undo()
            claim(session, winner, progress_topic, "run-2")
            return read

        monkeypatch.setattr(ownership, "_CLAIM_SECONDS", 60.0)  # the claim itself takes some time
        monkeypatch.setattr(ownership, "read_progress", read_before_it)
        with pytest.raises(FencedError, match="was taken over by run run-2"):
            claim(session, client, progress_topic, "run-1")

    def test_f9_a_producer_without_a_claim_is_told_from_the_former_owner(
        self, session: Session, client: TransactionClient, progress_topic: ProgressTopic
    ) -> None:
        owner(session, client.transactional_id)
        with pytest.raises(UnclaimedIdError, match="left no claim"):
            claim(session, client, progress_topic, "run-1")

    def test_a_claim_whose_transaction_timed_out_is_made_again(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        name = client.transactional_id
        hasten(client)

        def time_out() -> None:
            eventually(lambda: (seen := describe_transaction(session, name)) and seen.state == "CompleteAbort")
            client.timeout_ms = 60_000  # the second attempt has time

        self.when_it_is_written(monkeypatch, time_out)
        mine = claim(session, client, progress_topic, "run-1")
        last = publish(session, client, progress_topic, 0)
        client.commit()
        owner(session, name)
        read = read_progress(session, progress_topic, name)
        assert (read.claim, read.progress) == (mine, last)

    def test_a_claim_whose_answer_was_lost_is_known_as_committed(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        commits = []

        def commit_and_lose_the_answer(deadline: object = None) -> None:
            before = client.identity
            TransactionClient.commit(client)
            commits.append(before)
            client._identity, client.state = before, State.UNKNOWN
            raise UnknownOutcomeError("lost")

        monkeypatch.setattr(client, "commit", commit_and_lose_the_answer)
        mine = claim(session, client, progress_topic, "run-1")
        monkeypatch.undo()
        assert len(commits) == 1
        assert read_progress(session, progress_topic, client.transactional_id).claim == mine
        publish(session, client, progress_topic, 0)
        client.commit()

    def test_a_claim_that_is_aborted_each_time_is_given_up_with_the_reason(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def hiccup() -> None:
            raise AbortableError("a hiccup of the broker")

        self.when_it_is_written(monkeypatch, hiccup, times=2)
        assert claim(session, client, progress_topic, "run-1").run_id == "run-1"
        self.when_it_is_written(monkeypatch, hiccup, times=3)
        with pytest.raises(RetriableError, match=f"'{client.transactional_id}' cannot be claimed: a hiccup.*; look"):
            claim(session, client, progress_topic, "run-1")
        assert client.state is State.READY


@pytest.mark.rule("progress topics are durable")
class TestProgressTopicsAreDurable:
    def test_it_is_created_compacted(self, session: Session, progress_topic: ProgressTopic) -> None:
        settings = read_topic_configs(session, [progress_topic.name])
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


@pytest.mark.rule("outcomes are never guessed")
class TestOutcomesAreNeverGuessed:
    """What :func:`settle` finds out about batch 1 of run-1, after batch 0 was committed."""

    @pytest.fixture
    def client(self, session: Session, progress_topic: ProgressTopic) -> TransactionClient:
        client = owner(session)
        claim(session, client, progress_topic, "run-1")
        publish(session, client, progress_topic, 0)
        client.commit()
        return client

    def settle(self, session: Session, client: TransactionClient, topic: ProgressTopic) -> bool:
        return settle(session, client, topic, batch(1), "run-1")

    def test_committed_though_the_answer_was_lost(
        self, session: Session, client: TransactionClient, progress_topic: ProgressTopic
    ) -> None:
        publish(session, client, progress_topic, 1)
        before = client.identity
        client.commit()
        client._identity, client.state = before, State.UNKNOWN
        assert self.settle(session, client, progress_topic)
        last = publish(session, client, progress_topic, 2)
        client.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_expired(self, session: Session, client: TransactionClient, progress_topic: ProgressTopic) -> None:
        hasten(client)
        publish(session, client, progress_topic, 1)
        client.timeout_ms = 60_000  # what follows has time
        eventually(
            lambda: (seen := describe_transaction(session, client.transactional_id)) and seen.state == "CompleteAbort",
        )
        with pytest.raises(UnknownOutcomeError):
            client.commit()
        assert not self.settle(session, client, progress_topic)
        last = publish(session, client, progress_topic, 1)
        client.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last

    def test_never_ended(self, session: Session, client: TransactionClient, progress_topic: ProgressTopic) -> None:
        publish(session, client, progress_topic, 1)
        client.state = State.UNKNOWN
        assert not self.settle(session, client, progress_topic)
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
                settle(session, client, progress_topic, batch(1), "run-1", deadline=session.deadline(3000))
        finally:
            kafka.resume(1)
        monkeypatch.undo()
        assert client.state is State.UNKNOWN
        with pytest.raises(KafkaError, match="is ended with an unknown outcome and cannot become open"):
            client.begin()
        assert not self.settle(session, client, progress_topic)
        assert client.state is State.READY

    def test_a_copy_that_takes_over_while_it_is_looked_up_stops_with_us(
        self,
        session: Session,
        client: TransactionClient,
        progress_topic: ProgressTopic,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """After the last look at the coordinator and the topic, before the new epoch: it has published batch 1."""
        publish(session, client, progress_topic, 1)
        client.state = State.UNKNOWN
        copies: list[TransactionClient] = []

        def take_over_first(deadline: object = None) -> ProducerIdentity:
            copies.append(owner(session, client.transactional_id))
            claim(session, copies[0], progress_topic, "run-2")
            publish(session, copies[0], progress_topic, 1)
            copies[0].commit()
            return TransactionClient.init(client)

        monkeypatch.setattr(client, "init", take_over_first)
        with pytest.raises(FencedError, match=r"taken over by run run-2.* and taken back; both runs stop"):
            self.settle(session, client, progress_topic)
        with pytest.raises(AbortableError):
            publish(session, copies[0], progress_topic, 2)

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
        with pytest.raises(UnclaimedIdError, match="left no claim"):
            self.settle(session, client, progress_topic)


@pytest.mark.rule("aborts raise the epoch")
class TestAbortsRaiseTheEpoch:
    """Below transaction.version 2: a copy that takes over while an abort is under way, between asking the coordinator
    whose the transaction is and taking a new epoch. It cannot be left alone, for it may come at any moment before the
    new epoch is given; but then both stop, and nothing is doubled."""

    @pytest.fixture
    def session(self, older: KafkaCluster) -> Iterator[Session]:
        session = Session(ClientConfig.from_properties(older.client_settings()))
        yield session
        session.close()

    def abort_while(
        self, session: Session, topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch, step: Callable[[str], object]
    ) -> TransactionClient:
        """The client of run-1, which aborts batch 0 while ``step`` happens."""
        client = owner(session)
        claim(session, client, topic, "run-1")
        publish(session, client, topic, 0)
        original = transactions_module.describe_transaction

        def describe(*args: Any, **more: Any) -> Any:
            seen = original(*args, **more)
            monkeypatch.undo()
            step(client.transactional_id)
            return seen

        monkeypatch.setattr(transactions_module, "describe_transaction", describe)
        with pytest.raises(UnknownOutcomeError):
            client.abort()
        return client

    def test_both_stop_and_what_the_other_has_published_counts(
        self, session: Session, progress_topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        others, published = [], []

        def take_over_and_publish(name: str) -> None:
            others.append(owner(session, name))
            claim(session, others[0], progress_topic, "run-2")
            published.append(publish(session, others[0], progress_topic, 0))
            others[0].commit()
            publish(session, others[0], progress_topic, 1)

        client = self.abort_while(session, progress_topic, monkeypatch, take_over_and_publish)
        with pytest.raises(FencedError, match="was taken over by run run-2"):
            settle(session, client, progress_topic, batch(0), "run-1")
        with pytest.raises(UnknownOutcomeError):
            others[0].commit()
        with pytest.raises(UnclaimedIdError, match="left no claim"):
            settle(session, others[0], progress_topic, batch(1), "run-2")
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == published[0]

    def test_one_that_has_not_made_its_claim_stops_and_the_batch_is_redone(
        self, session: Session, progress_topic: ProgressTopic, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        others: list[TransactionClient] = []
        client = self.abort_while(
            session, progress_topic, monkeypatch, lambda name: others.append(owner(session, name))
        )
        assert not settle(session, client, progress_topic, batch(0), "run-1")
        with pytest.raises(UnclaimedIdError, match="left no claim"):
            claim(session, others[0], progress_topic, "run-2")
        last = publish(session, client, progress_topic, 0)
        client.commit()
        owner(session, client.transactional_id)
        assert read_progress(session, progress_topic, client.transactional_id).progress == last


@pytest.mark.rule("forgotten ids prove nothing")
class TestForgottenIdsProveNothing(BothVersions):
    """Epochs end at 32,767: then the coordinator gives the id a new producer id, and epochs begin again."""

    def wear_out(self, session: Session, client: TransactionClient, last_epoch: int) -> None:
        """Takes the client to ``last_epoch`` by InitProducerId with its own id and epoch, which gives the next one.

        Version 4 of the request, by hand over one connection: there are some 32,000 of them.
        """
        name, identity = client.transactional_id.encode(), client.identity
        node = session.coordinator(0x1, client.transactional_id, session.deadline())
        host, port = session.address(node).split(":")
        with socket.create_connection((host, int(port))) as connection, connection.makefile("rb") as answers:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            producer_id, epoch = identity.producer_id, identity.epoch
            while epoch < last_epoch:
                head = struct.pack(">hhihx", 22, 4, 0, -1) + bytes([len(name) + 1]) + name
                request = head + struct.pack(">iqhx", 60_000, producer_id, epoch)
                connection.sendall(struct.pack(">i", len(request)) + request)
                (size,) = struct.unpack(">i", answers.read(4))
                error, *given = struct.unpack_from(">hqh", answers.read(size), 9)
                assert error in {0, 51}  # CONCURRENT_TRANSACTIONS: the claim's markers are still being written
                if not error:
                    producer_id, epoch = given
        assert producer_id == identity.producer_id
        client._identity, client._fresh = replace(identity, epoch=epoch), True

    def publish_until(
        self,
        session: Session,
        client: TransactionClient,
        topic: ProgressTopic,
        run_id: str,
        enough: Callable[[], bool],
        first: int = 0,
    ) -> Progress:
        """Batches from ``first`` on: every third one is committed, aborted, or committed with the answer lost."""
        batch_id = first
        while batch_id < first + 3 or not enough():
            progress = publish(session, client, topic, batch_id)
            before = client.identity
            if batch_id % 3 == 1:
                client.abort()
            else:
                client.commit()
                last = progress
            if batch_id % 3 == 2:
                client._identity, client.state = before, State.UNKNOWN
                assert settle(session, client, topic, progress, run_id)
            batch_id += 1
        return last

    @pytest.mark.parametrize("session", [2, 0], indirect=True, ids=["version 2", "version 0"])
    @pytest.mark.slow
    def test_a_run_goes_on_over_the_end_of_the_epochs(self, session: Session, progress_topic: ProgressTopic) -> None:
        first = owner(session)
        name, producer_id = first.transactional_id, first.identity.producer_id
        claim(session, first, progress_topic, "run-1")
        self.wear_out(session, first, 32_740)
        self.publish_until(session, first, progress_topic, "run-1", lambda: first.identity.epoch > 32_759)
        publish(session, first, progress_topic, 100)
        second = owner(session, name)
        mine = claim(session, second, progress_topic, "run-2")
        with pytest.raises(UnknownOutcomeError):
            first.commit()
        with pytest.raises(FencedError, match="was taken over by run run-2"):
            settle(session, first, progress_topic, batch(100), "run-1")
        assert second.identity.producer_id == producer_id
        last = self.publish_until(
            session,
            second,
            progress_topic,
            "run-2",
            lambda: second.identity.producer_id != producer_id and second.identity.epoch > 4,
            first=102,
        )
        owner(session, name)
        read = read_progress(session, progress_topic, name)
        assert (read.progress, read.claim) == (last, mine)

    @pytest.mark.slow
    def test_whoever_takes_over_at_the_end_of_the_epochs_fences_the_former_owner(
        self, session: Session, progress_topic: ProgressTopic
    ) -> None:
        first = owner(session)
        claim(session, first, progress_topic, "run-1")
        self.wear_out(session, first, 32_765)
        publish(session, first, progress_topic, 0)
        second = owner(session, first.transactional_id)
        assert second.identity.producer_id != first.identity.producer_id
        claim(session, second, progress_topic, "run-2")
        last = publish(session, second, progress_topic, 0)
        second.commit()
        with pytest.raises(UnknownOutcomeError):
            first.commit()
        with pytest.raises(FencedError, match="was taken over by run run-2"):
            settle(session, first, progress_topic, batch(0), "run-1")
        owner(session, first.transactional_id)
        assert read_progress(session, progress_topic, first.transactional_id).progress == last
