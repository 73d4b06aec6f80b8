"""Messages with a complete row and, for an update, the former values of changed columns under ``old``.

The row before an update has the value in ``old`` for each column that ``old`` has, and the value of the row after the
update for the others. A column that is null in ``old`` was null, so a missing column differs from a null one.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.formats.changes.decode import ChangeDecoder, ChangeOptionsT
from penstock.formats.changes.envelopes import Envelopes, Mask, positions, read_envelopes
from penstock.formats.json.decode import JsonDecoder
from penstock.formats.json.options import JsonOptions
from penstock.types import STRING, ArrayType, DataType, Field, MapType, RowType

_NAMES = MapType(key=STRING, value=STRING)


class OverlayDecoder(ChangeDecoder[ChangeOptionsT]):
    """Decodes messages whose ``old`` is an object with columns of the row, or an array of such objects."""

    asked = "old"

    @cached_property
    def _names(self) -> JsonDecoder:
        """Reads the names of all fields in ``old``."""
        data_type: DataType = _NAMES
        if isinstance(self._reader.schema.fields[self._reader.schema.names.index("old")].type, ArrayType):
            data_type = ArrayType(element=_NAMES)
        return JsonDecoder(
            RowType((Field("old", data_type),)), JsonOptions(ignore_parse_errors=True, json_parser=False)
        )

    def _lacking(
        self,
        changes: Mask,
        envelope: npt.NDArray[np.int64],
        item: npt.NDArray[np.int64],
        envelopes: Envelopes,
        messages: pa.BinaryArray,
    ) -> Mask | None:
        """For each column and change whether ``old`` lacks the column; None if there are no ``changes``.

        ``envelope`` and ``pos`` are the envelope and the array index of each change.
        """
        if not changes.any() or envelopes.given is None:
            return None
        lacking = np.ones((len(self.schema.fields), len(changes)), bool)
        given, message = envelopes.given, envelopes.message[envelope]
        read = changes & given.read[message]
        lacking[:, read] = ~given.fields[:, given.starts[message[read]] + item[read]]
        left = changes & ~read
        if left.any():
            wanted, rank = np.unique(message[left], return_inverse=True)
            named, starts = self._find_named(messages.take(pa.array(wanted)))
            lacking[:, left] = ~named[:, starts[rank] + item[left]]
        return lacking

    def _find_named(self, messages: pa.BinaryArray) -> tuple[Mask, npt.NDArray[np.int64]]:
        """For each column and object whether the object has it, and the first object of each message."""
        old = read_envelopes(self._names, messages).columns["old"]
        if pa.types.is_map(old.type):
            return _having(old, self.schema.names), np.arange(len(old))
        return _having(old.values, self.schema.names), old.offsets.to_numpy().astype(np.int64)


def _having(objects: pa.MapArray, names: tuple[str, ...]) -> Mask:
    offsets = objects.offsets.to_numpy()
    owner = np.repeat(np.arange(len(objects)), np.diff(offsets))
    column = positions(objects.keys[offsets[0] : offsets[-1]], list(names))
    having = np.zeros((len(names), len(objects)), bool)
    having[column[column >= 0], owner[column >= 0]] = True
    return having
