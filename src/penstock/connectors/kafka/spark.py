"""The kafka connector on Spark: its data source, and the jobs that write."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkFiles, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from penstock.connectors.kafka import start_checks
from penstock.connectors.kafka.sink.spec import KafkaSinkSpec
from penstock.connectors.kafka.sink.task_runs import not_known, repeated
from penstock.connectors.kafka.source.alarms import Alarm
from penstock.connectors.kafka.source.beginnings import CommittedBy, foreign_start, reason_of, shown
from penstock.connectors.kafka.source.bounds import (
    behind_the_end,
    present_ends,
    present_stop,
    resolve_start,
    resolve_stop,
    source_data,
    with_epochs,
)
from penstock.connectors.kafka.source.commits import CommitTimes
from penstock.connectors.kafka.source.enumerator import Enumerator, ReaderSpec
from penstock.connectors.kafka.source.losses import described
from penstock.connectors.kafka.source.metrics import SourceMetrics
from penstock.connectors.kafka.source.positions import Positions, Split
from penstock.connectors.kafka.source.reports import ReadReport
from penstock.connectors.kafka.source.spec import KafkaScanSpec
from penstock.connectors.kafka.source.watermarks import END, Notes
from penstock.connectors.kafka.stopping import until_stopped
from penstock.connectors.kafka.table.client_properties import with_login
from penstock.deadline import Deadline
from penstock.errors import (
    KafkaError,
    OptionsError,
    PenstockError,
    Problem,
    to_wire,
)
from penstock.kafka.offsets import CommittedOffset, commit_offsets, group_members
from penstock.kafka.partitions import TopicPartition
from penstock.kafka.session import session_for
from penstock.settings import Settings
from penstock.spi import (
    DEAD_LETTER,
    INSERTIONS,
    INSTRUCTIONS,
    KIND,
    PARTITIONS_PER_SOURCE,
    WATERMARK,
    Committer,
    Guarantee,
    JobContext,
    OnDriver,
    Output,
    ScanDataSource,
    SentStage,
    Source,
    SourcePartition,
    Stage,
    StartContext,
    Task,
    failure_of,
    frame_schema,
    guarded,
    mapped,
    on_one_machine,
    pickled,
    read_frame,
    source_document,
    staged,
)
from penstock.types import BIGINT, TINYINT, spark_type

if TYPE_CHECKING:
    from penstock.connectors.kafka.sink.committer import Acknowledged, Consumed
    from penstock.connectors.kafka.sink.writer import Instructions, OpenTransaction, WriteSpec

#: The most bytes of encoded rows that the driver publishes by itself: starting tasks, and sending the rows to them on a
#: cluster, takes longer.
_MOST_BYTES_OF_DRIVER = 64 << 20
#: The time limit of the last commit of a job, in ms.
_LAST_COMMIT_MS = 5000
_T = TypeVar("_T")
_Spec = TypeVar("_Spec", KafkaScanSpec, KafkaSinkSpec)
#: Properties that name a cluster and a principal.
_CONNECTING = ("bootstrap.servers", "security.", "sasl.", "ssl.")


class KafkaRuntime:
    """Builds the sources and committers of a job's kafka tables."""

    def warm(self) -> None:
        """Import the modules of tasks, and load their compiled loops."""
        from penstock.connectors.kafka.warmup import warm

        warm()

    def source(self, spec: KafkaScanSpec, ordinal: int, context: JobContext) -> KafkaScan:
        """A source with start and stop resolved, or read from the checkpoint."""
        spec = _logged_in(spec, context.settings)
        if spec.watermark is not None and spec.watermark.idle_timeout is None:
            spec = replace(spec, watermark=replace(spec.watermark, idle_timeout=context.settings.idle_timeout))
        return KafkaScan(spec, ordinal, context)

    def check_scan(self, spec: KafkaScanSpec, ordinal: int, context: StartContext) -> None:
        """Check the topics, and that the logs have the offsets where reading begins."""
        start_checks.check_scan(_logged_in(spec, context.settings), ordinal, context)

    def check_sinks(self, outputs: Sequence[Output], context: StartContext) -> None:
        """Check the topics, and the options against those of the cluster."""
        for output in outputs:
            start_checks.check_sink(_logged_in(output.spec, context.settings), context)

    def commit_group(self, spec: KafkaSinkSpec) -> Hashable:
        """Exactly-once sinks of one cluster and principal share a committer, others those with equal client
        settings."""
        if spec.guarantee is Guarantee.EXACTLY_ONCE:
            return spec.guarantee, tuple(each for each in spec.client if each[0].startswith(_CONNECTING))
        return spec.guarantee, spec.client

    def committer(self, outputs: Sequence[Output], context: JobContext) -> Committer:
        """The committer for ``outputs``, which share a client and a guarantee."""
        from penstock.connectors.kafka.sink.committer import KafkaCommitter, PlainCommitter

        outputs = [replace(each, spec=_logged_in(each.spec, context.settings)) for each in outputs]
        exactly_once = outputs[0].spec.guarantee is Guarantee.EXACTLY_ONCE
        if exactly_once:
            _check_attempts(context.spark)
        committer = KafkaCommitter if exactly_once else PlainCommitter
        return committer(outputs, context, SparkWriteJobs(context.spark, context.stopping))


def _logged_in(spec: _Spec, settings: Settings) -> _Spec:
    """``spec`` with the job's login."""
    return replace(spec, client=with_login(spec.client, settings.kerberos))


def _check_attempts(spark: SparkSession) -> None:
    """Raises OptionsError for a session that might run a task twice in one transaction (rule "tasks run once")."""
    conf = spark.sparkContext.getConf()
    problems = []
    if conf.get("spark.speculation", "false") == "true":
        problems.append(Problem("must be false with exactly-once", "spark.speculation", "Spark's configuration"))
    if not str(spark.sparkContext.master).startswith("local"):
        for key in ("spark.task.maxFailures", "spark.stage.maxConsecutiveAttempts"):
            if conf.get(key, "4") != "1":
                problems.append(Problem("must be 1 with exactly-once", key, "Spark's configuration"))
    if problems:
        raise OptionsError(tuple(problems))


# --- reading -------------------------------------------------------------------------------------------------


class KafkaScan(Source):
    """One scan of a running job, on the driver."""

    def __init__(self, scan: KafkaScanSpec, ordinal: int, context: JobContext):
        self._scan = scan
        self._context = context
        self._session = session_for(scan.client_config)
        self._check_group()
        self._own = CommittedBy(context.job, context.query_id)
        #: Where the job first starts, and why; empty when it continues from a checkpoint or a savepoint.
        self._start_text = ""
        start, stop = self._resolve(ordinal)
        once = context.settings.once
        if once:
            stop = present_stop(self._session, scan, start, stop)
        self.timed = scan.watermark is not None
        self.measures = scan.capabilities.measures
        notes = str(Path(SparkFiles.getRootDirectory()) / f"penstock-{context.run_id}-{ordinal}.json")
        self._notes, self._alarm = Notes(notes), Alarm(f"{notes}.alarm")
        ends = {} if stop is None else present_ends(self._session, stop)
        waits = not once and stop is not None and behind_the_end(stop, ends)
        if stop is not None and not waits:
            stop = with_epochs(stop, ends)
        self.bounded = once or (stop is not None and not waits and not scan.options.bounded_streaming)
        self._enumerator = Enumerator(
            ReaderSpec(
                scan.for_tasks(), ordinal, context.parallelism, start, stop, waits, once, context.settings.batch, notes
            )
        )
        self._times = CommitTimes(scan.options, checkpointing=context.settings.checkpointing)
        self._reached = start.to_json()
        self._metrics = SourceMetrics(
            context.operator(scan.table), lambda: self.lag(self._reached), consumer=scan.options.consumer_metrics
        )

    def _check_group(self) -> None:
        """With 'scan.check.duplicated.group.id', raises KafkaError for a group that already has members."""
        if self._scan.options.check_duplicated_group_id and (
            members := group_members(self._session, self._scan.group_id)
        ):
            raise KafkaError(
                f"table '{self._scan.table}': consumer group '{self._scan.group_id}' already has {members} member(s); "
                "choose another 'properties.group.id', or stop them"
            )

    def _resolve(self, ordinal: int) -> tuple[Positions, Positions | None]:
        """Start and stop, resolved when the job first starts and later read from the checkpoint (rule "starts are
        resolved once")."""
        checkpoint, start_time = self._context.checkpoint, self._context.settings.start_time
        asked = source_data(self._session, self._scan)
        resolved = False

        def resolve() -> dict[str, Any]:
            nonlocal resolved
            resolved = True
            group: dict[TopicPartition, CommittedOffset] = {}
            first = resolve_start(
                self._session, self._scan, start_time, warn=self._context.warn, note_group=group.update
            )
            self._start_text = f"starts {reason_of(self._scan, start_time, group, self._own)}: {shown(first)}"
            if warning := foreign_start(self._scan, group, self._own):
                self._context.warn(warning)
            last = resolve_stop(self._session, self._scan, first)
            return {"start": first.to_json(), "stop": last.to_json() if last else None}

        known = source_document(self._context, ordinal, self._scan.table, asked, resolve)
        if start_time is not None and not resolved and not self._context.restarted:
            self._context.warn(
                f"table '{self._scan.table}' continues from the checkpoint '{checkpoint.location}'; --start-time has "
                "no effect with one"
            )
        start, stop = known["start"], known.get("stop")
        return Positions.from_json(start), None if stop is None else Positions.from_json(stop)

    def frame(self, stage: SentStage | None = None) -> DataFrame:
        """The streaming DataFrame, with metadata columns in their native types, or the result of ``stage`` on it."""
        schema = frame_schema(self._scan.native, *self._more())
        frame: DataFrame = read_frame(self._context.spark, KafkaDataSource, schema, self._enumerator.spec, stage)
        return frame

    def on_driver(self, stage: Stage, start: dict[str, Any] | None, end: dict[str, Any]) -> OnDriver:
        """One task for all ranges."""
        ranges = self._enumerator.ranges(self._start(start), Positions.from_json(end))
        splits = [each for each in ranges if len(each)]  # one of each partition, so that its order is kept

        def read(instructions: str, abandoned: Callable[[], bool]) -> tuple[pa.Table, bytes]:
            from penstock.connectors.kafka.source.reader import RangeReader, joined

            reader = RangeReader(self._enumerator.spec, splits)
            task = Task(0, 1, instructions, abandoned=abandoned)
            batches = list(stage.run(task, joined(reader.rows())))
            return pa.Table.from_batches(batches, stage.schema), reader.report.to_bytes()

        return OnDriver(lambda given: until_stopped(lambda left: read(given, left), self._context.stopping))

    def _more(self) -> Iterator[str]:
        """The columns that follow those of every scan, as DDL."""
        if self._scan.kinds != INSERTIONS:
            yield f"{KIND} {spark_type(TINYINT)}"
        if self._scan.dead_letters is not None:
            yield f"{DEAD_LETTER} {spark_type(self._scan.dead_letters.schema)}"
        if self.timed:
            yield f"{WATERMARK} {spark_type(BIGINT)}"

    def tasks(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        return len(self._enumerator.tasks(self._start(start), Positions.from_json(end)))

    def partition(self, number: int, end: dict[str, Any]) -> tuple[str, int] | None:
        ordinal, index = divmod(number, PARTITIONS_PER_SOURCE)
        partitions = Positions.from_json(end).partitions()
        return partitions[index] if ordinal == self._enumerator.spec.ordinal and index < len(partitions) else None

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        """The partitions of all topics. One that was read to its stop has ended, unless a later run reads more."""
        spec, at, first = self._enumerator.spec, Positions.from_json(end), self._first
        stop = None if spec.once else spec.stop
        found = ((number, tp, at.at[tp]) for number, tp in enumerate(at.partitions(), first))
        return tuple(
            SourcePartition(
                number,
                f"{tp[0]}/{tp[1]}",
                position.idle,
                stop is not None and position.offset >= stop.offset(tp, position.offset),
            )
            for number, tp, position in found
        )

    @property
    def _first(self) -> int:
        """The number of the first partition."""
        return self._enumerator.spec.ordinal * PARTITIONS_PER_SOURCE

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        return sum(len(each) for each in self._enumerator.ranges(self._start(start), Positions.from_json(end)))

    def losses(self, start: dict[str, Any] | None, end: dict[str, Any]) -> Sequence[str]:
        """The losses between the two positions, as a sentence for each partition."""
        return [
            f"table '{self._scan.table}': {each}" for each in described(self._start(start), Positions.from_json(end))
        ]

    def ended(self, reached: dict[str, Any] | None) -> bool:
        """Whether the source has a stop, and ``reached`` (None: its start) and its watermark are at the end."""
        spec, at = self._enumerator.spec, self._start(reached)
        stop = spec.stop
        return (
            stop is not None
            and all(each.offset >= stop.offset(tp, each.offset) for tp, each in at.at.items())
            and (not self.timed or spec.once or not at.at or at.watermark == END)
        )

    def start_text(self, reached: dict[str, Any] | None) -> str:
        if reached is None and self._start_text:
            return self._start_text
        place = "savepoint" if reached is None and self._context.forked else "checkpoint"
        return f"continues from the {place}: {shown(self._start(reached))}"

    def complete(self) -> bool:
        """Whether the logs have reached the stops."""
        spec = self._enumerator.spec
        if spec.stop is None or not spec.waits:
            return True
        return not behind_the_end(spec.stop, present_ends(self._session, spec.stop))

    def lag(self, reached: dict[str, Any]) -> int | None:
        """How many offsets are between ``reached`` and the end, or the stop, of the source."""
        start = Positions.from_json(reached)
        try:
            ends = self._enumerator.available(start)
        except PenstockError:
            return None
        return sum(end.offset - start.at[tp].offset for tp, end in ends.at.items())

    def consumed(self, end: dict[str, Any]) -> Consumed | None:
        """The group's offsets at ``end``."""
        from penstock.connectors.kafka.sink.committer import Consumed

        if not self._commits:
            return None
        at = Positions.from_json(end).at
        by = self._own.to_metadata()
        offsets = {tp: CommittedOffset(position.offset, position.epoch, by) for tp, position in at.items()}
        return Consumed(self._session.cluster_id or "", self._scan.group_id, offsets)

    def done(self, end: dict[str, Any], recorded: bool | None) -> None:
        """Keep the position, and commit the group's offsets when a commit is due and no transaction has done it."""
        if recorded is None and self._times.due(end):
            recorded = self._commit(end, self._session.deadline())
        self._reached = end
        self._metrics.done(Positions.from_json(end), recorded)

    def _commit(self, end: dict[str, Any], deadline: Deadline) -> bool | None:
        """Whether the group's offsets were committed, None when it has none. Warns of the first failure only."""
        consumed = self.consumed(end)
        if consumed is None:
            return None
        try:
            commit_offsets(self._session, consumed.group, consumed.offsets, deadline=deadline)
        except PenstockError as error:
            if not self._metrics.commits_failed.get_count():
                self._context.warn(f"offsets of group '{consumed.group}' are not committed: {error}")
            return False
        return True

    def reported(self, reports: Sequence[bytes]) -> None:
        """Count the records of a batch, and pass its watermarks on."""
        report = ReadReport.merged(reports)
        self._metrics.read(report)
        self._notes.add(((topic, partition), at) for topic, partition, at in report.watermarks)

    def progressed(self, watermarks: Mapping[int, int], end: dict[str, Any]) -> None:
        """Pass watermarks that the engine has computed on to the planning process."""
        partitions = {number: self.partition(number, end) for number in watermarks}
        self._notes.add((tp, watermarks[number]) for number, tp in partitions.items() if tp is not None)

    def wake(self, at: int | None) -> None:
        """Have the planning process make a batch at this time; None cancels that."""
        self._alarm.set(at)

    def close(self) -> None:
        """Make the pending commit. Sessions are shared in the process and stay open."""
        self._notes.close()
        self._alarm.close()
        left, self._times.left = self._times.left, None
        if left is not None:
            recorded = self._commit(left, self._session.deadline(_LAST_COMMIT_MS))
            self._metrics.done(Positions.from_json(left), recorded)

    @property
    def _commits(self) -> bool:
        """Whether the group's offsets are committed at all, with each batch or from time to time."""
        if self._context.settings.checkpointing:
            return self._scan.commits
        return bool(self._scan.group_id) and self._scan.options.auto_commit

    def _start(self, start: dict[str, Any] | None) -> Positions:
        return self._enumerator.spec.start if start is None else Positions.from_json(start)


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
        return _wired(lambda: self._enumerator.latest(Positions.from_json(start)).to_json())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""

        def plan() -> list[InputPartition]:
            reached = Positions.from_json(end)
            tasks = self._enumerator.tasks(Positions.from_json(start), reached)
            work = ((ranges, Task(number, len(tasks)), reached.watermark) for number, ranges in enumerate(tasks))
            return [InputPartition(each) for each in work]

        return _wired(plan)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, or the result of the stage on them."""
        from penstock.connectors.kafka.source.reader import RangeReader, joined, with_report, with_watermark

        work: tuple[Sequence[Split], Task, int | None] = partition.value
        ranges, task, watermark = work
        reader = RangeReader(self._spec, ranges)
        batches, schema = joined(guarded(reader.rows)()), reader.schema
        if self._stage is not None:
            batches, schema = staged(self._stage, task, TaskContext.get(), batches)
        reported = with_report(batches, schema, lambda: reader.report)
        timed = self._stage is None and self._spec.scan.watermark is not None
        return with_watermark(reported, watermark) if timed else reported


class KafkaDataSource(ScanDataSource, DataSource):
    """Spark's view of a scan."""

    format, reader_class = "penstock_kafka", KafkaStreamReader


def _wired(step: Callable[[], _T]) -> _T:
    """The result of ``step``, with its errors as text that reaches the driver."""
    try:
        return step()
    except PenstockError as error:
        raise RuntimeError(to_wire(error)) from None


# --- writing -------------------------------------------------------------------------------------------------


class SparkWriteJobs:
    """Runs writing tasks on Spark. ``stopping`` tells whether the job is to end."""

    def __init__(self, spark: SparkSession, stopping: Callable[[], bool]):
        self._spark = spark
        self._stopping = stopping

    def write(
        self,
        frame: DataFrame | OnDriver,
        spec: WriteSpec,
        tasks: int,
        *,
        transaction: OpenTransaction | None,
        owners: int | None,
        staged: bool,
    ) -> Acknowledged:
        """Encode the rows, unless ``staged``, and publish them: in the tasks of their partitions' ``owners``, or in the
        same tasks."""
        from penstock.connectors.kafka.sink.committer import Acknowledged
        from penstock.connectors.kafka.sink.writer import (
            PUBLISHING_ORDER,
            WRITTEN,
            Instructions,
            encode_rows,
            encode_rows_and_publish,
            publish,
        )

        at_once = Instructions(at_once=True, transaction=transaction)
        if isinstance(frame, OnDriver):
            return Acknowledged.of(frame.collect(pickled(at_once)), "")

        def encode_and_publish(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from encode_rows_and_publish(spec, transaction, _task(tasks), rows)

        def publish_encoded(encoded: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from publish(spec, transaction, _task(owners or 1), encoded)

        if owners is None:
            job = frame if staged else mapped(frame, encode_and_publish, from_arrow_schema(WRITTEN))
            return self._collect(job, at_once, once=transaction is not None)
        with self._folder() as folder:

            def encode(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                yield from encode_rows(spec, folder, _task(tasks), rows)

            encoded = frame if staged else mapped(frame, encode, from_arrow_schema(WRITTEN))
            owned = encoded.repartitionById(owners, F.col("owner") % owners).sortWithinPartitions(*PUBLISHING_ORDER)
            job = mapped(owned, publish_encoded, from_arrow_schema(WRITTEN))
            return self._collect(job, Instructions(folder=folder), once=transaction is not None)

    def publish(self, encoded: pa.Table, spec: WriteSpec, transaction: OpenTransaction, owners: int) -> Acknowledged:
        """Publish encoded rows in the transaction: on the driver if they are few, else in ``owners`` tasks."""
        from penstock.connectors.kafka.sink.committer import Acknowledged
        from penstock.connectors.kafka.sink.writer import PUBLISHING_ORDER, WRITTEN, Instructions, publish

        counts = encoded.filter(pc.equal(encoded.column("topic"), ""))
        if sum(counts.column("bytes").to_pylist()) <= _MOST_BYTES_OF_DRIVER:
            ordered = encoded.sort_by([(name, "ascending") for name in PUBLISHING_ORDER]).to_batches()
            acknowledged = until_stopped(
                lambda left: list(publish(spec, transaction, Task(0, 1, abandoned=left), ordered)), self._stopping
            )
            return Acknowledged.of(pa.Table.from_batches(acknowledged, WRITTEN).to_pylist(), "")

        def publish_encoded(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from publish(spec, transaction, _task(owners), rows)

        frame = self._spark.createDataFrame(encoded)
        owned = frame.repartitionById(owners, F.col("owner") % owners).sortWithinPartitions(*PUBLISHING_ORDER)
        job = mapped(owned, publish_encoded, from_arrow_schema(WRITTEN))
        return self._collect(job, Instructions(), once=True)

    @contextmanager
    def _folder(self) -> Iterator[str]:
        """The folder in which encoded batches wait for their owners when all tasks run on this machine: copied once
        instead of a dozen times through Spark. Empty on a cluster, where Spark shuffles them."""
        context = self._spark.sparkContext
        if not on_one_machine(context.master):
            yield ""
            return
        with tempfile.TemporaryDirectory(
            prefix="penstock-", dir=SparkFiles.getRootDirectory(), ignore_cleanup_errors=True
        ) as folder:
            yield folder

    def _collect(self, job: DataFrame, instructions: Instructions, *, once: bool) -> Acknowledged:
        """Run ``job`` and sum up its answers. With ``once`` check that each task ran once."""
        from penstock.connectors.kafka.sink.committer import Acknowledged

        tag = f"penstock-{uuid.uuid4().hex}"
        context = self._spark.sparkContext
        context.addJobTag(tag)
        context.setLocalProperty(INSTRUCTIONS, pickled(instructions))
        try:
            rows = job.collect()
        except (PySparkException, Py4JJavaError) as error:
            raise failure_of(error) from error
        finally:
            context.removeJobTag(tag)
            context.setLocalProperty(INSTRUCTIONS, None)  # type: ignore[arg-type]  # None removes it
        return Acknowledged.of(rows, self._repeated(tag, rows) if once else "")

    def _repeated(self, tag: str, rows: Sequence[Row]) -> str:
        """Why the job of ``rows`` may not be committed; empty when each of its tasks ran exactly once."""
        gateway: Any = self._spark.sparkContext
        try:
            return repeated(gateway._jsc.sc(), tag, (row.attempt for row in rows))
        except Py4JJavaError as error:
            return not_known(str(error.java_exception.getClass().getSimpleName()))
        except Py4JError as error:
            return not_known(type(error).__name__)


def _task(of: int) -> Task:
    """The running task, one of ``of``."""
    context = TaskContext.get()
    return Task(0, of) if context is None else Task(context.partitionId(), of, attempt=context.attemptNumber())
