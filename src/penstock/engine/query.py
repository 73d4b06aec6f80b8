"""A job as one running Spark query."""

from __future__ import annotations

import importlib
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.checkpoint import JobCheckpoint, open_checkpoint
from penstock.engine.frames import build, direct
from penstock.engine.session import spark_session
from penstock.errors import (
    CheckpointError,
    ExecutionError,
    OptionsError,
    PenstockError,
    Problem,
    RecordError,
    from_wire,
)
from penstock.plan import Job, Scan
from penstock.spi import Batch, JobContext, Output, Runtime, Source, Target, cause_of, connectors

__all__ = ["JobProgress", "JobResult", "RunningJob", "run", "start"]


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come. ``records_in`` counts offsets read, ``records_out`` records written, since the start;
    ``committed_at`` is the Unix time of the last committed batch."""

    batch: int = -1
    records_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    batches: int = 0
    committed_at: float | None = None


@dataclass(frozen=True)
class JobResult:
    """What a job did until it ended. ``stopped``: it was asked to, before its sources were read."""

    job: str
    progress: JobProgress
    stopped: bool
    seconds: float


def run(job: Job, warn: Callable[[str], None] | None = None) -> JobResult:
    """Run ``job`` until all its sources are bounded and read. Raises the PenstockError that ended it."""
    running = start(job, warn)
    try:
        while not running.wait(timeout=3600):
            pass
    finally:
        running.stop()
    return running.result()


def start(job: Job, warn: Callable[[str], None] | None = None) -> RunningJob:
    """Start ``job`` and return while it runs. Raises a PenstockError when it cannot be started."""
    warn = warn or (lambda _: None)
    spark = spark_session(job.settings, job.name)
    location, folder = job.settings.checkpoint_dir, None
    if not job.settings.checkpointing:
        _check_forgetful(job)
        warn("checkpointing is off: where the job has got to is forgotten when it ends")
        folder = tempfile.TemporaryDirectory(prefix="penstock-")
        location = folder.name
    running = RunningJob(job, spark, open_checkpoint(spark, location, job.name), warn)
    running.folder = folder
    try:
        running.start()
    except BaseException:
        running.stop()
        raise
    return running


def _named(job: Job) -> list[str]:
    """The job's sinks, as a checkpoint remembers them."""
    return sorted(" ".join((sink.connector, repr(sink.table), *getattr(sink.spec, "topics", ()))) for sink in job.sinks)


def _check_forgetful(job: Job) -> None:
    """Exactly-once needs a checkpoint that lasts (rule 27)."""
    problems = tuple(
        Problem("exactly-once needs checkpointing, which is off", where=f"table '{sink.table}'", hint="switch it on")
        for sink in job.sinks
        if getattr(getattr(sink.spec, "guarantee", None), "value", "") == "exactly-once"
    )
    if problems:
        raise OptionsError(problems)


class RunningJob:
    """A started job: wait for it, look at its progress, stop it."""

    def __init__(self, job: Job, spark: SparkSession, checkpoint: JobCheckpoint, warn: Callable[[str], None]):
        self.job = job
        self.checkpoint = checkpoint
        #: Deleted when the job ends: the checkpoint of a job that keeps none.
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self._spark = spark
        self._warn = warn
        self._sources: list[Source] = []
        self._targets: list[Target] = []
        self._query: StreamingQuery | None = None
        self._progress = JobProgress()
        self._reached: tuple[dict[str, Any], ...] | None = None
        self._failure: PenstockError | None = None
        self._stopping = threading.Event()
        self._ended = False
        self._current = 0
        self._begun = time.monotonic()

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Resolve positions, take ownership of the targets and start the query."""
        context = self._context()
        frame = self._direct_frame(context) or self._computed_frame(context)
        for target in self._targets:
            target.open()
        writer = frame.writeStream.foreachBatch(self._batch).queryName(self.job.name)
        writer = writer.option("checkpointLocation", self.checkpoint.uri)
        if all(source.bounded for source in self._sources):
            writer = writer.trigger(availableNow=True)
        else:
            interval = self.job.settings.checkpoint_interval
            millis = int(interval.total_seconds() * 1000) if interval else 0
            writer = writer.trigger(processingTime=f"{millis} milliseconds")
        with _translated():
            self._query = writer.start()

    def wait(self, timeout: int) -> bool:
        """Wait up to ``timeout`` seconds; True when the job has ended. Raises the PenstockError that ended it."""
        if self._query is None:
            return True
        try:
            ended = self._query.awaitTermination(timeout)
        except PySparkException as error:
            if self._stopping.is_set():
                return True
            raise self._explain(error) from error
        self._ended = self._ended or (bool(ended) and not self._stopping.is_set())
        return bool(ended)

    def stop(self) -> None:
        """End the query, abort what it left open and release connections. Safe to call more than once."""
        self._stopping.set()
        if self._query is not None and self._query.isActive:
            self._query.stop()
        for target in self._targets:
            target.close()
        for source in self._sources:
            source.close()
        if self.folder is not None:
            self.folder.cleanup()

    def result(self) -> JobResult:
        """What the job did."""
        return JobResult(self.job.name, self._progress, not self._ended, time.monotonic() - self._begun)

    # --- looking at it ---------------------------------------------------------------------------------------

    @property
    def progress(self) -> JobProgress:
        """A snapshot of the job's counters."""
        return self._progress

    def lag(self) -> int | None:
        """Records between what is committed and the end of the sources, or None when that is not known."""
        reached = self._reached
        if reached is None:
            return None
        lags = [source.lag(end) for source, end in zip(self._sources, reached, strict=True)]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    # --- a batch ---------------------------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._stopping.is_set():
            raise ExecutionError("the job is being stopped")
        self._current = batch_id
        try:
            self._publish(frame, batch_id)
        except Exception as error:  # noqa: BLE001 - told again by wait()
            self._failure = self._explain(error)
            raise ExecutionError(f"batch {batch_id} failed") from None

    def _publish(self, frame: DataFrame, batch_id: int) -> None:
        batch = self._describe(batch_id)
        shared = len(self._targets) > 1
        if shared:
            frame = frame.persist()
        try:
            published = [target.publish(batch, frame) for target in self._targets]
        finally:
            if shared:
                frame.unpersist()
        recorded = {number for each in published for number in each.consumed}
        for number, (source, reached) in enumerate(zip(self._sources, batch.end, strict=True)):
            if number not in recorded:
                source.commit(reached)
        read = sum(
            source.records(start, end) for source, start, end in zip(self._sources, batch.start, batch.end, strict=True)
        )
        skipped = all(each.skipped for each in published)
        before = self._progress
        self._reached = batch.end
        self._progress = JobProgress(
            batch=batch_id,
            records_in=before.records_in + (0 if skipped else read),
            records_out=before.records_out + sum(each.records for each in published),
            bytes_out=before.bytes_out + sum(each.bytes for each in published),
            batches=before.batches + 1,
            committed_at=time.time(),
        )

    def _describe(self, batch_id: int) -> Batch:
        end = self.checkpoint.offsets(batch_id)
        if end is None or len(end) != len(self._sources):
            raise CheckpointError(
                f"the checkpoint '{self.checkpoint.location}' does not hold the positions of batch {batch_id} for "
                f"{len(self._sources)} source(s); was it changed by another program?"
            )
        logged = self.checkpoint.offsets(batch_id - 1) if batch_id > 0 else None
        if batch_id > 0 and logged is None:
            raise CheckpointError(
                f"'offsets/{batch_id - 1}' is missing from the checkpoint '{self.checkpoint.location}'; restore it"
            )
        start: Sequence[dict[str, Any] | None] = logged if logged is not None else [None] * len(end)
        tasks = [source.tasks(a, b) for source, a, b in zip(self._sources, start, end, strict=True)]
        consumed = [source.consumed(reached) for source, reached in zip(self._sources, end, strict=True)]
        return Batch(batch_id, tuple(start), end, sum(tasks), tuple(consumed))

    # --- building --------------------------------------------------------------------------------------------

    def _context(self) -> JobContext:
        self.checkpoint.check()
        known = self.checkpoint.read("job")
        planned = self.checkpoint.offsets(0) is not None or self.checkpoint.first_batch() > 0
        if known is None:
            if planned:
                raise CheckpointError(
                    f"the checkpoint '{self.checkpoint.location}' has batches but no 'penstock/job.json'; it was "
                    "damaged, or written by another program: restore it, or start with another directory"
                )
            known = {"query_id": str(uuid.uuid4()), "job": self.job.name, "sinks": _named(self.job)}
            self.checkpoint.write("job", known)
        elif known.get("sinks") != _named(self.job):
            self._warn(
                f"the checkpoint '{self.checkpoint.location}' was written by a job with the sinks "
                f"{', '.join(known.get('sinks', []))}, not {', '.join(_named(self.job))}; what it has read is not "
                "read again"
            )
            self.checkpoint.write("job", {**known, "sinks": _named(self.job)})
        return JobContext(
            job=self.job.name,
            query_id=str(known["query_id"]),
            run_id=str(uuid.uuid4()),
            checkpoint=self.checkpoint,
            settings=self.job.settings,
            parallelism=self.job.settings.parallelism or self._spark.sparkContext.defaultParallelism,
            spark=self._spark,
            planned=planned,
            stopping=self._stopping.is_set,
            warn=self._warn,
        )

    def _direct_frame(self, context: JobContext) -> DataFrame | None:
        """The frame of a job whose rows need no computing and whose one target can take them where they are read."""
        found = direct(self.job.sinks)
        if found is None:
            return None
        scan, outputs = found
        targets = self._build_targets(outputs, context)
        source = _runtime(scan.connector).source(scan.spec, 0, context)
        stage = targets[0].stage() if len(targets) == 1 and source.stageable else None
        if stage is None:
            return None
        self._sources, self._targets = [source], targets
        with _translated():
            return source.frame(stage)  # type: ignore[no-any-return]

    def _computed_frame(self, context: JobContext) -> DataFrame:
        """The frame of a job whose rows go through Spark SQL."""

        def frame_of(scan: Scan) -> DataFrame:
            # Called once for each reading, in the order in which Spark logs the positions of its sources.
            source = _runtime(scan.connector).source(scan.spec, len(self._sources), context)
            self._sources.append(source)
            return source.frame()  # type: ignore[no-any-return]

        with _translated():
            frame, outputs = build(self.job.sinks, frame_of)
        self._targets = self._build_targets(outputs, context)
        return frame

    def _build_targets(self, outputs: Sequence[Output], context: JobContext) -> list[Target]:
        grouped: dict[tuple[str, Any], list[Output]] = {}
        for output in outputs:
            connector = self.job.sinks[output.index].connector
            grouped.setdefault((connector, _runtime(connector).target_key(output.spec)), []).append(output)
        return [_runtime(connector).target(members, context) for (connector, _), members in grouped.items()]

    # --- errors ----------------------------------------------------------------------------------------------

    def _explain(self, error: Exception) -> PenstockError:
        """The PenstockError behind what Spark raised."""
        if self._failure is not None:
            return self._failure
        found = error if isinstance(error, PenstockError) else from_wire(str(error))
        if isinstance(found, RecordError) and not found.topic:
            return self._located(found)
        if found is not None:
            return found
        return ExecutionError(f"Spark ended the job '{self.job.name}': {cause_of(str(error)) or type(error).__name__}")

    def _located(self, error: RecordError) -> RecordError:
        """``error`` of a task, which knows a record's place only as a number, with the place's name."""
        ends = self.checkpoint.offsets(self._current) or ()
        for source, end in zip(self._sources, ends, strict=False):
            place = source.place(error.partition, end)
            if place is not None:
                args = list(error.args)
                args[1:3] = place
                return RecordError(*args)
        return error


def _runtime(connector: str) -> Runtime:
    module, _, name = connectors.get(connector).runtime.partition(":")
    runtime: Runtime = getattr(importlib.import_module(module), name)()
    return runtime


@contextmanager
def _translated() -> Iterator[None]:
    """Spark's analysis errors as ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = from_wire(str(error))
        if found is not None:
            raise found from error
        raise ExecutionError(f"Spark refuses the job: {cause_of(str(error))}") from error
