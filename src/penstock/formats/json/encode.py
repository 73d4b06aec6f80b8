"""Rows to ``json`` messages: a compiled loop, and Python for columns with a value that the loop cannot write."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, cast, slice_messages
from penstock.columns.nested import NestedInputs, Shape
from penstock.exact.merge import replace_with_texts
from penstock.formats.json import write_kernel
from penstock.formats.json.exact_writer import write_json_texts
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.quoting import escaped_size
from penstock.formats.json.schema import check_schema
from penstock.formats.json.write_program import JsonWriteProgram
from penstock.formats.shared.codec import TableCodec


class JsonEncoder(TableCodec[JsonOptions]):
    """Encodes each row as a JSON object, keys in the order of the columns.

    Raises SchemaError for a schema that JSON cannot hold.
    """

    def _check(self) -> None:
        check_schema(self.schema)

    @cached_property
    def _steps(self) -> JsonWriteProgram:
        return JsonWriteProgram(self._shape)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        rows = cast(rows, self.schema)
        steps, given = self._steps, rows
        while True:
            out, offsets, left = self._write(steps, given)
            if left < 0:
                return slice_messages(out, offsets, "json")
            finished = steps.finished | {left}
            schema, given = replace_with_texts(
                self.schema, rows, finished, lambda column, each: write_json_texts(column, each, self.options)
            )
            steps = JsonWriteProgram(Shape.from_row_type(schema), finished)

    def _write(self, steps: JsonWriteProgram, rows: pa.RecordBatch) -> tuple[Bytes, npt.NDArray[np.int64], int]:
        """The messages, one after the other, and their offsets; or a column with a value that the loop cannot write."""
        inputs = NestedInputs(steps.shape, rows)
        size = steps.size(inputs.counts, write_kernel.WIDEST) + escaped_size(inputs.text) + len(inputs.text)
        standard = self.options.timestamp_standard
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        left = write_kernel.write_records(
            steps.table,
            steps.names,
            inputs.vectors,
            ord(" ") if standard is TimestampStandard.SQL else ord("T"),
            standard is TimestampStandard.ISO_8601_WITH_OFFSET,
            self.options.decimal_as_plain_number,
            self.options.omits_nulls,
            out,
            offsets,
        )
        return out, offsets, left
