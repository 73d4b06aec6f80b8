"""Arrow batches as bytes."""

from __future__ import annotations

import pyarrow as pa


def ipc_stream(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """A batch or a table as a stream of Arrow's."""
    sizes = pa.MockOutputStream()
    with pa.ipc.new_stream(sizes, rows.schema) as stream:
        stream.write(rows)
    data = pa.allocate_buffer(sizes.size())  # a stream that grows would copy its bytes each time
    with pa.ipc.new_stream(pa.FixedSizeBufferWriter(data), rows.schema) as stream:
        stream.write(rows)
    return data
