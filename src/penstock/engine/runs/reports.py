"""Channels from tasks back to the driver: columns of reports, which Spark observes while it reads rows.

Spark collects observed values with the results of the tasks, so reports need no second Spark job. They arrive with the
progress of a batch, a moment after the batch is done.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spi import REPORT, Source


def observe_reports(frame: DataFrame, ordinal: int) -> DataFrame:
    """The rows of source number ``ordinal`` without its tasks' reports, which Spark observes."""
    reports = F.collect_list(REPORT).alias(REPORT)
    return frame.observe(_reports(ordinal), reports).where(F.col(REPORT).isNull()).drop(REPORT)


@dataclass(frozen=True)
class BatchReports:
    """The reports of one batch. ``named`` returns those that Spark observed under a name, or None."""

    batch: int
    named: Callable[[str], list[bytes] | None]


def reports_of(query: StreamingQuery) -> Iterator[BatchReports]:
    """The reports of the last hundred batches, the newest first: that is how many Spark keeps."""
    jquery: Any = query._jsq
    recent = jquery.recentProgress()
    for at in reversed(range(len(recent))):
        metrics = recent[at].observedMetrics()

        def named(name: str, metrics: Any = metrics) -> list[bytes] | None:
            row = metrics.get(name)
            return None if row is None else [base64.b64decode(each) for each in json.loads(row.json())[REPORT]]

        yield BatchReports(recent[at].batchId(), named)


class Reports:
    """Gives the reports of each batch to the sources, once."""

    def __init__(self) -> None:
        self._last = -1
        self._lock = threading.Lock()

    def deliver(self, newest_first: Iterable[BatchReports], sources: Sequence[Source]) -> None:
        """Give the sources the reports that are new since the last call, in the order of the batches."""
        with self._lock:
            new = []
            for each in newest_first:
                if each.batch <= self._last:
                    break
                new.append(each)
            for each in reversed(new):
                for ordinal, source in enumerate(sources):
                    reports = each.named(_reports(ordinal))
                    if reports is not None:
                        self._last = each.batch
                        source.receive_reports(reports)

    def deliver_one(self, batch: int, report: bytes, source: Source) -> None:
        """Give the source the report of a batch that the driver has read. Spark has no report of it, and none of an
        earlier batch is still to come."""
        with self._lock:
            self._last = max(self._last, batch)
            source.receive_reports([report])


def _reports(ordinal: int) -> str:
    return f"penstock-{ordinal}"
