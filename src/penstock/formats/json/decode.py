"""``json`` messages to rows: with a compiled loop, and the exact reader for records that the loop leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.columns.buffers import Bytes, binary_parts, validity
from penstock.formats.columns.nested import NestedColumns, Shape
from penstock.formats.exact.merge import completed
from penstock.formats.json import read_kernel
from penstock.formats.json.exact_reader import ExactJsonReader
from penstock.formats.json.field_names import FieldNames
from penstock.formats.json.options import JsonOptions, TimestampStandard
from penstock.formats.json.schema import check_schema
from penstock.formats.json.syntax import gather_unescaped
from penstock.formats.loops import type_roots
from penstock.formats.loops.base64 import gather_base64
from penstock.formats.loops.record_status import EXACT, NO_ROW, READ
from penstock.spi import Decoded
from penstock.types import RowType

_SEPARATORS = {TimestampStandard.SQL: ord(" "), TimestampStandard.ISO_8601: ord("T")}


@dataclass(frozen=True)
class Given:
    """The fields that are given, possibly as null, in the objects of a column.

    ``read[m]`` says whether message ``m`` was read by the loop. If so, ``fields[f, starts[m]]`` is about field ``f`` of
    its object, or of the first object in its array; the array's other objects follow.
    """

    read: npt.NDArray[np.bool_]
    fields: npt.NDArray[np.bool_]
    starts: npt.NDArray[np.int64]


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes JSON objects, one row per message. A top-level array gives a row for each of its objects.

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
    def _shape(self) -> Shape:
        return Shape.of(self.schema)

    @cached_property
    def _names(self) -> FieldNames:
        return FieldNames.of(self._shape)

    @cached_property
    def _reader(self) -> ExactJsonReader:
        return ExactJsonReader(self.schema, self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema, "options": self.options}

    def decode(self, messages: pa.BinaryArray) -> Decoded:
        """Decode a column of messages. ``bad`` lists the refused ones, also when errors are ignored."""
        return self._decoded(messages)[0]

    def decode_given(self, messages: pa.BinaryArray, column: str) -> tuple[Decoded, Given]:
        """Like :meth:`decode`, and also which fields are given in ``column``, a ROW or an ARRAY of them. This is not
        known for messages that the compiled loop leaves."""
        decoded, nested, read = self._decoded(messages)
        index = self._shape.nodes[0].children[self.schema.names.index(column)]
        starts = np.arange(len(messages))
        if self._shape.nodes[index].root == type_roots.ARRAY:
            starts[1:] = nested.ends(index)[:-1]
            (index,) = self._shape.nodes[index].children
        children = self._shape.nodes[index].children
        fields = np.zeros((len(children), int(nested.counts[index])), bool)
        for place, child in enumerate(children):
            fields[place] = nested.given(child)
        return decoded, Given(read, fields, starts)

    def _decoded(self, messages: pa.BinaryArray) -> tuple[Decoded, NestedColumns, npt.NDArray[np.bool_]]:
        """The decoded messages, the columns that the loop filled, and the messages that it read."""
        text, offsets = binary_parts(messages)
        empty = (validity(messages) == 0) | (np.diff(offsets) == 0)
        status = np.where(empty, NO_ROW, READ if self._names.plain else EXACT).astype(np.uint8)
        nested = self._read(text, offsets, status)
        batch, read = nested.batch(text, gather_unescaped, gather_base64), status == READ
        if read.all():
            return Decoded(batch), nested, read
        found = completed(
            batch,
            status,
            lambda index: self._reader.rows(text[offsets[index] : offsets[index + 1]].tobytes()),
        )
        return found, nested, read

    def _read(self, text: Bytes, offsets: npt.NDArray[np.int64], status: npt.NDArray[np.uint8]) -> NestedColumns:
        """The columns that the loop reads; it changes the ``status`` of records that it leaves."""
        shape, names, options = self._shape, self._names, self.options
        columns = NestedColumns(shape, len(status))
        padded, pad_starts = shape.padding
        row = 0
        while row < len(status):
            row, full = read_kernel.read_records(
                text,
                offsets,
                names.table,
                names.fields,
                names.keys,
                names.starts,
                names.repeated,
                padded,
                pad_starts,
                _SEPARATORS.get(options.timestamp_standard, 0),
                options.json_parser,
                options.fail_on_missing_field,
                columns.nodes,
                columns.words,
                columns.valid,
                columns.counts,
                status,
                row,
            )
            if full >= 0:
                columns.grow(full)
        return columns
