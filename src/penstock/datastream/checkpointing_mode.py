"""What a failure may do to the state of a job."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """PyFlink's modes, which have no effect: Spark replays whole batches, so a job's state is always exactly-once. The
    guarantee for records that reach Kafka is the sink's ``DeliveryGuarantee``."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
