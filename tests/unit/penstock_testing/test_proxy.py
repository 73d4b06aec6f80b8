from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from kafka.protocol.producer import AddPartitionsToTxnResponse, ProduceResponse

from penstock.errors import ServiceError
from penstock_testing import Api, Frame, KafkaProxy, Then, Trap, pid_of
from tests.waiting import eventually

SECONDS = 60.0


class Broker:
    """Answers each frame with its correlation id and its own bytes, and notes what it has got."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        self.got: list[bytes] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # the proxy cuts it where it likes
            while (frame := receive(connection)) is not None:
                self.got.append(frame)
                connection.sendall(framed(frame[4:8] + frame))


class Client:
    def __init__(self, proxy: KafkaProxy) -> None:
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), SECONDS)
        self.number = 0

    def send(self, api: int, text: str = "") -> None:
        self.number += 1
        self.socket.sendall(framed(struct.pack(">hhi", api, 7, self.number) + text.encode()))

    def receive(self) -> str | None:
        """The text that comes back, None where the connection ends."""
        frame = receive(self.socket)
        return None if frame is None else frame[12:].decode()

    def silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes in so many seconds."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except TimeoutError:
            return True
        finally:
            self.socket.settimeout(SECONDS)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def receive(connection: socket.socket) -> bytes | None:
    head = exactly(connection, 4)
    return None if head is None else exactly(connection, struct.unpack(">i", head)[0])


def exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.listener.close()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[KafkaProxy]:
    with KafkaProxy(broker.address) as made:
        yield made


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[Client]:
    made = Client(proxy)
    with made.socket:
        yield made


def test_frames_pass_both_ways_whole(client: Client, broker: Broker) -> None:
    large = "x" * 3_000_000
    for text in ("one", "", large):
        client.send(Api.FETCH, text)
    assert [client.receive() for _ in range(3)] == ["one", "", large]
    assert [len(each) for each in broker.got] == [11, 8, 8 + len(large)]


def test_the_nth_request_that_fits_is_dropped_and_the_others_pass(proxy: KafkaProxy, client: Client) -> None:
    trap = proxy.add(Trap(Api.END_TXN, contains=["tx-1"], nth=2, then=Then.DROP))
    for api, text in ((26, "tx-1 a"), (0, "tx-1 b"), (26, "tx-2 c"), (26, "tx-1 d"), (26, "tx-1 e")):
        client.send(api, text)
    assert [client.receive() for _ in range(4)] == ["tx-1 a", "tx-1 b", "tx-2 c", "tx-1 e"]
    frame = trap.wait(SECONDS)
    assert (frame.api, frame.version, frame.correlation, frame.response) == (26, 7, 4, False)
    assert frame.body.endswith(b"tx-1 d")


def test_a_response_is_known_by_the_request_that_it_answers(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    trap = proxy.add(Trap(Api.PRODUCE, response=True, contains=["lost"], then=Then.DROP))
    client.send(Api.PRODUCE, "lost")
    client.send(Api.FETCH, "lost")
    client.send(Api.PRODUCE, "kept")
    assert [client.receive(), client.receive()] == ["lost", "kept"]
    assert len(broker.got) == 3
    assert trap.wait(SECONDS).correlation == 1


def test_a_held_frame_goes_on_when_it_is_released(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    trap = proxy.add(Trap(Api.PRODUCE, then=Then.HOLD))
    client.send(Api.PRODUCE, "held")
    client.send(Api.FETCH, "behind it")
    trap.wait(SECONDS)
    assert client.silent()
    assert broker.got == []
    trap.release()
    assert [client.receive(), client.receive()] == ["held", "behind it"]


def test_a_trap_counts_only_after_another_was_sprung(proxy: KafkaProxy, client: Client) -> None:
    first = proxy.add(Trap(Api.END_TXN))
    second = proxy.add(Trap(Api.PRODUCE, after=first, then=Then.DROP))
    for api, text in ((0, "a"), (26, "b"), (0, "c"), (0, "d")):
        client.send(api, text)
    assert [client.receive() for _ in range(3)] == ["a", "b", "d"]
    assert second.wait(SECONDS).correlation == 3


def test_a_connection_is_cut_at_a_frame(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    called: list[Frame] = []
    proxy.add(Trap(Api.PRODUCE, call=called.append, then=Then.CLOSE))
    client.send(Api.PRODUCE, "cut")
    assert client.receive() is None
    assert [len(called), broker.got] == [1, []]
    again = Client(proxy)
    again.send(Api.PRODUCE, "another")
    assert again.receive() == "another"
    again.socket.close()


def test_a_half_open_link_keeps_everything_until_it_heals(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    client.send(Api.FETCH, "before")
    assert client.receive() == "before"
    proxy.half_open()
    client.send(Api.FETCH, "kept")
    assert client.silent()
    assert len(broker.got) == 1
    proxy.heal()
    assert client.receive() == "kept"


def test_refused_connections_end_at_once_and_are_taken_again_after_it(proxy: KafkaProxy, client: Client) -> None:
    client.send(Api.FETCH, "before")
    assert client.receive() == "before"
    proxy.refuse()
    assert client.receive() is None
    refused = Client(proxy)
    assert refused.receive() is None
    refused.socket.close()
    proxy.heal()
    taken = Client(proxy)
    taken.send(Api.FETCH, "after")
    assert taken.receive() == "after"
    taken.socket.close()


def test_a_held_request_arrives_late_and_its_answer_is_noted_though_the_client_has_gone(
    proxy: KafkaProxy, client: Client, broker: Broker
) -> None:
    trap = proxy.add(Trap(Api.PRODUCE, then=Then.HOLD))
    client.send(Api.PRODUCE, "late")
    trap.wait(SECONDS)
    client.socket.close()
    (caught,) = trap.catches
    assert (caught.forwarded, caught.answer, broker.got) == (False, None, [])
    trap.release()
    trap.wait_for_answers(SECONDS)
    assert caught.forwarded
    assert caught.answer is not None
    assert caught.answer.response
    assert caught.answer.body.endswith(b"late")
    eventually(lambda: proxy.connections == 0)


def test_a_dropped_request_is_not_waited_for(proxy: KafkaProxy, client: Client) -> None:
    trap = proxy.add(Trap(Api.PRODUCE, then=Then.DROP))
    client.send(Api.PRODUCE)
    trap.wait(SECONDS)
    trap.wait_for_answers(0)
    assert [(each.forwarded, each.errors) for each in trap.catches] == [(False, ())]


def test_what_a_trap_calls_and_fails_is_told(proxy: KafkaProxy, client: Client) -> None:
    trap = proxy.add(Trap(Api.PRODUCE, call=lambda _: {}["missing"]))
    client.send(Api.PRODUCE)
    with pytest.raises(ServiceError, match=r"the call of a trap of API 0 has failed: KeyError\('missing'\)"):
        trap.wait(SECONDS)


def test_an_answer_that_does_not_come_is_told(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    unanswered = proxy.add(Trap(Api.PRODUCE, then=Then.HOLD))
    client.send(Api.PRODUCE)
    unanswered.wait(SECONDS)
    with pytest.raises(ServiceError, match=r"a caught request of API 0 is not answered after 0\.1 s"):
        unanswered.wait_for_answers(0.1)


def test_a_connection_is_reset_at_a_frame(proxy: KafkaProxy, client: Client, broker: Broker) -> None:
    proxy.add(Trap(Api.PRODUCE, then=Then.RESET))
    client.send(Api.PRODUCE)
    with pytest.raises(ConnectionResetError):
        client.receive()
    assert broker.got == []


def test_the_errors_of_an_answer_are_read() -> None:
    answer = ProduceResponse(
        version=9,
        responses=[
            ProduceResponse.TopicProduceResponse(
                name="t",
                partition_responses=[
                    ProduceResponse.TopicProduceResponse.PartitionProduceResponse(index=at, error_code=code)
                    for at, code in enumerate((47, 0, 47))
                ],
            )
        ],
    )
    answer.with_header(5)
    frame = Frame(Api.PRODUCE, 9, 5, True, ("", 0), 0, bytes(answer.encode(header=True)), b"")
    assert frame.errors == (0, 47)
    assert replace(frame, response=False).errors == ()
    assert replace(frame, api=999).errors == ()
    assert replace(frame, version=999).errors == ()


def test_the_errors_of_an_answer_to_add_partitions_are_read_too() -> None:
    """Kafka gives their field another name there."""
    Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
    Partition = Topic.AddPartitionsToTxnPartitionResult
    results = [Partition(partition_index=at, partition_error_code=code) for at, code in enumerate((51, 0))]
    answer = AddPartitionsToTxnResponse(
        version=3, results_by_topic_v3_and_below=[Topic(name="t", results_by_partition=results)]
    )
    answer.with_header(5)
    frame = Frame(Api.ADD_PARTITIONS_TO_TXN, 3, 5, True, ("", 0), 0, bytes(answer.encode(header=True)), b"")
    assert frame.errors == (0, 51)


def test_what_never_comes_is_told(proxy: KafkaProxy, client: Client) -> None:
    trap = proxy.add(Trap(Api.END_TXN, nth=3))
    client.send(Api.END_TXN)
    client.receive()
    with pytest.raises(ServiceError, match=r"request 3 of API 26 has not come in 0\.1 s; 1 came before it"):
        trap.wait(0.1)


def test_the_process_at_the_other_end_is_found(proxy: KafkaProxy, client: Client) -> None:
    trap = proxy.add(Trap(Api.FETCH))
    client.send(Api.FETCH)
    assert trap.wait(SECONDS).pid == os.getpid()
    assert pid_of(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


def test_stopping_ends_what_is_held(broker: Broker) -> None:
    with KafkaProxy(broker.address) as proxy:
        client = Client(proxy)
        trap = proxy.add(Trap(Api.FETCH, then=Then.HOLD))
        client.send(Api.FETCH)
        trap.wait(SECONDS)
        threads = [each for each in threading.enumerate() if each.name == f"proxy-{proxy.port}"]
        assert len(threads) == 3
    assert not any(each.is_alive() for each in threads)
    client.socket.close()
