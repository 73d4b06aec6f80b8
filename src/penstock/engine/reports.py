"""How reading tasks reach the driver with what is no row: in a column that Spark observes on the way.

Spark gathers observed values with the results of the tasks, so there is no second job; and it tells them with the
progress of a batch, a moment after the batch is done.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spi import REPORT, Source

__all__ = ["Reports", "observed"]


def observed(frame: DataFrame, ordinal: int) -> DataFrame:
    """The rows of the source of that number, without its tasks' reports, which are observed."""
    reports = F.collect_list(REPORT).alias(REPORT)
    return frame.observe(_name(ordinal), reports).where(F.col(REPORT).isNull()).drop(REPORT)


class Reports:
    """Hands the reports of each batch to the sources, once."""

    def __init__(self) -> None:
        self._last = -1
        self._lock = threading.Lock()

    def deliver(self, query: StreamingQuery, sources: Sequence[Source]) -> None:
        """Hand over what has come since the last call. Spark keeps the progress of the last hundred batches."""
        with self._lock:
            jquery: Any = query._jsq
            recent = jquery.recentProgress()
            new = []
            for at in reversed(range(len(recent))):
                progress = recent[at]
                if progress.batchId() <= self._last:
                    break
                new.append(progress)
            for progress in reversed(new):
                metrics = progress.observedMetrics()
                for ordinal, source in enumerate(sources):
                    row = metrics.get(_name(ordinal))
                    if row is not None:
                        self._last = progress.batchId()
                        reports = json.loads(row.json())[REPORT]
                        source.reported([base64.b64decode(each) for each in reports])


def _name(ordinal: int) -> str:
    return f"penstock-{ordinal}"
