"""The sinks of a committer, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.spi.plugin.envelope import DEAD_LETTER
from penstock.types import RowType


@dataclass(frozen=True)
class Output:
    """One sink of a committer. ``index`` is the number of the sink in the job, ``schema`` has the columns of its
    rows."""

    index: int
    table: str
    spec: Any
    schema: RowType


def drop_dead_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``batch`` that are not dead letters, without the column of those."""
    if DEAD_LETTER not in batch.schema.names:
        return batch
    letters, rows = batch.column(DEAD_LETTER), batch.drop_columns([DEAD_LETTER])
    return rows if letters.null_count == len(letters) else rows.filter(letters.is_null())
