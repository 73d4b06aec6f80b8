"""Spark's Python worker daemon with the data plane loaded before it forks, so that a worker starts warm."""

from __future__ import annotations

import numpy as np
import pandas as pd  # noqa: F401 - Arrow imports it when it first makes an array
import pyarrow as pa
from pyspark import daemon

from penstock.kafka.batches import encode, scan
from penstock.spi import formats
from penstock.types import parse_columns

_COLUMNS = parse_columns("i INT, s STRING")


def warm() -> None:
    """Use every compiled loop once, which loads it from numba's cache, or fills that."""
    rows = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["a"])], names=["i", "s"])
    for name in ("csv", "json"):
        found = formats.get(name)
        options = found.options.from_text({})
        messages = found.encoder(_COLUMNS, options).encode(rows)
        found.decoder(_COLUMNS, options).decode(messages)
        now = np.zeros(1, np.int64)
        (batch,) = encode(keys=messages, values=messages, timestamps=now, partitions=np.zeros(1, np.int32))
        scan(batch.data, start_offset=0, end_offset=1)


if __name__ == "__main__":
    warm()
    daemon.manager()
