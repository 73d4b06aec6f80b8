"""Changes of the rows of a named table as messages, one for each change: an update is one message with both rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

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
class ChangeFrames:
    """The text before the row, and after it, of messages of inserted and of deleted rows; and of updates, with the text
    between the former and the new row."""

    inserted: tuple[bytes, bytes]
    deleted: tuple[bytes, bytes]
    updated: tuple[bytes, bytes, bytes]


@dataclass(frozen=True)
class TableChangeEncoder(TableCodec[ChangeOptions]):
    """Encodes changes of the rows of one table, as Flink CDC does.

    Raises SchemaError for a schema that JSON cannot hold.
    """

    name: str
    frames: ChangeFrames

    pairs_updates: ClassVar[Literal[True]] = True

    def _check(self) -> None:
        _ = self._row_encoder

    @cached_property
    def _row_encoder(self) -> JsonEncoder:
        return JsonEncoder(self.schema, self.options.json)

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row, null for the row before an update that the next row completes. Raises RecordError if
        they exceed the size of a column."""
        texts, frames = self._row_encoder.encode(rows), self.frames
        around = max(sum(map(len, each)) for each in (frames.inserted, frames.deleted, frames.updated))
        check_size(2 * texts.nbytes + around * len(texts), self.name)
        if kinds is None:
            return _join(*frames.inserted, texts)
        paired = find_updates(kinds)
        gone = pa.array((kinds == RowKind.DELETE) | (kinds == RowKind.UPDATE_BEFORE))
        head, tail = (pc.if_else(gone, *pair) for pair in zip(frames.deleted, frames.inserted, strict=True))
        single = pc.binary_join_element_wise(head, texts, tail, pa.scalar(b""))
        if not len(paired):
            return single
        before, after = texts.take(pa.array(paired)), texts.take(pa.array(paired + 1))
        first, middle, last = map(pa.scalar, frames.updated)
        updates = pc.binary_join_element_wise(first, before, middle, after, last, pa.scalar(b""))
        index = np.arange(len(kinds))
        index[paired + 1] = len(kinds) + np.arange(len(paired))
        mask = np.zeros(len(kinds), bool)
        mask[paired] = True
        return pa.concat_arrays([single, updates]).take(pa.array(index, mask=mask))


def find_updates(kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """The numbers of the rows before an update that the next row completes."""
    return np.flatnonzero((kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER))


def _join(head: bytes, tail: bytes, texts: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_join_element_wise(pa.scalar(head), texts, pa.scalar(tail), pa.scalar(b""))
