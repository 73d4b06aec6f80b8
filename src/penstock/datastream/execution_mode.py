"""Whether a job is a stream or a batch."""

from __future__ import annotations

import enum

__all__ = ["RuntimeExecutionMode"]


class RuntimeExecutionMode(enum.Enum):
    """Whether a job is a stream, or a batch of sources that end. AUTOMATIC is STREAMING."""

    STREAMING = 0
    BATCH = 1
    AUTOMATIC = 2
