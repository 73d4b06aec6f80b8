"""Where the rows of a sink are in the batches of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.spi.plugin.envelope import DEAD_LETTER, HIDDEN, KIND
from penstock.types import RowType, arrow_type


@dataclass(frozen=True)
class Output:
    """One sink of a committer, and where its rows are in a batch or frame: in the struct column ``column`` (missing or
    null: no row), or (None) in the columns ``columns``, which are in the order of the sink's."""

    index: int
    table: str
    spec: Any
    schema: RowType
    column: str | None
    columns: tuple[str, ...] = ()

    def rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows of the sink in a batch of the frame, under the names of ``schema``, and their columns
        :data:`HIDDEN` and, where rows have kinds, :data:`KIND`."""
        hidden = batch.select([name for name in (*HIDDEN.names, KIND) if name in batch.schema.names])
        if self.column is None:
            columns = [batch.column(name) for name in self.columns]
        elif self.column not in batch.schema.names:
            hidden = hidden[:0]
            columns = [pa.nulls(0, arrow_type(each.type)) for each in self.schema.fields]
        else:
            struct = batch.column(self.column)
            if struct.null_count == len(struct):
                struct, hidden = struct[:0], hidden[:0]
            elif struct.null_count:
                chosen = struct.is_valid()
                struct, hidden = struct.filter(chosen), hidden.filter(chosen)
            columns = struct.flatten()
        return pa.RecordBatch.from_arrays(columns, names=list(self.schema.names)), hidden


def without_dead_letters(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of ``batch`` that are not dead letters, without the column of those."""
    if DEAD_LETTER not in batch.schema.names:
        return batch
    letters, rows = batch.column(DEAD_LETTER), batch.drop_columns([DEAD_LETTER])
    return rows if letters.null_count == len(letters) else rows.filter(letters.is_null())


def rows_by_output(
    batch: pa.RecordBatch, outputs: Sequence[Output]
) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch]]:
    """The rows of those of the ``outputs`` that have columns in a batch, each with its number and as
    :meth:`Output.rows` gives them; rows that no struct marks without dead letters. So a batch costs what its rows cost,
    however many outputs there are."""
    names, kept = set(batch.schema.names), without_dead_letters(batch)
    for number, output in enumerate(outputs):
        if output.column is None:
            yield number, *output.rows(kept)
        elif output.column in names:
            yield number, *output.rows(batch)
