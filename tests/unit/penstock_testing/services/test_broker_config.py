from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ServiceError
from penstock_testing.services.broker_config import (
    NodePorts,
    Security,
    client_settings,
    feature_levels,
    node_settings,
    render,
    scram_credentials,
)
from penstock_testing.services.certificates import make_certificates

ONE = {1: NodePorts(9092, 9092, 9093)}
THREE = {node: NodePorts(9000 + node, 9000 + node, 9100 + node) for node in (1, 2, 3)}


def settings(nodes: dict[int, NodePorts], properties: dict[str, str] | None = None) -> dict[str, str]:
    return node_settings(1, nodes, Path("/data"), None, None, properties or {})


def test_a_lone_broker_keeps_one_replica_and_three_keep_three() -> None:
    lone, three = settings(ONE), settings(THREE)
    for key in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        assert lone[f"{key}.replication.factor"] == "1"
        assert three[f"{key}.replication.factor"] == "3"
    assert (lone["transaction.state.log.min.isr"], three["transaction.state.log.min.isr"]) == ("1", "2")
    assert three["controller.quorum.voters"] == "1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103"


def test_every_listener_is_on_the_loopback_address(tmp_path: Path) -> None:
    security = Security("SASL_SSL", "PLAIN", {"a": "b"})
    certificates = make_certificates(tmp_path)
    secured = node_settings(1, {1: NodePorts(1, 2, 3)}, Path("/data"), security, certificates, {})
    for each in (settings(ONE), secured):
        for listener in [*each["listeners"].split(","), *each["advertised.listeners"].split(",")]:
            assert re.fullmatch(r"[A-Z]+://127\.0\.0\.1:\d+", listener)


def test_properties_win_and_feature_levels_are_kept_out() -> None:
    properties = {"num.io.threads": "1", "transaction.version": "0", "log.retention.ms": "5"}
    found = settings(ONE, properties)
    assert (found["num.io.threads"], found["log.retention.ms"]) == ("1", "5")
    assert "transaction.version" not in found
    assert feature_levels(properties) == {"transaction.version": "0"}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        (" led", "\\ led"),
        ("a\\b", "a\\\\b"),
        ("two\nlines\r", "two\\nlines\\r"),
        ("ä€😀", "\\u00e4\\u20ac\\ud83d\\ude00"),
        ("", ""),
    ],
)
def test_values_are_escaped_for_java(value: str, written: str) -> None:
    assert render({"key": value}) == f"key={written}\n"


def test_scram_users_are_salted_and_hashed() -> None:
    security = Security("SASL_SSL", "SCRAM-SHA-256", {"alice": "secret"})
    (credential,) = scram_credentials(security)
    assert "secret" not in credential
    match = re.fullmatch(
        r"SCRAM-SHA-256=\[name=alice,salt=([^,]+),saltedpassword=([^,]+),iterations=(\d+)\]", credential
    )
    assert match is not None
    salt, salted = base64.b64decode(match[1]), base64.b64decode(match[2])
    assert hashlib.pbkdf2_hmac("sha256", b"secret", salt, int(match[3])) == salted
    assert scram_credentials(Security("SASL_SSL", "PLAIN", {"alice": "secret"})) == []


def test_client_settings_quote_for_jaas() -> None:
    security = Security("SASL_PLAINTEXT", "PLAIN", {"alice": 'a"b\\c', "bob": "x"})
    assert "sasl.jaas.config" not in client_settings("h:1", None, None, None)
    first = client_settings("h:1", security, None, None)
    assert first["sasl.jaas.config"].endswith('username="alice" password="a\\"b\\\\c";')
    assert '"bob"' in client_settings("h:1", security, None, "bob")["sasl.jaas.config"]
    with pytest.raises(ServiceError, match="no user 'eve'"):
        client_settings("h:1", security, None, "eve")


@pytest.mark.parametrize(
    "arguments",
    [
        ("PLAINTEXT", "PLAIN", {"a": "b"}),
        ("SASL_SSL", "MD5", {"a": "b"}),
        ("SASL_SSL", "PLAIN", {}),
        ("SASL_PLAINTEXT", "PLAIN", {"a": "b"}, ("anna",)),
        ("SSL", "PLAIN", {}, ("../anna",)),
    ],
)
def test_security_that_cannot_be_is_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ServiceError):
        Security(*arguments)


def test_clients_with_certificates_and_tokens(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    security = Security("SASL_SSL", "OAUTHBEARER", {"anna": "", "bob": ""}, ("anna", "carl"))
    for user, store in (("anna", "client-anna.p12"), ("bob", "client-anna.p12")):
        found = client_settings("h:1", security, certificates, user)
        assert found["ssl.keystore.location"] == str(tmp_path / store)
        assert f'unsecuredLoginStringClaim_sub="{user}"' in found["sasl.jaas.config"]
    assert client_settings("h:1", Security("SSL", certificates=("carl",)), certificates, None)[
        "ssl.keystore.location"
    ] == str(tmp_path / "client-carl.p12")


def test_passwords_are_not_shown() -> None:
    assert "secret" not in repr(Security(users={"alice": "secret"}))
