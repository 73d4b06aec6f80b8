"""The only column to ``raw`` messages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import check_size, fixed_values, from_buffers, unpack_bits, validity
from penstock.formats.raw.charsets import write_text
from penstock.formats.raw.column import find_only_column, wire_type
from penstock.formats.raw.options import Endianness, RawOptions
from penstock.formats.shared.codec import TableCodec
from penstock.types import BinaryType, StringType, arrow_schema


class RawEncoder(TableCodec[RawOptions]):
    """Writes the value of the only column as the message; NULL is a message without a value.

    Raises SchemaError if there is not exactly one column, or if raw does not support its type.
    """

    def _check(self) -> None:
        find_only_column(self.schema)

    def encode(self, rows: pa.RecordBatch) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        data_type = find_only_column(self.schema).type
        column = rows.cast(arrow_schema(self.schema)).column(0)
        if isinstance(data_type, BinaryType):
            return column
        if isinstance(data_type, StringType):
            return write_text(column, self.options.charset)
        name = data_type.text()
        wire = wire_type(name, self.options.endianness is Endianness.BIG)
        if name == "BOOLEAN":
            values = unpack_bits(column.buffers()[1], column.offset, len(column))
        else:
            values = fixed_values(column, wire.newbyteorder("=")).astype(wire)
        check_size(len(column) * wire.itemsize, "raw")
        valid = validity(column)
        offsets = np.zeros(len(column) + 1, np.int32)
        np.cumsum(valid.astype(np.int32) * wire.itemsize, out=offsets[1:])
        return from_buffers(pa.binary(), valid, offsets, values[valid == 1].view(np.uint8))
