"""How tasks reach the driver with what is no row: in columns that Spark observes on the way.

Spark gathers observed values with the results of the tasks, so there is no second job; and it tells them with the
progress of a batch, a moment after the batch is done.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType

from penstock.engine.checkpoint import JobCheckpoint
from penstock.spi import HIDDEN, REPORT, WATERMARK, Source

__all__ = ["Reports", "observed", "watched"]

_EVENT_TIME = "__event_time"
_PLACE = HIDDEN.names[0]


def observed(frame: DataFrame, ordinal: int, *, timed: bool) -> DataFrame:
    """The rows of the source of that number, without its tasks' reports, which are observed.

    If it is ``timed`` its watermark becomes Spark's for it: that is the largest value of a column, and this one has a
    single value. Flink's watermark says that all up to it has come, Spark's that all before it has.
    """
    if timed:
        frame = frame.withColumn(_EVENT_TIME, F.timestamp_millis(F.col(WATERMARK) + 1))
        frame = frame.withWatermark(_EVENT_TIME, "0 seconds")
    reports = F.collect_list(REPORT).alias(REPORT)
    return frame.observe(_name(ordinal), reports).where(F.col(REPORT).isNull()).drop(REPORT, _EVENT_TIME)


def watched(frame: DataFrame, ordinal: int, watermark: str) -> DataFrame:
    """``frame``, rows of the source of that number, with the largest value of the expression ``watermark`` (BIGINT) in
    each place observed."""
    largest: Any = arrow_udf(_largest, BinaryType())  # type: ignore[call-overload]
    noted = frame.withColumn(REPORT, largest(_PLACE, F.expr(watermark)))
    return noted.observe(_name(ordinal, "watermarks"), F.collect_list(REPORT).alias(REPORT)).drop(REPORT)


def _largest(places: pa.Array, watermarks: pa.Array) -> pa.Array:
    """Null, but for the first row: there the largest watermark of each place, as JSON."""
    table = pa.table({"place": places, "watermark": watermarks}).group_by("place").aggregate([("watermark", "max")])
    table = table.filter(pc.is_valid(table["watermark_max"]))
    found = json.dumps(list(zip(*(column.to_pylist() for column in table.columns), strict=True))).encode()
    return pa.concat_arrays(
        [pa.array([found][: len(places)], pa.binary()), pa.nulls(max(0, len(places) - 1), pa.binary())]
    )


class Reports:
    """Hands the reports of each batch to the sources, once."""

    def __init__(self) -> None:
        self._last = -1
        self._lock = threading.Lock()

    def deliver(self, query: StreamingQuery, sources: Sequence[Source], checkpoint: JobCheckpoint) -> None:
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
                    reports = _observed(metrics, _name(ordinal))
                    if reports is None:
                        continue
                    self._last = progress.batchId()
                    source.reported(reports)
                    self._progressed(source, ordinal, progress, checkpoint)

    def _progressed(self, source: Source, ordinal: int, progress: Any, checkpoint: JobCheckpoint) -> None:
        watermarks = _observed(progress.observedMetrics(), _name(ordinal, "watermarks"))
        ends = checkpoint.offsets(progress.batchId()) if watermarks else None
        if watermarks and ends is not None:
            largest: dict[int, int] = {}
            for place, watermark in (each for report in watermarks for each in json.loads(report)):
                largest[place] = max(watermark, largest.get(place, watermark))
            source.progressed(largest, ends[ordinal])


def _observed(metrics: Any, name: str) -> list[bytes] | None:
    """What was collected under a name in a batch, None when nothing was."""
    row = metrics.get(name)
    return None if row is None else [base64.b64decode(each) for each in json.loads(row.json())[REPORT]]


def _name(ordinal: int, what: str = "") -> str:
    return f"penstock-{ordinal}" + (f"-{what}" if what else "")
