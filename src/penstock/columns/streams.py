"""Arrow batches as bytes."""

from __future__ import annotations

import pyarrow as pa


def ipc_stream(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as a stream of Arrow's."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()
