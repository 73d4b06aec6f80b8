"""Logins and certificates at real brokers: what lets a client in, and what one is told that is not let in."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from penstock.deadline import Deadline
from penstock.errors import AuthenticationError, AuthorizationError, OptionsError, PenstockError, RetriableError
from penstock.kafka.offsets import fetch_committed_offsets
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session
from penstock.kafka.topics import create_topic
from penstock.machine.java import find_java
from penstock_testing.services import KafkaCluster, Security
from tests.relay import Relay
from tests.waiting import eventually

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"
GUEST, ADMIN = "guest-hush", "admin-hush"
STORE_PASS = "store-hush"


def session_of(properties: dict[str, str], **more: str) -> Session:
    extra = {name.replace("_", "."): value for name, value in more.items()}
    return Session(ClientConfig.from_properties({**properties, **extra}))


def brokers(properties: dict[str, str], **more: str) -> list[int]:
    with closing(session_of(properties, **more)) as session:
        return session.brokers()


@contextmanager
def one_error(kind: type[PenstockError], *expected: str) -> Iterator[pytest.ExceptionInfo[PenstockError]]:
    """Exactly this class of error, with these texts, one line, and no secret."""
    with pytest.raises(kind) as raised:
        yield raised
    assert type(raised.value) is kind
    said = str(raised.value)
    for text in expected:
        assert text in said
    assert "\n" not in said
    assert "hush" not in said


class Listener:
    """A cluster whose clients all come through a relay, which counts them."""

    def __init__(self, cluster: KafkaCluster, relay: Relay):
        self.cluster, self.relay = cluster, relay

    def settings(self, user: str | None = None) -> dict[str, str]:
        return {**self.cluster.client_settings(user), "bootstrap.servers": self.relay.address}

    @contextmanager
    def connections(self, count: int) -> Iterator[None]:
        """So many connections are made in the course of this."""
        before = self.relay.connections
        yield
        assert self.relay.connections - before == count


@contextmanager
def listening(security: Security, **options: Any) -> Iterator[Listener]:
    with Relay() as relay, KafkaCluster(security=security, advertised=(relay.port,), **options) as cluster:
        relay.target = int(cluster.bootstrap.rpartition(":")[2])
        yield Listener(cluster, relay)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Listener]:
    """A broker that wants TLS and a login, and knows who may do what: admin everything, guest nothing."""
    security = Security("SASL_SSL", "SCRAM-SHA-512", {"admin": ADMIN, "guest": GUEST})
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
    }
    with listening(security, properties=properties) as listener:
        with closing(session_of(listener.settings("admin"))) as admin:
            create_topic(admin, "private")
        yield listener


class TestRefusals:
    """Each is one error, and is not followed by another attempt."""

    def test_a_wrong_password(self, guarded: Listener) -> None:
        settings = guarded.settings("guest")
        settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace(GUEST, "wrong-hush")
        expected = "SASL_AUTHENTICATION_FAILED", "check user name, password"
        with guarded.connections(1), one_error(AuthenticationError, *expected):
            brokers(settings)

    def test_a_mechanism_that_the_listener_does_not_offer(self, guarded: Listener) -> None:
        jaas = 'a.PlainLoginModule required username="guest" password="guest-hush";'
        settings = {**guarded.settings("guest"), "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        with guarded.connections(1), one_error(AuthenticationError, "PLAIN; the listener offers SCRAM-SHA-512"):
            brokers(settings)

    def test_a_certificate_that_is_not_trusted(self, guarded: Listener) -> None:
        settings = guarded.settings("guest")
        del settings["ssl.truststore.location"]
        with guarded.connections(1), one_error(AuthenticationError, "certificate not trusted", "ssl.truststore.*"):
            brokers(settings)

    def test_a_host_name_that_is_not_in_the_certificate(self, guarded: Listener) -> None:
        with Relay("127.0.0.2", guarded.relay.target) as other:
            settings = {**guarded.settings("guest"), "bootstrap.servers": other.address}
            with one_error(AuthenticationError, "certificate not trusted", "127.0.0.2", "names in the broker's"):
                brokers(settings)
            assert other.connections == 1
            assert brokers({**settings, "ssl.endpoint.identification.algorithm": ""}) == [1]

    def test_a_topic_that_is_denied(self, guarded: Listener) -> None:
        # One connection finds the cluster, one is to the broker that was found.
        with closing(session_of(guarded.settings("guest"))) as session, guarded.connections(2):
            session.brokers()
            for _ in range(3):
                with one_error(AuthorizationError, "topic 'private'", "Describe on the topic"):
                    session.topic("private")

    def test_a_group_that_is_denied(self, guarded: Listener) -> None:
        with closing(session_of(guarded.settings("guest"))) as session, guarded.connections(2):
            for _ in range(3):
                with one_error(AuthorizationError, "group 'g'", "Read on the group"):
                    fetch_committed_offsets(session, "g", [("private", 0)])


@pytest.mark.parametrize("type", ["JKS", "PKCS12"])
def test_a_truststore_of_java(guarded: Listener, tmp_path: Path, type: str) -> None:
    settings = guarded.settings("guest")
    authority = settings.pop("ssl.truststore.location")
    store = tmp_path / "trust"
    arguments = ["-importcert", "-noprompt", "-alias", "ca", "-file", authority, "-storetype", type]
    keytool = [str(find_java().home / "bin" / "keytool"), *arguments, "-keystore", str(store), "-storepass", STORE_PASS]
    subprocess.run(keytool, check=True, capture_output=True)
    del settings["ssl.truststore.type"]  # JKS: Java's default
    settings["ssl.truststore.location"] = str(store)
    assert brokers(settings, ssl_truststore_password=STORE_PASS) == [1]
    with guarded.connections(0), one_error(OptionsError, "ssl.truststore.password", "does not fit"):
        brokers(settings, ssl_truststore_password="wrong-hush")


@pytest.fixture(scope="module")
def mutual() -> Iterator[Listener]:
    """A broker that wants a certificate of its own authority."""
    with listening(Security("SSL", certificates=("anna",))) as listener:
        yield listener


class TestClientCertificates:
    def test_a_client_with_its_certificate_comes_in(self, mutual: Listener) -> None:
        assert brokers(mutual.settings("anna")) == [1]

    def test_a_client_without_one_is_told_so(self, mutual: Listener) -> None:
        settings = mutual.settings("anna")
        for key in ("location", "password", "type"):
            del settings[f"ssl.keystore.{key}"]
        with mutual.connections(1), one_error(AuthenticationError, "TLS failed", "ssl.keystore.*"):
            brokers(settings)

    def test_a_certificate_of_another_authority_is_refused(self, mutual: Listener) -> None:
        folder = Path(__file__).parents[1] / "unit" / "tls" / "stores"
        settings = {
            **mutual.settings("anna"),
            "ssl.keystore.location": str(folder / "key.p12"),
            "ssl.keystore.password": "store-pass",
        }
        with mutual.connections(1), one_error(AuthenticationError, "TLS failed", "ssl.keystore.*"):
            brokers(settings)


# --- tokens ----------------------------------------------------------------------------------------------------


def part(content: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def unsigned(subject: str, seconds: float = 600) -> str:
    now = time.time()
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': now, 'exp': now + seconds})}."


@dataclass
class Issuer:
    """A token endpoint. ``seen`` holds each request's credentials and form, ``answers`` what it says to the next ones;
    without any it issues a token for a client that knows the secret, good for ``seconds``."""

    port: int = 0
    seconds: float = 600
    seen: list[tuple[str, dict[str, list[str]]]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    asked: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0), repr=False)

    def settings(self, secret: str = "client-hush") -> dict[str, str]:
        return {
            URL: f"http://127.0.0.1:{self.port}/token",
            "sasl.oauthbearer.client.credentials.client.id": "orders",
            "sasl.oauthbearer.client.credentials.client.secret": secret,
            "sasl.oauthbearer.scope": "kafka",
        }

    def answer(self, credentials: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        self.seen.append((credentials, form))
        self.asked.release()
        if self.answers:
            return self.answers.pop(0)
        if credentials != "orders:client-hush":
            return 401, {"error": "invalid_client", "error_description": f"not {credentials.partition(':')[2]}"}
        return 200, {"access_token": unsigned("orders", self.seconds), "token_type": "Bearer"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            credentials = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
            status, answer = issuer.answer(credentials, form)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield issuer
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def bearer() -> Iterator[Listener]:
    """A broker that takes tokens without signature, and wants a new one when one has ended."""
    properties = {"listener.name.client.oauthbearer.connections.max.reauth.ms": "3600000"}
    with listening(Security("SASL_PLAINTEXT", "OAUTHBEARER", {"anna": ""}), properties=properties) as listener:
        yield listener


class TestTokens:
    def test_one_that_is_made_here(self, bearer: Listener) -> None:
        assert brokers(bearer.settings("anna")) == [1]

    def test_one_from_a_file_that_is_read_for_each_connection(self, bearer: Listener, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(unsigned("anna") + "\n")
        settings = {**bearer.settings(), "sasl.jaas.config": f"{MODULE} required;", URL: f"file://{tmp_path}/token"}
        with closing(session_of(settings)) as session:
            assert session.brokers() == [1]
            (tmp_path / "token").unlink()
        with one_error(AuthenticationError, "no token", "token' cannot be read", URL):
            brokers(settings)

    def test_one_from_an_endpoint_serves_all_connections(self, bearer: Listener, issuer: Issuer) -> None:
        with closing(session_of({**bearer.settings(), **issuer.settings()})) as session, bearer.connections(2):
            session.brokers()
            session.all_topics()
        form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
        assert issuer.seen == [("orders:client-hush", form)]

    @pytest.mark.slow
    def test_it_is_replaced_before_it_ends(self, bearer: Listener, issuer: Issuer) -> None:
        """The broker ends the session of a connection with its token (KIP-368)."""
        issuer.seconds = 8
        with closing(session_of({**bearer.settings(), **issuer.settings()})) as session:
            session.brokers()
            session.all_topics()
            with bearer.connections(0):
                for _ in range(3):
                    assert issuer.asked.acquire(timeout=60)
                session.all_topics()

    def test_wrong_credentials(self, bearer: Listener, issuer: Issuer) -> None:
        settings = {**bearer.settings(), **issuer.settings("wrong-hush")}
        with one_error(AuthenticationError, "status 401, invalid_client: not ******", "the client's id"):
            brokers(settings)
        assert len(issuer.seen) == 1

    def test_an_endpoint_that_has_trouble_is_asked_again(self, bearer: Listener, issuer: Issuer) -> None:
        issuer.answers = [(503, {}), (429, {})]
        assert brokers({**bearer.settings(), **issuer.settings()}) == [1]
        assert len(issuer.seen) == 3

    def test_an_endpoint_that_is_not_there_is_named(self, bearer: Listener) -> None:
        nowhere = Issuer(port=1)
        expected = "token endpoint not reached", "http://127.0.0.1:1/token", "refused"
        with closing(session_of({**bearer.settings(), **nowhere.settings()})) as session:

            def named() -> bool:  # within this time, unless the machine is busy
                with one_error(RetriableError) as raised:
                    session.brokers(Deadline.after(500))
                return all(text in str(raised.value) for text in expected)

            eventually(named)

    @pytest.mark.parametrize("answer", [(302, {}), (200, {}), (200, {"access_token": "two\nlines"})])
    def test_an_endpoint_that_gives_no_token(
        self, bearer: Listener, issuer: Issuer, answer: tuple[int, dict[str, Any]]
    ) -> None:
        issuer.answers = [answer]
        with one_error(AuthenticationError, "no token", URL):
            brokers({**bearer.settings(), **issuer.settings()})
        assert len(issuer.seen) == 1

    def test_one_that_the_broker_does_not_accept(self, bearer: Listener, issuer: Issuer) -> None:
        issuer.answers = [(200, {"access_token": unsigned("orders", -600)})]
        settings = {**bearer.settings(), **issuer.settings()}
        with bearer.connections(1), one_error(AuthenticationError, "invalid_token", "do not accept the token"):
            brokers(settings)


@pytest.mark.slow
def test_a_signed_token_is_verified_by_the_broker(issuer: Issuer, tmp_path: Path) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def number(value: int) -> str:
        return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8, "big")).decode().rstrip("=")

    def signed(audience: str) -> str:
        now = int(time.time())
        claims = {"sub": "orders", "aud": audience, "iss": "here", "iat": now, "exp": now + 600}
        text = f"{part({'alg': 'RS256', 'kid': 'k'})}.{part(claims)}"
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"

    public = key.public_key().public_numbers()
    known = {"keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "n": number(public.n), "e": number(public.e)}]}
    (tmp_path / "jwks.json").write_text(json.dumps(known))
    url = f"file://{tmp_path}/jwks.json"
    handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    properties = {
        "listener.name.client.oauthbearer.sasl.server.callback.handler.class": handler,
        "listener.name.client.sasl.oauthbearer.jwks.endpoint.url": url,
        "listener.name.client.sasl.oauthbearer.expected.audience": "kafka",
        "listener.name.client.sasl.oauthbearer.expected.issuer": "here",
    }
    jvm = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"]
    security = Security("SASL_PLAINTEXT", "OAUTHBEARER", {"anna": ""})
    with listening(security, properties=properties, jvm_options=jvm) as listener:
        settings = {**listener.settings(), **issuer.settings()}
        issuer.answers = [(200, {"access_token": signed(audience)}) for audience in ("kafka", "somebody-else")]
        assert brokers(settings) == [1]
        with one_error(AuthenticationError, "invalid_token", "audience"):
            brokers(settings)
        with one_error(AuthenticationError, "invalid_token"):
            brokers(listener.settings("anna"))


def test_no_secret_is_logged(guarded: Listener, bearer: Listener, issuer: Issuer, caplog: Any) -> None:
    """At any level, whether the login succeeds or fails."""
    wrong = guarded.settings("guest")
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace(GUEST, "wrong-hush")
    with caplog.at_level(logging.DEBUG):
        assert brokers(guarded.settings("admin")) == [1]
        assert brokers({**bearer.settings(), **issuer.settings()}) == [1]
        for settings in (wrong, {**bearer.settings(), **issuer.settings("wrong-hush")}):
            with pytest.raises(AuthenticationError):
                brokers(settings)
    said = "\n".join(record.getMessage() + str(record.args) for record in caplog.records)
    assert "Connect" in said
    assert "hush" not in said
    assert part({"alg": "none"}) not in said
