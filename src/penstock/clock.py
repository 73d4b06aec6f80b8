"""The present time, by the clock of this machine."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since the epoch, as in Kafka's timestamps. Durations are measured by the monotonic clock instead."""
    return time.time_ns() // 1_000_000
