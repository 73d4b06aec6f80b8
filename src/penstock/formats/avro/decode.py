"""``avro`` messages to rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import validity
from penstock.exact.merge import merge_exact_rows
from penstock.formats.avro.datum import DatumReader, Spans
from penstock.formats.avro.derived_schema import derive_schema
from penstock.formats.avro.json_encoding import JsonEncoding
from penstock.formats.avro.options import AvroOptions, Encoding
from penstock.formats.avro.schema import parse
from penstock.formats.shared.codec import TableCodec
from penstock.loops.record_status import NO_ROW, READ
from penstock.spi import Decoded


class AvroDecoder(TableCodec[AvroOptions]):
    """Decodes one record per message. A null message gives no row.

    Raises SchemaError for columns that Avro cannot hold or that do not fit the given schema.
    """

    def _check(self) -> None:
        _ = self._reader.program

    @cached_property
    def _reader(self) -> DatumReader:
        reader = derive_schema(self.schema, self.options.legacy_timestamps)
        return DatumReader(parse(self.options.schema) if self.options.schema else reader, reader, self.schema)

    @cached_property
    def _json(self) -> JsonEncoding:
        return JsonEncoding(self._reader.writer)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused messages."""
        status = np.where(validity(messages) == 0, NO_ROW, READ).astype(np.uint8)
        data, refusals = Spans.from_messages(messages, status), dict[int, ValueError]()
        if self.options.encoding is Encoding.JSON:
            data, refusals = self._json.spans(messages, status)
        read = self._reader.read(data)
        if not (read.status != READ).any():
            return Decoded(read.rows)

        def refuse(index: int) -> list[dict[str, Any]]:
            raise refusals.get(index) or self._reader.refusal(read, index)

        return merge_exact_rows(read.rows, read.status, refuse)
