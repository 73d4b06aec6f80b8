"""Changes of the rows of a named table as messages, one for each change: an update is one message with both rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.changes import frame_kernel as kernel
from penstock.formats.changes.encode import Frames, FramingEncoder, RowFrame, find_forms
from penstock.options import OptionSet
from penstock.types import RowKind, RowType


@dataclass(frozen=True)
class ChangeFrames:
    """The text around the rows of messages of inserted and of deleted rows; and of updates: the text before, between
    and after the former and the new row."""

    inserted: RowFrame
    deleted: RowFrame
    updated: tuple[bytes, bytes, bytes]

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """All texts, in the order of :data:`penstock.formats.changes.frame_kernel.PIECES`."""
        return (*self.inserted.pieces, *self.deleted.pieces, *self.updated)


@dataclass(frozen=True)
class TableChangeEncoder(FramingEncoder):
    """Encodes changes of the rows of one table, as Flink CDC does, or of several tables with equal columns."""

    make_frames: Callable[[Any, RowType], ChangeFrames]

    pairs_updates: ClassVar[Literal[True]] = True

    @cached_property
    def _own_frames(self) -> Frames:
        return Frames.from_pieces([self.make_frames(self.options, self.schema).pieces])

    def encode(self, rows: pa.RecordBatch, kinds: npt.NDArray[np.int8] | None = None) -> pa.BinaryArray:
        """One message per row, null for the row before an update that the next row completes. Raises RecordError if
        they exceed the size of a column."""
        return self._encode(rows, kinds, self._own_frames, np.zeros(rows.num_rows, np.int64))

    def encode_tables(
        self,
        rows: pa.RecordBatch,
        kinds: npt.NDArray[np.int8] | None,
        options: Sequence[OptionSet],
        counts: Sequence[int],
    ) -> pa.BinaryArray:
        """The messages of the rows of several tables, one after the other: so many (``counts``) of each, by the options
        that name the table. Raises as :meth:`encode`."""
        frames = Frames.from_pieces([self.make_frames(each, self.schema).pieces for each in options])
        return self._encode(rows, kinds, frames, np.repeat(np.arange(len(options)), counts))

    def _encode(
        self,
        rows: pa.RecordBatch,
        kinds: npt.NDArray[np.int8] | None,
        frames: Frames,
        tables: npt.NDArray[np.int64],
    ) -> pa.BinaryArray:
        forms = find_forms(kinds, rows.num_rows)
        if kinds is not None:
            paired = find_updates(kinds)
            paired = paired[tables[paired] == tables[paired + 1]]
            forms[paired], forms[paired + 1] = kernel.NO_MESSAGE, kernel.UPDATED
        return frames.write(self._row_encoder.encode(rows), forms, tables, self.name)


def find_updates(kinds: npt.NDArray[np.int8]) -> npt.NDArray[np.int64]:
    """The numbers of the rows before an update that the next row completes."""
    return np.flatnonzero((kinds[:-1] == RowKind.UPDATE_BEFORE) & (kinds[1:] == RowKind.UPDATE_AFTER))
