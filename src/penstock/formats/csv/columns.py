"""Flat columns as the compiled loops of CSV fill and read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.formats.columns.buffers import (
    Bytes,
    Gather,
    batch_of,
    binary_parts,
    decimal_pairs,
    fixed_column,
    gathered,
    validity,
    words,
)
from penstock.formats.loops import type_roots
from penstock.formats.loops.base64 import gather_base64
from penstock.formats.loops.record_status import READ
from penstock.formats.loops.type_roots import root_of
from penstock.types import (
    RowType,
    arrow_schema,
)


@dataclass(frozen=True)
class Cells:
    """The values that a loop fills: fixed-width values, (start, size) of strings in the messages, and validity."""

    fixed: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """The columns of a schema, with (type root, slot, precision, scale) of each."""

    schema: pa.Schema
    columns: npt.NDArray[np.int64]

    @classmethod
    def of(cls, schema: RowType) -> Layout:
        """The layout of a schema's columns."""
        columns = np.zeros((len(schema.fields), 4), np.int64)
        fixed = spans = 0
        for index, field in enumerate(schema.fields):
            root, precision, scale = root_of(field.type)
            text = root in (type_roots.STRING, type_roots.BYTES)
            columns[index] = root, spans if text else fixed, precision, scale
            if root != type_roots.OTHER:
                spans, fixed = spans + text, fixed + (not text)
        return cls(arrow_schema(schema), columns)

    def cells(self, rows: int) -> Cells:
        """Empty cells for ``rows`` rows."""
        codes = self.columns[:, 0]
        spans = int(np.count_nonzero((codes == type_roots.STRING) | (codes == type_roots.BYTES)))
        fixed = len(codes) - spans - int(np.count_nonzero(codes == type_roots.OTHER))
        return Cells(
            np.zeros((max(fixed, 1), rows), np.int64),
            np.zeros((max(spans, 1), rows, 2), np.int64),
            np.zeros((max(len(codes), 1), rows), np.uint8),
        )

    def batch(
        self, text: npt.NDArray[np.uint8], cells: Cells, status: npt.NDArray[np.uint8], gather: Gather
    ) -> pa.RecordBatch:
        """All columns, one row per record, null for records that were not read. ``gather`` copies strings."""
        cells.valid[:, status != READ] = 0
        columns = [self._column(index, text, cells, gather) for index in range(len(self.columns))]
        return batch_of(columns, self.schema, len(status))

    def _column(self, index: int, text: npt.NDArray[np.uint8], cells: Cells, gather: Gather) -> pa.Array:
        root, slot = int(self.columns[index, 0]), int(self.columns[index, 1])
        arrow, valid = self.schema.field(index).type, cells.valid[index]
        if root == type_roots.OTHER:
            return pa.nulls(len(valid), arrow)
        if root in (type_roots.STRING, type_roots.BYTES):
            return gathered(
                arrow, text, cells.spans[slot], valid, gather if root == type_roots.STRING else gather_base64
            )
        return fixed_column(arrow, root, cells.fixed[slot], valid)


#: Days and microseconds of the years 0000 to 9999, which the compiled loop writes.
_DAYS = (-719528, 2932896)


_MICROS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)


def fixed_cells(code: int, column: pa.Array) -> npt.NDArray[np.int64] | None:
    """64 bits per value of a fixed-width column; None if the loop cannot write one of the values."""
    if code == type_roots.DECIMAL:
        pairs = decimal_pairs(column)
        fits = (pairs[:, 1] == pairs[:, 0] >> 63) | (validity(column) == 0)
        return np.ascontiguousarray(pairs[:, 0]) if bool(fits.all()) else None
    values = words(code, column)
    if code == type_roots.DATE:
        return values if _within(column.view(pa.int32()), _DAYS) else None
    if code in (type_roots.TIMESTAMP, type_roots.TIMESTAMP_LTZ):
        return values if _within(column.view(pa.int64()), _MICROS) else None
    return values


def _within(column: pa.Array, limits: tuple[int, int]) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is None or (found["min"] >= limits[0] and found["max"] <= limits[1])


class Inputs:
    """The columns of one batch as input of a loop. ``size`` is the most bytes that the strings take when written."""

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
        """Fixed-width values; values under nulls are ignored."""
        if self.columns[index, 0] == type_roots.TIME:
            unit = 10 ** (9 - int(self.columns[index, 2]))
            values = values // unit * unit
        self.fixed[index] = values

    def put_text(self, index: int, column: pa.Array, size: Callable[[Bytes], int]) -> None:
        """Strings or bytes. ``size`` returns the most bytes that all of them take when written."""
        data, offsets = binary_parts(column)
        part = data[offsets[0] : offsets[-1]]
        self.spans[index, :, 0] = offsets[:-1] - offsets[0] + self._taken
        self.spans[index, :, 1] = offsets[1:] - offsets[0] + self._taken
        self._texts.append(part)
        self._taken += len(part)
        self.size += size(part)
