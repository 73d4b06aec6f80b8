"""Rows to ``json`` messages: a compiled loop over columns, nested ones turned into text beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import RecordError
from penstock.formats import kinds
from penstock.formats.columns import Bytes, validity
from penstock.formats.inputs import Inputs, fixed_cells
from penstock.formats.json import render
from penstock.formats.json.document import quote
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.json.texts import json_texts
from penstock.formats.layout import Layout
from penstock.types import DataType, RowType

__all__ = ["JsonEncoder"]

_LARGEST = 2**31 - 1


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
        """One message per row. Raises RecordError when they exceed what one column of messages can hold."""
        rows = rows.cast(self._layout.schema) if self.schema.fields else rows
        inputs = Inputs(self._layout.columns, rows.num_rows)
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

    def _put(self, inputs: Inputs, index: int, column: pa.Array, kind: DataType) -> None:
        code = int(inputs.columns[index, 0])
        inputs.valid[index] = validity(column)
        if code in (kinds.STRING, kinds.BYTES):
            inputs.put_text(index, column, render.escaped_size if code == kinds.STRING else _base64_size)
            return
        values = None if code == kinds.OTHER else fixed_cells(code, column)
        if values is not None:
            inputs.put_fixed(index, values)
            return
        texts = json_texts(column, kind, self.options)
        inputs.columns[index, 0] = kinds.OTHER
        inputs.put_text(index, pa.array(texts, pa.string()), len)


def _base64_size(data: Bytes) -> int:
    return 2 * len(data)
