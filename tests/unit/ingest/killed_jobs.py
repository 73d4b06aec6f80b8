"""Runs the driver's part of a pipeline without Spark, up to the moment at which it is killed, and again from what is
durable: the files of its checkpoint, Spark's logs of batches, and the system that it writes to."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa

from penstock.engine.checkpoint import read_location
from penstock.engine.checkpoint.committed import STATE, read_state
from penstock.engine.checkpoint.schema_history import read_schema_history
from penstock.engine.runs import table_schemas
from penstock.engine.runs.flows import FlowRun
from penstock.engine.runs.states import StateHistory
from penstock.flow.graph.exchange import EdgeKind, choose_edges
from penstock.flow.graph.routes import outputs_of
from penstock.flow.state import schema_log
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.plan.nodes import scans
from penstock.schemas import SchemaVersion
from penstock.spi import Batch, JobContext, NextBatch, OnDriver, Source, Stage, Task, pickle_text, unpickle_text
from tests.unit.ingest.killed_sinks import System
from tests.unit.ingest.kills import KillPlan
from tests.unit.ingest.pipelines import Message, Pipeline

#: What a run asks of Spark: its time zone, and whether tasks run on this machine. On a cluster they keep what they pass
#: on beside the state.
_SPARK = SimpleNamespace(
    conf={"spark.sql.session.timeZone": "UTC"}, sparkContext=SimpleNamespace(master="spark://driver:7077")
)
#: So many files of versions become one, so that this happens in short runs.
_MOST_FILES = 3


@dataclass
class _Messages(Source):
    """The source, whose ``latest`` messages are known before the first batch."""

    latest: Sequence[pa.RecordBatch]
    bounded = False

    def read_latest(self, count: int) -> Sequence[pa.RecordBatch]:
        return self.latest

    def partition(self, number: int, end: dict[str, Any]) -> tuple[str, int]:
        return "t", number

    def count_records(self, start: dict[str, Any] | None, end: dict[str, Any]) -> int:
        return int(end["read"]) - int(start["read"] if start else 0)


@dataclass
class _Sources:
    """Makes the source, and no frame."""

    latest: Sequence[pa.RecordBatch]
    sources: list[Source] = field(default_factory=list)

    def staged(self, _: object, __: Stage) -> None:
        self.sources.append(_Messages(self.latest))


@dataclass(frozen=True)
class Definition:
    """The text of a pipeline from the batch ``first`` on."""

    first: int
    text: str


@dataclass
class DurableJob:
    """A job over all of its runs. ``batches`` are planned as they are: one has the same messages when it runs again."""

    folder: Path
    system: System
    definitions: Sequence[Definition]
    batches: Sequence[Sequence[Message]]
    rng: random.Random
    #: How many messages of each partition of the last batch are surveyed before the first one.
    ahead: int = 0
    runs: int = 0
    #: The number of batches in Spark's log of commits.
    logged: int = 0

    def __post_init__(self) -> None:
        self.checkpoint = read_location(str(self.folder))
        self.checkpoint.write("job", {"job": "p", "query_id": "query", "sources": ["s"]})
        reader = Pipeline(self.definitions[0].text)
        self._read = [reader.read(*each) for each in self.batches]
        self._ends = [{"read": sum(map(len, self.batches[: at + 1]))} for at in range(len(self.batches))]

    def run(self, kills: KillPlan) -> None:
        """Run to the end of the messages, or until the definition changes. Raises Killed."""
        self.runs += 1
        with _hooks(kills):
            present = [each for each in self.definitions if each.first <= self.logged][-1]
            upcoming = [each.first for each in self.definitions if each.first > self.logged]
            self._run(present.text, min(upcoming, default=len(self.batches)), kills)

    @property
    def is_done(self) -> bool:
        """Whether Spark has logged all batches."""
        return self.logged == len(self.batches)

    def _run(self, text: str, until: int, kills: KillPlan) -> None:
        job, tasks = Pipeline(text).job, self.rng.choice([1, 2, 3, 8])
        context = JobContext(
            job="p",
            query_id="query",
            run_id=f"run-{self.runs}",
            checkpoint=self.checkpoint,
            settings=job.settings,
            parallelism=tasks,
            spark=_SPARK,
            planned=self.runs > 1,
            stopping=lambda: False,
            warn=lambda _: None,
            next_batch=lambda: NextBatch(self.logged, self._ends[self.logged - 1 : self.logged]),  # type: ignore[arg-type]
        )
        outputs = outputs_of(job)
        committer = self.system.committer(context, kills)
        flow = FlowRun(job, scans(*job.sinks), [committer], [outputs], context, self.checkpoint.folder(STATE))
        flow.check()
        committer.check()
        committer.open()
        latest = [each.slice(max(0, len(each) - self.ahead)) for each in self._read[-1]] if self.ahead else []
        flow.frame(_Sources(latest))  # type: ignore[arg-type]
        stage = flow.flow.stage(0)
        while self.logged < until:
            at = self.logged
            start = self._ends[at - 1] if at else None
            batch = Batch(at, (start,), (self._ends[at],), tasks)
            flow.publish(batch, OnDriver(lambda given, at=at: (self._read_batch(stage, given, at, tasks, kills), b"")))
            flow.committed(batch)
            kills.reach("the checkpoint has named the state")
            self.logged += 1
            kills.reach("Spark has logged the batch")
        committer.close()

    def _read_batch(self, stage: Stage, given: str, at: int, tasks: int, kills: KillPlan) -> pa.Table:
        """The rows that the tasks of a batch have sent, in the order in which they happen to end."""
        instructions = pickle_text(replace(unpickle_text(given), tasks=tasks))
        parts: list[list[pa.RecordBatch]] = [[] for _ in range(tasks)]
        for number, each in enumerate(self._read[at]):
            parts[number % tasks].append(each)
        rows = []
        for number in self.rng.sample(range(tasks), tasks):
            rows += stage.run(Task(number, tasks, instructions), iter(parts[number]))
        found = pa.Table.from_batches(rows, stage.schema)
        if choose_edges(found, EdgeKind.SCHEMAS).num_rows:
            kills.cause = "messages"
            kills.reach("tasks have reported schemas")
        else:
            kills.reach("tasks have computed rows")
        return found

    # --- what is durable -------------------------------------------------------------------------------------

    def history(self) -> list[SchemaVersion]:
        """All versions of schemas, without their times."""
        return [replace(each, time_ms=0) for each in read_schema_history(self.checkpoint).versions]

    def totals(self) -> dict[str, Any]:
        """What was read of each table."""
        storage = Storage.from_uri(self.checkpoint.folder(STATE))
        found = Manifest.read(storage, (read_state(self.checkpoint) or {})["state"])
        return found.totals.read(storage)

    def result(self) -> dict[str, Any]:
        """What must be the same however often the job was killed."""
        return {
            "rows": self.system.rows(),
            "tables": self.system.tables(),
            "DDL": self.system.changes,
            "history": self.history(),
            "totals": self.totals(),
        }


@contextmanager
def _hooks(kills: KillPlan) -> Iterator[None]:
    """Reaches the points between the steps of penstock's own code."""
    append, write = table_schemas.append_versions, StateHistory.write

    def append_so(*given: Any) -> Any:
        found = append(*given)
        kills.reach(f"the state has the versions, by {kills.cause}")
        return found

    def write_so(*given: Any) -> Any:
        found = write(*given)
        kills.reach("the manifest is written")
        return found

    kills.cause = "the definition"
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(table_schemas, "append_versions", append_so))
        stack.enter_context(mock.patch.object(StateHistory, "write", write_so))
        stack.enter_context(mock.patch.object(schema_log, "_MOST_FILES", _MOST_FILES))
        yield
