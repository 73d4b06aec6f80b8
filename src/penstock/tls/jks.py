"""Java key stores of type JKS: what is in one, and its private keys.

The format was never written down apart from Sun's own code (``sun.security.provider.JavaKeyStore`` and ``KeyProtector``
of the OpenJDK): big-endian numbers, certificates in DER, private keys under a cipher of its own made from SHA-1, and at
the end a digest over the store's password and everything before it.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

#: The first four bytes of every such file.
MAGIC = bytes.fromhex("feedfeed")

_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_PRIVATE, _TRUSTED = 1, 2
#: 1.3.6.1.4.1.42.2.17.1.1, Sun's cipher for private keys, in DER without tag and length.
_KEY_PROTECTOR = bytes.fromhex("2b060104012a02110101")
_SEQUENCE, _OCTETS, _OBJECT = 0x30, 0x04, 0x06


class Unreadable(Exception):
    """The file is not what it should be; says what is wrong."""


class BadPassword(Exception):
    """The password does not fit."""


@dataclass(frozen=True)
class PrivateEntry:
    """A private key as it is in the store, and its certificates in DER, its own first."""

    alias: str
    chain: tuple[bytes, ...]
    _protected: bytes = field(repr=False)

    def key(self, password: str) -> bytes:
        """The key as PKCS #8 in DER. Raises :class:`BadPassword` or :class:`Unreadable`."""
        return _unprotected(self._protected, password.encode("utf-16-be"))


@dataclass(frozen=True)
class JavaKeyStore:
    """Certificates to trust, in DER, and private keys; both in the order of the file."""

    trusted: tuple[bytes, ...]
    private: tuple[PrivateEntry, ...]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """What is in a store. Without a password its digest is not verified, as in Java.

    Raises :class:`BadPassword` when the digest does not match, and :class:`Unreadable`.
    """
    if len(data) < 12 + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise Unreadable("it is no JKS store, or only a part of one")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise BadPassword
    reader = _Reader(body, len(MAGIC))
    version, count = reader.number(">I"), reader.number(">I")
    if version not in {1, 2}:
        raise Unreadable(f"it is a JKS store of version {version}, which is not known")
    trusted: list[bytes] = []
    private: list[PrivateEntry] = []
    for _ in range(count):
        tag, alias = reader.number(">I"), reader.text()
        reader.number(">q")  # when it was made
        if tag == _PRIVATE:
            protected = reader.sized(">I")
            chain = tuple(_certificate(reader, version) for _ in range(reader.number(">I")))
            private.append(PrivateEntry(alias, chain, protected))
        elif tag == _TRUSTED:
            trusted.append(_certificate(reader, version))
        else:
            raise Unreadable(f"it holds an entry of an unknown kind, {tag}")
    return JavaKeyStore(tuple(trusted), tuple(private))


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2 and (kind := reader.text()) != "X.509":
        raise Unreadable(f"it holds a certificate of type {kind!r}, not X.509")
    return reader.sized(">I")


class _Reader:
    """Numbers and byte strings from a position on. Raises :class:`Unreadable` at the end of the data."""

    def __init__(self, data: bytes, at: int = 0):
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise Unreadable("it ends too early")
        self._at += size
        return taken

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def sized(self, layout: str) -> bytes:
        return self.take(self.number(layout))

    def text(self) -> str:
        # Java's modified UTF-8 differs from UTF-8 in characters that aliases hardly have, and nothing depends on them.
        return self.sized(">H").decode("utf-8", "replace")

    def der(self, tag: int) -> bytes:
        """The content of one element in DER."""
        if self.number(">B") != tag:
            raise Unreadable("a private key in it has an unknown form")
        size = self.number(">B")
        if size & 0x80:
            size = int.from_bytes(self.take(size & 0x7F), "big")
        return self.take(size)


def _unprotected(protected: bytes, password: bytes) -> bytes:
    """Undo Sun's cipher: salt, key XOR a stream of digests that begins with the salt, digest over password and key."""
    information = _Reader(_Reader(protected).der(_SEQUENCE))
    if _Reader(information.der(_SEQUENCE)).der(_OBJECT) != _KEY_PROTECTOR:
        raise Unreadable("a private key in it is not under the cipher of JKS stores")
    content = information.der(_OCTETS)
    if len(content) < 2 * _DIGEST_BYTES:
        raise Unreadable("a private key in it ends too early")
    state, hidden, digest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    stream = bytearray()
    while len(stream) < len(hidden):
        state = hashlib.sha1(password + state, usedforsecurity=False).digest()
        stream += state
    key = bytes(byte ^ mask for byte, mask in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(password + key, usedforsecurity=False).digest(), digest):
        raise BadPassword
    return key
