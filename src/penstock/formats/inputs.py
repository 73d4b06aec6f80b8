"""The columns of a batch, laid out for the compiled loops that write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats import kinds
from penstock.formats.columns import Bytes, binary_parts, bits_of, fixed_values, validity

__all__ = ["Inputs", "decimal_pairs", "fixed_cells", "words"]

#: Days and microseconds of the years 0000 to 9999, which the compiled loop writes.
_DAYS = (-719528, 2932896)
_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_WIDTHS: dict[int, Any] = {
    kinds.TINYINT: np.int8,
    kinds.SMALLINT: np.int16,
    kinds.INT: np.int32,
    kinds.FLOAT: np.int32,
    kinds.DATE: np.int32,
}


def decimal_pairs(column: pa.Array) -> npt.NDArray[np.int64]:
    """The low and the high 64 bits of each decimal, as a view; what stands under nulls is undefined."""
    return fixed_values(column, np.dtype((np.int64, 2))).reshape(-1, 2)


def words(code: int, column: pa.Array) -> npt.NDArray[np.int64]:
    """64 bits per value of a column of fixed width other than a decimal; those of a FLOAT are its own 32."""
    if code == kinds.BOOLEAN:
        return bits_of(column.buffers()[1], column.offset, len(column)).astype(np.int64)
    return fixed_values(column, _WIDTHS.get(code, np.int64)).astype(np.int64, copy=False)


def fixed_cells(code: int, column: pa.Array) -> npt.NDArray[np.int64] | None:
    """64 bits per value of a column of fixed width; None where a value is beyond what the loops write."""
    if code == kinds.DECIMAL:
        pairs = decimal_pairs(column)
        fits = (pairs[:, 1] == pairs[:, 0] >> 63) | (validity(column) == 0)
        return np.ascontiguousarray(pairs[:, 0]) if bool(fits.all()) else None
    values = words(code, column)
    if code == kinds.DATE:
        return values if _within(column.view(pa.int32()), _DAYS) else None
    if code in (kinds.TIMESTAMP, kinds.TIMESTAMP_LTZ):
        return values if _within(column.view(pa.int64()), _MICROS) else None
    return values


def _within(column: pa.Array, limits: tuple[int, int]) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is None or (found["min"] >= limits[0] and found["max"] <= limits[1])


class Inputs:
    """The columns of one batch as the loops want them. ``size`` is what the strings take at most."""

    def __init__(self, columns: npt.NDArray[np.int64], rows: int):
        self.columns = columns.copy()
        self.columns[:, 1] = np.arange(len(columns))
        self.fixed = np.zeros((max(len(columns), 1), rows), np.int64)
        self.spans = np.zeros((max(len(columns), 1), rows, 2), np.int64)
        self.valid = np.zeros((max(len(columns), 1), rows), np.uint8)
        self.size = 0
        self._texts: list[Bytes] = []
        self._taken = 0

    @property
    def text(self) -> Bytes:
        """All strings' bytes."""
        return np.concatenate(self._texts) if self._texts else np.zeros(0, np.uint8)

    def put_fixed(self, index: int, values: npt.NDArray[np.int64]) -> None:
        """Values of fixed width; what stands under nulls is not looked at."""
        if self.columns[index, 0] == kinds.TIME:
            unit = 10 ** (9 - int(self.columns[index, 2]))
            values = values // unit * unit
        self.fixed[index] = values

    def put_text(self, index: int, column: pa.Array, size: Callable[[Bytes], int]) -> None:
        """Strings or bytes, and ``size``, how much all of them take at most when they are written."""
        data, offsets = binary_parts(column)
        part = data[offsets[0] : offsets[-1]]
        self.spans[index, :, 0] = offsets[:-1] - offsets[0] + self._taken
        self.spans[index, :, 1] = offsets[1:] - offsets[0] + self._taken
        self._texts.append(part)
        self._taken += len(part)
        self.size += size(part)
