"""The values connector on Spark: a data source over rows in memory, and a committer that keeps rows on the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.columns.streams import ipc_stream
from penstock.common import Row
from penstock.connectors.values import memory
from penstock.connectors.values.spec import ValuesScanSpec, ValuesSinkSpec
from penstock.errors import CheckpointError
from penstock.schemas import SchemaChange
from penstock.spi import (
    HIDDEN,
    INSERTIONS,
    KIND,
    PARTITIONS_PER_SOURCE,
    Batch,
    Committer,
    JobContext,
    Output,
    Published,
    ScanDataSource,
    SentStage,
    Source,
    SourcePartition,
    Task,
    Writer,
    WriterFactory,
    WriteTasks,
    Written,
    add_empty_reports,
    frame_schema,
    read_frame,
    run_stage,
    source_document,
)
from penstock.types import TINYINT, RowKind, quote_name, spark_type
from penstock.types.arrow import python_values


class ValuesRuntime:
    """Builds the sources and committers of a job's values tables."""

    def source(self, spec: ValuesScanSpec, ordinal: int, context: JobContext) -> Source:
        """Reads the rows from the first one, or from where the checkpoint says."""
        return RowsSource(spec, ordinal, context)

    def commit_group(self, spec: ValuesSinkSpec) -> Hashable:
        """All tables share a committer: nothing is committed."""
        return None

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that keeps the rows of ``outputs``."""
        return ValuesCommitter(outputs)


# --- reading -------------------------------------------------------------------------------------------------


class RowsSource(Source):
    """One scan of a running job. A position is ``{"row": n}``: rows before number n are read. A job that began with a
    savepoint has its first position in the checkpoint."""

    def __init__(self, scan: ValuesScanSpec, ordinal: int, context: JobContext):
        every = replace(scan, options=replace(scan.options, most=None))
        self._scan = every if context.settings.batch else scan
        self._ordinal = ordinal
        self._spark: SparkSession = context.spark
        self._rows: int = scan.rows.num_rows
        self.bounded = scan.options.bounded or context.settings.once
        self._check_unchanged(context)

    def _check_unchanged(self, context: JobContext) -> None:
        """Raises CheckpointError unless the rows are the same as at the job's first start, to which its positions
        refer."""
        digest = hashlib.sha256(self._scan.data).hexdigest()
        there = context.checkpoint.read(f"source-{self._ordinal}") or {}
        former = there.get("values", digest)  # as a former version wrote it
        if there.get("source", {}).get("rows", former) != digest:
            raise CheckpointError(
                f"the checkpoint '{context.checkpoint.location}' was made with other rows than table "
                f"'{self._scan.table}' has now; register the former rows, or name another checkpoint directory"
            )
        known = source_document(context, self._ordinal, self._scan.table, {"rows": digest}, dict, former="values")
        self._start = int(known.get("start", {"row": 0})["row"])

    def frame(self, stage: SentStage | None = None) -> DataFrame:
        """The streaming DataFrame, or the result of ``stage`` on it."""
        kinds = () if self._scan.options.kinds == INSERTIONS else (f"{quote_name(KIND)} {spark_type(TINYINT)}",)
        schema = frame_schema(self._scan.schema, *kinds)
        spec = self._scan, self._ordinal, self._start
        frame: DataFrame = read_frame(self._spark, ValuesDataSource, schema, spec, stage)
        return frame

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """One task reads a batch."""
        return 1

    def place(self, number: int, offset: int, end: dict[str, Any]) -> str:
        """The row, counted from 1."""
        mine = number == self._ordinal * PARTITIONS_PER_SOURCE
        return f"table '{self._scan.table}', row {offset + 1}" if mine else ""

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The only partition. Where only the run ends with its rows, event time continues."""
        ended = self._scan.options.bounded and self.has_ended(end)
        return (SourcePartition(self._ordinal * PARTITIONS_PER_SOURCE, "0", ended=ended),)

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """The rows between the two positions, if they count as records."""
        if not self._scan.counted:
            return 0
        return int(end["row"]) - (start["row"] if start else self._start)

    def has_ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the last row is read and the table ends with it."""
        return self.bounded and (reached["row"] if reached else self._start) == self._rows

    def lag(self, reached: dict[str, Any]) -> int | None:
        """The rows that are not read yet."""
        return self._rows - int(reached["row"])


class ValuesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in Spark's planning process, and reads rows in tasks."""

    def __init__(self, spec: tuple[ValuesScanSpec, int, int], stage: str | None = None):
        (self._scan, self._ordinal, self._start), self._stage = spec, stage

    def initialOffset(self) -> dict[str, Any]:
        """The first row, or the savepoint's."""
        return {"row": self._start}

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most 'scan.max-records-per-trigger' rows."""
        return ReadAllAvailable() if self._scan.options.most is None else ReadMaxRows(self._scan.options.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: all rows are there."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch reads."""
        rows = self._scan.rows.num_rows
        return {"row": min(rows, start["row"] + (self._scan.options.most or rows))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The batch as one task."""
        return [InputPartition((start["row"], end["row"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows, followed by the engine's columns, or the result of the stage on them."""
        rows = iter([self._rows(*partition.value)])
        if self._stage is not None:
            rows, _ = run_stage(self._stage, Task(0, 1), TaskContext.get(), rows)
        return add_empty_reports(rows)

    def _rows(self, start: int, end: int) -> pa.RecordBatch:
        rows = self._scan.rows.slice(start, end - start)
        kinds = [rows.column(KIND)] if self._scan.options.kinds != INSERTIONS else []
        partition = pa.array([self._ordinal * PARTITIONS_PER_SOURCE] * rows.num_rows, pa.int32())
        arrays = [*rows.drop_columns(KIND).columns, partition, pa.array(range(start, end), pa.int64()), *kinds]
        names = [*self._scan.schema.names, *HIDDEN.names, *([KIND] if kinds else [])]
        return pa.RecordBatch.from_arrays(arrays, names=names)


class ValuesDataSource(ScanDataSource, DataSource):
    """Spark's view of a scan."""

    format, reader_class = "penstock_values", ValuesReader


# --- writing -------------------------------------------------------------------------------------------------

#: Rows of an output, by its number, as a stream of Arrow's, and the id to keep them under. Their kinds are the first
#: column.
_KEPT = pa.schema({"output": pa.int32(), "data_id": pa.string(), "data": pa.binary()})


class ValuesCommitter(Committer):
    """Adds the rows of each batch to those in memory; when a batch is retried, it adds them again."""

    def __init__(self, outputs: Sequence[Output]):
        self._outputs = tuple(outputs)

    def writers(self) -> WriterFactory:
        """Send the rows to the driver."""
        return WriterFactory(partial(_RowSender, self._outputs), _KEPT)

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Keep the rows of each output, in the order of the tasks."""
        counts = [0] * len(self._outputs)
        for row in sorted(tasks.collect().rows, key=itemgetter("output")):
            with pa.ipc.open_stream(row["data"]) as reader:
                table = reader.read_all()
            kinds, *values = table.columns
            pairs = zip(kinds.to_pylist(), _to_tuples(values, len(kinds)), strict=True)
            names = tuple(table.column_names[1:])
            memory.append(row["data_id"], [_row(kind, each, names) for kind, each in pairs])
            # Tables that are found while the job runs are those of its only output.
            counts[min(row["output"], len(counts) - 1)] += len(kinds)
        return Published(tuple(map(Written, counts)))

    def apply_changes(self, changes: Sequence[SchemaChange], output: Output) -> None:
        """Nothing: each row has its names."""


class _RowSender(Writer):
    """Sends the rows of a task to the driver."""

    def __init__(self, outputs: Sequence[Output], _: Task):
        self._ids = {number: each.spec.data_id for number, each in enumerate(outputs)}

    def add_output(self, number: int, output: Output) -> None:
        self._ids[number] = output.spec.data_id

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        kinds = pa.repeat(pa.scalar(0, pa.int8()), rows.num_rows)
        if KIND in hidden.schema.names:
            kinds = hidden.column(KIND).cast(pa.int8()).fill_null(0)
        batch = pa.RecordBatch.from_arrays([kinds, *rows.columns], names=[KIND, *rows.schema.names])
        data = pa.array([ipc_stream(batch).to_pybytes()], pa.binary())
        arrays = [pa.array([output], pa.int32()), pa.array([self._ids[output]]), data]
        yield pa.RecordBatch.from_arrays(arrays, schema=_KEPT)


def _to_tuples(columns: Sequence[pa.ChunkedArray], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*map(python_values, columns), strict=True)) if columns else [()] * count


def _row(kind: int, values: tuple[Any, ...], names: tuple[str, ...]) -> Row:
    row = Row.named(names, values)
    row.set_row_kind(RowKind(kind))
    return row
