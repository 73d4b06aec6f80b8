"""The columns that rows between operators have beside those of their node."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.equality import RowIndices, fixed_values
from penstock.columns.hashing import Hashes
from penstock.spi import KIND

__all__ = ["ARRIVED", "HASH", "KIND", "WEIGHT", "arrivals_of", "hashes_of", "weights_of"]

#: How often a row is added (or, below 0, retracted), and the hash of its keys: int64 and uint64.
WEIGHT, HASH = "__weight", "__hash"
#: The int64 column of rows that go to an operator whose result depends on the order of arrival, where it would be lost:
#: the place of the row that caused the change among those of its batch.
ARRIVED = "__arrived"


def weights_of(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The weights of a batch's rows."""
    return np.asarray(fixed_values(batch.column(WEIGHT)), np.int64)


def arrivals_of(batch: pa.RecordBatch) -> RowIndices:
    """The places of a batch's rows in the order of arrival."""
    return np.asarray(fixed_values(batch.column(ARRIVED)), np.int64)


def hashes_of(batch: pa.RecordBatch) -> Hashes:
    """The hashes of the keys of a batch's rows."""
    return np.asarray(fixed_values(batch.column(HASH)), np.uint64)
