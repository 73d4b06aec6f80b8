"""Rows with row kinds to change data messages: the JSON of each row, framed according to its row kind."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.columns.buffers import Bytes, binary_parts, check_size, from_buffers
from penstock.formats.changes import frame_kernel as kernel
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.shared.codec import TableCodec
from penstock.types import RowKind


@dataclass(frozen=True)
class RowFrame:
    """The text before and after a row."""

    head: bytes
    tail: bytes

    @property
    def pieces(self) -> tuple[bytes, bytes]:
        """Both texts."""
        return self.head, self.tail


def build_image_frames(operation: str, came: str, went: str, *, omit: bool) -> tuple[RowFrame, RowFrame]:
    """The frames of inserted and of deleted rows, with the value of the field ``operation``: ``came`` or ``went``.

    ``omit`` leaves out the other image, which is null."""
    first = b"{" if omit else b'{"before":null,'
    between = b"" if omit else b',"after":null'
    return (
        RowFrame(first + b'"after":', f',"{operation}":"{came}"}}'.encode()),
        RowFrame(b'{"before":', between + f',"{operation}":"{went}"}}'.encode()),
    )


def encode_fields(fields: Mapping[str, Any]) -> str:
    """Fields that follow others in a JSON object, each with a comma before it."""
    return "".join(f",{json.dumps(name)}:{_dump_json(value)}" for name, value in fields.items())


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class FramingEncoder(TableCodec[ChangeOptions]):
    """Encodes rows as JSON with text around them. Raises SchemaError for a schema that JSON cannot hold."""

    name: str

    def _check(self) -> None:
        _ = self._row_encoder

    @cached_property
    def _row_encoder(self) -> JsonEncoder:
        return JsonEncoder(self.schema, self.options.json)


@dataclass(frozen=True)
class ChangeJsonEncoder(FramingEncoder):
    """Encodes rows of kind +I and +U within ``inserted``, and -U and -D within ``deleted``. As in Flink, no message is
    an update."""

    inserted: RowFrame
    deleted: RowFrame

    @cached_property
    def _frames(self) -> Frames:
        return Frames.from_pieces([(*self.inserted.pieces, *self.deleted.pieces, b"", b"", b"")])

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        forms = find_forms(kinds, rows.num_rows)
        return self._frames.write(self._row_encoder.encode(rows), forms, np.zeros(rows.num_rows, np.int64), self.name)


def find_forms(kinds: npt.NDArray[np.int8] | None, rows: int) -> npt.NDArray[np.int8]:
    """How each row becomes a message of its own. Without kinds all are inserted."""
    if kinds is None:
        return np.full(rows, kernel.INSERTED, np.int8)
    came = (kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER)
    return np.where(came, np.int8(kernel.INSERTED), np.int8(kernel.DELETED))


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of one or several tables, as loops take them (:mod:`penstock.formats.changes.frame_kernel`)."""

    text: Bytes
    starts: npt.NDArray[np.int64]

    @classmethod
    def from_pieces(cls, tables: Sequence[Sequence[bytes]]) -> Self:
        """The frames of tables, from the :data:`~penstock.formats.changes.frame_kernel.PIECES` texts of each."""
        pieces = [piece for each in tables for piece in each]
        starts = np.cumsum([0, *map(len, pieces)])
        return cls(np.frombuffer(b"".join(pieces), np.uint8), starts)

    def write(
        self, texts: pa.BinaryArray, forms: npt.NDArray[np.int8], tables: npt.NDArray[np.int64], name: str
    ) -> pa.BinaryArray:
        """The messages of rows whose ``texts`` are JSON: null where ``forms`` says that there is none. Raises
        RecordError, which has the ``name`` of the format, if they exceed the size of a column."""
        text, given = binary_parts(texts)
        offsets = np.zeros(len(texts) + 1, np.int64)
        kernel.measure_messages(given, forms, tables, self.starts, offsets[1:])
        check_size(int(offsets[-1]), name)
        out = np.empty(int(offsets[-1]), np.uint8)
        kernel.write_messages(text, given, forms, tables, self.text, self.starts, out)
        return from_buffers(pa.binary(), (forms != kernel.NO_MESSAGE).astype(np.uint8), offsets.astype(np.int32), out)
