"""Whether a restart strategy allows a restart after a failure, and when."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.options import DURATION
from penstock.settings import ExponentialDelay, FailureRate, FixedDelay, RestartStrategy

#: Pauses stop growing here, before a float overflows. The longest pause of any strategy is shorter.
_ENDLESS_SECONDS = 1e12


@dataclass(frozen=True)
class Restart:
    """A restart that is allowed. ``number`` counts the job's restarts from 1; ``delay`` is the pause before it, in
    seconds; ``limit`` describes how many are allowed, if there is a limit."""

    number: int
    delay: float
    limit: str = ""

    def __str__(self) -> str:
        return f"restart {self.number}{self.limit and ' ' + self.limit} in {self.delay:.3g} s"


class Restarts:
    """Counts the failures of one job under its strategy.

    ``clock`` returns seconds and never goes back; ``uniform`` returns a random number between two others.
    """

    def __init__(
        self,
        strategy: RestartStrategy | None,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ):
        self.count = 0
        self._strategy = strategy
        self._clock = clock
        self._uniform = uniform
        #: The times of the latest failures.
        self._failures: deque[float] = deque()
        #: Restarts since the backoff was reset, the next pause, and the end of the current one.
        self._attempts = 0
        self._backoff = 0.0
        self._running_from = float("-inf")

    def after_failure(self) -> Restart | None:
        """The restart that follows a failure now, or None if the strategy allows no more."""
        match self._strategy:
            case FixedDelay() as fixed:
                found = self._fixed(fixed)
            case FailureRate() as rate:
                found = self._rate(rate)
            case ExponentialDelay() as exponential:
                found = self._exponential(exponential)
            case None:
                found = None
        self.count += found is not None
        return found

    def at_once(self) -> Restart:
        """A restart that no strategy limits."""
        self.count += 1
        return Restart(self.count, 0)

    def _fixed(self, strategy: FixedDelay) -> Restart | None:
        if self.count >= strategy.attempts:
            return None
        return Restart(self.count + 1, strategy.delay.total_seconds(), f"of at most {strategy.attempts}")

    def _rate(self, strategy: FailureRate) -> Restart | None:
        """Counts failures in the interval up to now. As in Flink, both its ends are included."""
        now, most, interval = self._clock(), strategy.max_failures_per_interval, strategy.failure_rate_interval
        self._failures.append(now)
        while now - self._failures[0] > interval.total_seconds():
            self._failures.popleft()
        if len(self._failures) > most:
            return None
        limit = f"({len(self._failures)} of at most {most} in {DURATION.show(interval)})"
        return Restart(self.count + 1, strategy.delay.total_seconds(), limit)

    def _exponential(self, strategy: ExponentialDelay) -> Restart | None:
        """As in Flink, the time without a failure begins at the end of the pause."""
        now, most = self._clock(), strategy.attempts_before_reset_backoff
        initial, longest = strategy.initial_backoff.total_seconds(), strategy.max_backoff.total_seconds()
        if now - self._running_from >= strategy.reset_backoff_threshold.total_seconds():
            self._attempts, self._backoff = 0, initial
        self._attempts += 1
        if most is not None and self._attempts > most:
            return None
        jitter = self._uniform(-strategy.jitter_factor, strategy.jitter_factor)
        delay = max(initial, min(self._backoff * (1 + jitter), longest))
        self._backoff = min(self._backoff * strategy.backoff_multiplier, _ENDLESS_SECONDS)
        self._running_from = now + delay
        threshold = DURATION.show(strategy.reset_backoff_threshold)
        limit = "" if most is None else f"({self._attempts} of at most {most} unless it runs for {threshold})"
        return Restart(self.count + 1, delay, limit)
