"""How many records the next batch may have, and whether a batch is due."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.connectors.kafka.table.options import KafkaSourceOptions


class Admission:
    """The admission control of one scan, in the planning process. Its state may be lost.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(self, options: KafkaSourceOptions, clock: Callable[[], float] = time.monotonic):
        self._rate = options.max_records_per_second
        self._least = options.min_records_per_trigger
        self._patience = options.max_trigger_delay.total_seconds()
        self._clock = clock
        self._batch_began = clock()
        # Nothing has been planned yet: the first batch gets the records of one second.
        self._granted_until = clock() - 1.0

    def postpones(self, waiting: int) -> bool:
        """Whether ``waiting`` records are too few for a batch, and the longest wait for more is not over."""
        if self._least is None or not 0 < waiting < self._least:
            return False
        return self._clock() - self._batch_began < self._patience

    def grant(self, most: int | None) -> int | None:
        """How many records may be read now: at most ``most`` (None: any number), and at most those that the rate allows
        for the time since the last grant. An unused grant is lost, but not the fraction of a record."""
        if self._rate is None:
            return most
        granted = int((self._clock() - self._granted_until) * self._rate)
        self._granted_until += granted / self._rate
        return granted if most is None else min(most, granted)

    def pause(self) -> float:
        """Seconds until the rate allows another record."""
        if self._rate is None:
            return 0.0
        return max(0.0, self._granted_until + 1 / self._rate - self._clock())

    def began(self) -> None:
        """A batch was planned."""
        self._batch_began = self._clock()
