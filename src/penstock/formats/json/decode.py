"""``json`` messages to rows: the compiled loop first, the exact path for what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats import kinds
from penstock.formats.columns import binary_parts, validity
from penstock.formats.json import kernel
from penstock.formats.json.document import Malformed
from penstock.formats.json.exact import ExactReader, FieldError
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.layout import Layout
from penstock.spi import BadRecord, Decoded
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
        rest = status != kinds.READ
        cells.valid[:, rest] = 0
        columns = [layout.column(index, text, cells, kernel.gather_strings) for index in range(len(layout.columns))]
        read = pa.RecordBatch.from_arrays(columns, schema=layout.schema)
        if not rest.any():
            return Decoded(read)
        return self._complete(read, status, text, offsets)

    def _complete(
        self,
        read: pa.RecordBatch,
        status: npt.NDArray[np.uint8],
        text: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
    ) -> Decoded:
        """Put the rows of the exact path in the place of the records that were left to it."""
        counts = (status == kinds.READ).astype(np.int64)
        rows: list[dict[str, Any]] = []
        bad: list[BadRecord] = []
        for index in np.flatnonzero(status == kinds.EXACT).tolist():
            try:
                found = self._reader.rows(text[offsets[index] : offsets[index + 1]].tobytes())
            except FieldError as error:
                bad.append(BadRecord(index, str(error), error.field))
            except Malformed as error:
                bad.append(BadRecord(index, str(error)))
            else:
                counts[index] = len(found)
                rows += found
        origin = np.repeat(np.arange(len(status)), counts)
        taken = origin.copy()
        taken[status[origin] == kinds.EXACT] = len(status) + np.arange(len(rows))
        columns = [
            pa.concat_arrays([read.column(index), pa.array([row[field.name] for row in rows], field.type)]).take(
                pa.array(taken)
            )
            for index, field in enumerate(read.schema)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=read.schema)
        return Decoded(batch, None if bool((counts == 1).all()) else origin, bad=tuple(bad))
