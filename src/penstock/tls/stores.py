"""Key stores of Java clients: PEM files, PKCS #12 and JKS, distinguished by their content.

As in Java 9 and later, a store of type JKS or PKCS12 is opened by its actual format (``keystore.type.compat``), and a
PEM file needs the type PEM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_der_private_key,
    load_pem_private_key,
    pkcs12,
)

from penstock.tls.jks import MAGIC, StoreError, read_jks

#: By the names of Kafka's ``ssl.*.type``.
TYPES = ("JKS", "PKCS12", "PEM")

_PEM = b"-----BEGIN "
_SEQUENCE = b"\x30"


@dataclass(frozen=True)
class KeyPair:
    """A private key and its certificates, its own first."""

    chain: tuple[x509.Certificate, ...]
    _key: Any = field(repr=False)

    def pem(self, password: bytes) -> bytes:
        """Key and certificates as one PEM text, the key under a password."""
        key: bytes = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
        return key + b"".join(each.public_bytes(Encoding.PEM) for each in self.chain)


def load_certificates(data: bytes, type: str, password: str | None) -> bytes | str:
    """The certificates of a truststore, as ``SSLContext.load_verify_locations`` takes them.

    From a JKS store these are the trusted certificates and the first of each private key, as in Java; from a PKCS #12
    store, which does not mark them as clearly, all certificates. Raises :class:`StoreError`.
    """
    detected = _detect_format(data, type)
    if detected == "PEM":
        if b"CERTIFICATE-----" not in data:
            raise StoreError("location", "holds no certificate")
        return data.decode("ascii", "ignore")
    if detected == "JKS":
        store = read_jks(data, password)
        certificates = [*store.trusted, *(entry.chain[0] for entry in store.private if entry.chain)]
    else:
        archive = _load_pkcs12(data, password)
        held = [each for each in (archive.cert, *archive.additional_certs) if each]
        certificates = [each.certificate.public_bytes(Encoding.DER) for each in held]
    if not certificates:
        raise StoreError("location", "holds no certificate")
    return b"".join(certificates)


def load_identity(data: bytes, type: str, password: str | None, key_password: str | None) -> KeyPair:
    """The first private key of a keystore and its certificates.

    ``key_password`` is the key's own; without it, the store's is used, as in Java. Raises :class:`StoreError`.
    """
    detected = _detect_format(data, type)
    if detected == "PEM":
        return load_pem_identity(data, data, key_password)
    if password is None:
        raise StoreError("password", "is required: without it the private key cannot be read")
    if detected == "JKS":
        return _load_jks_identity(data, password, key_password or password)
    archive = _load_pkcs12(data, password)
    if archive.key is None or archive.cert is None:
        raise StoreError("location", "holds no private key with a certificate")
    if key_password not in {None, password}:
        raise StoreError(
            "key", "differs from ssl.keystore.password, but a PKCS12 store has only one password", "remove it"
        )
    others = [each.certificate for each in archive.additional_certs]
    return KeyPair(_order_chain(archive.cert.certificate, others), archive.key)


def load_pem_identity(key: bytes, chain: bytes, password: str | None) -> KeyPair:
    """A key and its certificates in PEM, which may be one text. Raises :class:`StoreError`."""
    if b"PRIVATE KEY-----" not in key:
        raise StoreError("location", "holds no private key")
    encrypted = b"ENCRYPTED" in key
    if encrypted and not password:
        raise StoreError("key", "is required: the private key is encrypted")
    try:
        private_key = load_pem_private_key(key, password.encode() if encrypted and password else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if encrypted:
            raise StoreError("key", "does not fit the private key") from None
        raise StoreError("location", "holds a private key that cannot be read") from None
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except ValueError:
        raise StoreError("location", "holds no certificate for its private key, or one that cannot be read") from None
    return KeyPair(tuple(certificates), private_key)


def _detect_format(data: bytes, type: str) -> str:
    """The format of the file, which must fit ``type``."""
    if data.startswith(MAGIC):
        detected = "JKS"
    elif _PEM in data:
        detected = "PEM"
    elif data.startswith(_SEQUENCE):
        detected = "PKCS12"
    else:
        raise StoreError("location", "is neither a JKS or PKCS12 store nor a PEM file", "check the file")
    if (detected == "PEM") != (type == "PEM"):
        shown = "a PEM file" if detected == "PEM" else f"a {detected} store"
        raise StoreError("location", f"is {shown} and its type is {type}", f"set the type to {detected}")
    return detected


def _load_jks_identity(data: bytes, password: str, key_password: str) -> KeyPair:
    entry = next((entry for entry in read_jks(data, password).private if entry.chain), None)
    if entry is None:
        raise StoreError("location", "holds no private key with a certificate")
    try:
        key = load_der_private_key(entry.key(key_password), None)
        return KeyPair(tuple(x509.load_der_x509_certificate(each) for each in entry.chain), key)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise StoreError("location", f"holds a private key, '{entry.alias}', that cannot be read") from None


def _load_pkcs12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm):
        if _is_certificate(data):
            hint = "import it into a store, or convert it: openssl x509 -inform der -out trust.pem"
            raise StoreError("location", "is a certificate in DER, not a store", hint) from None
        if password is None:
            raise StoreError("password", "is required for a PKCS12 store") from None
        raise StoreError("password", "does not fit, or the store is damaged") from None


def _is_certificate(data: bytes) -> bool:
    try:
        x509.load_der_x509_certificate(data)
    except ValueError:
        return False
    return True


def _order_chain(own: x509.Certificate, others: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """A certificate, its issuer's, and so on: a PKCS #12 store keeps them in any order."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        above = next((each for each in others if each.subject == chain[-1].issuer and each not in chain), None)
        if above is None:
            break
        chain.append(above)
    return tuple(chain)
