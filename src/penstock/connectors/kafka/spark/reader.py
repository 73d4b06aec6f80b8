"""Spark's view of a scan: it plans micro-batches in Spark's planning process, and reads in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
from penstock.connectors.kafka.source.positions import Positions, Split
from penstock.errors import PenstockError, to_wire
from penstock.spi import ScanDataSource, Task, guard_errors, run_stage

_T = TypeVar("_T")


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in Spark's planning process, and reads ranges in tasks."""

    def __init__(self, spec: ReaderSpec, stage: str | None = None):
        self._spec, self._stage = spec, stage  # only tasks unpickle the stage, since that imports the data plane
        self._enumerator = Enumerator(self._spec)

    def initialOffset(self) -> dict[str, Any]:
        """The start of the query, which was resolved before it."""
        return self._spec.start.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most 'scan.max-records-per-trigger' records, unless they must be one batch."""
        return ReadAllAvailable() if self._spec.whole else ReadMaxRows(self._spec.scan.options.max_records_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: the stops of a bounded scan were resolved before the query started."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch. What limits it is in the scan's options."""
        return _forward_errors(lambda: self._enumerator.latest(Positions.from_json(start)).to_json())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""

        def plan() -> list[InputPartition]:
            reached = Positions.from_json(end)
            tasks = self._enumerator.tasks(Positions.from_json(start), reached)
            work = ((ranges, Task(number, len(tasks)), reached.watermark) for number, ranges in enumerate(tasks))
            return [InputPartition(each) for each in work]

        return _forward_errors(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, or the result of the stage on them."""
        from penstock.connectors.kafka.source.reader import RangeReader, add_report, add_watermark, merge_small_batches

        work: tuple[Sequence[Split], Task, int | None] = partition.value
        ranges, task, watermark = work
        reader = RangeReader(self._spec, ranges)
        batches, schema = merge_small_batches(guard_errors(reader.rows)()), reader.schema
        if self._stage is not None:
            batches, schema = run_stage(self._stage, task, TaskContext.get(), batches)
        reported = add_report(batches, schema, lambda: reader.report)
        timed = self._stage is None and self._spec.scan.watermark is not None
        return add_watermark(reported, watermark) if timed else reported


class KafkaDataSource(ScanDataSource, DataSource):
    """Spark's view of a scan."""

    format, reader_class = "penstock_kafka", KafkaStreamReader


def _forward_errors(step: Callable[[], _T]) -> _T:
    """The result of ``step``, with its errors as text that reaches the driver."""
    try:
        return step()
    except PenstockError as error:
        raise RuntimeError(to_wire(error)) from None
