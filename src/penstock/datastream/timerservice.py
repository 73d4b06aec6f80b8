"""The time that process functions see."""

from __future__ import annotations

from penstock.clock import now_ms
from penstock.errors import Problem, UnsupportedError

__all__ = ["TimerService"]

_HINT = "timers belong to keyed streams, which penstock does not have yet"
#: Flink's watermark before the first one.
_NO_WATERMARK = -(2**63)


class TimerService:
    """Tells the time. Timers, which belong to keyed streams, are refused. ``watermark`` is the present one, in ms since
    1970, if there is one."""

    def __init__(self, watermark: int | None = None):
        self._watermark = _NO_WATERMARK if watermark is None else watermark

    def current_processing_time(self) -> int:
        """The machine's time, in ms since 1970."""
        return now_ms()

    def current_watermark(self) -> int:
        """The watermark when the batch was planned, in ms since 1970; the smallest number before the first one."""
        return self._watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError((Problem("is not supported", "register_processing_time_timer", hint=_HINT),))

    def register_event_time_timer(self, timestamp: int) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError((Problem("is not supported", "register_event_time_timer", hint=_HINT),))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError((Problem("is not supported", "delete_processing_time_timer", hint=_HINT),))

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Raises UnsupportedError."""
        raise UnsupportedError((Problem("is not supported", "delete_event_time_timer", hint=_HINT),))
