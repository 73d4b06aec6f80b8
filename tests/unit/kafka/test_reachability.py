"""What a client says of brokers that it does not reach: at once in words, and while it goes on trying."""

from __future__ import annotations

import logging
import re
import socket
import threading
from contextlib import closing

import pytest

from penstock import notices
from penstock.deadline import Deadline
from penstock.errors import RetriableError
from penstock.kafka.faults import CLIENT_CODE, Action, Fault, KafkaFault
from penstock.kafka.properties import ClientConfig
from penstock.kafka.reachability import explain_unreachable
from penstock.kafka.session import Session
from tests.sockets import nobody


def session_of(servers, **more):
    extra = {name.replace("_", "."): value for name, value in more.items()}
    return Session(ClientConfig.from_properties({"bootstrap.servers": servers, **extra}))


def fault_of_client(text: str, hint: str = "") -> KafkaFault:
    name, _, detail = text.partition(" at ")
    return KafkaFault(Fault(CLIENT_CODE, name, Action.RETRY, hint), detail)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            "KafkaConnectionError 111 ECONNREFUSED at bootstrap server a:1",
            "nothing listens there; check bootstrap.serv",
        ),
        ("KafkaConnectionError DNS Resolution failure at bootstrap", "the name cannot be resolved; check the host's"),
        (
            "connection closed during TLS  at bootstrap server a:1",
            "the connection is closed during TLS; check security.",
        ),
        ("KafkaConnectionError closed by the broker at", "the connection is closed at once; check security.protocol"),
        ("ConnectionResetError 104 at bootstrap server a:1", "the connection is closed at once; check security"),
        ("KafkaConnectionError 113 EHOSTUNREACH at", "the network does not lead there; check the address"),
        ("no answer none within 6 s at bootstrap server a:1", "no answer; check the address, that no firewall"),
        ("SomethingElse", "SomethingElse; check that the broker is up"),
    ],
)
def test_a_fault_in_words(fault, words):
    assert explain_unreachable({"a:1": fault_of_client(fault)}).startswith(words)


def test_no_answer_yet():
    assert explain_unreachable({"a:1": None}).startswith("no answer; ")


def test_a_fault_with_its_own_hint_is_not_about_the_broker():
    fault = fault_of_client("token endpoint not reached at http://b/token: Connection refused", "check its URL")
    assert (
        explain_unreachable({"a:1": fault})
        == "token endpoint not reached (http://b/token: Connection refused); check its URL"
    )


def test_several_addresses_are_named_where_they_differ():
    refused = fault_of_client("ECONNREFUSED")
    same = {"a:1": refused, "b:1": refused}
    assert explain_unreachable(same) == "nothing listens there; check bootstrap.servers, and that the broker is up"
    found = explain_unreachable({"a:1": refused, "b:1": fault_of_client("DNS Resolution failure")})
    assert found.startswith("a:1: nothing listens there, b:1: the name cannot be resolved; check bootstrap.servers")


def test_an_address_where_nobody_listens_is_said_once_without_jargon():
    with nobody() as address, closing(session_of(address)) as session, pytest.raises(RetriableError) as raised:
        session.brokers(Deadline.after(2000))
    said = str(raised.value)
    expected = f"Kafka at {address} was not reached in [0-9.]+ s: nothing listens there; check bootstrap.servers, and "
    assert re.fullmatch(expected + "that the broker is up", said)


def test_a_broker_that_closes_connections_points_at_the_protocol():
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: [server.accept()[0].close() for _ in range(2)], daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with closing(session_of(address)) as session, pytest.raises(RetriableError, match=r"check security\.protocol"):
            session.brokers(Deadline.after(200))


@pytest.mark.parametrize("answers", [False, True])
def test_a_client_tells_that_it_goes_on_trying(answers, caplog, monkeypatch):
    """Nobody listens; or somebody does, and says nothing."""
    monkeypatch.setattr(notices, "PATIENCE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent, nobody() as refused:
        address = f"127.0.0.1:{silent.getsockname()[1]}" if answers else refused
        log = caplog.at_level(logging.WARNING, notices.LOG)
        with log, closing(session_of(address)) as session, pytest.raises(RetriableError):
            session.brokers(Deadline.after(1000))
    (said,) = (record.getMessage() for record in caplog.records if record.name == notices.LOG)
    reason = "no answer" if answers else "nothing listens there"
    assert said.startswith(f"Kafka at {address} is not reached yet: {reason}; check ")
    assert re.search(r"Trying for another \d+ s$", said)
