"""How the operators of a batch job exchange data in Flink."""

from __future__ import annotations

import enum

__all__ = ["ExecutionMode"]


class ExecutionMode(enum.Enum):
    """PyFlink's modes. Spark exchanges the data of a batch in its own way."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3
