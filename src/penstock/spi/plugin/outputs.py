"""Where the rows of a sink are in the batches of a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.spi.plugin.envelope import HIDDEN, KIND
from penstock.types import RowType, quoted_name


@dataclass(frozen=True)
class Output:
    """One sink of a committer, and where its rows are in the frame: in the struct column ``column`` (null: no row), or
    (None) in the frame's columns ``columns``, which are in the order of the sink's."""

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
        else:
            struct = batch.column(self.column)
            if struct.null_count == len(struct):
                struct, hidden = struct[:0], hidden[:0]
            elif struct.null_count:
                chosen = struct.is_valid()
                struct, hidden = struct.filter(chosen), hidden.filter(chosen)
            columns = struct.flatten()
        return pa.RecordBatch.from_arrays(columns, names=list(self.schema.names)), hidden

    def select(self, frame: Any) -> tuple[Any, list[Any]]:
        """The rows of the sink in a DataFrame, and its columns of those, under the names of ``schema``."""
        if self.column is None:
            columns = [frame[quoted_name(name)] for name in self.columns]
        else:
            struct = frame[quoted_name(self.column)]
            frame, columns = frame.where(struct.isNotNull()), [struct[name] for name in self.schema.names]
        return frame, [each.alias(name) for each, name in zip(columns, self.schema.names, strict=True)]
