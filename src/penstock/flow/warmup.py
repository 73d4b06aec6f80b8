"""Prepares for tasks that compute rows: imports their modules and loads their compiled loops."""

from __future__ import annotations

import pyarrow as pa

from penstock.flow.expressions import Evaluator, compile_expressions
from penstock.flow.fused import Fused  # noqa: F401 - tasks unpickle its functions
from penstock.plan.expressions import ColumnRef, cast
from penstock.types import INT, STRING


def warm() -> None:
    """Call every compiled loop of kernels once: numba loads it from its cache, or compiles it."""
    rows = pa.RecordBatch.from_pydict({"text": pa.array(["1"])})
    text = ColumnRef("text", type=STRING)
    found = compile_expressions((cast(text, INT),), rows.schema)
    assert isinstance(found, Evaluator)  # noqa: S101
    found.columns(rows)
