"""Spark's part, as small as it can be: logs that survive crashes, batches that are planned once and replayed until they
are committed, and jobs that run tasks. Everything else is the code under test."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from penstock.connectors.kafka.factory import KafkaConnector
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.connectors.kafka.sink.writer import (
    WRITTEN,
    Instructions,
    OpenTransaction,
    WriteSpec,
    open_writer,
    publish,
)
from penstock.delivery import Decision, Progress, deliver
from penstock.errors import BatchError
from penstock.kafka import partitioner
from penstock.kafka.offsets import CommittedOffset, GroupOffsets
from penstock.kafka.produce import Producer
from penstock.kafka.session import session_for
from penstock.settings import Settings
from penstock.spi import (
    HIDDEN,
    Batch,
    Column,
    JobContext,
    NextBatch,
    Output,
    TableDefinition,
    Task,
    TaskResults,
    WriterFactory,
    unpickle_text,
)
from penstock.types import BYTES
from tests.committers import acknowledged, rows_of_outputs
from tests.simulation.checkpoint import Checkpoint, group_of, text_of
from tests.simulation.faults import Plan, TaskFault
from tests.simulation.invariants import Invariants
from tests.simulation.log import record_batch
from tests.simulation.scheduler import Actor, Scheduler

__all__ = ["TRANSACTIONAL_ID", "Driver", "Pipeline", "SimulatedJobs", "Start"]

_JOB = "job"
TRANSACTIONAL_ID = f"walk-{_JOB}".encode()


@dataclass(frozen=True)
class Pipeline:
    """A job that copies ``records`` input records: what it is made of in one walk. ``stateful``: it keeps a state,
    which tells from which state it was made in which batch."""

    records: int
    per_batch: int
    tasks: int
    parallelism: int
    topics: tuple[str, ...]
    keyed: bool
    group: str
    progress_topic: str
    properties: tuple[tuple[str, str], ...]
    stateful: bool = False


@dataclass(frozen=True)
class Start:
    """How a job is started. ``restarted``: by its restart strategy."""

    prefix: str
    adopts: bool = False
    restarted: bool = False


class SimulatedJobs:
    """Runs the real tasks as actors, with sessions of their own as in Spark's worker processes."""

    def __init__(
        self,
        driver: str,
        query: str,
        pipeline: Pipeline,
        invariants: Invariants,
        scheduler: Scheduler,
        plan: Plan,
        rng: random.Random,
    ):
        self._driver, self._query, self._pipeline, self._invariants = driver, query, pipeline, invariants
        self._scheduler, self._plan, self._rng = scheduler, plan, rng
        self.running: list[Actor] = []

    def compute(
        self, records: Sequence[int], spec: WriteSpec, tasks: int, owners: int, instructions: str
    ) -> TaskResults:
        """What ``penstock.engine.runs.write_tasks`` has Spark do with tasks that compute rows: they publish them, or
        with ``owners`` those do."""
        fault = self._begin(spec, instructions)
        rows = [_frame(records[number::tasks], self._query) for number in range(tasks)]
        if not owners:
            again = [0] if fault is TaskFault.TWICE else []
            runs = [
                lambda number=number: _writers(self._own(spec, number)).run(
                    Task(number, tasks, instructions), rows_of_outputs(spec.branches, rows[number])
                )
                for number in [*range(tasks), *again]
            ]
        else:
            encoded = [
                row
                for number in range(tasks)
                for batch in _writers(spec).run(Task(number, tasks), rows_of_outputs(spec.branches, rows[number]))
                for row in batch.to_pylist()
            ]
            if fault is TaskFault.LOST_OUTPUT:
                lost = next((each for each in encoded if each["topic"]), None)
                encoded = [each for each in encoded if each is not lost]
            runs = [
                lambda owner=owner: publish(
                    self._own(spec, owner), Task(owner, owners, instructions), _owned(encoded, owner, owners), _copy
                )
                for owner in range(owners)
            ]
        return self._end(self._run(runs, dies=fault is TaskFault.DIES), fault)

    def publish(self, passed: Sequence[pa.RecordBatch], spec: WriteSpec, instructions: str) -> TaskResults:
        """As on the driver: what writers have passed on is published by one task."""
        fault = self._begin(spec, instructions)
        run = partial(publish, self._own(spec, 0), Task(0, 1, instructions), passed, _copy)
        return self._end(self._run([run], dies=fault is TaskFault.DIES), fault)

    def _begin(self, spec: WriteSpec, instructions: str) -> TaskFault | None:
        """The fault of the tasks that are about to write."""
        self._invariants.publishing(self._driver)
        fault = self._plan.task_fault()
        if fault is TaskFault.ROW_IN_PROGRESS:
            given: Instructions = unpickle_text(instructions)
            assert given.transaction is not None
            self._write_beside_progress(spec, given.transaction)
        return fault

    def _end(self, rows: list[dict[str, Any]], fault: TaskFault | None) -> TaskResults:
        """What tasks with this fault report."""
        if fault is TaskFault.ROW_IN_PROGRESS:
            rows = [acknowledged(self._pipeline.progress_topic, count=0, last_sequence=-1), *rows]
        return TaskResults(rows, "a task of the batch ran twice" if fault is TaskFault.TWICE else "")

    def _own(self, spec: WriteSpec, number: int) -> WriteSpec:
        return replace(spec, client=replace(spec.client, client_id=f"{self._driver}/task-{number}"))

    def _run(self, runs: Sequence[Callable[[], Iterator[pa.RecordBatch]]], *, dies: bool) -> list[dict[str, Any]]:
        """The rows that the tasks give. After one task's failure the others are killed, but not at once."""
        begun = [
            self._scheduler.spawn(
                f"{self._driver}/task-{number}", lambda run=run: [b for b in run() for b in b.to_pylist()]
            )
            for number, run in enumerate(runs)
        ]
        self.running += begun
        if dies:
            self._scheduler.after(self._rng.uniform(0.0, 0.05), begun[0].kill)
        self._wait(begun)
        failed = next((each for each in begun if each.done and (each.error or each.killed)), None)
        if failed is not None:
            for each in begun:
                if not each.done:
                    self._scheduler.after(self._rng.choice((0.0, self._rng.uniform(0.0, 60.0))), each.kill)
            raise failed.error or BatchError("a task was lost")
        return [row for each in begun for row in each.result]

    def _wait(self, begun: Sequence[Actor]) -> None:
        while any(not each.done for each in begun):
            if any(each.done and (each.error or each.killed) for each in begun):
                return

            def subscribe(wake: Callable[[], None]) -> None:
                for each in begun:
                    if not each.done:
                        each.when_done(wake)

            self._scheduler.park(None, subscribe)

    def _write_beside_progress(self, spec: WriteSpec, transaction: OpenTransaction) -> None:
        """A row of the job in the partition of its own progress record, as a sink of many topics might write it."""
        session = session_for(self._own(spec, 0).client)
        topic = self._pipeline.progress_topic
        key = pa.array([transaction.transactional_id.encode()], pa.binary())
        partition = int(partitioner.by_key(key, len(session.topic(topic).partitions), fallback=0)[0])
        row = record_batch([(b"row", b"a row")])
        with Producer(session, transaction.identity, transactional_id=transaction.transactional_id) as producer:
            producer.submit(topic, partition, row.data, row.count)
            producer.flush()


def _writers(spec: WriteSpec) -> WriterFactory:
    return WriterFactory(partial(open_writer, spec), WRITTEN)


@dataclass(frozen=True)
class _Tasks:
    """``count`` tasks that compute these records."""

    jobs: SimulatedJobs
    records: Sequence[int]
    committer: KafkaCommitter
    count: int
    state = ""
    computed = False

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """The results of the tasks, or of owners."""
        owners = self.committer.owners() if by_owners else 0
        return self.jobs.compute(self.records, self.committer.spec(), self.count, owners, instructions)


def _frame(records: Sequence[int], query: str) -> pa.RecordBatch:
    values = pa.array([text_of(record, query) for record in records], pa.binary())
    places = pa.array([0] * len(records), pa.int32())
    offsets = pa.array(list(records), pa.int64())
    return pa.RecordBatch.from_arrays([values, places, offsets], names=["value", *HIDDEN.names])


def _copy(data: pa.Buffer) -> memoryview:
    """Bytes that a task may change."""
    return memoryview(bytearray(data))


def _owned(encoded: Sequence[dict[str, Any]], owner: int, owners: int) -> Iterator[pa.RecordBatch]:
    mine = [row for row in encoded if row["owner"] % owners == owner]
    yield pa.RecordBatch.from_pylist(mine, schema=WRITTEN)


@dataclass(frozen=True)
class _Attempt:
    """An attempt at a batch, whose writers have passed these rows on."""

    jobs: SimulatedJobs
    state: str
    passed: Sequence[pa.RecordBatch]
    spec: WriteSpec
    computed = True

    def tasks(self, target: int) -> _Attempt:
        return self

    def collect(self, instructions: str = "", *, by_owners: bool = False, once: bool = False) -> TaskResults:
        """The results of the driver, which publishes the rows."""
        return self.jobs.publish(self.passed, self.spec, instructions)


@dataclass(frozen=True)
class _Operators:
    """Operators whose state after a batch names the state before it, the batch and the attempt."""

    driver: str
    jobs: SimulatedJobs
    committer: KafkaCommitter
    frame: pa.RecordBatch
    keeps_rows = True

    def run(self, batch: Batch, state: str) -> _Attempt:
        spec = self.committer.spec()
        passed = list(_writers(spec).run(Task(0, 1), rows_of_outputs(spec.branches, self.frame)))
        return _Attempt(self.jobs, f"({state}){batch.id} of {self.driver}", passed, spec)

    def kept(self, batch: Batch, state: str) -> _Attempt:
        raise AssertionError("with one target no batch is in some of the targets only")

    def check_repeating(self, batch: Batch, state: str) -> None:
        raise AssertionError("no target repeats batches")


class _Observed(KafkaCommitter):
    """The code under test, whose decisions are kept."""

    decisions: list[Decision]

    def _decide(self, batch: Progress) -> Decision:
        decision = super()._decide(batch)
        self.decisions.append(decision)
        return decision


class Driver:
    """One start of the job: from opening its committer to the end of its input, or to whatever ends it before."""

    def __init__(
        self,
        name: str,
        start: Start,
        pipeline: Pipeline,
        checkpoint: Checkpoint,
        invariants: Invariants,
        scheduler: Scheduler,
        plan: Plan,
        rng: random.Random,
    ):
        self.name, self.start = name, start
        self.warnings: list[str] = []
        self.decisions: list[Decision] = []
        self.batches = 0
        self._pipeline, self._checkpoint, self._invariants = pipeline, checkpoint, invariants
        self._scheduler = scheduler
        self.jobs = SimulatedJobs(name, checkpoint.query, pipeline, invariants, scheduler, plan, rng)

    def run(self) -> None:
        """Copy what is left of the input."""
        pipeline, checkpoint = self._pipeline, self._checkpoint
        checkpoint.adopted |= self.start.adopts
        committer = _Observed(self._outputs(), self._context())
        committer.decisions = self.decisions
        committer.check()
        committer.open()
        while True:
            number = max(checkpoint.commits, default=-1) + 1
            if number not in checkpoint.offsets:
                start = checkpoint.offsets[number - 1][1] if number else 0
                if start >= pipeline.records:
                    break
                self._scheduler.park(0.001)
                checkpoint.add_offsets(number, (start, min(pipeline.records, start + pipeline.per_batch)))
            start, end = checkpoint.offsets[number]
            batch, records = self._batch(start, end, number), list(range(start, end))
            if not pipeline.stateful:
                committer.publish(batch, _Tasks(self.jobs, records, committer, batch.tasks))
            else:
                frame = _frame(records, checkpoint.query)
                deliver(batch, [committer], _Operators(self.name, self.jobs, committer, frame))
            self.batches += 1
            self._invariants.reported(self.name, number, start, end)
            self._scheduler.park(0.001)
            checkpoint.add_commit(number)
        committer.close()

    def _batch(self, start: int, end: int, number: int) -> Batch:
        def position(offset: int) -> dict[str, Any]:
            return {"topics": {"input": {"0": offset}}}

        consumed: tuple[Any, ...] = ()
        if self._pipeline.group:
            consumed = (
                GroupOffsets(
                    "simulated",
                    group_of(self._pipeline.group, self._checkpoint.query),
                    {("input", 0): CommittedOffset(end)},
                ),
            )
        before = position(start) if number else None
        return Batch(number, (before,), (position(end),), self._pipeline.tasks, consumed)

    def _outputs(self) -> list[Output]:
        made = []
        for index, topic in enumerate(self._pipeline.topics[:1]):
            options = {
                "connector": "kafka",
                "topic": topic,
                "format": "raw",
                "sink.delivery-guarantee": "exactly-once",
                "sink.transactional-id-prefix": self.start.prefix,
                "properties.client.id": self.name,
                **{f"properties.{name}": value for name, value in self._pipeline.properties},
            }
            if self._pipeline.keyed:
                options |= {"key.format": "raw", "key.fields": "value"}
            sink = KafkaConnector().sink(TableDefinition(f"out_{index}", (Column("value", BYTES),), options))
            made.append(Output(index, sink.table, sink, sink.schema))
        return made

    def _context(self) -> JobContext:
        return JobContext(
            job=_JOB,
            query_id=self._checkpoint.query,
            run_id=f"run-of-{self.name}",
            checkpoint=self._checkpoint,
            settings=Settings(progress_topic=self._pipeline.progress_topic, adopt_progress=self.start.adopts),
            parallelism=self._pipeline.parallelism,
            spark=None,
            planned=bool(self._checkpoint.offsets),
            next_batch=lambda: NextBatch(max(self._checkpoint.commits, default=-1) + 1),
            stopping=lambda: False,
            warn=self.warnings.append,
            secret=f"secret of {self._checkpoint.query}",
            restarted=self.start.restarted,
        )
