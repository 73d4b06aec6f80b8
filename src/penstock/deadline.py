"""Time budgets: one for all the steps of an operation, and waiting for a condition."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Deadline:
    """A point in time on the monotonic clock. Made once per operation and passed on, so that retries do not add up."""

    at: float
    seconds: float

    @classmethod
    def after(cls, ms: float) -> Deadline:
        """A deadline in ``ms`` milliseconds."""
        return cls(time.monotonic() + ms / 1000, ms / 1000)

    @classmethod
    def until(cls, at: float) -> Deadline:
        """A deadline at ``at``, in seconds of the monotonic clock."""
        return cls(at, max(0.0, at - time.monotonic()))

    @property
    def left(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self.left == 0.0

    def __str__(self) -> str:
        return f"{round(self.seconds, 1):g} s"


@dataclass
class Backoff:
    """Waits that double up to a limit, each with up to 20 % of random variation (KIP-580)."""

    first_ms: float
    longest_ms: float
    attempts: int = field(default=0)

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        wait = min(self.longest_ms, self.first_ms * (1 << min(self.attempts, 30)))
        self.attempts += 1
        return wait / 1000 * random.uniform(0.8, 1.2)  # noqa: S311 - not for secrets


def awaited(condition: Callable[[], bool], seconds: float) -> bool:
    """Waits until ``condition`` holds. False if it does not within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
