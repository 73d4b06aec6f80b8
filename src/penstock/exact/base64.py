"""Base64 as Jackson reads it, one value at a time."""

from __future__ import annotations

import base64
import re

_TEXT = re.compile(r"(?:[\x00-\x20]*(?:[A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==))*[\x00-\x20]*")
_QUAD = re.compile(r"[A-Za-z0-9+/=]{4}")


def parse_base64(text: str) -> bytes:
    """Bytes from base64 with padding. White space is allowed between groups of four. Raises ValueError."""
    if _TEXT.fullmatch(text) is None:
        raise ValueError("expected base64 text with padding")
    return b"".join(base64.b64decode(quad) for quad in _QUAD.findall(text))
