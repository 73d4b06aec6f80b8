"""Rows with row kinds to change data messages: the JSON of each row, framed according to its row kind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import check_size
from penstock.formats.changes.options import ChangeOptions
from penstock.formats.json.encode import JsonEncoder
from penstock.formats.shared.codec import TableCodec
from penstock.types import RowKind


@dataclass(frozen=True)
class RowFrame:
    """The text before and after a row."""

    head: bytes
    tail: bytes


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

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row. Raises RecordError if they exceed the size of a column."""
        texts = self._row_encoder.encode(rows)
        around = max(len(each.head) + len(each.tail) for each in (self.inserted, self.deleted))
        check_size(texts.nbytes + around * len(texts), self.name)
        return frame_rows(texts, kinds, self.inserted, self.deleted)


def frame_rows(
    texts: pa.BinaryArray, kinds: npt.NDArray[np.int8] | None, inserted: RowFrame, deleted: RowFrame
) -> pa.BinaryArray:
    """The texts of rows within the frame for their kinds. Without kinds all are inserted."""
    head, tail = pa.scalar(inserted.head), pa.scalar(inserted.tail)
    if kinds is not None:
        came = pa.array((kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER))
        head, tail = pc.if_else(came, head, deleted.head), pc.if_else(came, tail, deleted.tail)
    return pc.binary_join_element_wise(head, texts, tail, pa.scalar(b""))
