"""The partition of each record: Kafka's default partitioner, and two others that a sink may choose by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import SchemaError
from penstock.kafka import kernels
from penstock.kafka.columns import to_binary_column

Partitions = NDArray[np.int32]


def by_key(keys: pa.Array | pa.ChunkedArray, partitions: int, *, fallback: int) -> Partitions:
    """The partition of each serialized key, as in Java's client: positive murmur2 modulo ``partitions``.

    Null keys all go to ``fallback``; callers change it between calls, like Java's sticky partitioner between batches.
    Raises SchemaError if ``keys`` are neither binary nor strings, or ``fallback`` is not a partition.
    """
    _check(partitions, fallback)
    out = np.empty(len(keys), np.int32)
    kernels.murmur2_partitions(to_binary_column(keys, len(keys)), partitions, fallback, out)
    return out


def round_robin(rows: int, partitions: int, *, first: int = 0) -> Partitions:
    """All partitions in turn, starting with ``first``."""
    _check(partitions, first)
    return ((np.arange(rows, dtype=np.int64) + first) % partitions).astype(np.int32)


def fixed(rows: int, partitions: int, *, task: int) -> Partitions:
    """One partition for all rows: the number of the writing task modulo ``partitions``, as in Flink."""
    _check(partitions, 0)
    return np.full(rows, task % partitions, np.int32)


def _check(partitions: int, chosen: int) -> None:
    if not 0 <= chosen < partitions:
        raise SchemaError(
            f"partition {chosen} is not one of the topic's {partitions} partitions; read its metadata again"
        )
