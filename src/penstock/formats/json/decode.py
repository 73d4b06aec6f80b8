"""``json`` messages to rows: the compiled loop first, the exact path for what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.formats import kinds
from penstock.formats.columns import binary_parts, validity
from penstock.formats.json import kernel
from penstock.formats.json.exact import ExactReader
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.layout import Layout
from penstock.formats.rows import completed
from penstock.spi import Decoded
from penstock.types import RowType

__all__ = ["JsonDecoder"]

_SEPARATORS = {TimestampStandard.SQL: ord(" "), TimestampStandard.ISO_8601: ord("T")}


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects, one message one row; a top-level array gives a row for each of its objects.

    A null or empty message gives no row. Raises SchemaError for a schema that JSON cannot hold.
    """

    schema: RowType
    options: JsonOptions

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
    def _reader(self) -> ExactReader:
        return ExactReader(self.schema, self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. Refused ones are listed in ``bad``, also when they are to be ignored."""
        layout, options = self._layout, self.options
        text, offsets = binary_parts(messages)
        empty = (validity(messages) == 0) | (np.diff(offsets) == 0)
        status = np.where(empty, kinds.NO_ROW, kinds.READ if layout.plain_names else kinds.EXACT).astype(np.uint8)
        cells = layout.cells(len(messages))
        kernel.read_records(
            text,
            offsets,
            layout.keys,
            layout.key_starts,
            layout.columns,
            _SEPARATORS.get(options.timestamp_standard, 0),
            options.json_parser,
            options.fail_on_missing_field,
            status,
            cells.fixed,
            cells.spans,
            cells.valid,
        )
        read = layout.batch(text, cells, status, kernel.gather_strings)
        if not (status != kinds.READ).any():
            return Decoded(read)
        return completed(
            read,
            status,
            lambda index: self._reader.rows(text[offsets[index] : offsets[index + 1]].tobytes()),
        )
