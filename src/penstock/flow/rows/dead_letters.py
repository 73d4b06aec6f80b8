"""Dead letters among the rows of a scan: records that could not be decoded, which go to sinks of their own."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.spi import DEAD_LETTER, HIDDEN


def select_dead_letters(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The dead letters among the rows of a scan, with the columns HIDDEN."""
    chosen = batch.filter(batch.column(DEAD_LETTER).is_valid())
    columns = chosen.column(DEAD_LETTER).flatten()
    hidden = [chosen.column(name) for name in HIDDEN.names]
    return pa.RecordBatch.from_arrays([*columns, *hidden], names=[*names, *HIDDEN.names])


def drop_dead_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``batch`` that are not dead letters, without the column of those."""
    if DEAD_LETTER not in batch.schema.names:
        return batch
    letters, rows = batch.column(DEAD_LETTER), batch.drop_columns([DEAD_LETTER])
    return rows if letters.null_count == len(letters) else rows.filter(letters.is_null())
