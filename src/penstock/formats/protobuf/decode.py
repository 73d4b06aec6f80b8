"""``protobuf`` messages to rows: a compiled loop, and protobuf's own runtime for messages that the loop leaves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import binary_parts, validity
from penstock.columns.nested import NestedColumns
from penstock.exact.errors import FieldError, Malformed
from penstock.exact.merge import merge_exact_rows
from penstock.formats.protobuf import read_kernel
from penstock.formats.protobuf.column_checks import check
from penstock.formats.protobuf.exact_reader import ExactProtobufReader
from penstock.formats.protobuf.options import ProtobufOptions
from penstock.formats.protobuf.read_compiler import compile_reading
from penstock.formats.protobuf.read_program import ProtobufReadProgram
from penstock.formats.protobuf.read_reasons import LEFT, READ_REASONS
from penstock.formats.shared.codec import TableCodec
from penstock.loops.record_status import NO_ROW, READ
from penstock.spi import Decoded


class ProtobufDecoder(TableCodec[ProtobufOptions]):
    """Decodes one row per message. A null message gives no row; an empty one is a message without fields.

    Raises SchemaError for columns that have no field or do not fit it.
    """

    def _check(self) -> None:
        check(self.options.loaded_definition.message, self.schema)
        _ = self._program

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @cached_property
    def _program(self) -> ProtobufReadProgram:
        return compile_reading(self.options.loaded_definition.message, self._shape, self.options.read_default_values)

    @cached_property
    def _exact(self) -> ExactProtobufReader:
        return ExactProtobufReader(
            self.options.loaded_definition.message, self.schema, self.options.read_default_values
        )

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused messages, even if errors are ignored."""
        program, columns = self._program, NestedColumns(self._shape, len(messages))
        text, offsets = binary_parts(messages)
        constants_at = len(text)
        if len(program.constants):
            text = np.concatenate([text, program.constants])
        status = np.where(validity(messages) == 0, NO_ROW, READ).astype(np.uint8)
        reasons = np.zeros((len(status), 2), np.int64)
        tables = program.vectors
        columns.fill(
            lambda vectors, row: read_kernel.read_records(
                text, offsets, constants_at, tables, vectors, status, reasons, row
            )
        )

        def read_exactly(index: int) -> list[dict[str, Any]]:
            reason, path_index = reasons[index].tolist()
            if reason == LEFT:
                return [self._exact.read(text[offsets[index] : offsets[index + 1]].tobytes())]
            path = program.paths[path_index]
            raise FieldError(path, READ_REASONS[reason]) if path else Malformed(READ_REASONS[reason])

        return merge_exact_rows(columns.batch(text), status, read_exactly)
