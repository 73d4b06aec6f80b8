"""Runs a dataflow batch by batch in this process, as the engine does with tasks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.flow.graph.dataflow import BatchInstructions, Dataflow
from penstock.flow.graph.event_times import EventTimes
from penstock.flow.graph.exchange import EXCHANGE, ORDER, EdgeId, EdgeKind, Receiver, split_by_edge
from penstock.flow.graph.outlets import Target
from penstock.flow.state.changed_queries import ColumnNames
from penstock.flow.state.manifest import Manifest, merge_reports
from penstock.flow.state.storage import Storage
from penstock.flow.time.watermarks import MeasuredWatermarks
from penstock.spi import KIND, Batch, Source, SourcePartition, Task, Writer, WriterFactory


class Passing(Writer):
    """Passes rows on, with their hidden columns and kinds."""

    def __init__(self, task: Task):
        pass

    def write(self, output: int, rows: pa.RecordBatch, hidden: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if KIND not in hidden.schema.names:
            hidden = hidden.append_column(KIND, pa.array([0] * len(hidden), pa.int8()))
        yield pa.RecordBatch.from_arrays(
            [*rows.columns, *hidden.columns], names=[*rows.schema.names, *hidden.schema.names]
        )

    def finish(self) -> Iterator[pa.RecordBatch]:
        yield from ()


PASSING = WriterFactory(Passing, pa.schema([]))


class Partitions(Source):
    """A source of partitions that have no rows but those of the tests."""

    bounded = False

    def partitions(self, end: dict[str, Any]) -> Sequence[SourcePartition]:
        return tuple(
            SourcePartition(number, str(number), number in end["idle"], end["ended"]) for number in end["numbers"]
        )


@dataclass
class Driver:
    """The driver of a job; ``manifest`` is the state after the last batch."""

    flow: Dataflow
    folder: str = ""
    manifest: Manifest = field(default_factory=Manifest)
    batch: int = 0
    now_ms: int = 0
    #: The partitions of each scan, and those that are idle.
    partitions: Sequence[int] = (0,)
    idle: Sequence[int] = ()
    #: The late rows of all batches.
    late: int = 0
    #: In batches with odd numbers: the bytes that a task collects before it sends them, those that an owner takes at a
    #: time, and the fewest rows that are combined.
    sizes: tuple[int, int, int] = (1_000, 20_000, 2)
    #: The names of columns in the state, where they have other ones now.
    names: ColumnNames = field(default_factory=dict)
    #: What the last batch gave to the driver, by edge.
    edges: Mapping[int, pa.RecordBatch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.flow.targets:
            targets = tuple(Target((number,), PASSING) for number in range(len(self.flow.outputs)))
            self.flow = replace(self.flow, targets=targets)

    def run(
        self, tasks: Sequence[tuple[int, Sequence[pa.RecordBatch]]], owners: int, *, ended: bool = False
    ) -> list[pa.RecordBatch]:
        """The rows of the first output after a batch: ``tasks`` are scans and the batches that one task reads of each.
        With one owner and one task that task does everything. ``ended``: the scans end with this batch."""
        whole = owners == 1 and len(tasks) == 1
        name = f"{self.batch:04d}-{uuid.uuid4().hex[:6]}"
        scans = 1 + max([each.scan for each in self.flow.generators], default=0)
        times = EventTimes(self.flow.generators, [Partitions()] * scans)
        end = {"numbers": self.partitions, "idle": self.idle, "ended": ended}
        batch = Batch(self.batch, (None,) * scans, (end,) * scans, len(tasks))
        awaited = times.pending_partitions(batch, self.manifest)
        instructions = BatchInstructions(
            name,
            len(tasks),
            owners,
            whole,
            self.folder,
            self.manifest.operators,
            self.now_ms,
            self.manifest.time_ms,
            awaited,
            *(self.sizes if self.batch % 2 else ()),
            names=self.names,
        )
        rows = [
            row
            for number, (scan, batches) in enumerate(tasks)
            for row in self.flow.read(self.flow.readings[scan], instructions, Task(number, len(tasks)), batches)
        ]
        for stage in range(1, 1 if whole else self.flow.stages + 1):
            table = pa.Table.from_batches(rows, EXCHANGE).sort_by([(each, "ascending") for each in ORDER])
            of = table.column("owner").to_pylist()
            parts = (
                (owner, table.filter(pa.array([each == owner for each in of], pa.bool_()))) for owner in range(owners)
            )
            rows = [
                row
                for owner, part in parts
                for row in self.flow.run(stage, instructions, owner, part.to_batches(), self.flow.storage)
            ]
        edges = self.edges = by_edge(rows)
        states, told, reports = (
            [bytes(each) for each in Receiver().data(edges[edge])] if edge in edges else []
            for edge in map(EdgeId, (EdgeKind.STATE, EdgeKind.TIMES, EdgeKind.REPORTS))
        )
        self.late += sum(json.loads(each)["late"] for each in reports)
        reached = times.progress_after(batch, self.manifest, MeasuredWatermarks.from_reports(told))
        after = merge_reports(self.manifest, self.batch, states, self.now_ms, reached)
        storage = Storage.from_uri(self.flow.storage)
        self.manifest = Manifest.read(storage, after.write(storage, f"{name}.manifest"))
        self.batch += 1
        return self.results(0)

    def results(self, target: int) -> list[pa.RecordBatch]:
        """The rows of a target in the last batch; of each output, if it was given no targets."""
        edge = EdgeId(EdgeKind.ENCODED, target)
        return list(Receiver().batches(self.edges[edge])) if edge in self.edges else []


def by_edge(rows: Sequence[pa.RecordBatch]) -> Mapping[EdgeId, pa.RecordBatch]:
    """The rows of the exchange by edge."""
    found: dict[EdgeId, list[pa.RecordBatch]] = {}
    for edge, batch in split_by_edge(rows):
        found.setdefault(edge, []).append(batch)
    return {edge: pa.concat_batches(batches) for edge, batches in found.items()}
