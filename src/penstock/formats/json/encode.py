"""Rows to ``json`` messages: a compiled loop, and Python for columns with a value that the loop cannot write."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.columns.buffers import Bytes, batch_of, messages_of
from penstock.formats.columns.nested import NestedInputs, Shape
from penstock.formats.json import write_kernel
from penstock.formats.json.exact_writer import json_texts
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.quoting import escaped_size
from penstock.formats.json.schema import check_schema
from penstock.formats.json.write_program import JsonWriteProgram
from penstock.types import STRING, RowType, arrow_schema


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
    def _steps(self) -> JsonWriteProgram:
        return JsonWriteProgram(Shape.of(self.schema))

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        rows = rows.cast(arrow_schema(self.schema)) if self.schema.fields else rows
        steps, given = self._steps, rows
        while True:
            out, offsets, left = self._write(steps, given)
            if left < 0:
                break
            steps, given = self._without(steps.finished | {left}, rows)
        return messages_of(out, offsets, "json")

    def _write(self, steps: JsonWriteProgram, rows: pa.RecordBatch) -> tuple[Bytes, npt.NDArray[np.int64], int]:
        """The messages, one after the other, and their offsets; or a column with a value that the loop cannot write."""
        inputs = NestedInputs(steps.shape, rows)
        size = steps.size(inputs.counts, write_kernel.WIDEST) + escaped_size(inputs.text) + len(inputs.text)
        standard = self.options.timestamp_standard
        out, offsets = np.empty(size, np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        left = write_kernel.write_records(
            steps.table,
            steps.names,
            inputs.nodes,
            inputs.words,
            inputs.valid,
            inputs.text,
            ord(" ") if standard is TimestampStandard.SQL else ord("T"),
            standard is TimestampStandard.ISO_8601_WITH_OFFSET,
            self.options.decimal_as_plain_number,
            self.options.omits_nulls,
            out,
            offsets,
        )
        return out, offsets, left

    def _without(self, left: frozenset[int], rows: pa.RecordBatch) -> tuple[JsonWriteProgram, pa.RecordBatch]:
        """The same rows with finished JSON in the columns that the loop cannot write."""
        fields, columns = list(self.schema.fields), list(rows.columns)
        for index in left:
            texts = json_texts(columns[index], fields[index].type, self.options)
            fields[index], columns[index] = replace(fields[index], type=STRING), pa.array(texts, pa.string())
        finished = replace(self.schema, fields=tuple(fields))
        return JsonWriteProgram(Shape.of(finished), left), batch_of(columns, arrow_schema(finished), rows.num_rows)
