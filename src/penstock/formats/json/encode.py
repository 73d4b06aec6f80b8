"""Rows to ``json`` messages: a compiled loop over columns, nested ones turned into text beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import RecordError
from penstock.formats import kinds
from penstock.formats.columns import Bytes, binary_parts, bits_of, fixed_values, validity
from penstock.formats.json import render
from penstock.formats.json.document import quote
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.json.texts import json_texts
from penstock.formats.layout import Layout
from penstock.types import DataType, RowType

__all__ = ["JsonEncoder"]

_LARGEST = 2**31 - 1
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


@dataclass(frozen=True)
class JsonEncoder:
    """Encodes each row as a JSON object, keys in the order of the columns.

    Raises SchemaError for a schema that JSON cannot hold.
    """

    schema: RowType
    options: JsonOptions

    def __post_init__(self) -> None:
        check_schema(self.schema)

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError for a row that cannot be written."""
        rows = rows.cast(self._layout.schema)
        inputs = _Inputs(self._layout.columns, rows.num_rows)
        for index, field in enumerate(self.schema.fields):
            self._put(inputs, index, rows.column(index), field.type)
        names = [f"{quote(name)}:".encode() for name in self.schema.names]
        starts = np.zeros(len(names) + 1, np.int64)
        starts[1:] = np.cumsum([len(name) for name in names])
        size = inputs.size + rows.num_rows * (int(starts[-1]) + len(names) * (render.WIDEST + 1) + 2)
        standard = self.options.timestamp_standard
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        render.write_records(
            np.frombuffer(b"".join(names), np.uint8),
            starts,
            inputs.columns,
            inputs.fixed,
            inputs.text,
            inputs.spans,
            inputs.valid,
            ord(" ") if standard is TimestampStandard.SQL else ord("T"),
            standard is TimestampStandard.ISO_8601_WITH_OFFSET,
            self.options.decimal_as_plain_number,
            self.options.omits_nulls,
            out,
            offsets,
        )
        if offsets[-1] > _LARGEST:
            raise RecordError("the messages of one batch exceed 2 GiB", format="json", hint="use smaller batches")
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.binary(), rows.num_rows, buffers)

    def _put(self, inputs: _Inputs, index: int, column: pa.Array, kind: DataType) -> None:
        code = int(inputs.columns[index, 0])
        inputs.valid[index] = validity(column)
        if code in (kinds.STRING, kinds.BYTES):
            inputs.put_text(index, column)
            return
        values = None if code == kinds.OTHER else _values(code, column)
        if values is not None:
            inputs.put_fixed(index, values)
            return
        texts = json_texts(column, kind, self.options, self.schema.fields[index].name)
        inputs.columns[index, 0] = kinds.OTHER
        inputs.put_text(index, pa.array(texts, pa.string()))


def _values(code: int, column: pa.Array) -> npt.NDArray[np.int64] | None:
    """What the loop writes for a column of fixed width; None where a value is beyond what it writes."""
    if code == kinds.BOOLEAN:
        return bits_of(column.buffers()[1], column.offset, len(column)).astype(np.int64)
    if code == kinds.DECIMAL:
        pairs = fixed_values(column, np.dtype([("low", np.int64), ("high", np.int64)]))
        fits = (pairs["high"] == pairs["low"] >> 63) | (validity(column) == 0)
        return np.ascontiguousarray(pairs["low"]) if bool(fits.all()) else None
    values = fixed_values(column, _WIDTHS.get(code, np.int64)).astype(np.int64)
    if code == kinds.DATE:
        return values if _within(column.view(pa.int32()), _DAYS) else None
    if code in (kinds.TIMESTAMP, kinds.TIMESTAMP_LTZ):
        return values if _within(column.view(pa.int64()), _MICROS) else None
    return values


def _within(column: pa.Array, limits: tuple[int, int]) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is None or (found["min"] >= limits[0] and found["max"] <= limits[1])


class _Inputs:
    """The columns of one batch as the loop wants them."""

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

    def put_text(self, index: int, column: pa.Array) -> None:
        """Strings, bytes or finished JSON."""
        data, offsets = binary_parts(column)
        part = data[offsets[0] : offsets[-1]]
        self.spans[index, :, 0] = offsets[:-1] - offsets[0] + self._taken
        self.spans[index, :, 1] = offsets[1:] - offsets[0] + self._taken
        self._texts.append(part)
        self._taken += len(part)
        kind = self.columns[index, 0]
        self.size += render.escaped_size(part) if kind == kinds.STRING else 2 * len(part)
