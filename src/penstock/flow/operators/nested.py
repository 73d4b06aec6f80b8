"""An operator that runs inside another one, on its own state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa

from penstock.flow.operators.contract import Operator, OperatorContext
from penstock.flow.operators.deltas import Delta
from penstock.flow.state.store import StateStore, Tables
from penstock.flow.time.watermarks import NEVER, Clock


def run_nested(operator: Operator, inputs: Sequence[pa.RecordBatch], state: Tables) -> pa.RecordBatch:
    """The result of an operator that does not depend on time, for one batch per input: its rows with ``WEIGHT``. What
    it emits into side outputs is left out."""
    context = OperatorContext(cast("StateStore", state), Clock(NEVER, NEVER), operator.side_outputs)
    operator.process(inputs, context)
    rows = context.list_emitted()
    if not rows:
        return Delta.make_empty(operator.schema)
    return rows[0] if len(rows) == 1 else pa.concat_batches(rows)
