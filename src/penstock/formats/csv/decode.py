"""``csv`` messages to rows: with a compiled loop, and the exact reader for records that the loop leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.formats.columns.buffers import binary_parts, validity
from penstock.formats.csv import read_kernel
from penstock.formats.csv.columns import Layout
from penstock.formats.csv.exact_reader import ExactCsvReader
from penstock.formats.csv.options import CsvOptions
from penstock.formats.csv.schema import check_schema
from penstock.formats.exact.merge import completed
from penstock.formats.loops.record_status import EXACT, NO_ROW, READ
from penstock.formats.loops.strings import gather_strings
from penstock.spi import Decoded
from penstock.types import RowType


def _code(character: str | None) -> int:
    return -1 if character is None else ord(character)


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes one line of CSV per message. A null message gives no row; an empty one is refused.

    Raises SchemaError for a schema that CSV cannot hold.
    """

    schema: RowType
    options: CsvOptions

    def __post_init__(self) -> None:
        check_schema(self.schema)

    @property
    def ignores_errors(self) -> bool:
        """Whether refused messages are to be skipped."""
        return self.options.ignore_parse_errors

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.schema)

    @cached_property
    def _reader(self) -> ExactCsvReader:
        return ExactCsvReader(self.schema, self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    @property
    def _plain(self) -> bool:
        """Whether the loop supports these options."""
        options = self.options
        return options.ascii_marks and not (options.trim_spaces or options.ignore_first_line)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused ones, also when errors are ignored."""
        options, layout = self.options, self._layout
        text, offsets = binary_parts(messages)
        status = np.where(validity(messages) == 0, NO_ROW, READ if self._plain else EXACT)
        status = status.astype(np.uint8)
        cells = layout.cells(len(messages))
        literal = options.null_literal
        read_kernel.read_records(
            text,
            offsets,
            layout.columns,
            ord(options.field_delimiter),
            _code(options.quote),
            _code(options.escape_character),
            ord("#") if options.allow_comments else -1,
            np.frombuffer((literal or "").encode(), np.uint8),
            literal is not None,
            options.empty_string_as_null,
            status,
            cells.fixed,
            cells.spans,
            cells.valid,
        )
        read = layout.batch(text, cells, status, gather_strings)
        if not (status != READ).any():
            return Decoded(read)
        return completed(
            read,
            status,
            lambda index: [self._reader.row(text[offsets[index] : offsets[index + 1]].tobytes())],
        )
