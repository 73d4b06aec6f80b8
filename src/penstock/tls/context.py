"""The properties ``ssl.*``, and the TLS contexts that they make."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.errors import OptionsError, Problem
from penstock.options import (
    COMMA_LIST,
    TEXT,
    Codec,
    Property,
    declared_properties,
    one_of,
    prop,
    read_properties,
)
from penstock.tls.jks import StoreError
from penstock.tls.stores import TYPES, KeyPair, load_certificates, load_identity, load_pem_identity

_EVERYWHERE = "the file must be at this path on every machine, for the driver and for the tasks"


def _parse_location(value: str) -> str | None:
    address = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", value.strip())
    if address:
        raise ValueError(
            f"expected the path of a local file, not an address ('{address[1]}:'): nothing is fetched from object "
            "storage or the web; put a copy of the file at one path on every machine"
        )
    return value or None


def _parse_protocols(value: str) -> tuple[str, ...]:
    protocols: tuple[str, ...] = COMMA_LIST.parse(value)
    if not set(protocols) <= {"TLSv1.2", "TLSv1.3"}:
        raise ValueError("expected TLSv1.2, TLSv1.3 or both")
    return protocols


def _parse_protocol(value: str) -> str:
    protocol = value.strip()
    if protocol not in {"TLS", "TLSv1.2", "TLSv1.3"}:
        raise ValueError("expected TLSv1.3, TLSv1.2 or TLS; versions before TLSv1.2 are not used")
    return protocol


def _check_algorithm(value: str) -> str:
    if value.strip().lower() not in {"", "https"}:
        raise ValueError("expected 'https', or nothing for no host name check")
    return value.strip().lower()


_LOCATION = Codec("Path", _parse_location, quoted=False)
_TYPE = one_of(*TYPES, fold=str.upper)
_EITHER = "JKS (the default), PKCS12 or PEM. The file shows whether it is JKS or PKCS12."


@dataclass(frozen=True, kw_only=True)
class Tls:
    """The properties ``ssl.*``. Fields are named as the properties, without ``ssl.`` and with ``_`` for ``.``."""

    truststore_type: str = prop(_TYPE, f"Format of the truststore: {_EITHER}", "JKS")
    truststore_location: str | None = prop(
        _LOCATION, "File with the certificates to trust, on every machine; without it, the system's are trusted."
    )
    truststore_password: str | None = prop(TEXT, "Password of a JKS or PKCS12 truststore.", secret=True)
    truststore_certificates: str | None = prop(TEXT, "Certificates to trust, as PEM text.", secret=True)
    keystore_type: str = prop(_TYPE, f"Format of the keystore: {_EITHER}", "JKS")
    keystore_location: str | None = prop(
        _LOCATION, "File with this client's private key and certificate chain, on every machine. The first key counts."
    )
    keystore_password: str | None = prop(TEXT, "Password of a JKS or PKCS12 keystore.", secret=True)
    keystore_certificate_chain: str | None = prop(TEXT, "This client's certificate chain, as PEM text.", secret=True)
    keystore_key: str | None = prop(TEXT, "This client's private key, as PEM text.", secret=True)
    key_password: str | None = prop(
        TEXT, "Password of the private key; in a JKS keystore the store's own where this is not given.", secret=True
    )
    endpoint_identification_algorithm: str = prop(
        Codec("String", _check_algorithm),
        "`https` compares the broker's host name with its certificate; empty does not.",
        "https",
    )
    enabled_protocols: tuple[str, ...] = prop(
        Codec("List<String>", _parse_protocols), "TLS versions that may be used.", ("TLSv1.2", "TLSv1.3")
    )
    protocol: str = prop(
        Codec("String", _parse_protocol),
        "`TLSv1.2` leaves TLSv1.3 out, whatever `ssl.enabled.protocols` has.",
        "TLSv1.3",
    )

    @property
    def versions(self) -> tuple[str, ...]:
        """The TLS versions that are used, from the lowest on."""
        return tuple(sorted(each for each in self.enabled_protocols if (each, self.protocol) != ("TLSv1.3", "TLSv1.2")))


#: The properties ``ssl.*`` that have an effect.
TLS_PROPERTIES: Mapping[str, Property] = declared_properties(Tls, "ssl.")


def read_tls(properties: Mapping[str, str]) -> tuple[Tls, list[Problem]]:
    """The settings in the properties ``ssl.*``, and every problem of them."""
    found, problems = read_properties(TLS_PROPERTIES, properties)
    chain, key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    if (chain in properties) != (key in properties):
        given, missing = (chain, key) if chain in properties else (key, chain)
        problems.append(Problem(f"needs '{missing}'", given))
    values = {name.removeprefix("ssl.").replace(".", "_"): value for name, value in found.items()}
    tls = Tls(**values)
    if not tls.versions:
        problems.append(Problem("leaves no version, as ssl.enabled.protocols has TLSv1.3 only", "ssl.protocol"))
    return tls, problems


def build_tls_context(tls: Tls, where: str = "") -> ssl.SSLContext:
    """The TLS context for a client's connections.

    Raises:
        OptionsError: a store is missing or has another format, or a password does not fit. ``where`` is the place of
            the properties.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.endpoint_identification_algorithm == "https"
    known = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
    context.minimum_version, context.maximum_version = known[tls.versions[0]], known[tls.versions[-1]]
    _load_trust(context, tls, where)
    own = _load_identity(tls, where)
    if own is not None:
        with _blame("ssl.keystore.location", where):
            _load_key_pair(context, own)
    return context


def _load_trust(context: ssl.SSLContext, tls: Tls, where: str) -> None:
    if tls.truststore_certificates:
        with _blame("ssl.truststore.certificates", where):
            context.load_verify_locations(cadata=tls.truststore_certificates)
    elif tls.truststore_location:
        with _blame("ssl.truststore.location", where, store="truststore"):
            data = _read_content(tls.truststore_location)
            context.load_verify_locations(cadata=load_certificates(data, tls.truststore_type, tls.truststore_password))
    else:
        context.load_default_certs()


def _load_identity(tls: Tls, where: str) -> KeyPair | None:
    if tls.keystore_key and tls.keystore_certificate_chain:
        with _blame("ssl.keystore.key", where, store="keystore"):
            return load_pem_identity(
                tls.keystore_key.encode(), tls.keystore_certificate_chain.encode(), tls.key_password
            )
    if tls.keystore_location:
        with _blame("ssl.keystore.location", where, store="keystore"):
            data = _read_content(tls.keystore_location)
            return load_identity(data, tls.keystore_type, tls.keystore_password, tls.key_password)
    return None


def _load_key_pair(context: ssl.SSLContext, own: KeyPair) -> None:
    # OpenSSL reads keys from files only. This one exists for a moment, only we may read it, and it is encrypted.
    password = secrets.token_bytes(24).hex().encode()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "identity.pem")
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(own.pem(password))
        context.load_cert_chain(path, password=password)


def _read_content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError("location", f"'{path}' cannot be read: {reason}", _EVERYWHERE) from None


@contextlib.contextmanager
def _blame(key: str, where: str, store: str = "") -> Iterator[None]:
    """Turns errors of stores and of OpenSSL into problems of the property that causes them."""
    try:
        yield
    except StoreError as error:
        named = {"location": key, "password": f"ssl.{store}.password", "key": "ssl.key.password"}
        raise OptionsError((Problem(error.reason, named[error.about], where, error.hint),)) from None
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        hint = "check the content of the store"
        raise OptionsError((Problem(f"cannot be used: {reason}", key, where, hint),)) from None
