"""The errors of messages and values that decoders refuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: The most characters of a value in an error: dead letters have the error in a header, next to the value itself.
_LONGEST = 100


def show_value(text: str) -> str:
    """A value in an error message: quoted, and shortened if it is long."""
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[:_LONGEST]}...', {len(text)} characters"


class Malformed(ValueError):
    """The message does not follow its format. ``rows`` are the rows that can still be read."""

    def __init__(self, reason: str, rows: Sequence[dict[str, Any]] = ()):
        super().__init__(reason)
        self.rows = rows


class FieldError(ValueError):
    """A value does not fit its column, ``field``."""

    def __init__(self, field: str, reason: str):
        super().__init__(field, reason)
        self.field, self.reason = field, reason

    def __str__(self) -> str:
        return self.reason
