"""The times of batches, by which windows of processing time close and times to live expire."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

#: How far the time of the last batch may be ahead of the clock: two machines' clocks never agree exactly.
_AHEAD_MS = 60_000


@dataclass(eq=False)
class BatchTimes:
    """The times of the batches of ``job`` in one run."""

    job: str
    warn: Callable[[str], None]
    _warned: bool = field(default=False, init=False)

    def next(self, before_ms: int, now_ms: int) -> int:
        """The time of a batch after one at ``before_ms``: the clock's, but never an earlier time than ``before_ms``.
        Warns once of a clock that is far behind, since windows neither close nor rows expire until it is there."""
        if now_ms < before_ms - _AHEAD_MS and not self._warned:
            self._warned = True
            self.warn(
                f"job '{self.job}': the time of its last batch is {_shown(before_ms)}, and this machine's clock says "
                f"{_shown(now_ms)}: it is wrong now, or another one was wrong then. Windows of processing time and "
                "times to live wait until the clock is there. Set the clock; if it was ahead before, wait, or "
                "start the job with another checkpoint directory"
            )
        return max(before_ms, now_ms)


def _shown(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
