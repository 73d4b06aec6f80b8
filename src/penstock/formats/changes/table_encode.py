"""Changes of the rows of a named table as messages, one for each change: an update is one message with both rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.columns.buffers import check_size
from penstock.formats.changes.encode import FramingEncoder, RowFrame, frame_rows
from penstock.types import RowKind


@dataclass(frozen=True)
class ChangeFrames:
    """The text around the rows of messages of inserted and of deleted rows; and of updates: the text before, between
    and after the former and the new row."""

    inserted: RowFrame
    deleted: RowFrame
    updated: tuple[bytes, bytes, bytes]


@dataclass(frozen=True)
class TableChangeEncoder(FramingEncoder):
    """Encodes changes of the rows of one table, as Flink CDC does."""

    frames: ChangeFrames

    pairs_updates: ClassVar[Literal[True]] = True

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row, null for the row before an update that the next row completes. Raises RecordError if
        they exceed the size of a column."""
        texts, frames = self._row_encoder.encode(rows), self.frames
        single_frames = ((each.head, each.tail) for each in (frames.inserted, frames.deleted))
        around = max(sum(map(len, each)) for each in (*single_frames, frames.updated))
        check_size(2 * texts.nbytes + around * len(texts), self.name)
        single = frame_rows(texts, kinds, frames.inserted, frames.deleted)
        if kinds is None or not len(paired := find_updates(kinds)):
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
