"""``csv`` messages to rows: a compiled loop reads most records, and the exact reader those that the loop leaves."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa

from penstock.columns.buffers import binary_parts, validity
from penstock.columns.nested import NestedColumns
from penstock.exact.merge import merge_exact_rows
from penstock.formats.csv import read_kernel
from penstock.formats.csv.exact_reader import ExactCsvReader
from penstock.formats.csv.options import CsvOptions
from penstock.formats.csv.schema import check_schema
from penstock.formats.shared.codec import TableCodec
from penstock.loops.base64 import gather_base64
from penstock.loops.record_status import EXACT, NO_ROW, READ
from penstock.spi import Decoded


class CsvDecoder(TableCodec[CsvOptions]):
    """Decodes one line of CSV per message. A null message gives no row; an empty one is refused.

    Raises SchemaError for a schema that CSV cannot hold.
    """

    def _check(self) -> None:
        check_schema(self.schema)

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @cached_property
    def _reader(self) -> ExactCsvReader:
        return ExactCsvReader(self.schema, self.options)

    @property
    def _is_plain(self) -> bool:
        """Whether the loop supports these options."""
        options = self.options
        return options.ascii_marks and not (options.trim_spaces or options.ignore_first_line)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused messages, even if errors are ignored."""
        options, columns = self.options, NestedColumns(self._shape, len(messages))
        text, offsets = binary_parts(messages)
        status = np.where(validity(messages) == 0, NO_ROW, READ if self._is_plain else EXACT).astype(np.uint8)
        literal = options.null_literal
        columns.clear()
        read_kernel.read_records(
            text,
            offsets,
            self._shape.digits,
            *options.marks,
            ord("#") if options.allow_comments else -1,
            np.frombuffer((literal or "").encode(), np.uint8),
            literal is not None,
            options.empty_string_as_null,
            columns.vectors,
            status,
        )
        return merge_exact_rows(
            columns.batch(text, binaries=gather_base64),
            status,
            lambda index: [self._reader.row(text[offsets[index] : offsets[index + 1]].tobytes())],
        )
