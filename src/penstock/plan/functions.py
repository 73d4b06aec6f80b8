"""User-defined functions that take whole batches of rows: what ``MapRows.rows`` may be, beside a plain function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.spi import Task


class OpenFunction(Protocol):
    """A function that a task has opened."""

    def __call__(self, columns: Sequence[pa.Array]) -> tuple[list[pa.Array], NDArray[np.int64]]:
        """The rows that it makes of the rows of ``columns``, as columns, and the number of the row that each came from,
        in ascending order. Raises RecordError with the number of a row in place of its offset, and without a topic."""
        ...

    def close(self) -> None:
        """The task does not need it any more."""
        ...


@runtime_checkable
class BatchFunction(Protocol):
    """A function of rows. Pickled, and opened once in each task of a batch."""

    def open(self, task: Task) -> OpenFunction:
        """The function for ``task``."""
        ...
