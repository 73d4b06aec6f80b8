"""When a source commits its group's offsets outside a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from penstock.connectors.kafka.table.options import KafkaSourceOptions


class CommitTimes:
    """With checkpointing, after every batch. Without it, as Kafka's consumer does: only when
    'properties.enable.auto.commit' is true, at most every 'properties.auto.commit.interval.ms', and at the end.

    ``clock`` is monotonic, in seconds.
    """

    def __init__(
        self, options: KafkaSourceOptions, *, checkpointing: bool, clock: Callable[[], float] = time.monotonic
    ):
        self._always = checkpointing
        self._auto = not checkpointing and options.auto_commit
        self._interval = options.auto_commit_interval.total_seconds()
        self._clock = clock
        self._last = clock()
        #: The end of the last batch whose commit is still due; None when there is none.
        self.left: dict[str, Any] | None = None

    def due(self, end: dict[str, Any]) -> bool:
        """Whether to commit the offsets of a batch that ended at ``end`` now."""
        if self._always or not self._auto:
            return self._always
        if self._clock() - self._last < self._interval:
            self.left = end
            return False
        self._last, self.left = self._clock(), None
        return True
