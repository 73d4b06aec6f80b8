"""What the ssl properties make of a handshake, at a server that ends the conversation after it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from penstock.deadline import Deadline
from penstock.errors import AuthenticationError, OptionsError, RetriableError
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session

FOLDER = Path(__file__).parents[1] / "tls" / "pem"
CERTIFICATE, KEY, LOCKED = FOLDER / "certificate.pem", FOLDER / "key.pem", FOLDER / "locked.pem"
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(CERTIFICATE)}


@dataclass
class Server:
    """Notes of each handshake: its TLS version, and the name in the client's certificate (None: it gave none)."""

    port: int
    handshakes: list[tuple[str | None, str | None]] = field(default_factory=list)

    def session(self, host: str, properties: dict[str, str]) -> Session:
        """A client with these properties."""
        servers = {"bootstrap.servers": f"{host}:{self.port}", "security.protocol": "SSL"}
        return Session(ClientConfig.from_properties({**servers, **properties}))

    def meet(self, properties: dict[str, str], host: str = "localhost") -> tuple[str | None, str | None]:
        """The first handshake of a client with these properties, which goes on trying until there is one."""
        session = self.session(host, properties)
        until = Deadline.after(60_000)
        while not self.handshakes:
            assert not until.passed
            with pytest.raises(RetriableError):
                session.brokers(Deadline.after(300))
        session.close()
        return self.handshakes[0]

    def refused(self, properties: dict[str, str], host: str = "localhost") -> str:
        """The error of a client with these properties before the handshake."""
        session = self.session(host, properties)
        with pytest.raises(AuthenticationError) as raised:
            session.brokers()
        session.close()
        assert self.handshakes == []
        return str(raised.value)


@pytest.fixture
def server() -> Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    context.load_verify_locations(CERTIFICATE)
    context.verify_mode = ssl.CERT_OPTIONAL
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener.getsockname()[1])

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                try:
                    with context.wrap_socket(connection, server_side=True) as secured:
                        subject = (secured.getpeercert() or {}).get("subject")
                        server.handshakes.append((secured.version(), subject[0][0][1] if subject else None))
                        secured.unwrap()
                except OSError:
                    connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_trusted_certificates_are_those_of_the_truststore(server: Server) -> None:
    assert "ssl.truststore" in server.refused({})
    assert server.meet(TRUST) == ("TLSv1.3", None)


def test_they_may_be_given_as_text(server: Server) -> None:
    assert server.meet({"ssl.truststore.certificates": CERTIFICATE.read_text()}) == ("TLSv1.3", None)


def test_the_keystore_says_who_the_client_is(server: Server, tmp_path: Path) -> None:
    (tmp_path / "both.pem").write_text(KEY.read_text() + CERTIFICATE.read_text())
    keystore = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "both.pem")}
    assert server.meet({**TRUST, **keystore})[1] == "a test of penstock"


@pytest.mark.parametrize("as_text", [False, True], ids=["file", "text"])
def test_its_key_may_have_a_password(server: Server, tmp_path: Path, as_text: bool) -> None:
    if as_text:
        keystore = {
            "ssl.keystore.key": LOCKED.read_text(),
            "ssl.keystore.certificate.chain": CERTIFICATE.read_text(),
        }
    else:
        (tmp_path / "both.pem").write_text(LOCKED.read_text() + CERTIFICATE.read_text())
        keystore = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "both.pem")}
    for wrong in ({"ssl.key.password": "close-sesame"}, {}):
        with pytest.raises(OptionsError, match=r"ssl\.key\.password"):
            server.session("localhost", {**TRUST, **keystore, **wrong})
    assert server.meet({**TRUST, **keystore, "ssl.key.password": "open-sesame"})[1] == "a test of penstock"


def test_a_chain_and_its_key_may_be_given_as_text(server: Server) -> None:
    keystore = {"ssl.keystore.key": KEY.read_text(), "ssl.keystore.certificate.chain": CERTIFICATE.read_text()}
    assert server.meet({**TRUST, **keystore})[1] == "a test of penstock"


def test_versions_may_be_chosen(server: Server) -> None:
    assert server.meet({**TRUST, "ssl.enabled.protocols": "TLSv1.2"})[0] == "TLSv1.2"


def test_the_hosts_name_is_compared_unless_that_is_switched_off(server: Server) -> None:
    assert "certificate not trusted" in server.refused(TRUST, host="127.0.0.1")
    assert server.meet({**TRUST, "ssl.endpoint.identification.algorithm": ""}, host="127.0.0.1")[0] == "TLSv1.3"
