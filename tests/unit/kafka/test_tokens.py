"""Tokens from an endpoint over TLS: trust, credentials, and how long its token is used."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import OptionsError
from penstock.kafka.faults import Action, KafkaFault
from penstock.kafka.login import TokenEndpoint, TokenFile, TokenLogin, UnsecuredToken
from penstock.kafka.tokens import Tokens
from penstock.tls import Tls

FOLDER = Path(__file__).parents[1] / "tls" / "pem"
TRUST = Tls(truststore_type="PEM", truststore_location=str(FOLDER / "certificate.pem"))


@dataclass
class Endpoint:
    """A token endpoint for ``localhost``, which answers ``answer`` and keeps the credentials that it received."""

    port: int = 0
    answer: dict[str, Any] = field(default_factory=lambda: {"access_token": "opaque"})
    received: list[str] = field(default_factory=list)

    def tokens(self, *, host: str = "localhost", tls: Tls = TRUST, **more: Any) -> Tokens:
        settings = {"client_id": "a:b", "client_secret": "c d", **more}
        return Tokens(TokenLogin(TokenEndpoint(f"https://{host}:{self.port}/", tls=tls, **settings)))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.received.append(base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(endpoint.answer).encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FOLDER / "certificate.pem", FOLDER / "key.pem")
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.port = server.server_port
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield endpoint
        server.shutdown()
        thread.join()


def token(expires: float) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}."


def refused(tokens: Tokens) -> str:
    """What is said about a token that is not granted, and not asked for again."""
    with pytest.raises(KafkaFault) as raised:
        tokens.token()
    assert raised.value.fault.action is Action.REFUSED
    return str(raised.value.fault.error("connecting", raised.value.detail))


def test_credentials_are_told_to_whom_is_trusted_only(endpoint: Endpoint) -> None:
    said = refused(endpoint.tokens(tls=Tls()))
    assert "is not trusted" in said
    assert "ssl.truststore.location" in said
    assert "is not trusted" in refused(endpoint.tokens(host="127.0.0.1"))
    assert endpoint.received == []
    assert endpoint.tokens().token() == "opaque"
    assert endpoint.received == ["a:b:c d"]


def test_a_truststore_that_cannot_be_read_is_an_error_before_anything_is_sent(endpoint: Endpoint) -> None:
    with pytest.raises(OptionsError, match=r"ssl\.truststore\.location.*sasl\.jaas\.config|sasl\.jaas\.config.*ssl"):
        endpoint.tokens(tls=Tls(truststore_location="/no-such-file"))


def test_credentials_are_url_encoded_where_that_is_asked_for(endpoint: Endpoint) -> None:
    endpoint.tokens(urlencode=True).token()
    assert endpoint.received == ["a%3Ab:c+d"]


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        ({"access_token": "opaque"}, 2),  # nobody knows how long it is good
        ({"access_token": "opaque", "expires_in": 600}, 1),
        ({"access_token": "opaque", "expires_in": -1}, 2),
        ({"id_token": "opaque", "expires_in": 600}, 1),
        ({"access_token": token(time.time() + 86_400), "expires_in": -1}, 1),  # what is signed counts
        ({"access_token": token(time.time() - 600), "expires_in": 600}, 2),
    ],
)
def test_a_token_is_asked_for_again_when_it_ends(endpoint: Endpoint, answer: dict[str, Any], asked: int) -> None:
    endpoint.answer = answer
    tokens = endpoint.tokens()
    assert tokens.token() == tokens.token() == next(iter(answer.values()))
    assert len(endpoint.received) == asked


def test_an_endpoint_that_does_not_answer_is_left_alone_after_the_time_that_was_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        tokens = Tokens(TokenLogin(TokenEndpoint(url, "a", "b", read_ms=50)))
        with pytest.raises(KafkaFault) as raised:
            tokens.token()
        assert raised.value.fault.action.retriable
        assert url in raised.value.detail


def test_a_file_that_holds_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    assert "holds no token" in refused(Tokens(TokenLogin(TokenFile(str(tmp_path / "token")))))
    (tmp_path / "token").write_bytes(b"\xff")
    assert "it is not ASCII text" in refused(Tokens(TokenLogin(TokenFile(str(tmp_path / "token")))))


def test_a_token_that_is_made_here_says_what_was_named_and_when_it_ends() -> None:
    made = Tokens(TokenLogin(UnsecuredToken((("sub", "anna"), ("groups", ("a", "b"))), 60))).token()
    header, claims, signature = (
        part and json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in made.split(".")
    )
    assert (header, signature) == ({"alg": "none"}, "")
    assert (claims["sub"], claims["groups"]) == ("anna", ["a", "b"])
    assert claims["exp"] - claims["iat"] == 60
