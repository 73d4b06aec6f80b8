"""The certificates of one development cluster: its authority's, its brokers' and its clients'."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.oid import NameOID

_AUTHORITY = "authority.pem"
_VALIDITY = timedelta(days=3650)
_CLOCKS = timedelta(hours=1)  # the time by which clocks may differ


@dataclass(frozen=True)
class Certificates:
    """Files in ``folder``: PKCS #12 key stores with one password, and the authority's certificate in PEM."""

    folder: Path

    @property
    def trust(self) -> dict[str, str]:
        """Kafka's settings to trust the authority."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.folder / _AUTHORITY)}

    @property
    def password(self) -> str:
        """The password of all key stores."""
        return (self.folder / "password").read_text()

    def key(self, client: str = "") -> dict[str, str]:
        """Kafka's settings to use the key and the certificate of a client, or of the brokers."""
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.store(client)),
            "ssl.keystore.password": self.password,
        }

    def store(self, client: str = "") -> Path:
        """The key store of a client, or of the brokers."""
        return self.folder / (f"client-{client}.p12" if client else "server.p12")


def make_certificates(folder: Path, clients: Sequence[str] = ()) -> Certificates:
    """Makes a certificate for ``localhost`` and ``127.0.0.1``, and one for each client, with its name as CN.

    An authority of ``folder`` alone signs them. Files that exist are kept: clients that trust the authority still
    trust it after a restart.
    """
    made = Certificates(folder)
    authority = folder / "authority.p12"
    if not (folder / _AUTHORITY).exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        certificate = _issue(made, authority, "penstock development", x509.BasicConstraints(ca=True, path_length=None))
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
        _issue(made, made.store(), "localhost", names, authority)
        _write(folder / _AUTHORITY, certificate.public_bytes(Encoding.PEM))
    for name in clients:
        if not made.store(name).exists():
            _issue(made, made.store(name), name, x509.BasicConstraints(ca=False, path_length=None), authority)
    return made


def _issue(
    made: Certificates, store: Path, name: str, extension: x509.ExtensionType, authority: Path | None = None
) -> x509.Certificate:
    """Writes a key store with a new key and its certificate, signed by the key in ``authority`` or by itself."""
    password = made.password.encode()
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, issuer, chain = key, subject, []
    if authority is not None:
        loaded = pkcs12.load_key_and_certificates(authority.read_bytes(), password)
        signer, above = cast(tuple[ec.EllipticCurvePrivateKey, x509.Certificate], loaded[:2])
        issuer, chain = above.subject, [above]
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - _CLOCKS)
        .not_valid_after(now + _VALIDITY)
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, SHA256())
    )
    encryption = BestAvailableEncryption(password)
    _write(store, pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, chain, encryption))
    return certificate


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    fresh.rename(path)
