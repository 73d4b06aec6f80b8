"""What all sinks have in common."""

from __future__ import annotations

import enum


class DeliveryGuarantee(enum.Enum):
    """What a failure may do to written records."""

    #: Neither lost nor repeated: one Kafka transaction per batch.
    EXACTLY_ONCE = 0
    #: Not lost; repeated when a batch is retried.
    AT_LEAST_ONCE = 1
    #: Lost or repeated.
    NONE = 2

    @property
    def text(self) -> str:
        """The value of the option ``sink.delivery-guarantee``."""
        return self.name.lower().replace("_", "-")
