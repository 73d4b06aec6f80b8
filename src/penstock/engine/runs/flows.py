"""Batches of jobs with state: their operators run once, before the output and the state are committed together."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark import SparkFiles, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.delivery import attempted
from penstock.engine.checkpoint.committed import STATE as DOCUMENT
from penstock.engine.runs.batches import published
from penstock.engine.runs.sources import Readings
from penstock.engine.session import kernel_session
from penstock.engine.translate import rows_of
from penstock.errors import CheckpointError, ExecutionError, Problem, UnsupportedError
from penstock.flow.dataflow import Dataflow, Plan, completed, placed_schema
from penstock.flow.exchange import ENCODED, EXCHANGE, ORDER, ROWS, STATE, Receiver
from penstock.flow.garbage import garbage
from penstock.flow.manifest import Manifest, merged
from penstock.flow.planner import Planner
from penstock.flow.storage import Storage
from penstock.plan.nodes import STATEFUL, Job, Node, Scan, Union
from penstock.plan.walk import fold
from penstock.spi import (
    INSTRUCTIONS,
    Batch,
    Committer,
    Guarantee,
    JobContext,
    Output,
    Published,
    Results,
    Stage,
    Task,
    failure_of,
    guarded,
    pickled,
    unpickled,
)

#: The age of files that no manifest names before they are deleted: a day.
_GRACE_MS = 24 * 3600 * 1000


def stateful(job: Job) -> bool:
    """Whether the job is a dataflow: it keeps state, or unites rows."""

    def visit(node: Node, below: tuple[bool, ...]) -> bool:
        return isinstance(node, STATEFUL | Union) or any(below)

    found: tuple[bool, ...] = fold(job.sinks, visit)
    return any(found)


def check_committers(job: Job, committers: Sequence[Committer]) -> None:
    """Raises UnsupportedError for sinks that cannot be committed with one state."""
    exact = [sink for sink in job.sinks if sink.spec.capabilities.guarantee is Guarantee.EXACTLY_ONCE]
    if not exact or (len(committers) == 1 and committers[0].keeps_state):
        return
    hint = "write one Kafka cluster exactly-once, or all tables at-least-once"
    reason = "is exactly-once, and a job with state cannot commit it together with its state and its other tables yet"
    raise UnsupportedError((Problem(reason, where=f"table '{exact[0].table}'", hint=hint),))


@dataclass(eq=False)
class FlowRun:
    """The batches of one run of a job with state. ``scans`` are in the order of Spark's log."""

    job: Job
    scans: Sequence[Scan]
    outputs: Sequence[Output]
    #: Encodes the rows of outputs where they are made; None if the committers take rows.
    stage: Stage | None
    context: JobContext
    #: The folder of the state.
    place: str
    #: The reference to the state that the job began with; empty without a savepoint.
    origin: str = ""
    _last: tuple[str, Manifest] = field(default=("", Manifest()), init=False)
    #: Manifests that no batch needs any more, once the next batch is committed.
    _former: list[tuple[str, Manifest]] = field(default_factory=list, init=False)

    #: Old files, of which those that the state does not need are deleted after the next commit.
    _orphans: frozenset[str] = field(default=frozenset(), init=False)

    def __post_init__(self) -> None:
        planner = Planner(self.scans, kernel_session(self.context.spark), self.job.settings.state_ttl)
        for number, sink in enumerate(self.job.sinks):
            planner.add(sink, number)
        planner.check()
        self.flow = Dataflow(tuple(planner.branches), planner.ordered(), tuple(self.outputs), self.place, self.stage)
        self._hops = {number: node for number, (node, _) in planner.hops.items()}
        self._storage = Storage.of(self.place)

    def frame(self, readings: Readings) -> DataFrame:
        """The rows of the exchange that the reading tasks send. Called when the committers are open."""
        # Later a copy of the job may have taken over: what it has written since is not among these.
        old = garbage(self._storage, (), now_ms=_now_ms(), grace_ms=_GRACE_MS)
        self._orphans = frozenset(each.name for each in old if each.written_ms)
        return reduce(DataFrame.unionAll, (self._reading(readings, n, scan) for n, scan in enumerate(self.scans)))

    def _reading(self, readings: Readings, number: int, scan: Scan) -> DataFrame:
        work = partial(_read, self.flow, number)
        if scan.spec.capabilities.staged and number not in self._hops:
            return readings.staged(scan, Stage(work, EXCHANGE))

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context: Any = TaskContext.get()
            yield from work(Task(context.partitionId(), 0, context.getLocalProperty(INSTRUCTIONS)), batches)

        frame = rows_of(self._hops[number], readings) if number in self._hops else readings.frame(scan)
        return frame.mapInArrow(guarded(run), from_arrow_schema(EXCHANGE))

    def publish(self, batch: Batch, frame: DataFrame, committers: Sequence[Committer]) -> list[Published]:
        """Run the operators on a batch, publish the results, and commit the state with them (rule "state commits with
        the output"). A batch that was committed before runs nothing."""
        with tempfile.TemporaryDirectory(
            prefix="penstock-", dir=SparkFiles.getRootDirectory(), ignore_cleanup_errors=True
        ) as folder:
            run = _once(partial(self._run, batch, frame, folder if self._local else ""))
            if committers[0].keeps_state:
                done = [committers[0].publish(replace(batch, operators=run), None)]
                self._committed(done[0].state, batch.id)
                return done
            return self._published(batch, run, committers)

    def _published(
        self, batch: Batch, run: Callable[[str], Results], committers: Sequence[Committer]
    ) -> list[Published]:
        """Publish a batch without transactions: rows may be repeated, the state counts each row once."""
        checkpoint = self.context.checkpoint
        known = checkpoint.read(DOCUMENT)
        if known is None and batch.id > 0:
            raise CheckpointError(
                f"the checkpoint '{checkpoint.location}' continues with batch {batch.id}, but has no state: the job "
                "had none before, or another guarantee. Start the former definition, or a new checkpoint"
            )
        known = known or {"batch": -1, "state": ""}
        if known["batch"] == batch.id:
            self._committed(known["state"])
            return [Published(skipped=True) for _ in committers]
        if known["batch"] != batch.id - 1:
            raise CheckpointError(
                f"the checkpoint '{checkpoint.location}' continues with batch {batch.id}, but its state is that after "
                f"batch {known['batch']}; restore the checkpoint with all its files, or start the job with a new one"
            )
        results = run(known["state"])
        done = published(batch, results.frame(), committers)
        checkpoint.write(DOCUMENT, {"batch": batch.id, "state": results.state})
        self._committed(results.state)
        return done

    # --- operators -------------------------------------------------------------------------------------------

    @property
    def _local(self) -> bool:
        """Whether all tasks run on this machine."""
        return str(self.context.spark.sparkContext.master).startswith("local")

    def _run(self, batch: Batch, frame: DataFrame, folder: str, state: str) -> Results:
        if not batch.tasks:
            return Results(state, None, lambda: self._frame([]))
        before = self._manifest(state or self.origin)
        now = max(before.time_ms, _now_ms())
        name, rows = attempted(
            lambda: self._collect(batch, frame, folder, before, now), batch.id, self.context, (ExecutionError,)
        )
        receiver = Receiver()
        reports = [bytes(data) for each in _of(rows, STATE) for data in receiver.data(each)]
        reference = state
        if reports:
            after = merged(before, batch.id, reports, now)
            reference = after.write(self._storage, f"{name}.manifest")
            self._last = reference, after
        encoded = [batch for each in _of(rows, ENCODED) for batch in receiver.batches(each)]
        return Results(
            reference,
            pa.Table.from_batches(encoded) if encoded else None,
            lambda: self._frame(_of(rows, ROWS)),
        )

    def _collect(
        self, batch: Batch, frame: DataFrame, folder: str, before: Manifest, now_ms: int
    ) -> tuple[str, pa.Table]:
        """Run all stages, and return the name of the attempt and the rows for the driver."""
        flow, context = self.flow, self.context.spark.sparkContext
        scans = {branch.scan for branch in flow.branches}
        whole = batch.tasks == 1 and len(scans) == 1
        owners = 1 if batch.tasks == 1 else max(1, self.context.parallelism)
        name = f"{batch.id:09d}-{uuid.uuid4().hex[:12]}"
        plan = Plan(name, batch.tasks, owners, whole, folder, before.operators, now_ms)
        job = frame
        for stage in range(1, 1 if whole else flow.stages + 1):
            owned = job.repartitionById(owners, "owner").sortWithinPartitions(*ORDER)
            job = owned.mapInArrow(guarded(partial(_own, flow, stage, plan)), from_arrow_schema(EXCHANGE))
        context.setLocalProperty(INSTRUCTIONS, pickled(plan))
        try:
            table = job.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            raise failure_of(error) from error
        finally:
            context.setLocalProperty(INSTRUCTIONS, None)
        return name, table.cast(EXCHANGE)

    def _frame(self, parts: Sequence[pa.RecordBatch]) -> DataFrame:
        """A frame of the rows of all outputs."""
        spark: SparkSession = self.context.spark
        schema = placed_schema(self.flow.outputs)

        def load(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            receiver = Receiver()
            for each in rows:
                for batch in receiver.batches(each):
                    yield completed(batch, schema)

        # In one task, which keeps the order of the changes of a row.
        sent = spark.createDataFrame(pa.Table.from_batches(parts, EXCHANGE)).coalesce(1)
        return sent.mapInArrow(guarded(load), from_arrow_schema(schema))

    # --- state -----------------------------------------------------------------------------------------------

    def _manifest(self, state: str) -> Manifest:
        """The manifest of a reference. Raises CheckpointError."""
        if self._last[0] != state:
            self._last = state, Manifest.read(self._storage, state)
        unknown = sorted(self._last[1].operators.keys() - {vertex.operator.uid for vertex in self.flow.vertices})
        if unknown:
            raise CheckpointError(
                f"the checkpoint '{self.context.checkpoint.location}' has state of {', '.join(map(repr, unknown))}, "
                "which job does not have any more: start the former definition, or a new checkpoint"
            )
        return self._last[1]

    def _committed(self, state: str, batch: int | None = None) -> None:
        """Delete the files that neither the state after the last committed batch needs nor the one before it. Where the
        reference to the state is in the progress of a ``batch``, the checkpoint gets it too, for those who look at it.
        Only warns if that fails: the batch is committed."""
        if not state or state in [reference for reference, _ in self._former]:
            return
        try:
            if batch is not None:
                self.context.checkpoint.write(DOCUMENT, {"batch": batch, "state": state})
            if self._last[0] != state:
                self._last = state, Manifest.read(self._storage, state)
            self._former.append(self._last)
            orphans, self._orphans = self._orphans, frozenset()
            for file in sorted(orphans - self._last[1].files() - {state.partition("#")[0]}):
                self._storage.delete(file)
            if len(self._former) > 2:
                (name, oldest), *self._former = self._former
                live = frozenset[str]().union(*(manifest.files() for _, manifest in self._former))
                for file in sorted({*(oldest.files() - live), name.partition("#")[0]}):
                    self._storage.delete(file)
        except CheckpointError as error:
            self.context.warn(f"job '{self.context.job}': files of its state are not deleted: {error}")


def _read(flow: Dataflow, scan: int, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    plan: Plan = unpickled(task.instructions)
    yield flow.read(scan, plan, replace(task, number=task.number % plan.tasks, of=plan.tasks), batches)


def _own(flow: Dataflow, stage: int, plan: Plan, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context: Any = TaskContext.get()
    yield from flow.run(stage, plan, context.partitionId(), rows)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _of(rows: pa.Table, edge: int) -> list[pa.RecordBatch]:
    return list(rows.filter(pc.equal(rows.column("edge"), edge)).to_batches())


def _once(run: Callable[[str], Results]) -> Callable[[str], Results]:
    """``run``, which is called once for each state."""
    done: dict[str, Results] = {}

    def once(state: str) -> Results:
        if state not in done:
            done[state] = run(state)
        return done[state]

    return once
