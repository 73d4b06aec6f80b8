"""``raw`` messages to the only column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, from_buffers, validity
from penstock.formats.raw.charsets import read_text
from penstock.formats.raw.column import find_only_column, wire_type
from penstock.formats.raw.options import Endianness, RawOptions
from penstock.formats.shared.codec import TableCodec
from penstock.spi import BadRecord, Decoded
from penstock.types import BinaryType, StringType, arrow_schema


class RawDecoder(TableCodec[RawOptions]):
    """Decodes each message as the value of the only column; a null message is NULL. Text and bytes are not copied.

    Raises SchemaError if there is not exactly one column, or if raw does not support its type.
    """

    def _check(self) -> None:
        find_only_column(self.schema)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. A message of the wrong length for its number is bad and gives no row."""
        data_type = find_only_column(self.schema).type
        schema = arrow_schema(self.schema)
        if isinstance(data_type, BinaryType):
            return Decoded(pa.RecordBatch.from_arrays([messages.cast(pa.binary())], schema=schema))
        if isinstance(data_type, StringType):
            return Decoded(pa.RecordBatch.from_arrays([read_text(messages, self.options.charset)], schema=schema))
        return self._decode_numbers(messages, data_type.text(), schema)

    def _decode_numbers(self, messages: pa.BinaryArray, name: str, schema: pa.Schema) -> Decoded:
        wire = wire_type(name, self.options.endianness is Endianness.BIG)
        text, offsets = binary_parts(messages)
        valid = validity(messages)
        sizes = np.diff(offsets)
        right = (sizes == wire.itemsize) & (valid == 1)
        taken = right | (valid == 0)
        cells = np.zeros((len(messages), wire.itemsize), np.uint8)
        cells[right] = _gather(text, offsets[:-1][right], wire.itemsize)
        values = cells.view(wire).reshape(-1).astype(wire.newbyteorder("="))[taken]
        if name == "BOOLEAN":
            values = np.packbits(values != 0, bitorder="little")
        column = from_buffers(schema.field(0).type, valid[taken], values)
        bad = tuple(
            BadRecord(
                index,
                f"{name} takes {wire.itemsize} byte{'s' if wire.itemsize > 1 else ''}, not {sizes[index]}",
                schema.field(0).name,
            )
            for index in np.flatnonzero(~taken).tolist()
        )
        return Decoded(
            pa.RecordBatch.from_arrays([column], schema=schema), np.flatnonzero(taken) if bad else None, bad=bad
        )


def _gather(text: Bytes, starts: np.ndarray[tuple[int], np.dtype[np.int64]], size: int) -> Bytes:
    """The bytes of messages of equal size, one row each."""
    return text[starts[:, None] + np.arange(size)] if len(starts) else np.zeros((0, size), np.uint8)
