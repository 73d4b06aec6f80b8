"""Tickets: what is asked of the package gssapi, for which a recorder stands in, since there is no Kerberos to ask."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from penstock.errors import AuthenticationError, OptionsError
from penstock.kafka.faults import KafkaFault
from penstock.kafka.kerberos import Tickets
from penstock.kafka.login import KerberosLogin
from penstock.kafka.properties import ClientConfig
from penstock.kafka.session import Session


class GSSError(Exception):
    """As gssapi.exceptions.GSSError."""


class Recorder(ModuleType):
    """The part of gssapi that is used. ``asked`` holds what credentials were asked for."""

    def __init__(self, fails: bool = False):
        super().__init__("gssapi")
        self.asked: list[dict[str, Any]] = []
        self.MechType = SimpleNamespace(kerberos="kerberos")
        self.NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
        self.exceptions = SimpleNamespace(GSSError=GSSError)
        self.Name = Name

        def credentials(**asked: Any) -> str:
            if fails:
                raise GSSError("No credentials cache found")
            self.asked.append(asked)
            return "credentials"

        self.Credentials = credentials
        self.SecurityContext = Context


class Name(str):
    def __new__(cls, text: str, name_type: str) -> Name:
        return super().__new__(cls, f"{name_type} {text}")

    def canonicalize(self, mechanism: str) -> Name:
        return self


class Context:
    complete = True

    def __init__(self, name: Name, creds: str, mech: str, usage: str):
        assert (creds, mech, usage) == ("credentials", "kerberos", "initiate")
        self.target = name

    def step(self, token: bytes | None) -> bytes:
        return f"ticket for {self.target}".encode()

    def unwrap(self, message: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=message)

    def wrap(self, message: bytes, encrypt: bool) -> SimpleNamespace:
        return SimpleNamespace(message=b"wrapped " + message)


@pytest.fixture
def gssapi(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setitem(sys.modules, "gssapi", recorder)
    return recorder


def test_a_keytab_is_used_without_touching_the_users_tickets(gssapi: Recorder) -> None:
    tickets = Tickets(KerberosLogin("broker", "orders@EXAMPLE.COM", "/k"))
    exchange = tickets.mechanism("host.example")
    (asked,) = gssapi.asked
    cache = asked["store"].pop("ccache")
    assert cache.startswith("MEMORY:")
    assert asked == {
        "name": "principal orders@EXAMPLE.COM",
        "mechs": ["kerberos"],
        "usage": "initiate",
        "store": {"client_keytab": "/k"},
    }
    assert exchange.auth_bytes() == b"ticket for service broker@host.example"
    exchange.receive(b"\x07\x00\x10\x00")  # the broker offers all protections, and says how much it reads at once
    assert exchange.auth_bytes() == b"wrapped \x01\x00\x10\x00broker@host.example"
    exchange.receive(b"")
    assert (exchange.is_done(), exchange.is_authenticated()) == (True, True)


def test_a_cache_of_tickets_or_that_of_the_user(gssapi: Recorder) -> None:
    Tickets(KerberosLogin(ticket_cache="krb5cc_7")).mechanism("host")
    Tickets(KerberosLogin()).mechanism("host")
    assert [each["store"] for each in gssapi.asked] == [{"ccache": "krb5cc_7"}, None]
    assert [each["name"] for each in gssapi.asked] == [None, None]


def test_no_ticket_is_an_error_that_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", Recorder(fails=True))
    with pytest.raises(KafkaFault) as raised:
        Tickets(KerberosLogin()).mechanism("host.example")
    error = raised.value.fault.error("connecting", raised.value.detail)
    assert type(error) is AuthenticationError
    assert "kafka@host.example: No credentials cache found" in str(error)
    assert "sasl.kerberos.service.name" in str(error)


def test_without_the_package_a_client_is_not_even_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    config = ClientConfig.from_properties({"bootstrap.servers": "b:9092", "security.protocol": "SASL_PLAINTEXT"})
    with pytest.raises(OptionsError, match=r"pip install '\.\[kerberos\]'"):
        Session(config)
