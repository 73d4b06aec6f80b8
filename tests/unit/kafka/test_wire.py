"""What a connection makes of the bytes that arrive: answers, as many as are whole, and then the end."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kafka.errors
import pytest
from kafka.net.selector import NetworkSelector

from penstock.kafka.wire import _Tcp
from tests.waiting import eventually


class Protocol:
    """Keeps what the connection is given, as kafka-python's protocol of a connection does."""

    _sensors = None

    def __init__(self) -> None:
        self.parser: Any = SimpleNamespace()
        self.answers: list[bytes] = []
        self.ends: list[Exception | None] = []
        self.then: Any = lambda: None

    def data_received(self, answer: Any) -> None:
        self.answers.append(bytes(answer.read()))
        self.then()

    def connection_lost(self, error: Exception | None) -> None:
        self.ends.append(error)


class Connection:
    """A connection to a peer that is a socket of the test."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.net = NetworkSelector()
        self.net.start()
        self.protocol = Protocol()
        self.transport = _Tcp(self.net, ours, host="test")
        self.transport.set_protocol(self.protocol)
        self.net.call_soon_threadsafe(self.transport.resume_reading)

    def send(self, data: bytes) -> None:
        self.peer.sendall(data)

    def ended(self) -> Exception:
        eventually(lambda: bool(self.protocol.ends))
        (error,) = self.protocol.ends
        assert error is not None
        return error


@pytest.fixture
def connection() -> Iterator[Connection]:
    connection = Connection()
    yield connection
    connection.peer.close()
    connection.net.close()


def framed(answer: bytes) -> bytes:
    return struct.pack(">i", len(answer)) + answer


def test_answers_arrive_whole_however_they_are_cut(connection: Connection) -> None:
    answers = [b"first", b"x" * 3_000_000, b"last"]
    data = b"".join(map(framed, answers))
    for start in (0, 3, 8, 11, 500_000, len(data)):
        connection.send(data[:start])
        data = data[start:]
    connection.send(data)
    eventually(lambda: len(connection.protocol.answers) == 3)
    assert connection.protocol.answers == answers
    assert not connection.protocol.ends


@pytest.mark.parametrize("rest", [b"", b"\0\0", framed(b"begun")[:-1]])
def test_an_answer_before_the_end_counts(connection: Connection, rest: bytes) -> None:
    connection.send(framed(b"refused") + rest)
    connection.peer.close()
    assert "closed by the broker" in str(connection.ended())
    assert connection.protocol.answers == [b"refused"]


@pytest.mark.parametrize("size", [-1, 0, 3])
def test_a_size_that_no_answer_has_ends_the_connection(connection: Connection, size: int) -> None:
    connection.send(struct.pack(">i", size))
    assert isinstance(connection.ended(), kafka.errors.InvalidReceiveError)


@pytest.mark.parametrize("raised", [IndexError("index out of range"), struct.error("short"), MemoryError()])
def test_an_answer_that_cannot_be_decoded_ends_the_connection(connection: Connection, raised: Exception) -> None:
    """Otherwise nobody reads any more, and requests wait for their time-out."""

    def fail() -> None:
        raise raised

    connection.protocol.then = fail
    connection.send(framed(b"no answer"))
    error = connection.ended()
    assert isinstance(error, kafka.errors.KafkaProtocolError)
    assert error.__cause__ is raised


def test_nothing_is_passed_on_after_the_connection_was_closed(connection: Connection) -> None:
    connection.protocol.then = connection.transport.abort
    connection.send(framed(b"first") + framed(b"second"))
    eventually(connection.transport.is_closing)
    assert connection.protocol.answers == [b"first"]
