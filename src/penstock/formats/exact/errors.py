"""Why the exact path refuses a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["FieldError", "Malformed", "shown"]

#: How much of a value an error shows: errors are kept in the headers of dead letters, beside the value itself.
_LONGEST = 100


def shown(text: str) -> str:
    """A value as an error names it: in quotes, and not all of a long one."""
    return f"'{text}'" if len(text) <= _LONGEST else f"'{text[:_LONGEST]}...', {len(text)} characters"


class Malformed(ValueError):
    """The message is not what its format says. ``rows`` are what can be read of it all the same."""

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
