"""Arrow batches as bytes."""

from __future__ import annotations

import pyarrow as pa


def ipc_stream(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """A batch or a table as a stream of Arrow's."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write(rows)
    return out.getvalue()
