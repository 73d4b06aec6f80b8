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

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType

from penstock.engine.checkpoint import JobCheckpoint
from penstock.spi import HIDDEN, REPORT, WATERMARK, Source

_EVENT_TIME = "__event_time"
_PARTITION = HIDDEN.names[0]


def observed(frame: DataFrame, ordinal: int, *, timed: bool) -> DataFrame:
    """The rows of source number ``ordinal`` without its tasks' reports, which Spark observes.

    The watermark of a ``timed`` source becomes Spark's own, which is the largest value of a column: here all rows of a
    batch have the same value. Flink's watermark promises that all rows up to it have come, Spark's that all rows before
    it have: hence the added millisecond.
    """
    if timed:
        frame = frame.withColumn(_EVENT_TIME, F.timestamp_millis(F.col(WATERMARK) + 1))
        frame = frame.withWatermark(_EVENT_TIME, "0 seconds")
    reports = F.collect_list(REPORT).alias(REPORT)
    return frame.observe(_reports(ordinal), reports).where(F.col(REPORT).isNull()).drop(REPORT, _EVENT_TIME)


def watched(frame: DataFrame, ordinal: int, watermark: Column) -> DataFrame:
    """``frame``, rows of source number ``ordinal``. Spark observes the largest ``watermark`` (BIGINT) in each
    partition."""
    largest: Any = arrow_udf(largest_watermarks, BinaryType())  # type: ignore[call-overload]
    noted = frame.withColumn(REPORT, largest(_PARTITION, watermark))
    return noted.observe(_watermarks(ordinal), F.collect_list(REPORT).alias(REPORT)).drop(REPORT)


def largest_watermarks(partitions: pa.Array, watermarks: pa.Array) -> pa.Array:
    """A report in the first row, null in all others: pairs of a partition and its largest watermark, as JSON."""
    grouped = pa.table({"partition": partitions, "watermark": watermarks}).group_by("partition")
    table = grouped.aggregate([("watermark", "max")]).filter(pc.is_valid(pc.field("watermark_max")))
    found = json.dumps(list(zip(*(column.to_pylist() for column in table.columns), strict=True))).encode()
    return pa.concat_arrays(
        [pa.array([found][: len(partitions)], pa.binary()), pa.nulls(max(0, len(partitions) - 1), pa.binary())]
    )


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

    def deliver(
        self, newest_first: Iterable[BatchReports], sources: Sequence[Source], checkpoint: JobCheckpoint
    ) -> None:
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
                        source.reported(reports)
                        self._progressed(source, ordinal, each, checkpoint)

    def deliver_one(self, batch: int, report: bytes, source: Source) -> None:
        """Give the source the report of a batch that the driver has read. Spark has no report of it, and none of an
        earlier batch is still to come."""
        with self._lock:
            self._last = max(self._last, batch)
            source.reported([report])

    def _progressed(self, source: Source, ordinal: int, batch: BatchReports, checkpoint: JobCheckpoint) -> None:
        watermarks = batch.named(_watermarks(ordinal))
        ends = checkpoint.offsets(batch.batch) if watermarks else None
        if watermarks and ends is not None:
            largest: dict[int, int] = {}
            for partition, watermark in (each for report in watermarks for each in json.loads(report)):
                largest[partition] = max(watermark, largest.get(partition, watermark))
            source.progressed(largest, ends[ordinal])


def _reports(ordinal: int) -> str:
    return f"penstock-{ordinal}"


def _watermarks(ordinal: int) -> str:
    return f"penstock-{ordinal}-watermarks"
