"""Which partition a record goes to: Kafka's default partitioner and the two that a sink may ask for by name."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.errors import SchemaError
from penstock.kafka import kernels
from penstock.kafka.columns import binary_column

Partitions = NDArray[np.int32]


def by_key(keys: pa.Array | pa.ChunkedArray, partitions: int, *, fallback: int) -> Partitions:
    """The partition of each serialized key, as Java's client chooses it: positive murmur2 modulo ``partitions``.

    Null keys all go to ``fallback``; the caller changes it from call to call, as Java's sticky partitioner does from
    batch to batch. Raises SchemaError when ``keys`` are neither binary nor strings or ``fallback`` is no partition.
    """
    _check(partitions, fallback)
    out = np.empty(len(keys), np.int32)
    kernels.murmur2_partitions(binary_column(keys, len(keys)), partitions, fallback, out)
    return out


def round_robin(rows: int, partitions: int, *, first: int = 0) -> Partitions:
    """Partition after partition in turn, beginning with ``first``."""
    _check(partitions, first)
    return ((np.arange(rows, dtype=np.int64) + first) % partitions).astype(np.int32)


def fixed(rows: int, partitions: int, *, task: int) -> Partitions:
    """All rows to the partition of the writing task: its number modulo ``partitions``, as Flink's fixed partitioner."""
    _check(partitions, 0)
    return np.full(rows, task % partitions, np.int32)


def _check(partitions: int, chosen: int) -> None:
    if not 0 <= chosen < partitions:
        raise SchemaError(f"partition {chosen} is not one of the topic's {partitions}; read its metadata again")
