"""A query over one table with event time, run batch by batch through its dataflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from penstock.flow.graph.dataflow import Dataflow
from penstock.flow.graph.planner import Planner
from penstock.flow.kernels.session import Session
from penstock.flow.state.inspection import read_rows, read_spec
from penstock.flow.state.manifest import Manifest
from penstock.flow.state.storage import Storage
from penstock.plan.nodes import Job, scans
from penstock.plan.planning import plan_job
from penstock.spi import HIDDEN, KIND, Output
from penstock.types import RowKind, arrow_schema
from tests.corpora import parsed
from tests.unit.flow.driver import Driver

TABLES = """
CREATE TABLE s (k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
  WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE z (k STRING, n INT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE p (k STRING, n INT, ts TIMESTAMP(3), at AS PROCTIME()) WITH ('connector' = 'any', 'mode' = 'I');
CREATE TABLE c (k STRING, n INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');
CREATE VIEW timed AS SELECT * FROM s WHERE ts IS NOT NULL;
"""
START = datetime(2026, 1, 1)
#: A key, a number, and milliseconds since the start.
Row = tuple[str | None, int | None, int | None]


@dataclass
class Running:
    """A query over one table, between batches."""

    query: str
    folder: str
    zone: str = "UTC"
    #: The time to live of the state.
    ttl: timedelta | None = None
    #: Whether rows without an event time are late, instead of failing the job.
    lenient: bool = True

    def __post_init__(self) -> None:
        columns = self.query.count("CAST(") + self.query.startswith("SELECT k,")
        names = ", ".join(f"c{number} STRING" for number in range(columns))
        create = f"CREATE TABLE t ({names}) WITH ('connector' = 'any', 'mode' = 'I,UB,UA,D');"
        self.script = f"{TABLES} {create} INSERT INTO t {self.query}"
        self.result: Counter[tuple[Any, ...]] = Counter()
        self.manifest = Manifest()
        self.late = 0
        self.start()

    def unplanned(self) -> Job:
        """The job, before what it keeps is planned."""
        (job,) = parsed(self.script).jobs
        return job

    def start(self) -> None:
        """Plan the job, and go on with the state of the last batch."""
        (sink,) = plan_job(self.unplanned()).sinks
        planner = Planner(scans(sink), Session(self.zone), self.ttl, lenient=self.lenient)
        planner.add(sink, 0)
        self.scans = planner.scans
        output = Output(0, sink.table, sink.spec, sink.schema)
        flow = Dataflow(
            tuple(planner.branches), planner.ordered(), (output,), self.folder, generators=tuple(planner.generators)
        )
        self.driver = Driver(flow, manifest=self.manifest, batch=self.manifest.batch + 1, sizes=(100, 500, 2))

    def run(
        self,
        tasks: Sequence[Sequence[Row]],
        owners: int = 1,
        *,
        partitions: Sequence[int] = (0, 0, 0),
        ended: bool = False,
        kinds: Sequence[RowKind] | None = None,
    ) -> list[tuple[Any, ...]]:
        """A batch of the only table, each task with rows of a partition; the rows that it gives."""
        before = self.driver.late
        given = [(0, [self._batch(rows, partitions[at], kinds)]) for at, rows in enumerate(tasks)]
        out = self.driver.run(given, owners, ended=ended)
        self.manifest = self.driver.manifest
        self.late += self.driver.late - before
        found = []
        for batch in out:
            names = [name for name in batch.schema.names if name not in (*HIDDEN.names, KIND)]
            *columns, marks = (batch.column(name).to_pylist() for name in (*names, KIND))
            for *values, kind in zip(*columns, marks, strict=True):
                row = tuple(values)
                self.result[row] += 1 if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
                assert self.result[row] >= 0
                found.append(row)
        self.result = +self.result
        return found

    @property
    def stored(self) -> int:
        """How many rows the state has."""
        storage, found = Storage.from_uri(self.folder), 0
        for uid, tables in self.manifest.operators.items():
            for name, refs in tables.items():
                spec = read_spec(storage, refs, name, uid)
                found += sum(map(len, read_rows(storage, refs, spec, uid))) if spec is not None else 0
        return found

    def _batch(self, rows: Sequence[Row], partition: int, kinds: Sequence[RowKind] | None) -> pa.RecordBatch:
        schema = arrow_schema(self.scans[0].schema)
        values = {
            "k": [k for k, _, _ in rows],
            "n": [n for _, n, _ in rows],
            "ts": [None if ms is None else START + timedelta(milliseconds=ms) for _, _, ms in rows],
        }
        columns = [pa.array(values[each.name], each.type) for each in schema]
        hidden = [pa.array([partition] * len(rows), pa.int32()), pa.array(range(len(rows)), pa.int64())]
        marks = pa.array([int(each) for each in kinds or [RowKind.INSERT] * len(rows)], pa.int8())
        return pa.RecordBatch.from_arrays([*columns, *hidden, marks], names=[*schema.names, *HIDDEN.names, KIND])


def shown(ms: int) -> str:
    """A moment of the test, as CAST to STRING has it."""
    at = START + timedelta(milliseconds=ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"
