"""Prepares for reading and writing tasks: imports their modules and runs their compiled loops once."""

from __future__ import annotations

import numpy as np
import pandas as pd  # noqa: F401 - Arrow imports it when it first makes an array
import pyarrow as pa

from penstock.connectors.kafka.sink import committer, plain_committer, writer  # noqa: F401 - tasks unpickle their classes
from penstock.connectors.kafka.source import reader  # noqa: F401
from penstock.kafka.record_batches import encode, scan
from penstock.spi import formats
from penstock.types import parse_columns

_COLUMNS = parse_columns("i INT, s STRING")


def warm() -> None:
    """Call every compiled loop once: numba loads it from its cache, or compiles it."""
    rows = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["a"])], names=["i", "s"])
    for name in ("csv", "json"):
        found = formats.get(name)
        options = found.options.from_text({})
        messages = found.encoder(_COLUMNS, options).encode(rows)
        found.decoder(_COLUMNS, options).decode(messages)
        now = np.zeros(1, np.int64)
        (batch,) = encode(keys=messages, values=messages, timestamps=now, partitions=np.zeros(1, np.int32))
        scan(batch.data, start_offset=0, end_offset=1)
