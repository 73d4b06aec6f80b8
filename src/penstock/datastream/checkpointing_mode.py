"""What a failure may do to the state of a job."""

from __future__ import annotations

import enum
from typing import Any

from penstock.java_gateway import without_java

__all__ = ["CheckpointingMode"]


class CheckpointingMode(int, enum.Enum):
    """PyFlink's modes. Spark replays whole batches, so a job's state is exactly-once with both of them. The guarantee
    for records that reach Kafka is the sink's ``DeliveryGuarantee``."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1

    @staticmethod
    def _from_j_checkpointing_mode(j_checkpointing_mode: Any) -> CheckpointingMode:
        """Raises UnsupportedError."""
        raise without_java("CheckpointingMode._from_j_checkpointing_mode", "use CheckpointingMode[name]")

    def _to_j_checkpointing_mode(self) -> Any:
        """Raises UnsupportedError."""
        raise without_java("CheckpointingMode._to_j_checkpointing_mode")
