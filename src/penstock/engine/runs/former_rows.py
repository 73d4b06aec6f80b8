"""Output that former versions have kept beside the state, for targets that did not have it yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from penstock.flow.graph.exchange import EXCHANGE, EdgeKind
from penstock.spi import HIDDEN, KIND, Output

#: The names that the columns beside those of an output had.
_FORMER = {"__partition": HIDDEN.names[0], "__offset": HIDDEN.names[1], "__kind": KIND}

#: The number that named an edge of the first target, by what the edge carries; of each other target it was less by
#: 1000 than of the target before.
_FORMER_EDGES = {-1: EdgeKind.ENCODED, -2: EdgeKind.FORMER_ROWS, -6: EdgeKind.RESULTS}
_EDGES_OF_TARGET = 1000


def convert_edges(rows: pa.Table) -> pa.Table:
    """Kept rows as rows of :data:`EXCHANGE`, also those of versions in which a single number named the edge."""
    if "edge" not in rows.schema.names:
        return rows
    edges = -rows.column("edge").to_numpy()
    kinds = [_FORMER_EDGES[-number].value for number in (edges % _EDGES_OF_TARGET).tolist()]
    columns = {
        "kind": pa.array(kinds, pa.int8()),
        "target": pa.array(edges // _EDGES_OF_TARGET, pa.int32()),
        **{name: rows.column(name) for name in EXCHANGE.names[2:]},
    }
    return pa.table(columns, schema=EXCHANGE)


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
