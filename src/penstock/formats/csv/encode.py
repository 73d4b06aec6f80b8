"""Rows to ``csv`` messages: a compiled loop over columns. Nested columns are converted to text first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.formats.columns.buffers import Bytes, messages_of, validity
from penstock.formats.csv import write_kernel
from penstock.formats.csv.columns import Inputs, Layout, fixed_cells
from penstock.formats.csv.exact_writer import csv_lines, csv_texts
from penstock.formats.csv.options import CsvOptions
from penstock.formats.csv.schema import check_schema
from penstock.formats.loops import type_roots
from penstock.types import DataType, RowType


@dataclass(frozen=True)
class CsvEncoder:
    """Encodes each row as one line without a line end. Text is quoted by Jackson's loose rule: if it has more than 24
    characters, or a character that does not sort after both delimiter and quote, or the escape character (a backslash
    if there is none).

    Raises SchemaError for a schema that CSV cannot hold.
    """

    schema: RowType
    options: CsvOptions

    def __post_init__(self) -> None:
        check_schema(self.schema)

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.schema)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        rows, options = rows.cast(self._layout.schema) if self.schema.fields else rows, self.options
        if not options.ascii_marks:
            return pa.array(csv_lines(rows, self.schema, options), pa.binary())
        inputs = Inputs(self._layout.columns, rows.num_rows)
        for index, field in enumerate(self.schema.fields):
            self._put(inputs, index, rows.column(index), field.type)
        null = (options.null_literal or "").encode()
        starts = np.array([0, 5, 9, 9 + len(null)], np.int64)
        size = inputs.size + rows.num_rows * len(self.schema.fields) * (write_kernel.WIDEST + len(null) + 1)
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        quote = -1 if options.quote is None else ord(options.quote)
        escape = -1 if options.escape_character is None else ord(options.escape_character)
        write_kernel.write_records(
            inputs.columns,
            inputs.fixed,
            inputs.text,
            inputs.spans,
            inputs.valid,
            np.frombuffer(b"falsetrue" + null, np.uint8),
            starts,
            ord(options.field_delimiter),
            quote,
            escape,
            max(ord(options.field_delimiter), quote) + 1,
            out,
            offsets,
        )
        return messages_of(out, offsets, "csv")

    def _put(self, inputs: Inputs, index: int, column: pa.Array, data_type: DataType) -> None:
        code = int(inputs.columns[index, 0])
        inputs.valid[index] = validity(column)
        if code in (type_roots.STRING, type_roots.BYTES):
            inputs.put_text(index, column, _doubled)
            return
        values = None if code == type_roots.OTHER else fixed_cells(code, column)
        if values is not None:
            inputs.put_fixed(index, values)
            return
        # Numbers are written as they are, everything else like text
        inputs.columns[index, 0] = type_roots.OTHER if code == type_roots.DECIMAL else type_roots.STRING
        inputs.put_text(index, pa.array(csv_texts(column, data_type, self.options), pa.string()), _doubled)


def _doubled(data: Bytes) -> int:
    """The most bytes of text if every character is doubled, or of bytes in base64."""
    return 2 * len(data)
