"""Java key stores of type JKS: their certificates and private keys.

The format is documented only by Sun's own code (``sun.security.provider.JavaKeyStore`` and ``KeyProtector`` of the
OpenJDK): big-endian numbers, certificates in DER, private keys encrypted with a cipher made from SHA-1, and at the end
a digest over the store's password and everything before it.
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


class StoreError(Exception):
    """A store that cannot be read. ``about`` is ``location``, ``password`` or ``key`` (the password of its key)."""

    def __init__(self, about: str, reason: str, hint: str = ""):
        super().__init__(about, reason, hint)
        self.about, self.reason, self.hint = about, reason, hint


@dataclass(frozen=True)
class PrivateEntry:
    """A private key, still encrypted, and its certificates in DER, its own first."""

    alias: str
    chain: tuple[bytes, ...]
    _protected: bytes = field(repr=False)

    def key(self, password: str) -> bytes:
        """The key as PKCS #8 in DER. Raises :class:`StoreError`.

        Sun's cipher: salt, key XOR a stream of digests seeded with the salt, digest of password and key.
        """
        secret = password.encode("utf-16-be")
        information = _Reader(_Reader(self._protected).read_der(_SEQUENCE))
        if _Reader(information.read_der(_SEQUENCE)).read_der(_OBJECT) != _KEY_PROTECTOR:
            raise StoreError("location", "holds a private key that is not encrypted with the cipher of JKS stores")
        content = information.read_der(_OCTETS)
        if len(content) < 2 * _DIGEST_BYTES:
            raise StoreError("location", "holds a private key that ends too early")
        state, hidden, digest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
        stream = bytearray()
        while len(stream) < len(hidden):
            state = hashlib.sha1(secret + state, usedforsecurity=False).digest()
            stream += state
        key = bytes(byte ^ mask for byte, mask in zip(hidden, stream, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + key, usedforsecurity=False).digest(), digest):
            hint = "if the key has its own password, give that one"
            raise StoreError("key", "does not fit the private key", hint)
        return key


@dataclass(frozen=True)
class JavaKeyStore:
    """Certificates to trust, in DER, and private keys; both in the order of the file."""

    trusted: tuple[bytes, ...]
    private: tuple[PrivateEntry, ...]


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """The content of a store. Without a password its digest is not verified, as in Java. Raises :class:`StoreError`."""
    if len(data) < 12 + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise StoreError("location", "is not a JKS store, or is cut off")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        found = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise StoreError("password", "does not fit")
    reader = _Reader(body, len(MAGIC))
    version, count = reader.read_number(">I"), reader.read_number(">I")
    if version not in {1, 2}:
        raise StoreError("location", f"is a JKS store of version {version}; expected version 1 or 2")
    trusted: list[bytes] = []
    private: list[PrivateEntry] = []
    for _ in range(count):
        tag, alias = reader.read_number(">I"), reader.read_text()
        reader.read_number(">q")  # when it was made
        if tag == _PRIVATE:
            protected = reader.read_sized(">I")
            chain = tuple(_read_certificate(reader, version) for _ in range(reader.read_number(">I")))
            private.append(PrivateEntry(alias, chain, protected))
        elif tag == _TRUSTED:
            trusted.append(_read_certificate(reader, version))
        else:
            raise StoreError("location", f"holds an entry of unknown type {tag}")
    return JavaKeyStore(tuple(trusted), tuple(private))


def _read_certificate(reader: _Reader, version: int) -> bytes:
    if version == 2 and (name := reader.read_text()) != "X.509":
        raise StoreError("location", f"holds a certificate of type {name!r}; expected X.509")
    return reader.read_sized(">I")


class _Reader:
    """Numbers and byte strings from a position on. Raises :class:`StoreError` at the end of the data."""

    def __init__(self, data: bytes, at: int = 0):
        self._data, self._at = data, at

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise StoreError("location", "ends too early")
        self._at += size
        return taken

    def read_number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def read_sized(self, layout: str) -> bytes:
        return self.take(self.read_number(layout))

    def read_text(self) -> str:
        # Java's modified UTF-8 differs from UTF-8 in characters that are rare in aliases, and nothing depends on them.
        return self.read_sized(">H").decode("utf-8", "replace")

    def read_der(self, tag: int) -> bytes:
        """The content of one element in DER."""
        if self.read_number(">B") != tag:
            raise StoreError("location", "holds a private key in an unknown encoding")
        size = self.read_number(">B")
        if size & 0x80:
            size = int.from_bytes(self.take(size & 0x7F), "big")
        return self.take(size)
