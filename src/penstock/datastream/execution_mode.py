"""Whether a job is a stream or a batch."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """PyFlink's modes. Here a job is always a stream, which ends when all of its sources have an end."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
