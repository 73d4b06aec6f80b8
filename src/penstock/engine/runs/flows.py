"""Batches of dataflows: their work is done once, before the output and the state are committed together."""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.clock import now_ms
from penstock.delivery import FINISH_BATCH, deliver, run_with_retries
from penstock.engine.checkpoint.checkpoint_committer import CheckpointTarget
from penstock.engine.checkpoint.committed import read_state, write_state
from penstock.engine.runs.batch_positions import StepProgress
from penstock.engine.runs.batch_times import BatchTimes
from penstock.engine.runs.former_rows import convert_edges, read_former_rows
from penstock.engine.runs.identity import shown_sink
from penstock.engine.runs.operator_reports import OperatorReport, next_wake, operator_reports, operator_times
from penstock.engine.runs.sources import SourceSet
from penstock.engine.runs.states import StateHistory, known_steps
from penstock.engine.runs.table_schemas import TableSchemas
from penstock.engine.runs.task_runs import collect_rows
from penstock.engine.runs.write_tasks import ComputedTasks, NoTasks, scratch_folder
from penstock.engine.session import kernel_session
from penstock.errors import CheckpointError, ExecutionError, OptionsError, Problem, UnsupportedError
from penstock.flow.graph.dataflow import BatchInstructions, Dataflow
from penstock.flow.graph.event_times import EventTimes
from penstock.flow.graph.exchange import EXCHANGE, ORDER, EdgeKind, Origin, Receiver, Sender, choose_edges
from penstock.flow.graph.outlets import Target, send_written
from penstock.flow.graph.planner import plan_sinks
from penstock.flow.rows.table_rows import TableCounts, TablesWork
from penstock.flow.state.inspection import TableSize, size_of
from penstock.flow.state.kept_output import KeptOutput
from penstock.flow.state.manifest import Manifest, Sinks, merge_reports
from penstock.flow.state.storage import Storage
from penstock.flow.state.table_totals import Total, count_totals
from penstock.flow.time.watermarks import MeasuredWatermarks, OperatorTime
from penstock.plan.arranging import arrange_keys
from penstock.plan.nodes import Job, Scan
from penstock.spi import (
    Batch,
    Committer,
    Guarantee,
    JobContext,
    OnDriver,
    Output,
    Published,
    Stage,
    Task,
    WriterFactory,
    map_batches,
    on_one_machine,
    pickle_text,
)

_NOTHING = TableSize(0, 0, 0)


def check_committers(job: Job, committers: Sequence[Committer], outputs: Sequence[Sequence[Output]]) -> None:
    """Raises UnsupportedError for exactly-once sinks whose committer does not keep the state. ``outputs`` are those of
    each committer."""
    for committer, members in zip(committers, outputs, strict=True):
        sink = job.sinks[members[0].index]
        if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE and not committer.keeps_state:
            reason = "is exactly-once, and its connector cannot commit the state of a job with its output"
            hint = "make it at-least-once, or write kafka or postgres tables"
            raise UnsupportedError((Problem(reason, where=f"table '{sink.table}'", hint=hint),))


def check_attempts(spark: SparkSession) -> None:
    """Raises OptionsError for a session on a cluster that may run a part of a stage again: rows that were sent before
    it, and those that are sent again, may be divided among owners in different ways. With adaptive plans Spark does so
    between two stages, and no attempt fails."""
    if on_one_machine(spark.sparkContext.master):
        return
    conf = spark.sparkContext.getConf()
    given = (
        ("spark.stage.maxConsecutiveAttempts", conf.get("spark.stage.maxConsecutiveAttempts", "4"), "1"),
        ("spark.sql.adaptive.enabled", spark.conf.get("spark.sql.adaptive.enabled", "true"), "false"),
    )
    problems = tuple(
        Problem(f"must be {wanted} in a job with state", key, "Spark's configuration")
        for key, found, wanted in given
        if found != wanted
    )
    if problems:
        raise OptionsError(problems)


@dataclass(eq=False)
class FlowRun:
    """The batches of one run of a job that has more than one committer, or for which
    :func:`penstock.flow.graph.routes.plan_reading` gives None. ``scans`` are in the order of Spark's log."""

    job: Job
    scans: Sequence[Scan]
    committers: Sequence[Committer]
    #: The outputs of each committer.
    outputs: Sequence[Sequence[Output]]
    context: JobContext
    #: The folder of the state.
    place: str
    #: The reference to the state that the job began with; empty without a savepoint.
    origin: str = ""
    #: The reference to the state after the last batch that was published.
    _state: str = field(default="", init=False)
    _source_set: SourceSet | None = field(default=None, init=False)
    #: What the operators of the batch under way report, by uid.
    _operator_reports: dict[str, OperatorReport] = field(default_factory=dict, init=False)
    _batch_times: BatchTimes = field(init=False)
    #: The event time that was measured in the batch under way.
    _measured: MeasuredWatermarks = field(default_factory=MeasuredWatermarks, init=False)
    #: What makes newer schemas of tables that the job finds.
    _tables_schemas: TableSchemas | None = field(default=None, init=False)
    #: What tasks have read of these tables in the batch under way.
    _counted: TableCounts | None = field(default=None, init=False)
    #: The files in the storage of the state with the output of the batch under way.
    _kept: frozenset[str] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        settings = self.job.settings
        self._batch_times = BatchTimes(self.context.job, self.context.warn)
        session = kernel_session(self.context.spark, settings)
        known = known_steps(Storage.from_uri(self.place), self.context.checkpoint, self.origin)
        planner = plan_sinks(arrange_keys(self.job.sinks, known), self.scans, session, settings)
        self._keepers = [each for each in self.committers if each.keeps_state]
        outputs = sorted((each for members in self.outputs for each in members), key=lambda each: each.index)
        self.flow = Dataflow(
            tuple(planner.branches),
            planner.ordered(),
            tuple(outputs),
            self.place,
            (),  # until the committers are open
            tuple(planner.generators),
        )
        fitting = planner.fitting(settings.reset_state)
        self._states = StateHistory(Storage.from_uri(self.place), fitting, self.context.checkpoint.location)
        if self.flow.stages:
            check_attempts(self.context.spark)
        for vertex in self.flow.vertices:
            if vertex.tables:
                self._show(vertex.operator.uid)

    def _show(self, uid: str) -> None:
        """Give the size of an operator's state as metrics."""
        group = self.context.operator(uid)
        group.gauge("stateRows", lambda: self.sizes().get(uid, _NOTHING).rows)
        group.gauge("stateBytes", lambda: self.sizes().get(uid, _NOTHING).bytes)
        group.gauge("stateSegments", lambda: self.sizes().get(uid, _NOTHING).segments)

    def sizes(self) -> Mapping[str, TableSize]:
        """The sizes of the operators' states after the last batch, by uid."""
        return {uid: size_of(tables) for uid, tables in self._states.last.operators.items()}

    def steps(self) -> Mapping[str, StepProgress]:
        """The progress of the operators that keep state or have a watermark, by uid."""
        sizes, times = self.sizes(), self._states.last.operator_times
        return {
            uid: StepProgress.from_operator(sizes.get(uid, _NOTHING), times.get(uid, OperatorTime()))
            for uid in sorted(sizes.keys() | times.keys())
        }

    def check(self) -> None:
        """Raises CheckpointError where the state that the checkpoint names shows that the job cannot continue. Called
        before a committer is opened."""
        self._states.verify(self.context.checkpoint, self.origin)
        if self.job.settings.batch and self.origin:
            raise CheckpointError(
                f"job '{self.context.job}' is in batch mode, which begins without state, and the savepoint that it is "
                "started from has state: start it without the savepoint, or as a stream"
            )
        if self._states.last.final and not self.job.settings.batch:
            raise CheckpointError(
                f"job '{self.context.job}' has run in batch mode, which keeps no state, so a stream cannot continue "
                f"from the checkpoint '{self.context.checkpoint.location}': start it with another checkpoint directory"
            )

    def frame(self, source_set: SourceSet) -> DataFrame:
        """The rows of the exchange that the reading tasks send. Called when the committers are open.

        Raises CheckpointError if a file of the state is missing.
        """
        self._source_set = source_set
        if self._tables_work:
            output, work = self._tables_work
            session = kernel_session(self.context.spark, self.job.settings)
            committer, fixed = next(
                (each, len(members))
                for each, members in zip(self.committers, self.outputs, strict=True)
                if output in [member.index for member in members]
            )
            sources, warn = source_set.sources, self.context.warn
            self._tables_schemas = TableSchemas(work, committer, fixed, self.place, sources, session, warn)
            committer.use_tables(self._tables_schemas)
        targets = (
            Target(tuple(output.index for output in members), each.writers())
            for each, members in zip(self.committers, self.outputs, strict=True)
        )
        self.flow = replace(self.flow, targets=tuple(targets))
        upcoming = self.context.next_batch().id
        known = [state for each in self._targets if (state := each.state(upcoming))]
        self._states.check(known if known or upcoming else [self.origin])
        frames = [self._reading(source_set, n, scan) for n, scan in enumerate(self.scans)]
        if self.flow.processing and (self.context.planned or self.origin):  # windows of a former run may be due
            self._ask(0)
        return reduce(DataFrame.unionAll, frames)

    def _reading(self, source_set: SourceSet, number: int, scan: Scan) -> DataFrame:
        return source_set.staged(scan, self.flow.stage(number))

    def driver_stage(self) -> Stage | None:
        """All work on a small batch, for the driver; None for a job whose tasks compute all batches. Called after
        :meth:`frame`."""
        if len(self.scans) > 1 or self.job.settings.batch:
            return None
        work = self.flow.stage(0)
        return None if work.calls else work

    def publish(self, batch: Batch, given: DataFrame | OnDriver) -> list[Published]:
        """Run the operators on a batch, in tasks or on the driver, publish the results, and commit the state with them
        (rule "state commits with the output"). A batch that was committed before runs nothing. :meth:`committed` comes
        next."""
        try:
            with scratch_folder(self.context.spark) as folder:
                done = deliver(batch, self._targets, _Operators(self, given, folder))
        except Exception:
            self._drop_output()
            raise
        self._state = done.state
        return list(done.published[: len(self.committers)])

    def _drop_output(self) -> None:
        """Delete the files with the output of a batch that has failed, which no later run reads: with one target, it
        has the batch or gets another attempt."""
        kept, self._kept = self._kept, frozenset()
        if not self._several:
            with suppress(CheckpointError):
                self._states.drop(kept)

    @property
    def keeps_rows(self) -> bool:
        """Whether a step of the job has state, or it finds tables."""
        return self._has_keeping_steps or bool(self._tables_work)

    @property
    def _has_keeping_steps(self) -> bool:
        """Whether a step of the job has state."""
        return any(vertex.tables for vertex in self.flow.vertices)

    @property
    def _tables_work(self) -> tuple[int, TablesWork] | None:
        """The work that finds tables, and the number of the output that they go to; None in other jobs."""
        for branch in self.flow.branches:
            if branch.tables is not None and branch.output is not None:
                return branch.output, branch.tables.work
        return None

    @property
    def _targets(self) -> list[Committer]:
        """All targets. The checkpoint keeps the state if no committer does."""
        own = [] if self._keepers else [CheckpointTarget(self.context.checkpoint, self._has_keeping_steps)]
        return [*self.committers, *own]

    @property
    def _several(self) -> bool:
        """Whether several targets commit the state."""
        return len(self._keepers) > 1

    @property
    def _times(self) -> EventTimes:
        """The event time of the job's sources."""
        return EventTimes(self.flow.generators, self._source_set.sources if self._source_set is not None else ())

    # --- operators -------------------------------------------------------------------------------------------

    @property
    def _local(self) -> bool:
        """Whether all tasks run on this machine."""
        return on_one_machine(self.context.spark.sparkContext.master)

    def run(self, batch: Batch, given: DataFrame | OnDriver, folder: str, state: str) -> FlowAttempt:
        """Run the operators on a batch, from the state before it."""
        if not batch.tasks:
            return FlowAttempt(self, state, EXCHANGE.empty_table())
        if self.job.settings.batch and self.keeps_rows and state:
            raise CheckpointError(
                f"job '{self.context.job}' is in batch mode and has state of a former batch in its checkpoint "
                f"'{self.context.checkpoint.location}': start it with another checkpoint directory to compute all rows"
            )
        before = self._states.state_before(state or self.origin)
        now = self._batch_times.next(before.time_ms, now_ms())
        schemas = self._tables_schemas.begin(before.schemas, batch, now) if self._tables_schemas else ()
        while True:
            instructions = replace(before, schemas=schemas)

            def collect(begin: Manifest = instructions) -> tuple[str, pa.Table]:
                return self._collect(batch, given, folder, begin, now)

            name, rows = run_with_retries(collect, batch.id, self.context)
            with self._discarding(name):
                seen = _data(rows, EdgeKind.SCHEMAS)
                if not seen or self._tables_schemas is None:
                    return self._made(batch, state, before, now, name, rows, schemas)
                self._states.discard(name)
                former, schemas = schemas, self._tables_schemas.evolve(schemas, seen, batch, now)
                if schemas == former:
                    raise ExecutionError(
                        f"tasks of batch {batch.id} report schemas that are known: this is a fault of penstock"
                    )

    def _made(
        self,
        batch: Batch,
        state: str,
        before: Manifest,
        now: int,
        name: str,
        rows: pa.Table,
        schemas: tuple[str, ...],
    ) -> FlowAttempt:
        """The attempt of that name at a batch, from the ``rows`` that its tasks have sent to the driver. Writes its
        manifest, if there is something to tell."""
        final = self.job.settings.batch and self.keeps_rows
        restated = bool(state or self.origin) and before is not self._states.last
        reports = _data(rows, EdgeKind.STATE)
        self._operator_reports = operator_reports(_data(rows, EdgeKind.REPORTS))
        if self.flow.processing:
            self._ask(next_wake(self._operator_reports.values(), before.time_ms, now))
        self._measured = MeasuredWatermarks.from_reports(_data(rows, EdgeKind.TIMES))
        times = self._times.progress_after(batch, before, self._measured)
        files = {file: digest for data in _data(rows, EdgeKind.KEPT_FILES) for file, digest in json.loads(data).items()}
        self._kept = frozenset(files)
        self._check_shared(self._kept)
        # The manifest records the batch's tables. Without state, only those that repeat batches matter.
        sinks = self._sinks
        changed = sinks != before.sinks and bool(state or sinks.repeating)
        counts, totals = self._count_tables(rows, before, batch), before.totals
        if counts is not None:
            totals = totals.add(self._states.storage, count_totals(counts.rows, counts.new), f"{name}.totals")
        changed = changed or schemas != before.schemas or totals != before.totals
        if final or reports or self._several or times != before.times or changed or restated:
            seen = operator_times(before.operator_times, self._operator_reports)
            after = merge_reports(before, batch.id, reports, now, times)
            after = replace(after, sinks=sinks, operator_times=seen, final=final, schemas=schemas)
            after = replace(after, refused=counts.refused if counts else before.refused, totals=totals)
            self._check_shared(after.files() - before.files())
            if self._several:
                output = choose_output(rows, self.committers)
                kept = KeptOutput.write(self._states.storage, f"{name}.output", output, self._tables, files)
                after = replace(after, output=kept)
            state = self._states.write(after, f"{name}.manifest")
        return FlowAttempt(self, state, rows)

    def _count_tables(self, rows: pa.Table, before: Manifest, batch: Batch) -> TableCounts | None:
        """What tasks have read of tables that the job finds. Raises ExecutionError if they left out too much."""
        if self._tables_schemas is None:
            return None
        self._counted = self._tables_schemas.count(_data(rows, EdgeKind.TABLE_COUNTS), before.refused, batch)
        return self._counted

    @contextmanager
    def _discarding(self, attempt: str) -> Iterator[None]:
        """Deletes the files of an attempt that fails in the block, before anything refers to them."""
        try:
            yield
        except Exception:
            with suppress(CheckpointError):
                self._states.discard(attempt)
            raise

    def kept(self, batch: Batch, state: str) -> FlowAttempt:
        """The attempt at a batch with the state after it, by the output that it has kept."""
        if not batch.tasks:
            return FlowAttempt(self, state, EXCHANGE.empty_table())
        after = self._states.state_after(state)
        if self._tables_schemas is not None:
            self._tables_schemas.show(after.schemas)
        output = after.output
        if output is None or output.tables != self._tables:
            tables = ", ".join(map(repr, itertools.chain(*output.tables))) if output else "one target"
            raise CheckpointError(
                f"batch {batch.id} is not in all targets of job '{self.context.job}' yet, and it was computed for "
                f"{tables}: the job's definition has changed since. {FINISH_BATCH}"
            )
        return FlowAttempt(self, state, convert_edges(output.read(self._states.storage)))

    def check_repeating(self, batch: Batch, state: str) -> None:
        """Raises CheckpointError for tables that may lack a batch which was committed with the state after it."""
        if batch.tasks:
            known = read_state(self.context.checkpoint) or {}
            everywhere = (known.get("batch"), known.get("state")) == (batch.id, state)
            self._states.check_sinks(batch.id, state, self._sinks, everywhere=everywhere)

    @property
    def _sinks(self) -> Sinks:
        """The tables of the job, by what their targets do with a batch."""
        named = [
            (committer.keeps_state, shown_sink(self.job.sinks[output.index]))
            for committer, members in zip(self.committers, self.outputs, strict=True)
            for output in members
        ]
        keeping, repeating = (tuple(sorted(name for keeps, name in named if keeps is which)) for which in (True, False))
        return Sinks(keeping, repeating)

    @property
    def _tables(self) -> tuple[tuple[str, ...], ...]:
        """The tables of each target."""
        return tuple(tuple(output.table for output in members) for members in self.outputs)

    def _collect(
        self, batch: Batch, given: DataFrame | OnDriver, folder: str, before: Manifest, now_ms: int
    ) -> tuple[str, pa.Table]:
        """Run all stages, and return the name of the attempt and the rows for the driver."""
        flow = self.flow
        scans = {branch.scan for branch in flow.branches}
        tasks = 1 if isinstance(given, OnDriver) else batch.tasks
        alone = tasks == 1 and not self.job.settings.batch  # a batch job's task may read any number of rows
        whole = alone and len(scans) == 1
        owners = 1 if alone else max(1, self.context.parallelism)
        name = f"{batch.id:09d}-{uuid.uuid4().hex[:12]}"
        awaited = self._times.pending_partitions(batch, before)
        instructions = BatchInstructions(
            name,
            tasks,
            owners,
            whole,
            folder,
            before.operators,
            now_ms,
            before.time_ms,
            awaited,
            last=self.job.settings.batch,
            names=self._states.fitting.names(before),
            writers=tuple(
                None if target.writers.publish else committer.instructions(batch)
                for committer, target in zip(self.committers, self.flow.targets, strict=True)
            ),
            # Without checkpoints there is no folder that all machines have.
            keeps=self._several or (not self._local and self.job.settings.checkpointing),
            schemas=before.schemas,
        )
        with self._discarding(name):
            if isinstance(given, OnDriver):
                return name, given.collect(pickle_text(instructions))
            job = given
            for stage in range(1, 1 if whole else flow.stages + 1):
                # Owners of a target's partitions may be more.
                owned = job.repartitionById(owners, F.col("owner") % owners).sortWithinPartitions(*ORDER)
                job = map_batches(owned, partial(_own, flow, stage, instructions), from_arrow_schema(EXCHANGE))
            return name, collect_rows(job, pickle_text(instructions))[0]

    def _count(self) -> None:
        """Count what the operators of a committed batch report."""
        reports, self._operator_reports = self._operator_reports, {}
        for uid, each in reports.items():
            each.count(self.context.operator(uid))
        if self._counted is not None:
            self._count_rows(self._counted)

    def _count_rows(self, counted: TableCounts) -> None:
        """Give what a committed batch has read of tables, and the versions of their schemas, as metrics."""
        group = self.context.operator("tables")
        group.counter("numRecordsRefused").inc(sum(counted.new.values()))
        for table, number in counted.new.items():
            if table:
                group.add_group("table", table).counter("numRecordsRefused").inc(number)
        for table, number in counted.rows.items():
            group.add_group("table", table).count("numRecordsIn", "numRecordsInPerSecond", number)
        for version in self._tables_schemas.take_versions() if self._tables_schemas is not None else ():
            table_group = group.add_group("table", version.table)
            table_group.gauge("schemaVersion", partial(float, version.number))
            table_group.gauge("lastSchemaChange", partial(float, version.time_ms))

    def take_counts(self) -> Mapping[str, Total]:
        """What the committed batch has read of tables that the job finds, by table; empty on the next call."""
        counted, self._counted = self._counted, None
        return {} if counted is None else count_totals(counted.rows, counted.new)

    def _ask(self, at: int | None) -> None:
        """Request a batch from the sources at this time; None cancels the request."""
        for source in () if self._source_set is None else self._source_set.sources:
            source.wake(at)

    # --- state -----------------------------------------------------------------------------------------------

    def _check_shared(self, files: Collection[str]) -> None:
        """Raises CheckpointError for files of tasks that the driver does not see, before anything is committed."""
        unseen = [] if self._local else self._states.storage.find_unseen(files)
        if unseen:
            raise CheckpointError(
                f"tasks of job '{self.context.job}' have written files, but the driver does not find '{unseen[0]}' in "
                f"the checkpoint '{self.context.checkpoint.location}': its folder is not the same on all machines of "
                "the Spark cluster. Put the checkpoint on a volume that all of them mount at this path, or in s3://, "
                "gs:// or hdfs://"
            )

    def committed(self, batch: Batch) -> None:
        """Count what was done in the batch that was published last, tell the sources its event time, and delete the
        files that neither the state after it nor the one before it needs. Only warns if that fails: the batch is
        committed.

        Where the reference to the state is in the progress of a target, the checkpoint gets it too, for savepoints and
        for inspection. Raises CheckpointError if it cannot be written: a batch that Spark logged without it would be
        missing from them.
        """
        state = self._state
        self._count()
        if self._keepers:
            write_state(self.context.checkpoint, batch, state, bound=True)
        self._times.report_to_sources(batch, self._measured)
        self._measured = MeasuredWatermarks()
        kept, self._kept = self._kept, frozenset()
        try:
            self._states.committed(state, kept)
        except CheckpointError as error:
            self.context.warn(f"job '{self.context.job}': files of its state are not deleted: {error}")


def _own(
    flow: Dataflow, stage: int, instructions: BatchInstructions, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    context: Any = TaskContext.get()
    yield from flow.run(stage, instructions, context.partitionId(), rows, _spill_folder())


def _spill_folder() -> str:
    """Where a task may keep bytes: a folder that Spark itself spills to, if its processes are told of one."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or tempfile.gettempdir()


def _data(rows: pa.Table, kind: EdgeKind) -> list[bytes]:
    """The bytes that tasks sent to the driver."""
    receiver = Receiver()
    return [bytes(data) for each in choose_edges(rows, kind).to_batches() for data in receiver.data(each)]


def choose_output(rows: pa.Table, committers: Sequence[Committer]) -> pa.Table:
    """The output of the targets that commit the state: what their writers have passed on, and the results of those that
    have written where the rows are."""
    keepers = [number for number, each in enumerate(committers) if each.keeps_state]
    kinds = (EdgeKind.ENCODED, EdgeKind.RESULTS)
    return pa.concat_tables(choose_edges(rows, kind, *keepers) for kind in kinds)


@dataclass(frozen=True)
class FlowAttempt:
    """An attempt at a batch: the state after it, and its output in ``rows`` of :data:`EXCHANGE`."""

    flow: FlowRun
    state: str
    rows: pa.Table

    def tasks(self, target: int) -> ComputedTasks | NoTasks:
        """The tasks that have computed the rows of the committer of that number."""
        flow, context = self.flow.flow, self.flow.context
        if target == len(flow.targets):  # the checkpoint
            return NoTasks(self.state)
        writers = flow.targets[target].writers
        results, passed = choose_edges(self.rows, EdgeKind.RESULTS, target), self._passed(writers, target)
        storage = Storage.from_uri(flow.storage)
        return ComputedTasks(context.spark, writers, context.stopping, storage, self.state, results, passed)

    def _passed(self, writers: WriterFactory, target: int) -> pa.Table:
        """What the writers of a target have passed on; those of former versions have kept rows instead."""
        passed = choose_edges(self.rows, EdgeKind.ENCODED, target)
        former = choose_edges(self.rows, EdgeKind.FORMER_ROWS, target)
        if not former.num_rows:
            return passed
        task, receiver = Task(0, 1), Receiver()
        with Sender(Origin(0, 0)) as sender:
            batches = (rows for sent in former.to_batches() for rows in receiver.batches(sent))
            rows = read_former_rows(batches, self.flow.outputs[target], single=len(self.flow.job.sinks) == 1)
            for each in writers.run(task, rows):
                send_written(sender, writers, each, task, passes=True)
            return pa.concat_tables([passed, pa.Table.from_batches([sender.take_rows()])])


@dataclass(frozen=True)
class _Operators:
    """The operators of a job on one batch. Bytes wait in ``folder``, if there is one."""

    flow: FlowRun
    given: DataFrame | OnDriver
    folder: str

    def run(self, batch: Batch, state: str) -> FlowAttempt:
        return self.flow.run(batch, self.given, self.folder, state)

    @property
    def keeps_rows(self) -> bool:
        return self.flow.keeps_rows

    def kept(self, batch: Batch, state: str) -> FlowAttempt:
        return self.flow.kept(batch, state)

    def check_repeating(self, batch: Batch, state: str) -> None:
        self.flow.check_repeating(batch, state)
