"""One run of a job: a Spark query, from its checkpoint until it ends or fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from penstock.engine.checkpoint import JobCheckpoint, read_location
from penstock.engine.checkpoint.committed import STATE, keeps_nothing, write_started, write_stopped
from penstock.engine.checkpoint.lease import Lease
from penstock.engine.checkpoint.savepoints import check_origin, origin_of, write_starts
from penstock.engine.checkpoint.state_report import claimed_steps
from penstock.engine.runs.batch_positions import JobProgress, describe_batch, replaced_entry_error
from penstock.engine.runs.driver_tasks import DriverTask
from penstock.engine.runs.failures import (
    FOREIGN,
    explain_failure,
    spark_gone_error,
    stopped_by_others,
    translate_errors,
)
from penstock.engine.runs.flows import FlowRun, check_committers
from penstock.engine.runs.identity import identify, ordered_scans, uids_of
from penstock.engine.runs.reports import Reports, reports_of
from penstock.engine.runs.sources import SourceSet, runtime
from penstock.engine.runs.states import check_no_state
from penstock.engine.runs.write_tasks import ReadingTasks
from penstock.engine.session import close_idle_callbacks, is_alive, kernel_session
from penstock.errors import BatchError, ExecutionError, PenstockError, RecordError
from penstock.flow.graph.outlets import Target
from penstock.flow.graph.routes import outputs_of, plan_reading
from penstock.flow.state.table_totals import add_totals
from penstock.plan.nodes import Job, Scan, scans
from penstock.spi import (
    Batch,
    Committer,
    JobContext,
    MetricGroup,
    NextBatch,
    OnDriver,
    Output,
    Published,
    Source,
    Stage,
    WriterFactory,
    Written,
    cause_of,
    connectors,
)

#: How often a query with sources that may end one after the other is checked, and whether all records of a batch job
#: are there.
_CHECK_EVERY_SECONDS = 1
#: How long a query that is being stopped waits for Spark to log the batch that was published last.
_LOG_SECONDS = 10


@dataclass(eq=False)
class Query:
    """One run of a job. ``stopping`` tells whether the job is to end. ``progress`` and ``metrics`` come from former
    runs. A restart has the ``query_id`` of the query that ran before it, and continues no other query."""

    job: Job
    spark: SparkSession
    checkpoint: JobCheckpoint
    warn: Callable[[str], None]
    stopping: Callable[[], bool]
    #: A snapshot of the job's counters.
    progress: JobProgress
    metrics: MetricGroup
    #: The checkpoint's id of the query, once it is started; empty before the first start.
    query_id: str
    #: That of the checkpoint.
    lease: Lease
    #: Takes what is neither a warning nor an error.
    say: Callable[[str], None] = lambda _: None
    #: Whether it continues from a checkpoint or a savepoint, once it is started.
    continues: bool = field(default=False, init=False)
    #: Spark's handle on it, once it is started.
    spark_query: StreamingQuery | None = field(default=None, init=False)
    #: Starts it.
    _writer: DataStreamWriter | None = field(default=None, init=False)
    _reports: Reports = field(default_factory=Reports, init=False)
    _sources: list[Source] = field(default_factory=list, init=False)
    _scans: tuple[Scan, ...] = field(default=(), init=False)
    _committers: list[Committer] = field(default_factory=list, init=False)
    #: The outputs of each committer.
    _outputs: list[list[Output]] = field(default_factory=list, init=False)
    #: The dataflow of a job whose rows are not written where they are read.
    _flow: FlowRun | None = field(default=None, init=False)
    #: What writes the rows of a job where they are read.
    _writers: WriterFactory = field(init=False)
    #: The work of the tasks of a job whose small batches the driver computes.
    _stage: Stage | None = field(default=None, init=False)
    _reached: tuple[dict[str, Any], ...] | None = field(default=None, init=False)
    _failure: PenstockError | None = field(default=None, init=False)
    _misses_reports: bool = field(default=False, init=False)
    #: The reference to the state that the job began with; empty without a savepoint.
    _origin_state: str = field(default="", init=False)
    _run: str = field(default_factory=lambda: str(uuid.uuid4()), init=False)
    #: The last batch that this run has published, or found published.
    _published: int | None = field(default=None, init=False)
    #: The last batch that this run has published, and its end.
    _last: tuple[int, tuple[dict[str, Any], ...]] | None = field(default=None, init=False)
    #: Whether a batch is under way, or has failed: some committers may have it, or all of them.
    _unfinished: bool = field(default=False, init=False)
    _current: int = field(default=0, init=False)
    _at_work: threading.RLock = field(default_factory=threading.RLock, init=False)

    # --- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take ownership of the committers, resolve positions and start the Spark query; in batch mode :meth:`wait`
        starts it if records have still to come. Raises a PenstockError."""
        try:
            self._start()
        except FOREIGN as error:
            raise self._explain(error) from error

    def _start(self) -> None:
        context = self._context()
        self._committers = self._build_committers(outputs_of(self.job), context)
        reading = None
        if len(self._committers) == 1:
            reading = plan_reading(self.job, self._scans, kernel_session(self.spark, self.job.settings))
        if reading is None:
            place, origin = self.checkpoint.folder(STATE), self._origin_state
            self._flow = FlowRun(self.job, self._scans, self._committers, self._outputs, context, place, origin)
            if self._flow.keeps_rows:
                check_committers(self.job, self._committers, self._outputs)
        else:
            check_no_state(self.checkpoint, self._origin_state)
        # Sources look for their starts later: an open transaction of a former run holds back the group's offsets.
        for committer in self._committers:
            committer.check()
        if self._flow is not None:
            self._flow.check()
            self.progress = self._with_state(self._flow)
        # Before and after: a copy that was taken over from may have been stopped in between, and fences nobody.
        self.lease.claim(self.stopping)
        for committer in self._committers:
            committer.open()
        self.lease.look()
        with translate_errors():
            source_set = SourceSet(self._sources, context, self._scans)
            if reading is not None:
                self._writers = self._committers[0].writers()
                target = Target(tuple(range(len(self.job.sinks))), self._writers)
                work = replace(reading, targets=(target,)).stage(0)
                self._stage = None if work.calls else work
                frame = source_set.staged(self._scans[0], work)
            else:
                assert self._flow is not None, "a job that no reading task can run has a flow"  # noqa: S101
                frame = self._flow.frame(source_set)
                self._stage = self._flow.driver_stage()
        write_started(self.checkpoint, self._run)
        self._reached = self.checkpoint.offsets(self.checkpoint.first_batch() - 1)
        self.continues = bool(self._reached) or context.forked
        if not context.restarted:
            self._say_starts()
        writer = frame.writeStream.foreachBatch(self._batch).queryName(self.job.name)
        writer = writer.option("checkpointLocation", self.checkpoint.spark_uri)
        if self._bounded:
            writer = writer.trigger(availableNow=True)
        else:
            interval = self.job.settings.checkpoint_interval
            millis = int(interval.total_seconds() * 1000) if interval else 0
            writer = writer.trigger(processingTime=f"{millis} milliseconds")
        self._writer = writer
        self._begin(writer)

    def _say_starts(self) -> None:
        """Say where each table is read from, and why, in a line for each table."""
        usual = "starts at its beginning"
        if self.continues:
            usual = f"continues from the {'checkpoint' if self._reached else 'savepoint'}"
        reached = self._reached or [None] * len(self._sources)
        lines = (
            f"table '{scan.table}' {source.start_text(at) or usual}"
            for scan, source, at in zip(self._scans, self._sources, reached, strict=False)
        )
        for line in dict.fromkeys(lines):
            self.say(f"job '{self.job.name}': {line}")

    def _begin(self, writer: DataStreamWriter) -> None:
        """Start the Spark query; in batch mode only if all records are there: a source that is complete would make the
        batch without those of the others."""
        if self.job.settings.batch and not all(source.complete() for source in self._sources):
            return
        with translate_errors():
            self.spark_query = writer.start()

    @property
    def _bounded(self) -> bool:
        return all(source.bounded for source in self._sources)

    def wait(self) -> bool:
        """Wait for the end: True when all sources were read, False when the query was stopped. Raises the PenstockError
        that ended it. A query that is being stopped raises only errors that a restart would not fix, because the stop
        itself may cause other errors."""
        if self._writer is None:
            raise ExecutionError(f"job '{self.job.name}' was not started; call start() first")
        try:
            while self.spark_query is None:
                if self.stopping():
                    return False
                if self._failure is not None:
                    raise self._failure
                time.sleep(_CHECK_EVERY_SECONDS)
                self._begin(self._writer)
            if self._failure is not None:  # it was ended while it was being started
                raise self._failure
            self._await_end(self.spark_query)
        except FOREIGN as error:
            if self.stopping() and (self._failure is None or self._failure.restartable):
                return False
            raise self._explain(error) from error
        if self.stopping():
            return False
        if self._failure is not None:
            raise self._failure
        if not is_alive(self.spark):
            raise spark_gone_error(self.job)
        if not self._ended():  # Spark does not say whether a query ended by itself or by a call of stop()
            raise stopped_by_others(self.job)
        return True

    def _await_end(self, query: StreamingQuery) -> None:
        """Wait until Spark has ended the query, or end it when all sources are at their ends."""
        if self._bounded:
            query.awaitTermination()
            return
        while not query.awaitTermination(_CHECK_EVERY_SECONDS):
            self.gather()
            if self._ended():
                query.processAllAvailable()  # Spark logs the last batch a moment after its sinks have it
                query.stop()

    def _ended(self) -> bool:
        reached = self._reached or [None] * len(self._sources)
        return all(source.has_ended(end) for source, end in zip(self._sources, reached, strict=True))

    def end(self, failure: PenstockError) -> None:
        """End the Spark query because of ``failure``, which :meth:`wait` raises, in another thread than that."""
        self._failure = self._failure or failure
        with suppress(ExecutionError):  # close() says it
            self._end()

    def check_log(self) -> None:
        """Raise CheckpointError unless Spark's log has the batch that this run has published last as it was: another
        copy of the job may have replaced the entry, and then the records between the two ends would never be read."""
        if self._last is not None:
            number, planned = self._last
            logged = self.checkpoint.offsets(number)
            if logged != planned:
                raise replaced_entry_error(self.job, self.checkpoint.location, number, logged, planned)

    def close(self) -> None:
        """End the Spark query, abort what it left open and release connections. Safe to call more than once.

        All steps run, even if one fails. Raises ExecutionError with all failures.
        """
        failures: list[Exception] = []
        self._await_log()
        _close(self._end, failures)
        self.gather()
        with self._at_work:  # if Spark has died under it, a batch may still be aborting its transaction
            for committer in self._committers:
                _close(committer.close, failures)
            for source in self._sources:
                _close(source.close, failures)
            _close(self._rest, failures)
        close_idle_callbacks(self.spark)
        if failures:
            raise ExecutionError("; ".join(map(str, failures))) from failures[0]

    def _await_log(self) -> None:
        """Give Spark the moment it needs to log the batch that was published last. A batch that is not logged runs
        again with the next start, and a target without transactions would get its records twice."""
        deadline, published = time.monotonic() + _LOG_SECONDS, self._published  # another thread may close it too
        with suppress(PenstockError, *FOREIGN):
            while (
                self.spark_query is not None
                and self._failure is None
                and published is not None
                and self.checkpoint.first_batch() <= published
                and self.spark_query.isActive
                and time.monotonic() < deadline
            ):
                time.sleep(0.02)

    def _rest(self) -> None:
        """Record which batch was published last, for savepoints. Skipped after a failed batch, which a committer may
        still have committed, and after a takeover; an abort by the only committer is safe."""
        aborts = len(self._committers) == 1 and self._committers[0].keeps_state
        aborted = aborts and isinstance(self._failure, BatchError)
        if self._published is not None and (aborted or not self._unfinished):
            write_stopped(self.checkpoint, self._run, self._published)
        self._published = None

    def _end(self) -> None:
        try:
            if self.spark_query is not None and self.spark_query.isActive:
                self.spark_query.stop()
        except FOREIGN as error:
            if is_alive(self.spark):
                raise ExecutionError(f"Spark did not end the query: {cause_of(str(error))}") from error

    def lag(self) -> int | None:
        """Records between the last committed position and the end of the sources; None if that is not known, and
        without sources that count records."""
        if self._reached is None:
            return None
        lags = [
            source.lag(end) for source, end in zip(self._sources, self._reached, strict=True) if not source.of_files
        ]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if known and len(known) == len(lags) else None

    def gather(self, small: OnDriver | None = None) -> None:
        """Take in the reports of the last batches' tasks. Spark has them a moment after a batch is done. The report of
        a ``small`` batch, the present one, is available at once."""
        if self.spark_query is None:
            return
        try:
            self._reports.deliver(reports_of(self.spark_query), self._sources)
            if small is not None and small.report is not None:
                self._reports.deliver_one(self._current, small.report, self._sources[0])
        except FOREIGN:  # without Spark there are no more reports
            pass
        except Exception as error:  # noqa: BLE001 - reports are statistics, which must not fail a committed batch
            if not self._misses_reports:
                self._misses_reports = True
                self.warn(f"job '{self.job.name}': its metrics and watermarks lack the reports of a batch: {error}")

    # --- a batch ---------------------------------------------------------------------------------------------

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        if self.stopping():
            raise ExecutionError("the job is being stopped")
        self._current = batch_id
        with self._at_work:
            try:
                self._publish(frame, batch_id)
            except Exception as error:  # noqa: BLE001 - wait() raises it
                self._failure = self._explain(error)
                raise ExecutionError(f"batch {batch_id} failed") from None

    def _publish(self, frame: DataFrame, batch_id: int) -> None:
        self.lease.check()
        self._unfinished = True
        batch = describe_batch(batch_id, self.job, self.spark, self.checkpoint, self._sources, self.warn)
        flow, small = self._flow, self._on_driver(batch)
        if flow is not None:
            done = flow.publish(batch, frame if small is None else small)
            flow.committed(batch)
        elif small is not None:
            task = DriverTask(small, self._writers, self.stopping)
            done = [self._committers[0].publish(replace(batch, tasks=1), task)]
        else:
            done = [self._committers[0].publish(batch, ReadingTasks(frame, batch.tasks, self._writers))]
        self._published, self._unfinished = batch_id, False
        self._last = batch_id, batch.end
        recorded = {number: well for each in done for number, well in each.consumed.items()}
        for number, (source, reached) in enumerate(zip(self._sources, batch.end, strict=True)):
            source.confirm(reached, recorded.get(number))
        for outputs, each in zip(self._outputs, done, strict=True):
            for output, written in zip(outputs, each.written, strict=False):
                self._count(output, written)
        self.gather(small)  # the reports of the batch before, and that of the driver
        files = sum(
            source.lag(end) or 0 for source, end in zip(self._sources, batch.end, strict=True) if source.of_files
        )
        before = self.progress
        if flow is not None:
            before = replace(self._with_state(flow), tables=add_totals(before.tables, flow.take_counts()))
        self._reached = batch.end
        self.progress = replace(
            before,
            batch=batch_id,
            records_in=before.records_in + self._read(batch, done, of_files=False),
            files_in=before.files_in + self._read(batch, done, of_files=True),
            files_left=files,
            records_out=before.records_out + sum(each.record_count for each in done),
            bytes_out=before.bytes_out + sum(each.byte_count for each in done),
            batches=before.batches + 1,
            committed_at=time.time(),
        )

    def _read(self, batch: Batch, done: Sequence[Published], *, of_files: bool) -> int:
        """How many records, or files, the batch has read; none if it was published before."""
        if all(each.skipped for each in done):
            return 0
        places = zip(self._sources, batch.start, batch.end, strict=True)
        return sum(source.count_records(start, end) for source, start, end in places if source.of_files == of_files)

    def _with_state(self, flow: FlowRun) -> JobProgress:
        """The progress with what the job's steps keep now."""
        if not flow.keeps_rows:
            return self.progress
        steps = flow.steps()
        rows, held = sum(each.rows for each in steps.values()), sum(each.bytes for each in steps.values())
        return replace(self.progress, steps=steps, state_rows=rows, state_bytes=held)

    def _on_driver(self, batch: Batch) -> OnDriver | None:
        """The batch, as one task of the driver, if it is so small that Spark would take longer to start tasks."""
        if self._stage is None or not batch.tasks:
            return None
        source, start, end = self._sources[0], batch.start[0], batch.end[0]
        if source.count_records(start, end) > self.job.settings.driver_records:
            return None
        return source.on_driver(self._stage, start, end)

    def _count(self, output: Output, written: Written) -> None:
        """Count the records and bytes written to a table, by Flink's names of sink metrics."""
        group = self.metrics.add_group("operator", output.table)
        group.count("numRecordsOut", "numRecordsOutPerSecond", written.records)
        group.count("numBytesOut", "numBytesOutPerSecond", written.bytes)
        if written.send_millis is not None:
            group.gauge("currentSendTime", lambda: written.send_millis)

    # --- building --------------------------------------------------------------------------------------------

    def _context(self) -> JobContext:
        self.checkpoint.check()
        identity = identify(self.job, self.checkpoint, self.query_id, self.warn, self._origin)
        write_starts(self.checkpoint, identity)
        if self.job.settings.savepoint is not None and not self.query_id:
            check_origin(read_location(self.job.settings.savepoint), self.checkpoint, identity, self.warn)
        self._origin_state = str(identity.get("origin", {}).get("state", ""))
        self._scans = ordered_scans(self.job, self.checkpoint, identity, self.warn)
        self.query_id = str(identity["query_id"])
        return JobContext(
            job=self.job.name,
            query_id=self.query_id,
            run_id=self._run,
            secret=str(identity.get("secret", "")),
            unsealed=bool(identity.get("unsealed")),
            checkpoint=self.checkpoint,
            settings=self.job.settings,
            parallelism=self.job.settings.parallelism or self.spark.sparkContext.defaultParallelism,
            spark=self.spark,
            planned=self.checkpoint.offsets(0) is not None or self.checkpoint.first_batch() > 0,
            next_batch=self._next_batch,
            stopping=self.stopping,
            warn=self.warn,
            metrics=self.metrics,
            restarted=self.progress.restarts > 0,
            forked="origin" in identity,
            keeps_nothing=partial(keeps_nothing, self.checkpoint),
        )

    def _origin(self, savepoint: str) -> dict[str, Any]:
        """What a new job takes from a savepoint."""
        return origin_of(
            read_location(savepoint),
            self.checkpoint,
            claimed_steps(self.job, savepoint),
            tuple(uids_of(scans(*self.job.sinks))),
            reset=self.job.settings.reset_state,
            allow_non_restored=self.job.settings.ignore_unclaimed_state,
            warn=self.warn,
        )

    def _next_batch(self) -> NextBatch:
        first = self.checkpoint.first_batch()
        return NextBatch(first, self.checkpoint.offsets(first - 1) or ())

    def _build_committers(self, outputs: Sequence[Output], context: JobContext) -> list[Committer]:
        """A committer for all outputs that one runtime writes together: two connectors may have the same runtime."""
        grouped: dict[tuple[str, Any], list[Output]] = {}
        for output in outputs:
            connector = self.job.sinks[output.index].connector
            group = connectors.get(connector).runtime, runtime(connector).commit_group(output.spec)
            grouped.setdefault(group, []).append(output)
        self._outputs = list(grouped.values())
        writers = (self.job.sinks[members[0].index].connector for members in self._outputs)
        return [runtime(name).committer(members, context) for name, members in zip(writers, self._outputs, strict=True)]

    # --- errors ----------------------------------------------------------------------------------------------

    def _explain(self, error: Exception) -> PenstockError:
        """The PenstockError behind an error of Spark's."""
        if self._failure is not None:
            return self._failure
        found = explain_failure(error, self.job, self.spark, self.checkpoint.location)
        return self._located(found) if isinstance(found, RecordError) else found

    def _located(self, error: RecordError) -> RecordError:
        """``error`` of a task, which numbers the partitions of all sources, with the record's topic and partition, or
        with its place in another source."""
        if error.topic or error.place:
            return error
        ends = self.checkpoint.offsets(self._current) or ()
        for source, end in zip(self._sources, ends, strict=False):
            partition = source.partition(error.partition, end)
            place = "" if partition else source.place(error.partition, error.offset, end)
            if partition or place:
                return error.found_at(partition, place)
        return error


def _close(close: Callable[[], None], failures: list[Exception]) -> None:
    try:
        close()
    except Exception as error:  # noqa: BLE001 - the others are closed all the same
        failures.append(error)
