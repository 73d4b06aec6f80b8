"""The datagen connector on Spark: a data source whose batches have the rows that are due."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from penstock.clock import now_ms
from penstock.connectors.datagen.generators import RowNumbers, values
from penstock.connectors.datagen.spec import DatagenScanSpec
from penstock.spi import (
    PARTITIONS_PER_SOURCE,
    JobContext,
    ScanDataSource,
    SentStage,
    Source,
    SourcePartition,
    Task,
    add_empty_reports,
    frame_schema,
    place_rows,
    read_frame,
    run_stage,
    source_document,
)

#: The most rows of an Arrow batch.
_AT_ONCE = 50_000


class DatagenRuntime:
    """Builds the sources of a job's datagen tables."""

    def source(self, spec: DatagenScanSpec, ordinal: int, context: JobContext) -> Source:
        """Makes the rows from the first one, or from where the checkpoint says."""
        return DatagenSource(spec, ordinal, context)


@dataclass(frozen=True)
class Making:
    """What a reading process must know. ``whole``: all rows are due at once. ``start`` is the first row."""

    scan: DatagenScanSpec
    ordinal: int
    start: int
    seed: int
    zone: str
    whole: bool


class DatagenSource(Source):
    """One scan of a running job. A position is ``{"row": n, "from": t, "to": u}``: rows before number n are made, and
    the rows of the last batch have times from t to u, in ms since 1970."""

    def __init__(self, scan: DatagenScanSpec, ordinal: int, context: JobContext):
        self._scan = scan
        self._spark: SparkSession = context.spark
        self.bounded = context.settings.once or context.settings.batch
        asked = {"fields": dict(scan.options.fields)}
        known = source_document(
            context, ordinal, scan.table, asked, lambda: {"seed": secrets.randbits(63)}, former="seed"
        )
        start = int(known.get("start", {"row": 0})["row"])
        zone = self._spark.conf.get("spark.sql.session.timeZone") or "UTC"
        self._making = Making(scan, ordinal, start, int(known["seed"]), zone, self.bounded)

    def frame(self, stage: SentStage | None = None) -> DataFrame:
        """The streaming DataFrame, or the result of ``stage`` on it."""
        schema = frame_schema(self._scan.schema)
        frame: DataFrame = read_frame(self._spark, DatagenDataSource, schema, self._making, stage)
        return frame

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """One task makes a batch."""
        return 1

    def place(self, number: int, offset: int, end: dict[str, Any]) -> str:
        """The row, counted from 1."""
        mine = number == self._making.ordinal * PARTITIONS_PER_SOURCE
        return f"table '{self._scan.table}', row {offset + 1}" if mine else ""

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The only partition."""
        return (SourcePartition(self._making.ordinal * PARTITIONS_PER_SOURCE, "0", ended=self.has_ended(end)),)

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """The rows between the two positions."""
        return int(end["row"]) - (int(start["row"]) if start else self._making.start)

    def has_ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the last row is made."""
        row = int(reached["row"]) if reached else self._making.start
        return self._scan.rows is not None and row >= self._scan.rows

    def lag(self, reached: dict[str, Any]) -> int | None:
        """The rows that are not made yet, of a table that ends."""
        return None if self._scan.rows is None else self._scan.rows - int(reached["row"])


class DatagenReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in Spark's planning process, and makes rows in tasks."""

    def __init__(self, making: Making, stage: str | None = None):
        self._making, self._stage = making, stage
        self._began = now_ms()

    def initialOffset(self) -> dict[str, Any]:
        """The first row, or the savepoint's."""
        return {"row": self._making.start, "from": self._began, "to": self._began}

    def getDefaultReadLimit(self) -> ReadLimit:
        """All rows that are due."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: no more rows become due."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        return due(self._making, start, self._began, now_ms())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The batch as one task."""
        return [InputPartition((start["row"], end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, followed by the engine's columns, or the result of the stage on them."""
        first, end = partition.value
        numbers = range(first, end["row"])
        parts = (numbers[at : at + _AT_ONCE] for at in range(0, len(numbers), _AT_ONCE))
        rows: Iterator[pa.RecordBatch] = (make_rows(self._making, part, numbers, end) for part in parts)
        if self._stage is not None:
            rows, _ = run_stage(self._stage, Task(0, 1), TaskContext.get(), rows)
        return add_empty_reports(rows)


class DatagenDataSource(ScanDataSource, DataSource):
    """Spark's view of a scan."""

    format, reader_class = "penstock_datagen", DatagenReader


def due(making: Making, start: dict[str, Any], began: int, now: int) -> dict[str, Any]:
    """The position at the time ``now`` after ``start``. Nothing is due for the time before the run ``began``; but where
    all rows are due at once, a table without an end has those that were due when the run began."""
    rate, rows, first = making.scan.options.rows_per_second, making.scan.rows, int(start["row"])
    since = int(start["to"]) if making.whole else max(int(start["to"]), began)
    count = max(0, (began if making.whole else now) - since) * rate // 1000
    if rows is not None:
        count = rows - first if making.whole else min(count, rows - first)
    if count <= 0:
        return start
    return {
        "row": first + count,
        "from": since,
        "to": max(now, since) if making.whole else since + count * 1000 // rate,
    }


def make_rows(making: Making, numbers: range, batch: range, end: dict[str, Any]) -> pa.RecordBatch:
    """The rows with these ``numbers`` of a ``batch``, which has its times from its ``end``."""
    of = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    times = end["from"] + (of - batch.start + 1) * (end["to"] - end["from"]) // len(batch)
    rows = RowNumbers(making.seed, of, times, making.zone)
    columns = [values(each, rows) for each in making.scan.generators]
    return place_rows(columns, making.scan.schema, making.ordinal * PARTITIONS_PER_SOURCE, pa.array(of))
