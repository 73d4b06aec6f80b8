"""Where the rows of a sink are in the batches of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from penstock.spi.plugin.envelope import HIDDEN, KIND
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


_O = TypeVar("_O", bound=Output)


def outputs_in(batch: pa.RecordBatch, outputs: Sequence[_O]) -> Iterator[tuple[int, _O]]:
    """Those of the ``outputs`` that have columns in a batch, with their numbers. So a batch costs what its rows cost,
    however many outputs there are."""
    names = set(batch.schema.names)
    return ((at, each) for at, each in enumerate(outputs) if each.column is None or each.column in names)
