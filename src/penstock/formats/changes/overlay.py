"""Which columns ``old`` gives, in messages that have a whole row and, for an update, what it had in other columns.

In the row before an update stands what ``old`` gives for a column; a column that ``old`` lacks is that of the row after
it. A column that is null in ``old`` was null: what is lacking and what is null look alike in a column of rows, so that
the names are read by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.changes.envelopes import Mask, positions, read_envelopes
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.types import STRING, ArrayType, Field, MapType, RowType

__all__ = ["OldNames"]

_NAMES = MapType(key=STRING, value=STRING)


@dataclass(frozen=True)
class OldNames:
    """Tells which of the columns ``names`` stand in ``old``, an object or, if ``listed``, an array of objects."""

    names: tuple[str, ...]
    listed: bool = False

    @cached_property
    def _reader(self) -> JsonDecoder:
        kind = ArrayType(element=_NAMES) if self.listed else _NAMES
        return JsonDecoder(RowType((Field("old", kind),)), JsonOptions(ignore_parse_errors=True, json_parser=False))

    def read(self, messages: pa.BinaryArray) -> tuple[Mask, npt.NDArray[np.int64]]:
        """For each column and object whether the column stands in the object, and where each message's objects start.

        Every message must be one that is known to be a JSON object.
        """
        old = read_envelopes(self._reader, messages).columns["old"]
        if not self.listed:
            return _given(old, self.names), np.arange(len(old) + 1)
        return _given(old.values, self.names), old.offsets.to_numpy().astype(np.int64)


def _given(objects: pa.MapArray, names: Sequence[str]) -> Mask:
    offsets = objects.offsets.to_numpy()
    owner = np.repeat(np.arange(len(objects)), np.diff(offsets))
    column = positions(objects.keys[offsets[0] : offsets[-1]], list(names))
    given = np.zeros((len(names), len(objects)), bool)
    known = column >= 0
    given[column[known], owner[known]] = True
    return given
