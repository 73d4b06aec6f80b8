"""Computes plans without Spark, by the functions and kernels that tasks use."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pyarrow as pa

from penstock.flow.rows.calc import calc_of
from penstock.flow.rows.calls import FunctionStage
from penstock.flow.rows.expressions import NoKernel
from penstock.plan.nodes import Job, MapRows, Node, Scan
from penstock.plan.walk import base
from penstock.spi import HIDDEN, Task


def batch_of(node: Node, sources: dict[str, pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of a node, and the columns that follow them, from the rows of the scans by their tables."""
    if isinstance(node, Scan):
        return sources[node.table]
    if isinstance(node, MapRows):
        given = batch_of(node.input, sources)
        stage = FunctionStage.from_node(node)
        with closing(stage.open(Task(0, 1))) as function:
            return stage.batch(function, given)
    calc = calc_of(node)
    assert not isinstance(calc, NoKernel), calc
    return calc.batch(batch_of(base(node), sources))


def values_of(scan: Scan) -> pa.RecordBatch:
    """The rows of a scan of the connector ``values``, with their places."""
    rows = scan.spec.rows.select(list(scan.schema.names))
    hidden = [pa.array([0] * rows.num_rows, pa.int32()), pa.array(range(rows.num_rows), pa.int64())]
    return pa.RecordBatch.from_arrays([*rows.columns, *hidden], names=[*scan.schema.names, *HIDDEN.names])


def results(job: Job, sources: dict[str, pa.RecordBatch] | None = None) -> list[list[tuple[Any, ...]]]:
    """The rows that each sink of a job is given."""
    from penstock.plan.nodes import scans

    given = dict(sources or {})
    for scan in scans(*job.sinks):
        if scan.connector == "values":
            given.setdefault(scan.table, values_of(scan))
    found = []
    for sink in job.sinks:
        batch = batch_of(sink.input, given)
        columns = [batch.column(name).to_pylist() for name in sink.input.schema.names]
        found.append(list(zip(*columns, strict=True)))
    return found
