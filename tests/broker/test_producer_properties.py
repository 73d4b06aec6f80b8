"""Every producer property that acts, acts: each test fails where the property does nothing.

Tests of some properties are elsewhere: ``enable.idempotence``, ``buffer.memory``, ``request.timeout.ms`` and
``delivery.timeout.ms`` in test_produce.py, logins in test_session.py, TLS in tests/unit/kafka/test_tls.py, what
concerns encoding in tests/unit/connectors/test_encoding.py, and ``transaction.timeout.ms`` with rule "timeouts fit the
brokers".
"""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.deadline import Backoff, Deadline
from penstock.errors import AbortableError, RetriableError
from penstock.kafka import produce, wire
from penstock.kafka.faults import KafkaFault, fault_from_code
from penstock.kafka.produce import Producer
from penstock.kafka.properties import ACTS, REFUSED, WITHOUT_MEANING, ClientConfig
from penstock.kafka.record_batches import encode
from penstock.kafka.session import Session
from penstock.kafka.topics import create_topic
from penstock.kafka.transactions import TransactionClient, describe_transaction
from penstock_testing import Api, ProxiedCluster, Then, Trap
from penstock_testing.services import DEFAULT_VERSION, fetch_jars, find_java
from tests.sockets import nobody
from tests.waiting import eventually

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

    from penstock_testing.services import KafkaCluster
    from tests.conftest import TopicFactory

#: Makes a session with some properties, by their names with ``_`` for ``.``.
Sessions = Callable[..., Session]


@pytest.fixture
def session_with(kafka: KafkaCluster) -> Iterator[Sessions]:
    made = []

    def make(servers: str = "", **more: str) -> Session:
        properties = {name.replace("_", "."): value for name, value in more.items()}
        given = {"bootstrap.servers": servers} if servers else kafka.client_settings()
        made.append(Session(ClientConfig.from_properties({**given, **properties})))
        return made[-1]

    yield make
    for session in made:
        session.close()


def submit(producer: Producer, topic: str, partition: int = 0, size: int = 10) -> None:
    (batch,) = encode(
        keys=None,
        values=pa.array([b"x" * size], pa.binary()),
        timestamps=np.full(1, time.time_ns() // 1_000_000),
        partitions=np.zeros(1, np.int32),
    )
    producer.submit(topic, partition, batch.data, batch.count)


def deliver(producer: Producer, topic: str) -> None:
    submit(producer, topic)  # which may notice the failure already
    producer.flush()


def counting(session: Session) -> list[str]:
    """The kinds of the requests that the session sends from now on."""
    sent: list[str] = []
    send = session.send

    def counted(request: Any, node: Any) -> Future[Any]:
        sent.append(type(request).__name__)
        return send(request, node)

    session.send = counted  # type: ignore[method-assign]
    return sent


def test_every_property_of_kafkas_own_clients_is_known() -> None:
    """The Java classes print their documentation when they are run."""
    java = find_java()
    classes = fetch_jars(java, DEFAULT_VERSION, lambda line: None).classpath()
    for config in ("producer.ProducerConfig", "consumer.ConsumerConfig", "admin.AdminClientConfig"):
        command = [
            str(java.executable),
            "-XX:TieredStopAtLevel=1",
            "-cp",
            classes,
            f"org.apache.kafka.clients.{config}",
        ]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r'<a id="[a-z]+_([a-z0-9.]+)"', printed))
        assert len(names) > 80
        assert names - ACTS.keys() - REFUSED.keys() - WITHOUT_MEANING.keys() == set()


# --- acknowledgements and repetitions ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxied() -> Iterator[ProxiedCluster]:
    with ProxiedCluster() as cluster:
        yield cluster


@pytest.fixture
def produced(proxied: ProxiedCluster) -> Iterator[Callable[[Then], Trap]]:
    """Sets a trap that catches every produce request."""
    yield lambda then: proxied.add(Trap(Api.PRODUCE, times=None, then=then))
    proxied.heal()


class TestAcks:
    @pytest.mark.parametrize(("acks", "number"), [("all", -1), ("-1", -1), ("1", 1), ("0", 0)])
    def test_it_is_what_the_broker_is_asked_for(
        self,
        proxied: ProxiedCluster,
        session_with: Sessions,
        produced: Callable[[Then], Trap],
        acks: str,
        number: int,
    ) -> None:
        trap, session, name = produced(Then.FORWARD), session_with(proxied.bootstrap, acks=acks), f"acks-{number}"
        create_topic(session, name)
        with Producer(session) as producer:
            submit(producer, name)
            producer.flush()
        eventually(lambda: trap.sprung)
        for frame in trap.frames:  # more than one where the new topic had no leader yet
            (name,) = struct.unpack_from(
                ">h", frame.body, 8
            )  # after api key, version, correlation id: the client's name
            assert struct.unpack_from(">bbh", frame.body, 10 + name) == (0, 0, number)  # no tags, no transactional id

    def test_1_waits_for_the_answer_and_0_does_not(
        self, kafka: KafkaCluster, session_with: Sessions, topic: TopicFactory
    ) -> None:
        name = topic()
        with Producer(session_with(acks="1")) as one, Producer(session_with(acks="0")) as none:
            for producer in (one, none):
                submit(producer, name)
                producer.flush()
            kafka.pause(1)
            try:
                submit(none, name)
                none.flush()
                submit(one, name)
                with pytest.raises(RetriableError, match=r"not acknowledged within 0\.3 s"):
                    one.flush(Deadline.after(300))
            finally:
                kafka.resume(1)


#: With waits that begin with 10 ms: the longest wait, and what the first six come to.
GROWING = [("60000", [10, 20, 40, 80, 160, 320]), ("30", [10, 20, 30, 30, 30, 30])]


def noted_waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Backoff, float]]:
    """Every wait that is decided on from now on, in seconds, with what decides."""
    noted, decide = list[tuple[Backoff, float]](), Backoff.next

    def noting(self: Backoff) -> float:
        noted.append((self, decide(self)))
        return noted[-1][1]

    monkeypatch.setattr(Backoff, "next", noting)
    return noted


def assert_waited(waits: Sequence[float], attempts: Sequence[float], expected: Sequence[float]) -> None:
    """``waits`` are as long as expected, each a fifth longer or shorter, and were waited between ``attempts``."""
    assert len(waits) == len(expected)
    assert all(0.8 * ms <= 1000 * wait <= 1.2 * ms for wait, ms in zip(waits, expected, strict=True))
    for wait, (one, next_one) in zip(waits, pairwise(attempts), strict=True):
        assert next_one - one >= wait


class TestRetries:
    """Every produce request is cut off, so that it has to be sent again."""

    @pytest.mark.parametrize("retries", [0, 2])
    def test_a_batch_is_sent_again_so_often(
        self, proxied: ProxiedCluster, session_with: Sessions, produced: Callable[[Then], Trap], retries: int
    ) -> None:
        trap = produced(Then.CLOSE)
        session = session_with(proxied.bootstrap, retries=str(retries), retry_backoff_ms="1", retry_backoff_max_ms="1")
        create_topic(session, "retries")
        message = f"'retries', partition 0: .* after {retries} retries, at last "
        with Producer(session) as producer, pytest.raises(RetriableError, match=message):
            deliver(producer, "retries")
        assert len(trap.frames) == 1 + retries

    def test_in_a_transaction_the_batch_is_to_be_redone(
        self, proxied: ProxiedCluster, session_with: Sessions, produced: Callable[[Then], Trap]
    ) -> None:
        session = session_with(proxied.bootstrap, retries="1", retry_backoff_ms="1")
        create_topic(session, "retries")
        client = TransactionClient(session, "tx-retries", 60_000)
        client.init()
        trap = produced(Then.CLOSE)
        lease = client.begin()
        with (
            Producer(session, lease, transactional_id=client.transactional_id) as producer,
            pytest.raises(AbortableError, match="after 1 retries"),
        ):
            deliver(producer, "retries")
        assert len(trap.frames) == 2
        client.abort()

    @pytest.mark.parametrize(("longest", "expected"), GROWING)
    def test_waits_begin_with_one_and_grow_up_to_the_other(
        self,
        proxied: ProxiedCluster,
        session_with: Sessions,
        monkeypatch: pytest.MonkeyPatch,
        longest: str,
        expected: list[int],
    ) -> None:
        retries = str(len(expected))
        session = session_with(proxied.bootstrap, retries=retries, retry_backoff_ms="10", retry_backoff_max_ms=longest)
        create_topic(session, "retries")
        waits, sent = noted_waits(monkeypatch), list[float]()
        proxied.add(Trap(Api.PRODUCE, times=None, call=lambda _: sent.append(time.monotonic()), then=Then.CLOSE))
        try:
            with Producer(session) as producer, pytest.raises(RetriableError, match=f"after {retries} retries"):
                deliver(producer, "retries")
        finally:
            proxied.heal()
        mine = producer._lanes["retries", 0].backoff
        assert_waited([wait for each, wait in waits if each is mine], sent, expected)

    @pytest.mark.parametrize(("longest", "expected"), GROWING)
    def test_they_count_for_every_operation(
        self, session_with: Sessions, monkeypatch: pytest.MonkeyPatch, longest: str, expected: list[int]
    ) -> None:
        session, made = session_with(retry_backoff_ms="10", retry_backoff_max_ms=longest), list[float]()
        waits = noted_waits(monkeypatch)

        def step() -> None:
            made.append(time.monotonic())
            if len(made) <= len(expected):
                raise KafkaFault(fault_from_code(15))

        session.retrying("a try", Deadline.after(60_000), step)
        assert_waited([wait for _, wait in waits], made, expected)


# --- how much at a time ------------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches do not wait for more."""
    monkeypatch.setattr(produce, "_WAITING_BYTES", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("most", "expected"), [("1", 1), ("3", 3), ("20", 4)])
def test_max_in_flight_requests_per_connection(
    kafka: KafkaCluster, session_with: Sessions, topic: TopicFactory, most: str, expected: int
) -> None:
    """Four partitions of one broker, which does not answer."""
    name = topic(4)
    session = session_with(max_in_flight_requests_per_connection=most, enable_idempotence="false")
    with Producer(session) as producer:
        for partition in range(4):
            submit(producer, name, partition)
        producer.flush()
        sent = counting(session)
        kafka.pause(1)
        try:
            for partition in range(4):
                submit(producer, name, partition)
            assert sent.count("ProduceRequest") == expected
        finally:
            kafka.resume(1)
        producer.flush()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("largest", "expected"), [("1048576", 2), ("3500", 1 + 4), ("100", 1 + 12)])
def test_max_request_size_bounds_what_is_sent_together(
    kafka: KafkaCluster, session_with: Sessions, topic: TopicFactory, largest: str, expected: int
) -> None:
    """Twelve batches of some 1,070 bytes wait for the answer to one request; a larger one goes alone."""
    name = topic(13)
    session = session_with(max_in_flight_requests_per_connection="1", max_request_size=largest)
    with Producer(session) as producer:
        for partition in range(13):
            submit(producer, name, partition)
        producer.flush()
        sent = counting(session)
        kafka.pause(1)
        try:
            for partition in range(13):
                submit(producer, name, partition, size=1000)
        finally:
            kafka.resume(1)
        producer.flush()
    assert sent.count("ProduceRequest") == expected


# --- connections -------------------------------------------------------------------------------------------------


def test_bootstrap_servers_are_asked_until_one_answers(kafka: KafkaCluster, session_with: Sessions) -> None:
    with nobody() as dead:
        assert session_with(f"{dead},{kafka.bootstrap}").brokers() == [1]
        session = session_with(dead, default_api_timeout_ms="300")
        with pytest.raises(RetriableError, match=r"was not reached in [\d.]+ s"):
            session.brokers()


def test_metadata_max_age_ms(session_with: Sessions, topic: TopicFactory, kafka_admin: KafkaAdminClient) -> None:
    name = topic(1)
    young, old = session_with(metadata_max_age_ms="0"), session_with()
    assert [len(each.topic(name).partitions) for each in (young, old)] == [1, 1]
    kafka_admin.create_partitions({name: 3})
    eventually(lambda: len(young.topic(name).partitions) == 3)
    assert len(old.topic(name).partitions) == 1


def test_connections_max_idle_ms(session_with: Sessions) -> None:
    long, brief = session_with(), session_with(connections_max_idle_ms="300")
    for session in (long, brief):
        assert session.topics(["no-topic"]) == {}
    (kept,) = long._wire._manager._conns.values()
    eventually(lambda: not brief._wire._manager._conns)
    assert not kept.closed
    assert brief.topics(["no-topic"]) == {}


def test_transaction_timeout_ms(session_with: Sessions, topic: TopicFactory) -> None:
    session, name = session_with(transaction_timeout_ms="12345"), topic()
    client = TransactionClient(session, f"tx-{name}")
    client.init()
    seen = describe_transaction(session, client.transactional_id)
    assert seen is not None
    assert seen.timeout_ms == 12_345


@contextmanager
def listener(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """Something that is no broker: takes connections, does ``answer`` and closes them."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(ConnectionError):
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            server.close()
            thread.join()


def test_client_id(session_with: Sessions) -> None:
    heard = []

    def hear(connection: socket.socket) -> None:
        head = connection.recv(200)
        if head:  # else it was too late for the client
            (length,) = struct.unpack_from(">h", head, 12)  # after size, api key, its version and the correlation id
            heard.append(head[14 : 14 + length].decode())

    with listener(hear) as address:
        session = session_with(address, client_id="the-accounts-department")

        def ask() -> bool:
            with pytest.raises(RetriableError):
                session.brokers(Deadline.after(300))
            return bool(heard)

        eventually(ask)
    assert set(heard) == {"the-accounts-department"}


@dataclass
class Attempts:
    """When a client began to connect, what it waited before it began again, and how long it waits for a connection the
    next time, all in seconds."""

    begun: list[float] = field(default_factory=list)
    backoffs: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)


class TestConnecting:
    """What a client waits that may try as often as it likes."""

    def attempts(
        self, session_with: Sessions, monkeypatch: pytest.MonkeyPatch, address: str, count: int, **more: str
    ) -> Attempts:
        """The first ``count`` attempts to connect to ``address``, and what followed each but the last."""
        found = Attempts()
        build, failed = wire._Manager._build_transport, wire._Manager.update_backoff

        async def begin(self: Any, node: Any, timeout_at: float) -> Any:
            found.begun.append(timeout_at - self.socket_connection_setup_timeout_ms(node.node_id) / 1000)
            return await build(self, node, timeout_at)

        def decide(self: Any, node_id: Any) -> float:
            found.backoffs.append(failed(self, node_id) / 1000)
            found.limits.append(self.socket_connection_setup_timeout_ms(node_id) / 1000)
            return found.backoffs[-1] * 1000

        monkeypatch.setattr(wire._Manager, "_build_transport", begin)
        monkeypatch.setattr(wire._Manager, "update_backoff", decide)
        session = session_with(address, retry_backoff_ms="1", retry_backoff_max_ms="1", **more)

        def enough() -> bool:
            with pytest.raises(RetriableError):
                session.brokers(Deadline.after(100))
            return len(found.begun) >= count

        eventually(enough)
        return Attempts(found.begun[:count], found.backoffs[: count - 1], found.limits[: count - 1])

    @pytest.mark.parametrize(("longest", "expected"), GROWING)
    def test_where_connections_are_refused(
        self, session_with: Sessions, monkeypatch: pytest.MonkeyPatch, longest: str, expected: list[int]
    ) -> None:
        waits = {"reconnect_backoff_ms": "10", "reconnect_backoff_max_ms": longest}
        with nobody() as address:
            found = self.attempts(session_with, monkeypatch, address, len(expected) + 1, **waits)
        assert_waited(found.backoffs, found.begun, expected)

    @pytest.mark.parametrize(("longest", "expected"), GROWING)
    def test_where_nobody_answers(
        self, session_with: Sessions, monkeypatch: pytest.MonkeyPatch, longest: str, expected: list[int]
    ) -> None:
        """A queue of connections that is full, so that the system drops what comes."""
        with ExitStack() as stack:
            server = stack.enter_context(socket.socket())
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(server.getsockname())
            address = f"127.0.0.1:{server.getsockname()[1]}"

            limits = {
                "socket_connection_setup_timeout_ms": "10",
                "socket_connection_setup_timeout_max_ms": longest,
                "reconnect_backoff_ms": "1",
                "reconnect_backoff_max_ms": "1",
            }
            found = self.attempts(session_with, monkeypatch, address, len(expected) + 2, **limits)
        assert_waited([0.01, *found.limits[:-1]], found.begun, [10, *expected])


def test_client_dns_lookup(session_with: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver that knows the canonical name of every host."""
    resolve = socket.getaddrinfo

    def resolve_canonically(host: str, port: Any, *rest: Any) -> list[Any]:
        name = "canonical.example" if rest and rest[-1] & socket.AI_CANONNAME else ""
        return [(*each[:3], name, each[4]) for each in resolve(host, port, *rest)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve_canonically)

    def hosts(**more: str) -> set[str]:
        session = session_with("127.0.0.1:9092", **more)
        return {broker.host for broker in session._wire.cluster.bootstrap_brokers()}

    assert hosts() == {"127.0.0.1"}
    assert hosts(client_dns_lookup="resolve_canonical_bootstrap_servers_only") == {"canonical.example"}
