"""Why the exact path refuses a message."""

from __future__ import annotations

__all__ = ["FieldError", "Malformed"]


class Malformed(ValueError):
    """The message is not what its format says."""


class FieldError(ValueError):
    """A value does not fit its column, ``field``."""

    def __init__(self, field: str, reason: str):
        super().__init__(field, reason)
        self.field, self.reason = field, reason

    def __str__(self) -> str:
        return self.reason
