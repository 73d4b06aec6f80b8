"""What a failure may do to a job's own state."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """PyFlink's modes. Spark replays whole batches, so a job's state is exactly-once either way; what reaches Kafka
    is the sink's ``DeliveryGuarantee``."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
