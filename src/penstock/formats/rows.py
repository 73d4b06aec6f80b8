"""Rows that the exact path has read, put into the place of the records that the compiled loop left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats import kinds
from penstock.spi import BadRecord, Decoded

__all__ = ["Patch"]


class Patch:
    """Collects, record by record in order, what the exact path makes of those whose ``status`` is EXACT."""

    def __init__(self, status: npt.NDArray[np.uint8]):
        self._status = status
        self._counts = (status == kinds.READ).astype(np.int64)
        self._rows: list[dict[str, Any]] = []
        self._bad: list[BadRecord] = []

    @property
    def left(self) -> Iterator[int]:
        """The records that the loop left, in order."""
        yield from np.flatnonzero(self._status == kinds.EXACT).tolist()

    def put(self, index: int, rows: list[dict[str, Any]]) -> None:
        """The rows of one record, values as Arrow takes them."""
        self._counts[index] = len(rows)
        self._rows += rows

    def refuse(self, index: int, reason: str, field: str = "") -> None:
        """A record that cannot be read."""
        self._bad.append(BadRecord(index, reason, field))

    def applied(self, read: pa.RecordBatch) -> Decoded:
        """``read``, one row per record, with the rows of the exact path in their places."""
        status = self._status
        origin = np.repeat(np.arange(len(status)), self._counts)
        taken = origin.copy()
        taken[status[origin] == kinds.EXACT] = len(status) + np.arange(len(self._rows))
        columns = [
            pa.concat_arrays([read.column(index), pa.array([row[field.name] for row in self._rows], field.type)]).take(
                pa.array(taken)
            )
            for index, field in enumerate(read.schema)
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=read.schema)
        one_each = bool((self._counts == 1).all())
        return Decoded(rows, None if one_each else origin, bad=tuple(self._bad))
