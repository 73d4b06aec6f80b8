"""The filesystem connector on Spark: a data source over files, and a committer that makes files visible."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from penstock.connectors.filesystem.files import (
    File,
    Files,
    Folder,
    describe_place,
    hidden_name,
    overwrite,
    publish,
    read,
)
from penstock.connectors.filesystem.spec import FilesystemScanSpec, FilesystemSinkSpec
from penstock.delivery import to_canonical_json
from penstock.spi import (
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
    StartContext,
    Task,
    Writer,
    WriterFactory,
    WriteTasks,
    Written,
    add_empty_reports,
    check_source,
    frame_schema,
    guard_errors,
    pickle_text,
    place_rows,
    read_frame,
    run_stage,
    source_document,
    unpickle_text,
)

#: The bytes of a batch's files, about; a batch has at least one file.
_BATCH_BYTES = 256 << 20


class FilesystemRuntime:
    """Builds the sources and committers of a job's filesystem tables."""

    def source(self, spec: FilesystemScanSpec, ordinal: int, context: JobContext) -> Source:
        """Reads the files from the first one, or from where the checkpoint says."""
        return FilesSource(spec, ordinal, context)

    def check_scan(self, spec: FilesystemScanSpec, ordinal: int, context: StartContext) -> None:
        """Check that the folder may be read, if the files are not known from an earlier start."""
        folder, checkpoint = Folder.from_path(spec.options.path), context.checkpoint
        if checkpoint is None:  # all of them may have been read
            return
        if check_source(checkpoint, ordinal, spec.table, {"path": folder.uri}, former="files") is None:
            folder.files()

    def commit_group(self, spec: FilesystemSinkSpec) -> Hashable:
        """Each table has a committer."""
        return spec.table

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer that writes the files of ``outputs``."""
        return FilesCommitter(outputs, context)


# --- reading -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReadSpec:
    """What a reading process must know: the files, in their order, and the number of the first."""

    scan: FilesystemScanSpec
    ordinal: int
    files: tuple[File, ...]
    start: int
    #: Whether all files are one batch.
    whole: bool


class FilesSource(Source):
    """One scan of a running job. A position is ``{"file": n}``: files before number n are read. The first start writes
    the list of files to the checkpoint."""

    bounded = True
    of_files = True

    def __init__(self, scan: FilesystemScanSpec, ordinal: int, context: JobContext):
        self._spark: SparkSession = context.spark
        folder = Folder.from_path(scan.options.path)
        known = source_document(
            context,
            ordinal,
            scan.table,
            {"path": folder.uri},
            lambda: {"files": [asdict(each) for each in folder.files()]},
            former="files",
        )
        start = int(known.get("start", {"file": 0})["file"])
        self._read_spec = ReadSpec(
            scan, ordinal, tuple(File(**each) for each in known["files"]), start, context.settings.batch
        )

    def frame(self, stage: SentStage | None = None) -> DataFrame:
        """The streaming DataFrame, or the result of ``stage`` on it."""
        schema = frame_schema(self._read_spec.scan.schema)
        frame: DataFrame = read_frame(self._spark, FilesDataSource, schema, self._read_spec, stage)
        return frame

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """A task reads a file."""
        return self.count_records(start, end)

    def place(self, number: int, offset: int, end: dict[str, Any]) -> str:
        """The file and the line, or the row in a file of Parquet."""
        file = number - self._read_spec.ordinal * PARTITIONS_PER_SOURCE
        if not 0 <= file < len(self._read_spec.files):
            return ""
        return describe_place(self._read_spec.scan, self._read_spec.files[file], offset)

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The files. Event time waits for those that are not read yet; if there are none, it has ended."""
        first, count = self._read_spec.ordinal * PARTITIONS_PER_SOURCE, len(self._read_spec.files)
        if self._read_spec.start == count:
            return (SourcePartition(first, "0", ended=True),)
        numbers = range(self._read_spec.start, count)
        return tuple(SourcePartition(first + each, str(each), ended=each < end["file"]) for each in numbers)

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        """The files between the two positions."""
        return int(end["file"]) - (int(start["file"]) if start else self._read_spec.start)

    def has_ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the last file is read."""
        file = int(reached["file"]) if reached else self._read_spec.start
        return file == len(self._read_spec.files)

    def lag(self, reached: dict[str, Any]) -> int | None:
        """The files that are not read yet."""
        return len(self._read_spec.files) - int(reached["file"])


class FilesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches in Spark's planning process, and reads files in tasks."""

    def __init__(self, read_spec: ReadSpec, stage: str | None = None):
        self._read_spec, self._stage = read_spec, stage

    def initialOffset(self) -> dict[str, Any]:
        """The first file, or the savepoint's."""
        return {"file": self._read_spec.start}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many files as a batch takes."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: all files are known."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch reads."""
        file, files, left = int(start["file"]), self._read_spec.files, _BATCH_BYTES
        if self._read_spec.whole:
            return {"file": len(files)}
        while file < len(files) and (left > 0 or file == start["file"]):
            left -= files[file].size
            file += 1
        return {"file": file}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """A task for each file."""
        count = end["file"] - start["file"]
        return [InputPartition((start["file"] + number, Task(number, count))) for number in range(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a file, followed by the engine's columns, or the result of the stage on them."""
        number, task = partition.value
        rows = self._read_rows(number)
        if self._stage is not None:
            rows, _ = run_stage(self._stage, task, TaskContext.get(), rows)
        return add_empty_reports(rows)

    def _read_rows(self, number: int) -> Iterator[pa.RecordBatch]:
        read_spec = self._read_spec
        place = read_spec.ordinal * PARTITIONS_PER_SOURCE + number
        for rows, offsets in guard_errors(read)(read_spec.scan, read_spec.files[number]):
            yield place_rows(rows.columns, read_spec.scan.schema, place, pa.array(offsets))


class FilesDataSource(ScanDataSource, DataSource):
    """Spark's view of a scan."""

    format, reader_class = "penstock_filesystem", FilesReader


# --- writing -------------------------------------------------------------------------------------------------


#: The files of an output, by its number, and how many rows each has.
_WRITTEN = pa.schema({"output": pa.int32(), "name": pa.string(), "rows": pa.int64()})


class FilesCommitter(Committer):
    """Lets the files of a batch, which its tasks write under hidden names, appear when all are written."""

    def __init__(self, outputs: Sequence[Output], context: JobContext):
        self._outputs = tuple(outputs)
        self._job, self._run = (each.replace("-", "")[:12] for each in (context.query_id, context.run_id))

    def writers(self) -> WriterFactory:
        """Write files in the tasks that compute their rows."""
        return WriterFactory(partial(_FileWriter, self._outputs), _WRITTEN)

    def instructions(self, batch: Batch) -> str:
        """The beginning of the names of the batch's files of each output, and what distinguishes this run's."""
        return pickle_text((tuple(self._prefix(output, batch) for output in self._outputs), self._run))

    def publish(self, batch: Batch, tasks: WriteTasks) -> Published:
        """Let the batch's files appear. They replace the files of former attempts at the batch."""
        found = tasks.collect(self.instructions(batch)).rows
        counts = []
        for number, output in enumerate(self._outputs):
            mine = {row["name"]: row["rows"] for row in found if row["output"] == number}
            publish(output.spec, self._prefix(output, batch), list(mine))
            counts.append(sum(mine.values()))
        if any(output.spec.overwrite for output in self._outputs):
            names = [row["name"] for row in found]
            overwrite(self._outputs[0].spec, [self._prefix(output, batch) for output in self._outputs], names)
        return Published(tuple(map(Written, counts)))

    def _prefix(self, output: Output, batch: Batch) -> str:
        """The beginning of the names of a batch's files."""
        # A copy of the job may have planned other rows under the same number: their files are not attempts at this one.
        positions = hashlib.sha256(to_canonical_json([batch.start, batch.end]).encode()).hexdigest()[:12]
        return f"part-{self._job}-{output.index}-{batch.id:09d}-{positions}-"


class _FileWriter(Writer):
    """Writes the files of a task, under names that begin as the task's instructions say."""

    def __init__(self, outputs: Sequence[Output], task: Task):
        prefixes, run = unpickle_text(task.instructions)
        attempt = uuid.uuid4().hex[
            :12
        ]  # Spark may run a task twice, and a task of a job with state writes several times
        self._files = [
            Files(output.spec, hidden_name(prefix, run, task.number, attempt, output.spec.options.format))
            for output, prefix in zip(outputs, prefixes, strict=True)
        ]

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        self._files[output].write(rows)
        return ()

    def finish(self) -> Iterator[pa.RecordBatch]:
        found = [(number, *each) for number, files in enumerate(self._files) for each in files.finish().items()]
        if found:
            columns = zip(zip(*found, strict=True), _WRITTEN, strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(each, field.type) for each, field in columns], schema=_WRITTEN)

    def close(self) -> None:
        for each in self._files:
            each.close()
