"""Rows to ``csv`` messages: a compiled loop, and Python for columns with a value that the loop cannot write."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import Bytes, cast, slice_messages
from penstock.columns.nested import NestedInputs, Shape
from penstock.exact.merge import replace_with_texts
from penstock.formats.csv import write_kernel
from penstock.formats.csv.exact_writer import write_csv_lines, write_csv_texts
from penstock.formats.csv.options import CsvOptions
from penstock.formats.csv.schema import NESTED, check_schema
from penstock.formats.shared.codec import TableCodec
from penstock.types import RowType


class CsvEncoder(TableCodec[CsvOptions]):
    """Encodes each row as one line, with its end. Text is quoted by Jackson's loose rule: if it has more than 24
    characters, a character that does not sort after both delimiter and quote, or the escape character (a backslash if
    there is none).

    Raises SchemaError for a schema that CSV cannot hold.
    """

    def _check(self) -> None:
        check_schema(self.schema)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        lines = self._write_lines(cast(rows, self.schema))
        end = self.options.line_delimiter.encode()
        return pc.binary_join_element_wise(lines, end, b"") if end else lines

    def _write_lines(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        options = self.options
        if not options.ascii_marks:
            return pa.array(write_csv_lines(rows, self.schema, options), pa.binary())
        finished = {index for index, field in enumerate(self.schema.fields) if isinstance(field.type, NESTED)}
        while True:
            given = replace_with_texts(
                self.schema, rows, finished, lambda column, each: write_csv_texts(column, each, options)
            )
            out, offsets, left = self._write(*given)
            if left < 0:
                return slice_messages(out, offsets, "csv")
            finished.add(left)

    def _write(self, schema: RowType, rows: pa.RecordBatch) -> tuple[Bytes, npt.NDArray[np.int64], int]:
        """The messages, one after the other, and their offsets; or a column with a value that the loop cannot write."""
        shape, null = Shape.from_row_type(schema), (self.options.null_literal or "").encode()
        inputs = NestedInputs(shape, rows)
        # Each character of a text may be doubled; base64 takes less
        size = 2 * len(inputs.text) + rows.num_rows * len(schema.fields) * (write_kernel.WIDEST + len(null) + 1)
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        delimiter, quote, escape = self.options.marks
        left = write_kernel.write_records(
            inputs.vectors,
            shape.digits,
            np.frombuffer(null, np.uint8),
            delimiter,
            quote,
            escape,
            max(delimiter, quote) + 1,
            out,
            offsets,
        )
        return out, offsets, left
