"""Prepares for tasks that compute rows: imports their modules and loads their compiled loops."""

from __future__ import annotations

import pyarrow as pa

from penstock.flow.graph.dataflow import Dataflow  # noqa: F401 - tasks unpickle it
from penstock.flow.rows.expressions import Evaluator, compile_expressions
from penstock.plan.expressions import ColumnRef, call, cast
from penstock.types import DATE, DOUBLE, INT, STRING, TimestampType

#: A number of rows for which compiled loops are used.
_MANY = 64


def warm() -> None:
    """Call every compiled loop of kernels once: numba loads it from its cache, or compiles it."""
    rows = pa.RecordBatch.from_pydict({"text": pa.array(["1"] * _MANY), "real": pa.array([1.5] * _MANY)})
    text, real = ColumnRef("text", type=STRING), ColumnRef("real", type=DOUBLE)
    number = cast(text, INT), cast(text, DOUBLE)
    moment = (cast(text, target, safe=True) for target in (DATE, TimestampType(3)))
    rounded = call("ROUND", real, type=DOUBLE)
    found = compile_expressions((*number, *moment, cast(real, STRING), rounded), rows.schema)
    assert isinstance(found, Evaluator)  # noqa: S101
    found.columns(rows)
