"""Rows of outputs that former versions have kept beside the state, for targets that did not have them yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.spi import HIDDEN, KIND, Output

#: The names that the columns beside those of an output had.
_FORMER = {"__partition": HIDDEN.names[0], "__offset": HIDDEN.names[1], "__kind": KIND}


def read_former_rows(
    batches: Iterable[pa.RecordBatch], outputs: Sequence[Output], *, single: bool
) -> Iterator[tuple[int, pa.RecordBatch, pa.RecordBatch]]:
    """The rows of a target's outputs, as :meth:`penstock.spi.Writer.write` takes them: those of sink ``i`` are in the
    struct column ``sink_i``, those of the ``single`` sink of a job in its own columns."""
    for batch in batches:
        names = [name for name in _FORMER if name in batch.schema.names]
        hidden = batch.select(names).rename_columns([_FORMER[name] for name in names])
        for number, output in enumerate(outputs):
            if single:
                yield number, batch.select(list(output.schema.names)), hidden
                continue
            column = f"sink_{output.index}"
            if column in batch.schema.names:
                there = batch.column(column).is_valid()
                rows = pa.RecordBatch.from_struct_array(batch.column(column).filter(there))
                yield number, rows, hidden.filter(there)
