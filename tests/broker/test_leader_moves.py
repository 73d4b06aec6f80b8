"""Three brokers, of which the one that matters is killed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.connectors.kafka.source.enumerator import Enumerator
from penstock.connectors.kafka.source.losses import describe_losses
from penstock.connectors.kafka.source.positions import Position, Positions
from penstock.connectors.kafka.source.starts_and_stops import list_present_ends, with_epochs
from penstock.errors import PossibleDataLossError, RetriableError
from penstock.kafka.fetch import Fetcher, Range
from penstock.kafka.offsets import LATEST, list_offsets
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ClientConfig
from penstock.kafka.record_batches import encode, scan
from penstock.kafka.session import TRANSACTION, PartitionInfo, Session, close_sessions
from penstock.kafka.topics import create_topic
from penstock.kafka.transactions import TransactionClient
from penstock_testing.services import KafkaCluster
from tests.scans import enumerator_of, write
from tests.waiting import eventually, eventually_told


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    noticed_soon = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
    with KafkaCluster(3, properties=noticed_soon) as cluster:
        yield cluster


@pytest.fixture
def session(cluster: KafkaCluster) -> Iterator[Session]:
    session = Session(ClientConfig.from_properties(cluster.client_settings()))
    yield session
    session.close()


@pytest.fixture
def topic(session: Session) -> str:
    name = f"moves-{uuid.uuid4().hex[:8]}"
    create_topic(session, name, partitions=3, replication=3, configs={"min.insync.replicas": "2"})
    return name


def submit(producer: Producer, topic: str, number: int) -> None:
    """One record into each partition."""
    for partition in range(3):
        (batch,) = encode(
            keys=None,
            values=pa.array([str(number).encode()], pa.binary()),
            timestamps=np.full(1, time.time_ns() // 1_000_000),
            partitions=np.zeros(1, np.int32),
        )
        producer.submit(topic, partition, batch.data, 1)


def read(session: Session, topic: str, up_to: int, isolation: str = "read_uncommitted") -> dict[int, list[int]]:
    numbers: dict[int, list[int]] = {}
    ranges = [Range(topic, partition, 0, up_to) for partition in range(3)]
    for chunk in Fetcher(session, ranges, isolation=isolation, max_partition_bytes=1):
        records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end, aborted=chunk.aborted)
        numbers.setdefault(chunk.partition, []).extend(int(value) for value in records.values.to_pylist())
    return numbers


def leader(session: Session, topic: str) -> int:
    return session.partition(topic, 0, session.deadline()).leader


@pytest.mark.slow
@pytest.mark.rule("one writer per partition")
def test_produced_through_the_death_of_a_leader(cluster: KafkaCluster, session: Session, topic: str) -> None:
    victim = leader(session, topic)
    try:
        with Producer(session) as producer:
            for number in range(60):
                if number == 20:
                    cluster.kill(victim)
                submit(producer, topic, number)
            producer.flush()
            assert [ack.records for ack in producer.acks()] == [60, 60, 60]
        assert leader(session, topic) != victim
        assert read(session, topic, 60) == {partition: [*range(60)] for partition in range(3)}
    finally:
        cluster.restart(victim)


@pytest.mark.slow
def test_fetched_through_the_death_of_a_leader(cluster: KafkaCluster, session: Session, topic: str) -> None:
    with Producer(session) as producer:
        for number in range(30):
            submit(producer, topic, number)
        producer.flush()
    victim = leader(session, topic)
    numbers: dict[int, list[int]] = {}
    ranges = [Range(topic, partition, 0, 30) for partition in range(3)]
    try:
        for chunk in Fetcher(session, ranges, max_partition_bytes=1):
            records = scan(chunk.records, start_offset=chunk.start, end_offset=chunk.end)
            numbers.setdefault(chunk.partition, []).extend(int(value) for value in records.values.to_pylist())
            if sum(map(len, numbers.values())) == 20:
                cluster.kill(victim)
        assert numbers == {partition: [*range(30)] for partition in range(3)}
    finally:
        cluster.restart(victim)


@pytest.mark.rule("outcomes are never guessed")
def test_committed_through_the_death_of_the_coordinator(cluster: KafkaCluster, session: Session, topic: str) -> None:
    client = TransactionClient(session, f"tx-{topic}", 60_000)
    client.init()
    client.begin()
    with Producer(session, client.identity, transactional_id=client.transactional_id) as producer:
        submit(producer, topic, 0)
        producer.flush()
    victim = session.coordinator(TRANSACTION, client.transactional_id, session.deadline())
    assert isinstance(victim, int)
    cluster.kill(victim)
    try:
        client.commit()
        deadline = session.deadline()
        while any(
            each is None or each.offset < 2
            for each in list_offsets(
                session, [(topic, partition) for partition in range(3)], LATEST, isolation="read_committed"
            ).values()
        ):
            assert not deadline.passed
            time.sleep(0.05)
        assert read(session, topic, 2, "read_committed") == {partition: [0] for partition in range(3)}
    finally:
        cluster.restart(victim)


@pytest.mark.slow
def test_a_leader_that_was_deposed_while_it_stood_still_is_not_believed(cluster: KafkaCluster) -> None:
    """It goes on when nobody else answers, and does not know that it leads no more, nor of what was written since."""
    name = f"deposed-{uuid.uuid4().hex[:8]}"
    times = {"default.api.timeout.ms": "12000", "request.timeout.ms": "3000"}
    hasty = Session(ClientConfig.from_properties(cluster.client_settings() | times))
    create_topic(hasty, name, partitions=1, replication=3, configs={"min.insync.replicas": "2"})
    options = {f"properties_{key.replace('.', '_')}": value for key, value in times.items()}
    strict = enumerator_of(cluster, name, **options)
    tolerant = enumerator_of(cluster, name, scan_fail__on__data__loss="false", **options)
    write(cluster, name, 5)
    (before,) = hasty.topics([name])[name].partitions
    others = [node for node in cluster.nodes if node != before.leader]

    def succeeded() -> PartitionInfo | None:
        (now,) = hasty.topics([name])[name].partitions
        return now if now.leader in others else None

    def offsets(fetcher: Fetcher) -> list[int]:
        found = [scan(each.records, start_offset=each.start, end_offset=each.end) for each in fetcher]
        return [offset for each in found for offset in each.offsets.tolist()]

    try:
        cluster.pause(before.leader)
        after = eventually(succeeded)
        write(cluster, name, 5)
        reached = strict.latest(strict.spec.start)
        assert reached.at == {(name, 0): Position(10, after.leader_epoch)}
        for node in others:
            cluster.pause(node)
        cluster.resume(before.leader)

        # One who has seen a later leader keeps to it,
        hasty.forget_topics([name])
        (kept,) = hasty.topics([name])[name].partitions
        assert (kept.leader, kept.leader_epoch) == (after.leader, after.leader_epoch)
        # and others know from their positions that there is one: what the deposed leader lacks was not lost.
        close_sessions()
        planned = Range(name, 0, 5, 10, hasty.topic(name).topic_id, after.leader_epoch)
        session = Session(hasty.config)
        tries = [
            lambda: strict.latest(reached),
            lambda: Enumerator(tolerant.spec).latest(reached),
            lambda: offsets(Fetcher(session, [planned], skip_lost=True)),
        ]
        strict, tolerant = Enumerator(strict.spec), Enumerator(tolerant.spec)
        untold = rf"'{name}', partition 0: .* leader epoch {after.leader_epoch}"
        with ThreadPoolExecutor(3) as threads:
            for each in [threads.submit(eventually_told, RetriableError, untold, each) for each in tries]:
                each.result()

        for node in others:
            cluster.resume(node)
        assert strict.latest(reached).at[name, 0].offset == 10
        assert tolerant.latest(reached).at[name, 0].offset == 10
        fetcher = Fetcher(session, [planned], skip_lost=True)
        assert (offsets(fetcher), fetcher.lost) == ([*range(5, 10)], 0)
    finally:
        for node in cluster.nodes:
            cluster.resume(node)


@pytest.mark.rule("truncated logs are noticed")
@pytest.mark.slow
def test_a_log_that_an_unclean_election_has_cut_is_never_read_on_in_silence(
    cluster: KafkaCluster, session: Session
) -> None:
    """A replica that was down while records were written leads when the only one that has them is down."""
    name = f"cut-{uuid.uuid4().hex[:8]}"
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    create_topic(session, name, partitions=1, replication=2, configs=settings)
    (first,) = session.topic(name).partitions
    behind = next(node for node in first.replicas if node != first.leader)

    def led_by(node: int) -> bool:
        session.forget_topics([name])
        (now,) = session.topic(name).partitions
        return now.leader == node

    strict = enumerator_of(cluster, name)
    tolerant = enumerator_of(cluster, name, scan_fail__on__data__loss="false")
    write(cluster, name, 5)
    kept = strict.latest(strict.spec.start)
    cluster.kill(behind)
    try:
        write(cluster, name, 5)  # acknowledged by the leader, who is all that is in sync
        lost = strict.latest(kept)
        assert [at.offset for at in lost.at.values()] == [10]
        cluster.kill(first.leader)
        cluster.restart(behind)
        deadline = session.deadline()
        while not led_by(behind):
            assert not deadline.passed
            time.sleep(0.05)

        # The log ends before what was read of it, and a batch that was planned before does not end.
        with pytest.raises(PossibleDataLossError, match=rf"'{name}', partition 0 was read up to offset 10, .* at 5"):
            strict.latest(lost)
        wanted = [Range(name, 0, 5, 10)]
        with pytest.raises(PossibleDataLossError, match="log ends at offset 5, but records up to offset 10 were"):
            list(Fetcher(session, wanted))
        # It has grown again since, with other records: only the leader's epoch tells.
        write(cluster, name, 9)
        cut = rf"'{name}', partition 0: records were read up to offset 10 in leader epoch \d+, but .* ends at 5"
        with pytest.raises(PossibleDataLossError, match=cut):
            strict.latest(lost)
        goes_on = tolerant.latest(lost)
        assert list(describe_losses(lost, goes_on)) == [
            f"topic '{name}', partition 0 was read up to offset 10, but its log was truncated at 5; reading "
            "continues there"
        ]
        assert [len(each) for each in tolerant.ranges(goes_on, tolerant.latest(goes_on))] == [9]
        # A scan that ends does not ask for ends, but a process that goes on with it looks once.
        stop = Positions({(name, 0): Position(14)}, lost.topic_ids)
        stop = with_epochs(stop, list_present_ends(session, stop))
        halfway = replace(lost, at={(name, 0): Position(10, lost.at[name, 0].epoch)})
        with pytest.raises(PossibleDataLossError, match=cut):
            Enumerator(replace(strict.spec, stop=stop)).latest(halfway)
        bounded = Enumerator(replace(tolerant.spec, stop=stop))
        again = bounded.latest(halfway)
        assert again == goes_on
        assert [len(each) for each in bounded.ranges(again, bounded.latest(again))] == [9]
        # What was read before the cut is still there, and is read on from.
        assert [len(each) for each in strict.ranges(kept, strict.latest(kept))] == [9]
    finally:
        cluster.restart(*(node for node in cluster.nodes if node not in cluster.processes))
