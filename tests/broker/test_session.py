"""Sessions against real brokers: finding the cluster, trying again, logins, rights, and what goes wrong."""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from kafka.protocol.consumer import ListOffsetsRequest

from penstock.deadline import Deadline
from penstock.errors import (
    AuthorizationError,
    ExecutionError,
    KafkaError,
    OptionsError,
    RetriableError,
)
from penstock.kafka.offsets import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    CommittedOffset,
    LogOffset,
    check_truncation,
    commit_offsets,
    fetch_committed_offsets,
    list_offsets,
)
from penstock.kafka.produce import Producer
from penstock.kafka.progress import ensure_progress_topic
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session, close_sessions, session_for
from penstock.kafka.topics import (
    cluster_id,
    create_topic,
    find_matching_topics,
    max_transaction_timeout_ms,
    read_finalized_features,
    read_topic_configs,
    transaction_version,
)
from penstock.kafka.transactions import TransactionClient
from penstock_testing.services import KafkaCluster, Security
from tests.sockets import nobody
from tests.waiting import eventually, eventually_told

if TYPE_CHECKING:
    from tests.conftest import TopicFactory


def session_of(properties: dict[str, str], **more: str) -> Session:
    extra = {name.replace("_", "."): value for name, value in more.items()}
    return Session(ClientConfig.from_properties({**properties, **extra}))


@pytest.fixture
def session(kafka: KafkaCluster) -> Iterator[Session]:
    session = session_of(kafka.client_settings())
    yield session
    session.close()


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    """A broker that wants TLS and a login, and knows who may do what: admin everything, guest nothing."""
    security = Security("SASL_SSL", "SCRAM-SHA-512", {"admin": 'a"d;min', "guest": "guest-secret"})
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with KafkaCluster(security=security, properties=properties) as cluster:
        yield cluster


class TestTheCluster:
    def test_topics_and_what_the_cluster_can_do(self, session: Session, topic: TopicFactory) -> None:
        name = topic(3)
        info = session.topic(name)
        assert [each.partition for each in info.partitions] == [0, 1, 2]
        assert {each.leader for each in info.partitions} == {1}
        assert info.topic_id is not None
        assert list(find_matching_topics(session, name[:-1] + ".")) == [name]
        assert len(cluster_id(session)) == 22
        assert transaction_version(session) == 2
        assert "metadata.version" in read_finalized_features(session)
        assert max_transaction_timeout_ms(session) == 900_000
        assert read_topic_configs(session, [name], ["cleanup.policy"]) == {name: {"cleanup.policy": "delete"}}

    def test_a_topic_is_created_once(self, session: Session, request: pytest.FixtureRequest) -> None:
        name = f"created-{time.time_ns()}"
        created = create_topic(session, name, partitions=2, configs={"cleanup.policy": "compact"})
        assert created == session.topic(name).topic_id
        assert create_topic(session, name, partitions=5) is None
        assert len(session.topic(name).partitions) == 2

    def test_a_topic_or_partition_that_is_not_there_is_named(self, session: Session, topic: TopicFactory) -> None:
        name = topic(2)
        with pytest.raises(KafkaError, match="'no-such-topic' does not exist"):
            session.topic("no-such-topic")
        assert session.topics(["no-such-topic"]) == {}
        with pytest.raises(KafkaError, match=f"'{name}'.* has no partition 2; it has 2"):
            list_offsets(session, [(name, 2)], LATEST)

    def test_partitions_that_are_added_are_found(self, session: Session, topic: TopicFactory, kafka_admin) -> None:  # type: ignore[no-untyped-def]
        name = topic(1)
        assert len(session.topic(name).partitions) == 1
        kafka_admin.create_partitions({name: 3})
        assert list_offsets(session, [(name, 2)], LATEST)[name, 2] == LogOffset(0, -1, 0)


class TestOffsets:
    def test_where_logs_begin_and_end(self, session: Session, topic: TopicFactory) -> None:
        name = topic(2)
        with Producer(session) as producer:
            for count in (3, 4):
                producer.submit(name, 0, *batch(count, first_timestamp=1000 * count))
            producer.flush()
        both = [(name, 0), (name, 1)]
        assert {place: at.offset for place, at in found(list_offsets(session, both, LATEST))} == {
            (name, 0): 7,
            (name, 1): 0,
        }
        assert list_offsets(session, both, EARLIEST)[name, 0] == LogOffset(0, -1, 0)
        assert list_offsets(session, both, 3001)[name, 0] == LogOffset(1, 3001, 0)
        assert list_offsets(session, both, 3003)[name, 0] == LogOffset(3, 4000, 0)
        assert list_offsets(session, both, 9999) == {(name, 0): None, (name, 1): None}
        assert list_offsets(session, both, MAX_TIMESTAMP)[name, 0] == LogOffset(6, 4003, 0)

    def test_a_group_keeps_what_was_committed(self, session: Session, topic: TopicFactory) -> None:
        name = topic(2)
        assert fetch_committed_offsets(session, name, [(name, 0), (name, 1)]) == {}
        commit_offsets(session, name, {(name, 1): CommittedOffset(5, 0, "here")})
        assert fetch_committed_offsets(session, name, [(name, 0), (name, 1)]) == {
            (name, 1): CommittedOffset(5, 0, "here")
        }

    def test_a_group_is_not_given_offsets_of_partitions_that_exist_no_more(
        self, session: Session, topic: TopicFactory
    ) -> None:
        name = topic(2)
        places = {(name, 1): CommittedOffset(5), (name, 2): CommittedOffset(6), (f"no-{name}", 0): CommittedOffset(7)}
        commit_offsets(session, name, places)
        assert fetch_committed_offsets(session, name, places) == {(name, 1): CommittedOffset(5)}

    @pytest.mark.rule("truncated logs are noticed")
    def test_a_log_that_is_shorter_than_what_was_read_is_noticed(self, session: Session, topic: TopicFactory) -> None:
        name = topic()
        with Producer(session) as producer:
            producer.submit(name, 0, *batch(3))
            producer.flush()
        check_truncation(session, {(name, 0): LogOffset(3, -1, 0)})
        with pytest.raises(ExecutionError, match=r"up to offset 5 in leader epoch 0.* ends at 3"):
            check_truncation(session, {(name, 0): LogOffset(5, -1, 0)})


class TestTrouble:
    def test_nobody_listens(self) -> None:
        with nobody() as address:
            session = session_of({"bootstrap.servers": address})
            with pytest.raises(RetriableError, match=f"Kafka at {address} was not reached"):
                session.brokers(Deadline.after(300))
            session.close()

    def test_an_advertised_address_that_cannot_be_reached_is_named(self) -> None:
        with nobody() as wrong:
            properties = {"advertised.listeners": f"PLAINTEXT://{wrong}"}
            with KafkaCluster(properties=properties) as cluster:
                session = session_of(cluster.client_settings())
                assert session.brokers() == [1]
                session.topics(["t"], create=True)
                eventually_told(
                    RetriableError,
                    f"node 1 {wrong}",
                    lambda: list_offsets(session, [("t", 0)], LATEST, deadline=Deadline.after(1000)),
                )
                session.close()

    def test_a_broker_that_stops_answering_and_comes_back(self, kafka: KafkaCluster, topic: TopicFactory) -> None:
        name = topic()
        session = session_of(kafka.client_settings(), request_timeout_ms="300")
        session.topic(name)
        kafka.pause(1)
        try:
            with pytest.raises(RetriableError, match=r"listing offsets: .*no success within 1 s"):
                list_offsets(session, [(name, 0)], LATEST, deadline=Deadline.after(1000))
        finally:
            kafka.resume(1)
        assert list_offsets(session, [(name, 0)], LATEST)[name, 0] == LogOffset(0, -1, 0)
        session.close()

    def test_a_connection_that_timed_out_is_closed_before_anything_is_sent_again(
        self, kafka: KafkaCluster, topic: TopicFactory
    ) -> None:
        session = session_of(kafka.client_settings(), request_timeout_ms="300")
        (node,) = session.brokers()
        session.topic(topic())

        def ask() -> BaseException | None:
            request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[], max_version=9)
            return session.send(request, node).exception(60)

        before = eventually(lambda: ask() is None and session._wire._manager._conns.get(node))
        kafka.pause(1)
        try:
            assert ask() is not None
        finally:
            kafka.resume(1)
        assert before.closed
        assert list_offsets(session, [], LATEST) == {}
        session.close()

    def test_a_plain_client_at_a_tls_listener(self, guarded: KafkaCluster) -> None:
        session = session_of({"bootstrap.servers": guarded.bootstrap})
        with pytest.raises(KafkaError, match=r"security\.protocol"):
            session.brokers(Deadline.after(2000))
        session.close()

    def test_a_tls_client_at_a_plain_listener(self, kafka: KafkaCluster) -> None:
        session = session_of({"bootstrap.servers": kafka.bootstrap, "security.protocol": "SSL"})
        with pytest.raises(KafkaError, match=r"security\.protocol"):
            session.brokers(Deadline.after(500))
        session.close()


class TestLogins:
    def test_tls_and_scram(self, guarded: KafkaCluster) -> None:
        session = session_of(guarded.client_settings("admin"))
        name = f"secured-{time.time_ns()}"
        create_topic(session, name)
        with Producer(session) as producer:
            producer.submit(name, 0, *batch(200, size=5000))
            producer.flush()
        assert list_offsets(session, [(name, 0)], LATEST)[name, 0] == LogOffset(200, -1, 0)
        session.close()

    def test_plain(self) -> None:
        security = Security("SASL_PLAINTEXT", "PLAIN", {"anna": "p w"})
        with KafkaCluster(security=security) as cluster:
            session = session_of(cluster.client_settings())
            assert session.brokers() == [1]
            session.close()

    def test_a_truststore_that_is_no_pem_file(self, guarded: KafkaCluster, tmp_path) -> None:  # type: ignore[no-untyped-def]
        (tmp_path / "trust.pem").write_text("not a certificate")
        for location in (tmp_path / "trust.pem", tmp_path / "missing.pem"):
            settings = {**guarded.client_settings("admin"), "ssl.truststore.location": str(location)}
            with pytest.raises(OptionsError, match=r"ssl\.truststore\.location"):
                session_of(settings)

    def test_rights_that_are_missing_are_named_and_not_tried_again(self, guarded: KafkaCluster) -> None:
        admin, guest = session_of(guarded.client_settings("admin")), session_of(guarded.client_settings("guest"))
        create_topic(admin, "private")
        with pytest.raises(AuthorizationError, match="topic 'private'"):
            guest.topic("private")
        with pytest.raises(AuthorizationError, match="group 'g'"):
            fetch_committed_offsets(guest, "g", [("private", 0)])
        with pytest.raises(AuthorizationError, match="transactional id 'tx'"):
            TransactionClient(guest, "tx", 1000).init()
        with pytest.raises(AuthorizationError, match=r"kafka-topics\.sh .*--topic progress .*cleanup\.policy=compact"):
            ensure_progress_topic(guest, "progress")
        assert read_topic_configs(guest, ["private"]) is None
        assert max_transaction_timeout_ms(guest) is None
        admin.close()
        guest.close()


class TestOneSessionPerProcess:
    def test_a_configuration_has_one_session(self, kafka: KafkaCluster) -> None:
        config = ClientConfig.from_properties(kafka.client_settings())
        other = ClientConfig.from_properties({**kafka.client_settings(), "client.id": "other"})
        assert session_for(config) is session_for(config)
        assert session_for(config) is not session_for(other)
        close_sessions()

    def test_a_forked_process_has_a_session_of_its_own(self, kafka: KafkaCluster) -> None:
        config = ClientConfig.from_properties(kafka.client_settings())
        mine = session_for(config)
        assert mine.brokers() == [1]
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(_ask, (config, id(mine))) == (True, [1])
        mine.metadata([], mine.deadline())
        close_sessions()

    def test_a_session_serves_several_threads(self, session: Session, topic: TopicFactory) -> None:
        places = [(topic(2), partition) for partition in (0, 1)]
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(lambda _: list_offsets(session, places, LATEST), range(40)))
        assert all(result == results[0] for result in results)

    def test_closing_ends_the_thread(self, kafka: KafkaCluster) -> None:
        before = set(threading.enumerate())
        session = session_of(kafka.client_settings())
        session.brokers()
        assert set(threading.enumerate()) - before
        session.close()
        eventually(lambda: set(threading.enumerate()) <= before)  # a cancelled timer takes a moment

    def test_the_librarys_log_is_kept_for_debugging(self, caplog: pytest.LogCaptureFixture) -> None:
        session = session_of({"bootstrap.servers": "127.0.0.1:1"})
        thread = session._wire._net._io_thread.ident

        def kept(name: str) -> list[logging.LogRecord]:
            """What was logged under a name while this session tried to connect."""
            return [each for each in caplog.records if each.thread == thread and each.name.startswith(name)]

        def connect() -> bool:
            with pytest.raises(RetriableError):
                session.brokers(Deadline.after(200))
            return bool(kept("penstock"))

        with caplog.at_level(logging.DEBUG):
            eventually(connect)
        session.close()
        assert {record.levelno for record in kept("penstock")} == {logging.DEBUG}
        assert kept("kafka") == []


def _ask(config: ClientConfig, parent: int) -> tuple[bool, list[int]]:
    session = session_for(config)
    return id(session) != parent, session.brokers()


def batch(count: int, size: int = 1, first_timestamp: int | None = None) -> tuple[memoryview, int]:
    import numpy as np
    import pyarrow as pa

    from penstock.kafka.record_batches import encode

    (encoded,) = encode(
        keys=None,
        values=pa.array([b"v" * size] * count, pa.binary()),
        timestamps=np.arange(count) + (time.time_ns() // 1_000_000 if first_timestamp is None else first_timestamp),
        partitions=np.zeros(count, np.int32),
        max_batch_bytes=1 << 24,
    )
    return encoded.data, encoded.count


def found(offsets: dict[tuple[str, int], LogOffset | None]) -> list[tuple[tuple[str, int], LogOffset]]:
    return [(place, offset) for place, offset in offsets.items() if offset is not None]
