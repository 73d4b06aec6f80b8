"""Rows to ``protobuf`` messages."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import slice_messages
from penstock.columns.nested import NestedInputs
from penstock.errors import RecordError
from penstock.formats.protobuf import write_kernel
from penstock.formats.protobuf.column_checks import check
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.formats.protobuf.write_program import compile_writing
from penstock.formats.shared.codec import TableCodec
from penstock.loops import type_roots
from penstock.loops.program import Program


class ProtobufEncoder(TableCodec[ProtobufOptions]):
    """Encodes each row as one message, its fields in the order of their numbers.

    Raises SchemaError for columns that the message has no field for, or that do not fit it, and for fields without a
    column that the message requires.
    """

    def _check(self) -> None:
        check(self.options.loaded_definition.message, self.schema)
        _ = self._program

    @cached_property
    def _program(self) -> Program:
        return compile_writing(
            self.options.loaded_definition.message, self._shape, self.options.write_null_string_literal
        )

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError with the index of a row that lacks a required field."""
        program, inputs = self._program, NestedInputs(self._shape, rows)
        out, offsets = np.empty(self._estimate_size(inputs), np.uint8), np.zeros(rows.num_rows + 1, np.int64)
        row, reason, step = write_kernel.write_records(program.vectors, inputs.vectors, out, offsets)
        if reason:
            raise RecordError(
                write_kernel.WRITE_REASONS[reason], offset=row, format="protobuf", field=program.paths[step]
            )
        return slice_messages(out, offsets, "protobuf")

    def _estimate_size(self, inputs: NestedInputs) -> int:
        """The bytes that the messages take at most."""
        literal = len(self.options.write_null_string_literal.encode())
        nodes = self._shape.nodes
        nullable = [node.repeated and node.root == type_roots.STRING for node in nodes]
        return int(inputs.counts.sum() * write_kernel.WIDEST + inputs.counts[nullable].sum() * literal) + len(
            inputs.text
        )
