"""Transactions from the driver's side, with and without transaction.version 2."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from kafka.protocol.producer import EndTxnRequest

from penstock.errors import AbortableError, KafkaError, OptionsError, UnknownOutcomeError
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, CommittedOffset, fetch_committed_offsets, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import TRANSACTION, Session
from penstock.kafka.topics import create_topic, transaction_version
from penstock.kafka.transactions import (
    State,
    TransactionClient,
    describe_transaction,
    list_transactions,
    transaction_timeout_ms,
)
from penstock_testing.services import KafkaCluster
from tests.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture(params=[2, 0], ids=["version 2", "version 0"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    cluster = request.getfixturevalue("kafka" if request.param == 2 else "older")
    session = Session(ClientConfig.from_properties(cluster.client_settings()))
    assert transaction_version(session) == request.param
    yield session
    session.close()


@pytest.fixture
def topic(session: Session) -> str:
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    create_topic(session, name, partitions=2)
    return name


@pytest.fixture
def client(session: Session) -> TransactionClient:
    return TransactionClient(session, f"tx-{uuid.uuid4().hex[:8]}", 60_000)


def write(session: Session, client: TransactionClient, topic: str, numbers: Sequence[int]) -> None:
    """These numbers into both partitions, with the client's identity."""
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        for partition in (0, 1):
            (batch,) = encode(
                keys=None,
                values=pa.array([str(number).encode() for number in numbers], pa.binary()),
                timestamps=np.full(len(numbers), time.time_ns() // 1_000_000),
                partitions=np.zeros(len(numbers), np.int32),
            )
            producer.submit(topic, partition, batch.data, batch.count)
        producer.flush()


def ended(session: Session, client: TransactionClient) -> bool:
    seen = describe_transaction(session, client.transactional_id)
    return seen is not None and seen.state in {"CompleteCommit", "CompleteAbort", "Empty"}


def committed(session: Session, topic: str, partition: int = 1) -> list[int]:
    place = (topic, partition)
    end = list_offsets(session, [place], LATEST, isolation="read_committed")[place]
    assert end is not None
    numbers = []
    for chunk in Fetcher(session, [Range(*place, 0, end.offset)], isolation="read_committed"):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
        numbers += [int(value) for value in records.values.to_pylist()]
    return numbers


@pytest.mark.rule("one protocol version per transaction")
def test_batches_are_committed_or_aborted_whole(session: Session, topic: str, client: TransactionClient) -> None:
    client.init()
    identities = []
    for number in range(4):
        identities.append(client.begin())
        write(session, client, topic, [number])
        if number % 2:
            client.abort()
        else:
            client.commit()
        eventually(lambda: ended(session, client))
    assert committed(session, topic, 0) == committed(session, topic, 1) == [0, 2]
    # Each batch has an epoch of its own, so that its sequences start at 0.
    assert len({each.epoch for each in identities}) == 4
    assert {each.transaction_version for each in identities} == {transaction_version(session)}


@pytest.mark.rule("group offsets join the transaction")
def test_group_offsets_join_the_transaction(session: Session, topic: str, client: TransactionClient) -> None:
    group = f"group-{topic}"
    client.init()
    for number, end in enumerate([client.commit, client.abort]):
        client.begin()
        write(session, client, topic, [number])
        client.add_offsets(group, {(topic, 0): CommittedOffset(10 + number), (topic, 1): CommittedOffset(20, 0, "m")})
        end()
    places = [(topic, 0), (topic, 1)]
    assert fetch_committed_offsets(session, group, places) == {
        (topic, 0): CommittedOffset(10),
        (topic, 1): CommittedOffset(20, 0, "m"),
    }


@pytest.mark.rule("group offsets join the transaction")
def test_a_topic_that_is_gone_takes_no_offset_and_does_not_stop_the_transaction(
    session: Session, topic: str, client: TransactionClient
) -> None:
    group = f"group-{topic}"
    client.init()
    client.begin()
    write(session, client, topic, [1])
    client.add_offsets(
        group, {(topic, 0): CommittedOffset(1), (topic, 7): CommittedOffset(2), (f"no-{topic}", 0): CommittedOffset(3)}
    )
    client.commit()
    eventually(lambda: ended(session, client))
    places = [(topic, 0), (topic, 7), (f"no-{topic}", 0)]
    assert fetch_committed_offsets(session, group, places) == {(topic, 0): CommittedOffset(1)}
    assert committed(session, topic) == [1]


@pytest.mark.rule("fence, claim, then read")
def test_init_fences_the_former_owner_and_ends_its_transaction(
    session: Session, topic: str, client: TransactionClient
) -> None:
    client.init()
    client.begin()
    write(session, client, topic, [1])
    assert list_offsets(session, [(topic, 0)], LATEST, isolation="read_committed")[topic, 0].offset == 0  # type: ignore[union-attr]
    other = TransactionClient(session, client.transactional_id, 60_000)
    other.init()
    assert list_offsets(session, [(topic, 0)], LATEST, isolation="read_committed")[topic, 0].offset == 2  # type: ignore[union-attr]
    with pytest.raises(AbortableError):
        write(session, client, topic, [2])
    with pytest.raises(UnknownOutcomeError):
        client.commit()
    other.begin()
    write(session, other, topic, [3])
    other.commit()
    eventually(lambda: ended(session, other))
    assert committed(session, topic) == [3]


@pytest.mark.rule("fence, claim, then read")
def test_a_former_owner_between_two_batches_does_not_fence_the_new_one(
    session: Session, topic: str, client: TransactionClient
) -> None:
    client.init()
    client.begin()
    write(session, client, topic, [1])
    client.commit()
    other = TransactionClient(session, client.transactional_id, 60_000)
    other.init()
    if transaction_version(session) == 2:  # the epoch from the last answer shows when it is used
        client.begin()
        with pytest.raises(AbortableError):
            write(session, client, topic, [2])
    else:
        with pytest.raises(UnknownOutcomeError):
            client.begin()
    other.begin()
    write(session, other, topic, [3])
    other.commit()
    eventually(lambda: ended(session, other))
    assert committed(session, topic) == [1, 3]


def end_behind_its_back(session: Session, client: TransactionClient, commit: bool) -> None:
    """What the broker sees when the answer to an EndTxn is lost."""
    versions = {"min_version": 5} if client.identity.transaction_version == 2 else {"max_version": 4}
    request = EndTxnRequest(
        transactional_id=client.transactional_id,
        producer_id=client.identity.producer_id,
        producer_epoch=client.identity.epoch,
        committed=commit,
        **versions,
    )
    node = session.coordinator(TRANSACTION, client.transactional_id, session.deadline())
    assert session.exchange(request, node, session.deadline()).error_code == 0


@pytest.mark.rule("outcomes are never guessed")
def test_a_repeated_commit_answers_what_the_first_did(session: Session, topic: str, client: TransactionClient) -> None:
    client.init()
    client.begin()
    write(session, client, topic, [1])
    end_behind_its_back(session, client, commit=True)
    client.commit()
    assert client.state is State.READY
    client.begin()
    write(session, client, topic, [2])
    client.commit()
    eventually(lambda: ended(session, client))
    assert committed(session, topic) == [1, 2]


@pytest.mark.rule("outcomes are never guessed")
def test_a_transaction_that_timed_out_has_an_unknown_outcome(session: Session, topic: str) -> None:
    client = TransactionClient(session, f"tx-{topic}", 3000)
    client.init()
    client.begin()
    write(session, client, topic, [1])
    eventually(lambda: ended(session, client))
    with pytest.raises(UnknownOutcomeError, match=f"tx-{topic}"):
        client.commit()
    assert client.state is State.UNKNOWN
    client.timeout_ms = 60_000  # this one has time
    client.init()
    with pytest.raises(KafkaError, match="unknown outcome and cannot become open"):
        client.begin()  # progress has not been read
    client.leave_unknown(fenced=False)
    client.begin()
    write(session, client, topic, [2])
    client.commit()
    eventually(lambda: ended(session, client))
    assert committed(session, topic) == [2]


@pytest.mark.rule("outcomes are never guessed")
def test_a_coordinator_that_does_not_answer_leaves_the_outcome_unknown(kafka: KafkaCluster) -> None:
    properties = {**kafka.client_settings(), "request.timeout.ms": "300"}
    session = Session(ClientConfig.from_properties(properties))
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    create_topic(session, name, partitions=2)
    client = TransactionClient(session, f"tx-{name}", 60_000)
    client.init()
    client.begin()
    write(session, client, name, [1])
    kafka.pause(1)
    try:
        with pytest.raises(UnknownOutcomeError):
            client.commit(session.deadline(1000))
    finally:
        kafka.resume(1)
    assert client.state is State.UNKNOWN
    session.close()


@pytest.mark.rule("aborts raise the epoch")
def test_aborts_raise_the_epoch(session: Session, topic: str, client: TransactionClient) -> None:
    client.init()
    before = client.begin()
    write(session, client, topic, [1])
    client.abort()
    eventually(lambda: ended(session, client))  # until its marker is there, [2] passes for a repetition of [1]
    late = TransactionClient(session, client.transactional_id, 60_000)
    late._identity = before
    client.begin()
    with pytest.raises(AbortableError):
        write(session, late, topic, [2])
    write(session, client, topic, [3])
    client.commit()
    eventually(lambda: ended(session, client))
    assert committed(session, topic) == [3]


def test_an_empty_transaction_can_be_aborted(session: Session, client: TransactionClient) -> None:
    client.init()
    client.begin()
    client.abort()
    client.begin()
    client.abort()
    assert client.state is State.READY


@pytest.mark.rule("terminal errors end the job")
def test_fenced_is_terminal(session: Session, client: TransactionClient) -> None:
    client.init()
    client.state = State.UNKNOWN
    client.leave_unknown(fenced=True)
    for step in (client.init, client.begin, client.commit, client.abort):
        with pytest.raises(KafkaError, match="is fenced and cannot become"):
            step()


def test_steps_out_of_order_are_refused(session: Session, client: TransactionClient) -> None:
    for step in (client.begin, client.commit, client.abort):
        with pytest.raises(KafkaError, match="is new and cannot become"):
            step()
    with pytest.raises(KafkaError, match="call init"):
        _ = client.identity
    client.init()
    with pytest.raises(KafkaError, match="is ready and cannot become ending"):
        client.commit()
    client.begin()
    with pytest.raises(KafkaError, match="is open and cannot become open"):
        client.begin()
    client.abort()


@pytest.fixture
def forgetful() -> Iterator[KafkaCluster]:
    """A broker that forgets idle transactional ids quickly."""
    properties = {
        "transaction.version": "0",
        "transactional.id.expiration.ms": "4000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with KafkaCluster(properties=properties) as cluster:
        yield cluster


@pytest.mark.slow
@pytest.mark.rule("forgotten ids prove nothing")
def test_an_id_that_expired_is_taken_over_again(forgetful: KafkaCluster) -> None:
    session = Session(ClientConfig.from_properties(forgetful.client_settings()))
    name = f"transactions-{uuid.uuid4().hex[:8]}"
    create_topic(session, name, partitions=2)
    client = TransactionClient(session, f"tx-{name}", 60_000)
    client.init()
    eventually(lambda: describe_transaction(session, client.transactional_id) is None)
    client.begin()
    with pytest.raises(AbortableError, match="INVALID_PRODUCER_ID_MAPPING"):
        write(session, client, name, [1])
    with pytest.raises(UnknownOutcomeError, match="after producer id"):  # somebody else may have had it meanwhile
        client.abort()
    client.init()
    client.leave_unknown(fenced=False)
    for number in (2, 3):
        if number == 3:
            with pytest.raises(UnknownOutcomeError, match="after producer id"):
                client.begin()
            client.init()
            client.leave_unknown(fenced=False)
        client.begin()
        write(session, client, name, [number])
        client.commit()
        eventually(lambda: describe_transaction(session, client.transactional_id) is None)
    assert committed(session, name) == [2, 3]
    session.close()


@pytest.mark.rule("timeouts fit the brokers")
class TestTimeoutsFitTheBrokers:
    def test_unset_it_is_what_the_brokers_allow(self, session: Session) -> None:
        assert transaction_timeout_ms(session) == 900_000

    def test_an_explicit_value_is_taken_or_refused(self, session: Session) -> None:
        assert transaction_timeout_ms(session, 900_000) == 900_000
        with pytest.raises(OptionsError, match=r"900001 ms is above .* 900000 ms .*lower it to 900000"):
            transaction_timeout_ms(session, 900_001)


def test_transactions_are_described_and_listed(session: Session, topic: str, client: TransactionClient) -> None:
    assert describe_transaction(session, client.transactional_id) is None
    client.init()
    identity = client.begin()
    write(session, client, topic, [1])
    seen = describe_transaction(session, client.transactional_id)
    assert seen is not None
    assert (seen.state, seen.producer_id, seen.epoch) == ("Ongoing", identity.producer_id, identity.epoch)
    assert sorted(seen.partitions) == [(topic, 0), (topic, 1)]
    assert seen.timeout_ms == 60_000
    assert list_transactions(session)[client.transactional_id] == "Ongoing"
    client.abort()
