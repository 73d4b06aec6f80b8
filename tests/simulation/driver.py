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
from penstock.connectors.kafka.sink.acknowledgements import Acknowledged
from penstock.connectors.kafka.sink.committer import KafkaCommitter
from penstock.connectors.kafka.sink.writer import (
    PUBLISHING_ORDER,
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
    Results,
    TableDefinition,
    Task,
    WriterFactory,
    pickled,
)
from penstock.types import BYTES
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

    def write(self, tasks: _Tasks, *, transaction: OpenTransaction) -> Acknowledged:
        """What ``penstock.connectors.kafka.spark`` has Spark do."""
        return self._write(tasks, None, transaction)

    def write_by_owners(
        self, tasks: _Tasks, spec: WriteSpec, owners: int, *, transaction: OpenTransaction
    ) -> Acknowledged:
        """The same, with a second stage."""
        return self._write(replace(tasks, spec=spec), owners, transaction)

    def _write(self, given: _Tasks, owners: int | None, transaction: OpenTransaction) -> Acknowledged:
        spec, tasks = given.spec, given.count
        self._invariants.publishing(self._driver)
        fault = self._plan.task_fault()
        if fault is TaskFault.ROW_IN_PROGRESS:
            self._write_beside_progress(spec, transaction)
        rows = [_frame(given.records[number::tasks], self._query) for number in range(tasks)]
        at_once = pickled(Instructions(at_once=True, transaction=transaction))
        if owners is None:
            again = [0] if fault is TaskFault.TWICE else []
            runs = [
                lambda number=number: _writers(self._own(spec, number)).run(
                    Task(number, tasks, at_once), [rows[number]]
                )
                for number in [*range(tasks), *again]
            ]
        else:
            encoded = [
                row
                for number in range(tasks)
                for batch in _writers(spec).run(Task(number, tasks), [rows[number]])
                for row in batch.to_pylist()
            ]
            if fault is TaskFault.LOST_OUTPUT:
                lost = next((each for each in encoded if each["topic"]), None)
                encoded = [each for each in encoded if each is not lost]
            runs = [
                lambda owner=owner: publish(
                    self._own(spec, owner), transaction, Task(owner, owners), _owned(encoded, owner, owners)
                )
                for owner in range(owners)
            ]
        found = self._run(runs, dies=fault is TaskFault.DIES)
        done = _acknowledged(found, clean=fault is not TaskFault.TWICE)
        if fault is TaskFault.ROW_IN_PROGRESS:
            done = replace(done, topics=done.topics | {self._pipeline.progress_topic})
        return done

    def publish(self, encoded: pa.Table, spec: WriteSpec, owners: int, *, transaction: OpenTransaction) -> Acknowledged:
        """As on the driver: what operators have made is published by one task."""
        self._invariants.publishing(self._driver)
        fault = self._plan.task_fault()
        if fault is TaskFault.ROW_IN_PROGRESS:
            self._write_beside_progress(spec, transaction)
        rows = encoded.sort_by([(name, "ascending") for name in PUBLISHING_ORDER]).to_batches()
        run = partial(publish, self._own(spec, 0), transaction, Task(0, 1), rows)
        done = _acknowledged(self._run([run], dies=fault is TaskFault.DIES), clean=fault is not TaskFault.TWICE)
        if fault is TaskFault.ROW_IN_PROGRESS:
            done = replace(done, topics=done.topics | {self._pipeline.progress_topic})
        return done

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
    """Tasks that read these records, and what they know of the sinks."""

    records: Sequence[int]
    spec: WriteSpec
    count: int

    def collect(self, instructions: str = "") -> list[dict[str, Any]]:
        raise AssertionError("the jobs of the simulation run them")


def _frame(records: Sequence[int], query: str) -> pa.RecordBatch:
    values = pa.array([text_of(record, query) for record in records], pa.binary())
    places = pa.array([0] * len(records), pa.int32())
    offsets = pa.array(list(records), pa.int64())
    return pa.RecordBatch.from_arrays([values, places, offsets], names=["value", *HIDDEN.names])


def _owned(encoded: Sequence[dict[str, Any]], owner: int, owners: int) -> Iterator[pa.RecordBatch]:
    mine = [row for row in encoded if row["owner"] % owners == owner]
    mine.sort(key=lambda row: tuple(row[name] for name in PUBLISHING_ORDER))
    yield pa.RecordBatch.from_pylist(mine, schema=WRITTEN)


def _acknowledged(rows: Sequence[dict[str, Any]], *, clean: bool) -> Acknowledged:
    return Acknowledged.from_task_reports(rows, "" if clean else "a task of the batch ran twice")


@dataclass(frozen=True)
class _Attempt:
    """An attempt at a batch."""

    state: str
    rows: pa.Table

    def results(self, target: int) -> Results:
        return Results(self.state, self.rows)


@dataclass(frozen=True)
class _Operators:
    """Operators whose state after a batch names the state before it, the batch and the attempt."""

    driver: str
    writers: WriterFactory
    frame: pa.RecordBatch
    keeps_rows = True

    def run(self, batch: Batch, state: str) -> _Attempt:
        rows = pa.Table.from_batches(self.writers.run(Task(0, 1), [self.frame]), WRITTEN)
        return _Attempt(f"({state}){batch.id} of {self.driver}", rows)

    def kept(self, batch: Batch, state: str) -> _Attempt:
        raise AssertionError("with one target no batch is in some of the targets only")

    def check_repeating(self, batch: Batch, state: str) -> None:
        raise AssertionError("no target repeats batches")


class _Observed(KafkaCommitter):
    """The code under test, whose decisions are kept."""

    decisions: list[Decision]

    def _decided(self, batch: Progress) -> Decision:
        decision = super()._decided(batch)
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
        committer = _Observed(self._outputs(), self._context(), self.jobs)
        committer.decisions = self.decisions
        committer.check()
        committer.open()
        writers, spec = committer.writers(), committer.spec()
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
                committer.publish(batch, _Tasks(records, spec, batch.tasks))
            else:
                deliver(batch, [committer], _Operators(self.name, writers, _frame(records, checkpoint.query)))
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
            made.append(Output(index, sink.table, sink, sink.schema, None, ("value",)))
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
