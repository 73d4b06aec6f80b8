"""One run of a job: a Spark query, from its checkpoint until it ends or fails."""

from __future__ import annotations

import importlib
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.engine.checkpoint import JobCheckpoint
from penstock.engine.planned import planned
from penstock.engine.reports import Reports, observed, watched
from penstock.engine.session import close_idle_callbacks, is_alive
from penstock.engine.translate import build, computed, direct, millis
from penstock.errors import (
    CheckpointError,
    CheckpointUnavailableError,
    ExecutionError,
    PenstockError,
    QueryStoppedError,
    RecordError,
    from_wire,
)
from penstock.plan import AssignWatermarks, Job, Scan, base
from penstock.spi import (
    Batch,
    Committer,
    JobContext,
    MetricGroup,
    Output,
    Published,
    Source,
    Stage,
    Written,
    cause_of,
    connectors,
)

__all__ = ["JobProgress", "Query", "gone"]

#: What PySpark raises: an error of Spark's, of the JVM's, or of the connection to it.
_FOREIGN = (PySparkException, Py4JError, ConnectionError)
#: How often a query that may end, but not at once, is looked at.
_LOOK_EVERY_SECONDS = 1
#: Spark's condition for an entry of its logs that is there already when it is to be written.
_CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"


@dataclass(frozen=True)
class JobProgress:
    """How far a job has come, over all restarts of this process. ``records_in`` counts offsets read, ``records_out``
    records written, since the start; ``committed_at`` is the Unix time of the last committed batch. ``restarts``
    counts how often the job was started again, ``last_failure`` is what it had failed with before."""

    batch: int = -1
    records_in: int = 0
    records_out: int = 0
    bytes_out: int = 0
    batches: int = 0
    committed_at: float | None = None
    restarts: int = 0
    last_failure: str = ""


def _named(job: Job) -> list[str]:
    """The job's sinks, as a checkpoint remembers them."""
    return sorted(
        " ".join((sink.connector, repr(sink.table), *sink.spec.capabilities.destinations)) for sink in job.sinks
    )


class Query:
    """One run of a job. ``stopping`` tells whether the job is to end; ``progress`` is what former runs have done, and
    ``metrics`` is where they have counted. A restart has the ``former_id`` of the query that ran before it, and goes on
    with no other: to an empty folder in the checkpoint's place it would publish everything again."""

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        checkpoint: JobCheckpoint,
        warn: Callable[[str], None],
        stopping: Callable[[], bool],
        progress: JobProgress,
        metrics: MetricGroup,
        former_id: str = "",
    ):
        #: What the checkpoint calls the query, once it is started.
        self.query_id = former_id
        #: A snapshot of the job's counters.
        self.progress = progress
        #: Spark's handle on it, once it is started.
        self.spark_query: StreamingQuery | None = None
        self._former_id = former_id
        self._job = job
        self._spark = spark
        self._checkpoint = checkpoint
        self._warn = warn
        self._stopping = stopping
        self._metrics = metrics
        self._reports = Reports()
        self._sources: list[Source] = []
        self._committers: list[Committer] = []
        self._outputs: list[list[Output]] = []  # of each committer
        self._reached: tuple[dict[str, Any], ...] | None = None
        self._failure: PenstockError | None = None
        self._misses_reports = False
        self._current = 0
        self._at_work = threading.RLock()

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take ownership of the committers, resolve positions and start the Spark query. Raises a PenstockError."""
        try:
            self._start()
        except _FOREIGN as error:
            raise self._explain(error) from error

    def _start(self) -> None:
        context = self._context()
        staged, outputs = self._staged(context) or (None, computed(self._job.sinks))
        if staged is None:
            self._committers = self._build_committers(outputs, context)
        # Before sources look for starts: a transaction that a former run left open holds back the group's offsets.
        for committer in self._committers:
            committer.open()
        with _translated():
            readings = Readings(self._sources, context)
            frame = readings.staged(*staged) if staged else build(self._job.sinks, outputs, readings)
        self._reached = self._checkpoint.offsets(self._checkpoint.first_batch() - 1)
        writer = frame.writeStream.foreachBatch(self._batch).queryName(self._job.name)
        writer = writer.option("checkpointLocation", self._checkpoint.uri)
        if self._bounded:
            writer = writer.trigger(availableNow=True)
        else:
            interval = self._job.settings.checkpoint_interval
            millis = int(interval.total_seconds() * 1000) if interval else 0
            writer = writer.trigger(processingTime=f"{millis} milliseconds")
        with _translated():
            self.spark_query = writer.start()

    @property
    def _bounded(self) -> bool:
        return all(source.bounded for source in self._sources)

    def wait(self) -> bool:
        """Wait for the end: True when all sources were read, False when the query was stopped. Raises the PenstockError
        that ended it; of a query that is being stopped only one that a restart would not heal, for any other may be
        due to that."""
        if self.spark_query is None:
            raise ExecutionError(f"job '{self._job.name}' was not started")
        try:
            self._await_end(self.spark_query)
        except _FOREIGN as error:
            if self._stopping() and (self._failure is None or self._failure.restartable):
                return False
            raise self._explain(error) from error
        if self._stopping():
            return False
        if not is_alive(self._spark):
            raise gone(self._job)
        if not self._ended():  # Spark tells no more than that the query has ended, by itself or by a call of stop()
            raise self._stopped_by_others()
        return True

    def _await_end(self, query: StreamingQuery) -> None:
        """Wait until Spark has ended the query, or end it when all sources are at their ends."""
        if self._bounded:
            query.awaitTermination()
            return
        while not query.awaitTermination(_LOOK_EVERY_SECONDS):
            self.gather()
            if self._ended():
                query.processAllAvailable()  # Spark's log has the last batch a moment after its sinks
                query.stop()

    def _ended(self) -> bool:
        reached = self._reached or [None] * len(self._sources)
        return all(source.ended(end) for source, end in zip(self._sources, reached, strict=True))

    def close(self) -> None:
        """End the Spark query, abort what it left open and release connections. Safe to call more than once.

        Whatever fails, the rest is closed. Raises ExecutionError with all that has failed.
        """
        failures: list[Exception] = []
        _close(self._end, failures)
        self.gather()
        with self._at_work:  # when Spark has died under it, a batch may still be aborting its transaction
            for committer in self._committers:
                _close(committer.close, failures)
            for source in self._sources:
                _close(source.close, failures)
        close_idle_callbacks(self._spark)
        if failures:
            raise ExecutionError("; ".join(map(str, failures))) from failures[0]

    def _end(self) -> None:
        try:
            if self.spark_query is not None and self.spark_query.isActive:
                self.spark_query.stop()
        except _FOREIGN as error:
            if is_alive(self._spark):
                raise ExecutionError(f"Spark did not end the query: {cause_of(str(error))}") from error

    def lag(self) -> int | None:
        """Records between what is committed and the end of the sources, or None when that is not known."""
        reached = self._reached
        if reached is None:
            return None
        lags = [source.lag(end) for source, end in zip(self._sources, reached, strict=True)]
        return None if None in lags else sum(lag for lag in lags if lag is not None)

    def gather(self) -> None:
        """Take in what the tasks of the last batches have told. A batch's reports are there soon after it is done."""
        if self.spark_query is None:
            return
        try:
            self._reports.deliver(self.spark_query, self._sources, self._checkpoint)
        except _FOREIGN:  # without Spark nothing more is told
            pass
        except Exception as error:  # noqa: BLE001 - what is told are figures, which fail no batch that is committed
            if not self._misses_reports:
                self._misses_reports = True
                self._warn(f"job '{self._job.name}': its metrics and watermarks miss what a batch told: {error}")

    # --- a batch ---------------------------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        if self._stopping():
            raise ExecutionError("the job is being stopped")
        self._current = batch_id
        with self._at_work:
            try:
                self._publish(frame, batch_id)
            except Exception as error:  # noqa: BLE001 - told again by wait()
                self._failure = self._explain(error)
                raise ExecutionError(f"batch {batch_id} failed") from None

    def _publish(self, frame: DataFrame, batch_id: int) -> None:
        batch = self._describe(batch_id)
        shared = len(self._committers) > 1
        if shared:
            frame = frame.persist()
        try:
            published = self._published(batch, frame)
        finally:
            if shared:
                frame.unpersist()
        recorded = {number: well for each in published for number, well in each.consumed.items()}
        for number, (source, reached) in enumerate(zip(self._sources, batch.end, strict=True)):
            source.done(reached, recorded.get(number))
        for outputs, each in zip(self._outputs, published, strict=True):
            for output, written in zip(outputs, each.written, strict=False):
                self._count(output, written)
        self.gather()  # of the batch before
        read = sum(
            source.records(start, end) for source, start, end in zip(self._sources, batch.start, batch.end, strict=True)
        )
        skipped = all(each.skipped for each in published)
        before = self.progress
        self._reached = batch.end
        self.progress = replace(
            before,
            batch=batch_id,
            records_in=before.records_in + (0 if skipped else read),
            records_out=before.records_out + sum(each.records for each in published),
            bytes_out=before.bytes_out + sum(each.bytes for each in published),
            batches=before.batches + 1,
            committed_at=time.time(),
        )

    def _published(self, batch: Batch, frame: DataFrame) -> list[Published]:
        """What each committer has made of the batch.

        What sources have consumed is committed by the last one only, when all others have the batch: a job that lost
        its checkpoint goes on from there. So one that can commit it comes last.
        """
        order = list(range(len(self._committers)))
        if len(order) > 1:
            order.sort(key=lambda number: any(map(self._committers[number].records, batch.consumed)))
        before_last = replace(batch, consumed=())
        done = {n: self._committers[n].publish(batch if n == order[-1] else before_last, frame) for n in order}
        return [done[number] for number in range(len(order))]

    def _count(self, output: Output, written: Written) -> None:
        """The metrics of a table that is written (seed 003)."""
        group = self._metrics.add_group("operator", output.table)
        group.count("numRecordsOut", "numRecordsOutPerSecond", written.records)
        group.count("numBytesOut", "numBytesOutPerSecond", written.bytes)
        if written.send_millis is not None:
            group.gauge("currentSendTime", lambda: written.send_millis)

    def _describe(self, batch_id: int) -> Batch:
        end = self._checkpoint.offsets(batch_id)
        if end is None or len(end) != len(self._sources):
            raise CheckpointError(
                f"the checkpoint '{self._checkpoint.location}' does not hold the positions of batch {batch_id} for "
                f"{len(self._sources)} source(s); was it changed by another program?"
            )
        logged = self._checkpoint.offsets(batch_id - 1) if batch_id > 0 else None
        if batch_id > 0 and logged is None:
            raise CheckpointError(
                f"'offsets/{batch_id - 1}' is missing from the checkpoint '{self._checkpoint.location}'; restore it"
            )
        self._check_alone(batch_id, logged or (), end)
        start: Sequence[dict[str, Any] | None] = logged if logged is not None else [None] * len(end)
        for source, a, b in zip(self._sources, start, end, strict=True):
            for loss in source.losses(a, b):
                self._warn(loss)
        tasks = [source.tasks(a, b) for source, a, b in zip(self._sources, start, end, strict=True)]
        consumed = [source.consumed(reached) for source, reached in zip(self._sources, end, strict=True)]
        return Batch(batch_id, tuple(start), end, sum(tasks), tuple(consumed))

    def _check_alone(self, batch_id: int, start: tuple[dict[str, Any], ...], end: tuple[dict[str, Any], ...]) -> None:
        """Raises CheckpointError when Spark's log says something else than what Spark has planned and is reading.

        Spark looks whether an entry is there before it renames its own into place, so that another copy of the job may
        have replaced it. Progress would name what was not published (docs/decisions/0026-two-drivers.md).
        """
        batch = planned(self._spark)
        logs = ((batch_id - 1, start, batch.start if start else ()), (batch_id, end, batch.end))
        for number, logged, known in logs:
            if logged != known:
                raise CheckpointError(
                    f"another copy of job '{self._job.name}' writes the checkpoint '{self._checkpoint.location}': "
                    f"'offsets/{number}' ends at {_told(logged)}, but this copy planned {_told(known)}; stop one of "
                    "the two, and start the job again"
                )

    # --- building --------------------------------------------------------------------------------------------

    def _context(self) -> JobContext:
        self._checkpoint.check()
        known = self._checkpoint.read("job")
        if known is None and self._former_id:
            raise CheckpointUnavailableError(
                f"the checkpoint '{self._checkpoint.location}', which the job was started with, holds no "
                "'penstock/job.json' any more: is its volume still mounted?"
            )
        if known is not None and self._former_id not in {"", known["query_id"]}:
            raise CheckpointError(
                f"the checkpoint '{self._checkpoint.location}' is not the one that the job was started with any more: "
                "it is another query's. Put the former one back, and start the job again"
            )
        if known is not None and known.get("job", self._job.name) != self._job.name:
            raise CheckpointError(
                f"the checkpoint '{self._checkpoint.location}' is that of job '{known['job']}', or a copy of it, and "
                f"job '{self._job.name}' would shut that one out. Start with an empty directory; if the job was "
                "renamed, change 'job' in the directory's 'penstock/job.json'"
            )
        if known is not None and "secret" not in known:  # made before progress was sealed: it is adopted or refused
            known["secret"] = secrets.token_hex(32)
            self._checkpoint.write("job", known)
        first_batch = self._checkpoint.first_batch()
        planned = self._checkpoint.offsets(0) is not None or first_batch > 0
        if known is None:
            if planned:
                raise CheckpointError(
                    f"the checkpoint '{self._checkpoint.location}' has batches but no 'penstock/job.json'; it was "
                    "damaged, or written by another program: restore it, or start with another directory"
                )
            identity = {"query_id": str(uuid.uuid4()), "secret": secrets.token_hex(32)}
            known = self._checkpoint.create("job", {**identity, "job": self._job.name, "sinks": _named(self._job)})
        elif known.get("sinks") != _named(self._job):
            self._warn(
                f"the checkpoint '{self._checkpoint.location}' was written by a job with the sinks "
                f"{', '.join(known.get('sinks', []))}, not {', '.join(_named(self._job))}; what it has read is not "
                "read again"
            )
            self._checkpoint.write("job", {**known, "sinks": _named(self._job)})
        self.query_id = str(known["query_id"])
        return JobContext(
            job=self._job.name,
            query_id=self.query_id,
            run_id=str(uuid.uuid4()),
            secret=str(known.get("secret", "")),
            checkpoint=self._checkpoint,
            settings=self._job.settings,
            parallelism=self._job.settings.parallelism or self._spark.sparkContext.defaultParallelism,
            spark=self._spark,
            planned=planned,
            first_batch=first_batch,
            reached=self._checkpoint.offsets(first_batch - 1) or (),
            stopping=self._stopping,
            warn=self._warn,
            metrics=self._metrics,
            restarted=self.progress.restarts > 0,
        )

    def _staged(self, context: JobContext) -> tuple[tuple[Scan, Stage], Sequence[Output]] | None:
        """The scan and stage of a job whose rows need no computing, and the sinks; None for any other job."""
        found = direct(self._job.sinks)
        if found is None:
            return None
        scan, outputs = found
        committers = self._build_committers(outputs, context)
        stage = committers[0].stage() if len(committers) == 1 and scan.spec.capabilities.staged else None
        if stage is None:
            return None
        self._committers = committers
        return (scan, stage), outputs

    def _build_committers(self, outputs: Sequence[Output], context: JobContext) -> list[Committer]:
        grouped: dict[tuple[str, Any], list[Output]] = {}
        for output in outputs:
            connector = self._job.sinks[output.index].connector
            grouped.setdefault((connector, _runtime(connector).commit_group(output.spec)), []).append(output)
        self._outputs = list(grouped.values())
        return [_runtime(connector).committer(members, context) for (connector, _), members in grouped.items()]

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
        if isinstance(error, _FOREIGN) and not is_alive(self._spark):
            return gone(self._job)
        if isinstance(error, PySparkException) and _CONCURRENT in _conditions(error, self._spark):
            return CheckpointError(
                f"another copy of job '{self._job.name}' writes the checkpoint '{self._checkpoint.location}': its log "
                "has an entry that this copy did not make; stop one of the two"
            )
        return ExecutionError(f"Spark ended the job '{self._job.name}': {cause_of(str(error)) or type(error).__name__}")

    def _stopped_by_others(self) -> QueryStoppedError:
        return QueryStoppedError(
            f"job '{self._job.name}': something other than penstock stopped its query before its sources were at their "
            "ends; look for a call of stop() on a query of 'spark.streams.active', and for another session of this "
            "process that has started the same job ('spark.sql.streaming.stopActiveRunOnRestart'), and start the job "
            "again: it goes on where it was stopped"
        )

    def _located(self, error: RecordError) -> RecordError:
        """``error`` of a task, which knows a record's place only as a number, with the place's name."""
        ends = self._checkpoint.offsets(self._current) or ()
        for source, end in zip(self._sources, ends, strict=False):
            place = source.place(error.partition, end)
            if place is not None:
                args = list(error.args)
                args[1:3] = place
                return RecordError(*args)
        return error


def _close(close: Callable[[], None], failures: list[Exception]) -> None:
    try:
        close()
    except Exception as error:  # noqa: BLE001 - what else is open is closed all the same
        failures.append(error)


def _told(positions: Sequence[dict[str, Any]]) -> str:
    return json.dumps(list(positions), sort_keys=True)


class Readings:
    """Makes the sources of a job and their frames; ``sources`` grows in the order in which Spark logs positions."""

    def __init__(self, sources: list[Source], context: JobContext):
        self._sources = sources
        self._context = context
        self._of: dict[Scan, int] = {}
        self._watched: set[int] = set()

    def frame(self, scan: Scan) -> DataFrame:
        """The rows of a scan that is read once more."""
        source = self._source(scan)
        return observed(source.frame(), self._of[scan], timed=source.timed)

    def staged(self, scan: Scan, stage: Stage) -> DataFrame:
        """What ``stage`` makes of the rows of a scan."""
        return observed(self._source(scan).frame(stage), self._of[scan], timed=False)

    def _source(self, scan: Scan) -> Source:
        self._of[scan] = len(self._sources)
        source: Source = _runtime(scan.connector).source(scan.spec, len(self._sources), self._context)
        self._sources.append(source)
        return source

    def watched(self, node: AssignWatermarks, frame: DataFrame) -> DataFrame:
        """``frame`` with its watermarks observed, if its source needs to be told and nobody does so yet."""
        scan = base(node)
        ordinal = self._of.get(scan) if isinstance(scan, Scan) else None
        if ordinal is None or self._sources[ordinal].measures or ordinal in self._watched:
            return frame
        self._watched.add(ordinal)
        return watched(frame, ordinal, millis(node.watermark))


def gone(job: Job) -> ExecutionError:
    """What is raised when there is no Spark any more to run the job in."""
    return ExecutionError(
        f"job '{job.name}': Spark has ended under it; its JVM was killed or ran out of memory, or its session was "
        "stopped. A restart takes a new process: start the job again, after a look at Spark's log and memory"
    )


def _conditions(error: PySparkException, spark: SparkSession) -> Iterator[str]:
    """Spark's conditions for an error and all that caused it, which PySpark does not tell of every cause."""
    gateway: Any = spark.sparkContext._gateway
    cause: Any = getattr(error, "_origin", None)
    while cause is not None:
        if is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
            yield str(cause.getCondition())
        cause = cause.getCause()


def _runtime(connector: str) -> Any:
    module, _, name = connectors.get(connector).runtime.partition(":")
    return getattr(importlib.import_module(module), name)()


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
