"""Runs a dataflow batch by batch in this process, as the engine does with tasks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.flow.dataflow import Dataflow, Plan
from penstock.flow.exchange import EXCHANGE, ORDER, ROWS, STATE, Receiver
from penstock.flow.manifest import Manifest, merged
from penstock.flow.storage import Storage
from penstock.spi import Task


@dataclass
class Driver:
    """The driver of a job; ``manifest`` is the state after the last batch."""

    flow: Dataflow
    folder: str = ""
    manifest: Manifest = field(default_factory=Manifest)
    batch: int = 0
    now_ms: int = 0

    def run(self, tasks: Sequence[tuple[int, Sequence[pa.RecordBatch]]], owners: int) -> list[pa.RecordBatch]:
        """The rows of the outputs after a batch: ``tasks`` are scans and the batches that one task reads of each. With
        one owner and one task that task does everything."""
        whole = owners == 1 and len(tasks) == 1
        name = f"{self.batch:04d}-{uuid.uuid4().hex[:6]}"
        plan = Plan(name, len(tasks), owners, whole, self.folder, self.manifest.operators, self.now_ms)
        rows = [
            self.flow.read(scan, plan, Task(number, len(tasks)), batches)
            for number, (scan, batches) in enumerate(tasks)
        ]
        for stage in range(1, 1 if whole else self.flow.stages + 1):
            table = pa.Table.from_batches(rows, EXCHANGE).sort_by([(each, "ascending") for each in ORDER])
            of = table.column("owner").to_pylist()
            parts = (
                (owner, table.filter(pa.array([each == owner for each in of], pa.bool_()))) for owner in range(owners)
            )
            rows = [row for owner, part in parts for row in self.flow.run(stage, plan, owner, part.to_batches())]
        edges = by_edge(rows)
        reports = [bytes(each) for each in Receiver().data(edges[STATE])] if STATE in edges else []
        after = merged(self.manifest, self.batch, reports, self.now_ms)
        storage = Storage.of(self.flow.storage)
        self.manifest = Manifest.read(storage, after.write(storage, f"{name}.manifest"))
        self.batch += 1
        return list(Receiver().batches(edges[ROWS])) if ROWS in edges else []


def by_edge(rows: Sequence[pa.RecordBatch]) -> Mapping[int, pa.RecordBatch]:
    """The rows of the exchange by edge."""
    table = pa.Table.from_batches(rows, EXCHANGE).combine_chunks()
    edges = table.column("edge").to_pylist()
    found = {}
    for edge in set(edges):
        chosen = table.filter(pa.array([each == edge for each in edges], pa.bool_()))
        found[edge] = chosen.combine_chunks().to_batches()[0]
    return found
