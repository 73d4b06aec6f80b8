"""Stores as keytool makes them: what they hold, and which property an error is about."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from penstock.errors import OptionsError
from penstock.tls import Tls, build_tls_context, read_tls
from penstock.tls.jks import StoreError, read_jks
from penstock.tls.stores import load_identity

FOLDER = Path(__file__).parent / "stores"
PEM = FOLDER.parent / "pem"
CERTIFICATE = x509.load_pem_x509_certificate((PEM / "certificate.pem").read_bytes())
STORE_PASS, KEY_PASS = "store-pass", "key-pass"


def context(**properties: str) -> ssl.SSLContext:
    tls, problems = read_tls({f"ssl.{name.replace('_', '.')}": value for name, value in properties.items()})
    assert problems == []
    return build_tls_context(tls, "table 't'")


@pytest.mark.parametrize("file", ["trust.jks", "trust.p12", "key.jks", "key.p12", "legacy.p12"])
@pytest.mark.parametrize("type", ["JKS", "PKCS12", None])
def test_certificates_are_trusted_whichever_type_was_said(file: str, type: str | None) -> None:
    said = {"truststore_type": type} if type else {}
    found = context(truststore_location=str(FOLDER / file), truststore_password=STORE_PASS, **said)
    assert found.get_ca_certs(binary_form=True) == [CERTIFICATE.public_bytes(Encoding.DER)]


def test_certificates_of_a_jks_store_need_no_password() -> None:
    assert len(context(truststore_location=str(FOLDER / "trust.jks")).get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("file", "key_password"),
    [
        ("key.jks", None),
        ("key.jks", STORE_PASS),
        ("own-password.jks", KEY_PASS),
        ("key.p12", None),
        ("legacy.p12", None),
    ],
)
def test_a_private_key_comes_with_its_certificate(file: str, key_password: str | None) -> None:
    found = load_identity((FOLDER / file).read_bytes(), "JKS", STORE_PASS, key_password)
    assert found.chain == (CERTIFICATE,)
    key = load_pem_private_key(found.pem(b"for now"), b"for now")
    assert key.public_key() == CERTIFICATE.public_key()


@pytest.mark.parametrize(
    ("file", "properties", "key", "reason"),
    [
        ("trust.jks", {"password": "wrong-one"}, "ssl.truststore.password", "does not fit"),
        ("trust.p12", {"password": "wrong-one"}, "ssl.truststore.password", "does not fit"),
        ("trust.p12", {}, "ssl.truststore.password", "is required"),
        ("empty.jks", {"password": STORE_PASS}, "ssl.truststore.location", "holds no certificate"),
        ("empty.p12", {"password": STORE_PASS}, "ssl.truststore.location", "holds no certificate"),
        ("missing.jks", {"password": STORE_PASS}, "ssl.truststore.location", "on every machine"),
        ("trust.jks", {"password": STORE_PASS, "type": "PEM"}, "ssl.truststore.location", "set the type to JKS"),
        ("trust.p12", {"password": STORE_PASS, "type": "PEM"}, "ssl.truststore.location", "set the type to PKCS12"),
        ("../pem/certificate.pem", {}, "ssl.truststore.location", "set the type to PEM"),
        ("../pem/key.pem", {"type": "PEM"}, "ssl.truststore.location", "holds no certificate"),
        ("README.md", {}, "ssl.truststore.location", "neither a JKS or PKCS12 store nor a PEM file"),
    ],
)
def test_what_is_wrong_with_a_truststore(file: str, properties: dict[str, str], key: str, reason: str) -> None:
    given = {f"truststore_{name}": value for name, value in properties.items()}
    with pytest.raises(OptionsError) as raised:
        context(truststore_location=str(FOLDER / file), **given)
    (problem,) = raised.value.problems
    assert (problem.key, problem.where) == (key, "table 't'")
    assert reason in str(problem)
    assert "wrong-one" not in str(problem)


@pytest.mark.parametrize(
    ("file", "properties", "key", "reason"),
    [
        ("key.jks", {"ssl.keystore.password": "wrong-one"}, "ssl.keystore.password", "does not fit"),
        ("key.p12", {"ssl.keystore.password": "wrong-one"}, "ssl.keystore.password", "does not fit"),
        ("key.jks", {}, "ssl.keystore.password", "is required"),
        ("own-password.jks", {"ssl.keystore.password": STORE_PASS}, "ssl.key.password", "does not fit the private key"),
        (
            "key.jks",
            {"ssl.keystore.password": STORE_PASS, "ssl.key.password": "wrong-one"},
            "ssl.key.password",
            "does not fit the private key",
        ),
        (
            "key.p12",
            {"ssl.keystore.password": STORE_PASS, "ssl.key.password": "wrong-one"},
            "ssl.key.password",
            "has only one password",
        ),
        ("trust.jks", {"ssl.keystore.password": STORE_PASS}, "ssl.keystore.location", "holds no private key"),
        ("trust.p12", {"ssl.keystore.password": STORE_PASS}, "ssl.keystore.location", "holds no private key"),
        ("../pem/certificate.pem", {"ssl.keystore.type": "PEM"}, "ssl.keystore.location", "holds no private key"),
        ("../pem/key.pem", {"ssl.keystore.type": "PEM"}, "ssl.keystore.location", "holds no certificate"),
    ],
)
def test_what_is_wrong_with_a_keystore(file: str, properties: dict[str, str], key: str, reason: str) -> None:
    tls, _ = read_tls({**properties, "ssl.keystore.location": str(FOLDER / file)})
    with pytest.raises(OptionsError) as raised:
        build_tls_context(tls)
    (problem,) = raised.value.problems
    assert problem.key == key
    assert reason in str(problem)
    assert "wrong-one" not in str(problem)


def test_a_certificate_in_der_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "ca.der").write_bytes(CERTIFICATE.public_bytes(Encoding.DER))
    with pytest.raises(OptionsError, match="is a certificate in DER, not a store"):
        context(truststore_location=str(tmp_path / "ca.der"), truststore_password=STORE_PASS)


@pytest.mark.parametrize("file", ["trust.jks", "key.jks"])
def test_a_store_that_was_cut_off_or_changed_is_noticed(file: str) -> None:
    whole = (FOLDER / file).read_bytes()
    for size in range(len(whole)):
        with pytest.raises(StoreError):
            read_jks(whole[:size], STORE_PASS)
    for at in range(12, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(StoreError, match="'password', 'does not fit'"):
            read_jks(bytes(changed), STORE_PASS)


def test_a_store_without_its_digest_being_verified_ends_in_no_other_error() -> None:
    whole = (FOLDER / "key.jks").read_bytes()
    for size in range(len(whole)):
        with pytest.raises(StoreError, match="'location'"):
            read_jks(whole[:size], None)
    with pytest.raises(StoreError, match="'key', 'does not fit the private key'"):
        read_jks(whole, None).private[0].key("wrong-one")


def test_passwords_and_keys_are_not_shown() -> None:
    tls = Tls(truststore_password="hide-1", keystore_password="hide-2", key_password="hide-3", keystore_key="hide-4")
    assert "hide" not in repr(tls)
    shown = repr(load_identity((FOLDER / "key.jks").read_bytes(), "JKS", STORE_PASS, None))
    assert "PrivateKey" not in shown
