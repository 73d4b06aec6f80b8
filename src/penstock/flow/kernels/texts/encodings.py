"""Functions that write text and bytes in another alphabet, row by row: hexadecimal, Base64, URLs, character sets."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from urllib.parse import quote_plus

from penstock.flow.kernels.rowwise import ValueFailure, row_by_row

#: Java's names of the character sets that every Java has, in lower case, and Python's.
_CHARSETS = {
    **dict.fromkeys(("utf-8", "utf8"), "utf-8"),
    **dict.fromkeys(("us-ascii", "ascii"), "ascii"),
    **dict.fromkeys(("iso-8859-1", "latin1", "iso8859-1", "iso8859_1"), "latin-1"),
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
}
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}")
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
#: The parts of a URL, as Java's URL class reads it.
_URL = re.compile(
    r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?"
    r"(?:#(?P<ref>.*))?",
    re.DOTALL,
)
#: Protocols that Java's URL class knows.
_PROTOCOLS = {"http", "https", "ftp", "file", "jar", "mailto", "jrt", "jmod"}


def _charset(name: str) -> str | None:
    return "utf-16" if name.lower() == "utf-16" else _CHARSETS.get(name.lower())


def _encode(text: str, charset: str) -> bytes:
    known = _charset(charset)
    if known is None:
        raise ValueFailure(f"ENCODE does not support the character set '{charset}'")
    if known == "utf-16":
        return b"\xfe\xff" + text.encode("utf-16-be") if text else b""
    return text.encode(known, "replace")


def _decode(value: bytes, charset: str) -> str:
    known = _charset(charset)
    if known is None:
        raise ValueFailure(f"DECODE does not support the character set '{charset}'")
    if known == "utf-16" and value[:2] not in (b"\xfe\xff", b"\xff\xfe"):
        known = "utf-16-be"
    return value.decode(known, "replace")


def _to_base64(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def _from_base64(value: str | bytes) -> str:
    given = value.encode() if isinstance(value, str) else value
    plain = given.rstrip(b"=")
    padding = len(given) - len(plain)
    whole = not padding or (len(given) % 4 == 0)
    if _BASE64.fullmatch(given) is None or len(plain) % 4 == 1 or not whole:
        shown = value if isinstance(value, str) else value.decode(errors="replace")
        raise ValueFailure(f"FROM_BASE64 takes Base64, not '{shown}'")
    return base64.b64decode(plain + b"=" * (-len(plain) % 4)).decode(errors="replace")


def _hex(value: int | str) -> str:
    return value.encode().hex().upper() if isinstance(value, str) else f"{value & 0xFFFF_FFFF_FFFF_FFFF:X}"


def _unhex(text: str) -> bytes | None:
    try:
        found = binascii.unhexlify(text if len(text) % 2 == 0 else "0" + text)
    except (binascii.Error, ValueError):
        return None
    return found if len(text) % 2 == 0 else b"\0" + found[1:]  # as Flink, which loses a lone digit


def _bin(value: int) -> str:
    return f"{value & 0xFFFF_FFFF_FFFF_FFFF:b}"


def _sha2(text: str, bits: int) -> str:
    if bits not in (224, 256, 384, 512):
        raise ValueFailure(f"SHA2 takes 224, 256, 384 or 512 bits, not {bits}")
    return hashlib.new(f"sha{bits}", text.encode()).hexdigest()


# --- URLs ----------------------------------------------------------------------------------------------------


def _url_encode(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")


def _url_decode(text: str) -> str | None:
    """None if a percent sign is not followed by two hexadecimal digits."""
    plain = text.replace("+", " ")
    if "%" in _ESCAPES.sub("", plain):
        return None
    return _ESCAPES.sub(lambda run: bytes.fromhex(run[0].replace("%", "")).decode(errors="replace"), plain)


def _parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """A part of a URL; with a ``key`` the value of it in the query."""
    if key is not None:
        if part != "QUERY":
            return None
        query = _parse_url(text, part)
        found = None if query is None else re.search(rf"(?:^|&){re.escape(key)}=([^&]*)", query)
        return found[1] if found else None
    url = _URL.fullmatch(text.strip())
    if url is None or url["protocol"].lower() not in _PROTOCOLS:
        return None
    authority, path, query = url["authority"], url["path"], url["query"]
    user, at, host = (authority or "").rpartition("@")
    match part:
        case "PROTOCOL":
            return url["protocol"].lower()
        case "AUTHORITY":
            return authority
        case "USERINFO":
            return user if at else None
        case "HOST":
            return re.sub(r":\d*$", "", host)
        case "PATH":
            return path
        case "QUERY":
            return query
        case "FILE":
            return path if query is None else f"{path}?{query}"
        case "REF":
            return url["ref"]
    return None


ENCODE, DECODE = row_by_row(_encode), row_by_row(_decode)
TO_BASE64, FROM_BASE64 = row_by_row(_to_base64), row_by_row(_from_base64)
HEX, UNHEX, BIN = row_by_row(_hex), row_by_row(_unhex), row_by_row(_bin)
SHA2 = row_by_row(_sha2)
URL_ENCODE, URL_DECODE = row_by_row(_url_encode), row_by_row(_url_decode)
PARSE_URL = row_by_row(_parse_url)
