"""Where compiled loops find and put each column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import RecordError
from penstock.formats import kinds
from penstock.formats.columns import LARGEST, batch_of, from_buffers
from penstock.formats.scan import gather_base64
from penstock.types import (
    BinaryType,
    DataType,
    DecimalType,
    PrimitiveType,
    RowType,
    StringType,
    TimestampType,
    TimeType,
    arrow_schema,
)

__all__ = ["Cells", "Gather", "Layout", "fixed_column", "gathered", "kind_of", "time_digits"]

#: Copies the strings of one column: (text, spans, valid, offsets, out).
Gather: TypeAlias = Callable[..., None]

_KINDS = {
    "BOOLEAN": kinds.BOOLEAN,
    "TINYINT": kinds.TINYINT,
    "SMALLINT": kinds.SMALLINT,
    "INT": kinds.INT,
    "BIGINT": kinds.BIGINT,
    "FLOAT": kinds.FLOAT,
    "DOUBLE": kinds.DOUBLE,
    "DATE": kinds.DATE,
}
_WIDTHS: dict[int, Any] = {
    kinds.TINYINT: np.int8,
    kinds.SMALLINT: np.int16,
    kinds.INT: np.int32,
    kinds.DATE: np.int32,
}


def time_digits(kind: TimeType) -> int:
    """How many digits after the second a TIME keeps: as declared, at most the three that Flink's TIME holds."""
    return min(kind.precision, 3)


def kind_of(kind: DataType) -> tuple[int, int, int]:
    """Kind, precision and scale of a column for the compiled loops."""
    match kind:
        case PrimitiveType(name=name):
            return _KINDS[name], 0, 0
        case DecimalType(precision=precision, scale=scale):
            return kinds.DECIMAL, precision, scale
        case StringType():
            return kinds.STRING, 0, 0
        case BinaryType():
            return kinds.BYTES, 0, 0
        case TimeType():
            return kinds.TIME, time_digits(kind), 0
        case TimestampType(local_zone=local):
            return kinds.TIMESTAMP_LTZ if local else kinds.TIMESTAMP, 0, 0
    return kinds.OTHER, 0, 0


@dataclass(frozen=True)
class Cells:
    """What the loop fills: values of fixed width, (start, bytes) of strings in the messages, and which are not null."""

    fixed: npt.NDArray[np.int64]
    spans: npt.NDArray[np.int64]
    valid: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Layout:
    """The columns of a schema, with (kind, slot, precision, scale) of each."""

    schema: pa.Schema
    columns: npt.NDArray[np.int64]

    @classmethod
    def of(cls, schema: RowType) -> Layout:
        """The layout of a schema's columns."""
        columns = np.zeros((len(schema.fields), 4), np.int64)
        fixed = spans = 0
        for index, field in enumerate(schema.fields):
            kind, precision, scale = kind_of(field.type)
            text = kind in (kinds.STRING, kinds.BYTES)
            columns[index] = kind, spans if text else fixed, precision, scale
            if kind != kinds.OTHER:
                spans, fixed = spans + text, fixed + (not text)
        return cls(arrow_schema(schema), columns)

    def cells(self, rows: int) -> Cells:
        """Empty cells for so many rows."""
        codes = self.columns[:, 0]
        spans = int(np.count_nonzero((codes == kinds.STRING) | (codes == kinds.BYTES)))
        fixed = len(codes) - spans - int(np.count_nonzero(codes == kinds.OTHER))
        return Cells(
            np.zeros((max(fixed, 1), rows), np.int64),
            np.zeros((max(spans, 1), rows, 2), np.int64),
            np.zeros((max(len(codes), 1), rows), np.uint8),
        )

    def batch(
        self, text: npt.NDArray[np.uint8], cells: Cells, status: npt.NDArray[np.uint8], gather: Gather
    ) -> pa.RecordBatch:
        """All columns, one row per record, null in those that were not read; ``gather`` copies strings together."""
        cells.valid[:, status != kinds.READ] = 0
        columns = [self._column(index, text, cells, gather) for index in range(len(self.columns))]
        return batch_of(columns, self.schema, len(status))

    def _column(self, index: int, text: npt.NDArray[np.uint8], cells: Cells, gather: Gather) -> pa.Array:
        kind, slot = int(self.columns[index, 0]), int(self.columns[index, 1])
        arrow, valid = self.schema.field(index).type, cells.valid[index]
        if kind == kinds.OTHER:
            return pa.nulls(len(valid), arrow)
        if kind in (kinds.STRING, kinds.BYTES):
            return gathered(arrow, text, cells.spans[slot], valid, gather if kind == kinds.STRING else gather_base64)
        return fixed_column(arrow, kind, cells.fixed[slot], valid)


def fixed_column(
    arrow: pa.DataType, kind: int, values: npt.NDArray[np.int64], valid: npt.NDArray[np.uint8]
) -> pa.Array:
    """A column of fixed width from 64 bits a value: floating-point numbers as those of a double, decimals unscaled."""
    if kind == kinds.BOOLEAN:
        return from_buffers(arrow, valid, np.packbits(values.astype(np.uint8), bitorder="little"))
    if kind == kinds.FLOAT:
        with np.errstate(over="ignore"):
            return from_buffers(arrow, valid, values.view(np.float64).astype(np.float32))
    if kind == kinds.DECIMAL:
        wide = np.empty((len(values), 2), np.int64)
        wide[:, 0], wide[:, 1] = values, values >> 63
        return from_buffers(arrow, valid, wide)
    return from_buffers(arrow, valid, values.astype(_WIDTHS.get(kind, np.int64), copy=False))


def gathered(
    arrow: pa.DataType,
    text: npt.NDArray[np.uint8],
    spans: npt.NDArray[np.int64],
    valid: npt.NDArray[np.uint8],
    gather: Gather,
) -> pa.Array:
    """A column of strings or bytes that ``gather`` copies from ``text``; the last of each span is how much it takes.

    Raises RecordError where they exceed what one column can hold.
    """
    ends = np.cumsum(spans[:, -1] * valid)
    if len(ends) and ends[-1] > LARGEST:
        raise RecordError("the texts of one column exceed 2 GiB", hint="use smaller batches")
    offsets = np.zeros(len(valid) + 1, np.int32)
    offsets[1:] = ends
    out = np.empty(int(offsets[-1]), np.uint8)
    gather(text, spans, valid, offsets, out)
    return from_buffers(arrow, valid, offsets, out)
