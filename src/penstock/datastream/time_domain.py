"""Which time a timer is about."""

from __future__ import annotations

import enum

__all__ = ["TimeDomain"]


class TimeDomain(enum.Enum):
    """PyFlink's domains. Timers belong to keyed streams, which penstock does not have yet."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1
