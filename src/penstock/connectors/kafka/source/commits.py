"""When a source commits its group's offsets outside a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.connectors.kafka.table.options import KafkaSourceOptions


class CommitTimes:
    """With checkpointing, after every batch. Without, as Kafka's consumer would by itself: not at all unless
    'properties.enable.auto.commit' is true, then at most every 'properties.auto.commit.interval.ms' and at the end.

    ``clock`` gives seconds that never go back.
    """

    def __init__(
        self, options: KafkaSourceOptions, *, checkpointing: bool, clock: Callable[[], float] = time.monotonic
    ):
        self._always = checkpointing
        self._by_itself = not checkpointing and options.auto_commit
        self._interval = options.auto_commit_interval.total_seconds()
        self._clock = clock
        self._last = clock()
        #: Where the last batch ended that was not committed yet and is to be; None when there is none.
        self.left: dict[str, Any] | None = None

    def due(self, end: dict[str, Any]) -> bool:
        """Whether a batch that ended at ``end`` is to be committed now."""
        if self._always or not self._by_itself:
            return self._always
        if self._clock() - self._last < self._interval:
            self.left = end
            return False
        self._last, self.left = self._clock(), None
        return True
