"""``json`` messages to rows: a compiled loop reads most records, and the exact reader those that the loop leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, validity
from penstock.columns.nested import NestedColumns
from penstock.exact.merge import merge_exact_rows
from penstock.formats.json import read_kernel
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.field_names import FieldNames
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.json.spans import TextSpans
from penstock.formats.json.syntax import copy_unescaped
from penstock.formats.shared.codec import TableCodec
from penstock.loops import type_roots
from penstock.loops.base64 import gather_base64
from penstock.loops.record_status import EXACT, NO_ROW, READ
from penstock.spi import Decoded

_SEPARATORS = {TimestampStandard.SQL: ord(" "), TimestampStandard.ISO_8601: ord("T")}


@dataclass(frozen=True)
class Given:
    """Which fields the objects of a column have, possibly as null.

    ``read[m]`` says whether the loop read message ``m``. If so, ``fields[f, starts[m]]`` says whether its object, or
    the first object of its array, has field ``f``. The other objects of the array follow.
    """

    read: npt.NDArray[np.bool_]
    fields: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]


class JsonDecoder(TableCodec[JsonOptions]):
    """Decodes JSON objects, one row per message. A top-level array gives a row for each of its objects.

    A null or empty message gives no row. Raises SchemaError for a schema that JSON cannot hold.
    """

    def _check(self) -> None:
        check_schema(self.schema)

    @property
    def ignores_errors(self) -> bool:
        return self.options.ignore_parse_errors

    @cached_property
    def _names(self) -> FieldNames:
        return FieldNames.from_shape(self._shape)

    @cached_property
    def _reader(self) -> ExactJsonReader:
        return ExactJsonReader(self.schema, self.options)

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused messages, even if errors are ignored."""
        return self._decode_messages(messages)[0]

    def decode_with_fields(self, messages: pa.BinaryArray, column: str) -> tuple[Decoded, Given]:
        """Decode as :meth:`decode` does, and find the fields that the objects of ``column``, a ROW or an ARRAY of ROW,
        have. They are unknown for messages that the compiled loop leaves."""
        decoded, nested, read = self._decode_messages(messages)
        index = self._shape.nodes[0].children[self.schema.names.index(column)]
        starts = np.arange(len(messages))
        if self._shape.nodes[index].root == type_roots.ARRAY:
            starts[1:] = nested.ends(index)[:-1]
            (index,) = self._shape.nodes[index].children
        children = self._shape.nodes[index].children
        fields = np.zeros((len(children), int(nested.counts[index])), bool)
        for row, child in enumerate(children):
            fields[row] = nested.given_values(child)
        return decoded, Given(read, fields, starts)

    def decode_spans(self, spans: TextSpans) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
        """A row for each of the objects, and which of them the compiled loop has read; the others are rows of NULLs."""
        status = spans.status if self._names.plain else np.full(len(spans), EXACT, np.uint8)
        nested = self._run_loop(spans.text, (spans.starts, spans.ends), status)
        return nested.batch(spans.text, copy_unescaped, gather_base64), status == READ

    def _decode_messages(self, messages: pa.BinaryArray) -> tuple[Decoded, NestedColumns, npt.NDArray[np.bool_]]:
        """The decoded messages, the columns that the loop filled, and the messages that it read."""
        text, offsets = binary_parts(messages)
        empty = (validity(messages) == 0) | (np.diff(offsets) == 0)
        status = np.where(empty, NO_ROW, READ if self._names.plain else EXACT).astype(np.uint8)
        nested = self._run_loop(text, (offsets[:-1], offsets[1:]), status)
        batch = nested.batch(text, copy_unescaped, gather_base64)
        found = merge_exact_rows(
            batch, status, lambda index: self._reader.read_rows(text[offsets[index] : offsets[index + 1]].tobytes())
        )
        return found, nested, status == READ

    def _run_loop(
        self,
        text: Bytes,
        spans: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        status: npt.NDArray[np.uint8],
    ) -> NestedColumns:
        """The columns that the loop reads. It sets the ``status`` of records that it leaves to EXACT."""
        columns, names, options = NestedColumns(self._shape, len(status)), self._names.vectors, self.options
        padding = self._shape.padding
        separator = _SEPARATORS.get(options.timestamp_standard, 0)
        parsing = separator, options.json_parser, options.fail_on_missing_field
        columns.fill(
            lambda vectors, row: read_kernel.read_records(text, spans, names, padding, *parsing, vectors, status, row)
        )
        return columns
